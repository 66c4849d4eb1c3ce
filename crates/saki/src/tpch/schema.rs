//! The eight tables, in an order where each comes after those it refers to.

use tpchgen::generators::{CustomerGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, SupplierGenerator};

/// A table of TPC-H.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// Columns and primary key, as `CREATE TABLE` takes them.
    pub columns: &'static str,
    /// Columns of each secondary index.
    pub indexes: &'static [&'static str],
}

/// All tables.
pub static TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: "r_regionkey bigint NOT NULL, r_name char(25) NOT NULL, r_comment varchar(152) NOT NULL, \
                  PRIMARY KEY (r_regionkey)",
        indexes: &[],
    },
    Table {
        name: "nation",
        columns: "n_nationkey bigint NOT NULL, n_name char(25) NOT NULL, n_regionkey bigint NOT NULL, \
                  n_comment varchar(152) NOT NULL, PRIMARY KEY (n_nationkey)",
        indexes: &["n_regionkey"],
    },
    Table {
        name: "supplier",
        columns: "s_suppkey bigint NOT NULL, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL, \
                  s_nationkey bigint NOT NULL, s_phone char(15) NOT NULL, s_acctbal numeric(15,2) NOT NULL, \
                  s_comment varchar(101) NOT NULL, PRIMARY KEY (s_suppkey)",
        indexes: &["s_nationkey"],
    },
    Table {
        name: "part",
        columns: "p_partkey bigint NOT NULL, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, \
                  p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size integer NOT NULL, \
                  p_container char(10) NOT NULL, p_retailprice numeric(15,2) NOT NULL, \
                  p_comment varchar(23) NOT NULL, PRIMARY KEY (p_partkey)",
        indexes: &[],
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey bigint NOT NULL, ps_suppkey bigint NOT NULL, ps_availqty integer NOT NULL, \
                  ps_supplycost numeric(15,2) NOT NULL, ps_comment varchar(199) NOT NULL, \
                  PRIMARY KEY (ps_partkey, ps_suppkey)",
        indexes: &["ps_suppkey"],
    },
    Table {
        name: "customer",
        columns: "c_custkey bigint NOT NULL, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, \
                  c_nationkey bigint NOT NULL, c_phone char(15) NOT NULL, c_acctbal numeric(15,2) NOT NULL, \
                  c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL, PRIMARY KEY (c_custkey)",
        // The second follows no foreign key: ranges of it select customers all over the key space.
        indexes: &["c_nationkey", "c_acctbal"],
    },
    Table {
        name: "orders",
        columns: "o_orderkey bigint NOT NULL, o_custkey bigint NOT NULL, o_orderstatus char(1) NOT NULL, \
                  o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, \
                  o_orderpriority char(15) NOT NULL, o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL, \
                  o_comment varchar(79) NOT NULL, PRIMARY KEY (o_orderkey)",
        indexes: &["o_custkey"],
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, \
                  l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL, \
                  l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL, \
                  l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL, \
                  l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL, \
                  l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, \
                  l_comment varchar(44) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)",
        indexes: &["l_partkey, l_suppkey", "l_suppkey"],
    },
];

/// The table of that name.
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name))
}

impl Table {
    pub fn create_sql(&self) -> String {
        format!("CREATE TABLE {} ({})", self.name, self.columns)
    }

    /// One `CREATE INDEX` for each index.
    pub fn create_index_sql(&self) -> impl Iterator<Item = String> + '_ {
        self.indexes.iter().map(|columns| {
            let first = columns.split(',').next().unwrap_or(columns);
            format!("CREATE INDEX {first}_idx ON {} ({columns})", self.name)
        })
    }

    /// Rows at a scale factor: exactly, but for lineitem about.
    pub fn rows(&self, scale: f64) -> u64 {
        let rows = match self.name {
            "region" => 5,
            "nation" => 25,
            "supplier" => SupplierGenerator::calculate_row_count(scale, 1, 1),
            "part" => PartGenerator::calculate_row_count(scale, 1, 1),
            // The generator counts parts; each has four suppliers.
            "partsupp" => 4 * PartSuppGenerator::calculate_row_count(scale, 1, 1),
            "customer" => CustomerGenerator::calculate_row_count(scale, 1, 1),
            "orders" => OrderGenerator::calculate_row_count(scale, 1, 1),
            // Orders have one to seven lines.
            _ => 4 * OrderGenerator::calculate_row_count(scale, 1, 1),
        };
        rows.unsigned_abs()
    }
}
