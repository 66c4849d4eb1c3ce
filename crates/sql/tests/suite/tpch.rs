//! The 22 queries of TPC-H at a small scale: every way of planning and executing them gives the same answers.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use saki_base::PageSize;
use saki_sql::{CreateOptions, Database, OpenOptions, Session, SqlError};
use tpchgen::generators as rows;
use tpchgen_arrow as columns;

use crate::support::text_rows;

const SCALE: f64 = 0.01;

const TABLES: [&str; 8] = [
    "CREATE TABLE region (r_regionkey bigint PRIMARY KEY, r_name char(25) NOT NULL, r_comment varchar(152) NOT NULL)",
    "CREATE TABLE nation (n_nationkey bigint PRIMARY KEY, n_name char(25) NOT NULL, n_regionkey bigint NOT NULL, \
     n_comment varchar(152) NOT NULL)",
    "CREATE TABLE supplier (s_suppkey bigint PRIMARY KEY, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL, \
     s_nationkey bigint NOT NULL, s_phone char(15) NOT NULL, s_acctbal numeric(15,2) NOT NULL, \
     s_comment varchar(101) NOT NULL)",
    "CREATE TABLE part (p_partkey bigint PRIMARY KEY, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, \
     p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size integer NOT NULL, p_container char(10) NOT NULL, \
     p_retailprice numeric(15,2) NOT NULL, p_comment varchar(23) NOT NULL)",
    "CREATE TABLE partsupp (ps_partkey bigint, ps_suppkey bigint, ps_availqty integer NOT NULL, \
     ps_supplycost numeric(15,2) NOT NULL, ps_comment varchar(199) NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey))",
    "CREATE TABLE customer (c_custkey bigint PRIMARY KEY, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, \
     c_nationkey bigint NOT NULL, c_phone char(15) NOT NULL, c_acctbal numeric(15,2) NOT NULL, \
     c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL)",
    "CREATE TABLE orders (o_orderkey bigint PRIMARY KEY, o_custkey bigint NOT NULL, o_orderstatus char(1) NOT NULL, \
     o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL, \
     o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL, o_comment varchar(79) NOT NULL)",
    "CREATE TABLE lineitem (l_orderkey bigint, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, \
     l_linenumber integer, l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL, \
     l_discount numeric(15,2) NOT NULL, l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, \
     l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL, \
     l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL, \
     PRIMARY KEY (l_orderkey, l_linenumber))",
];

const INDEXES: [&str; 7] = [
    "nation (n_regionkey)",
    "supplier (s_nationkey)",
    "partsupp (ps_suppkey)",
    "customer (c_nationkey)",
    "orders (o_custkey)",
    "lineitem (l_partkey, l_suppkey)",
    "lineitem (l_suppkey)",
];

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, SqlError>>>;

fn batches(table: &str) -> Batches {
    macro_rules! of {
        ($rows:ident, $columns:ident) => {
            Box::new(columns::$columns::new(rows::$rows::new(SCALE, 1, 1)).map(|batch| batch.map_err(SqlError::from)))
        };
    }
    match table {
        "region" => of!(RegionGenerator, RegionArrow),
        "nation" => of!(NationGenerator, NationArrow),
        "supplier" => of!(SupplierGenerator, SupplierArrow),
        "part" => of!(PartGenerator, PartArrow),
        "partsupp" => of!(PartSuppGenerator, PartSuppArrow),
        "customer" => of!(CustomerGenerator, CustomerArrow),
        "orders" => of!(OrderGenerator, OrderArrow),
        _ => of!(LineItemGenerator, LineItemArrow),
    }
}

async fn load(database: &Arc<Database>) {
    let session = Session::new(database);
    for table in TABLES {
        session.execute(table).await.unwrap();
    }
    for index in INDEXES {
        session.execute(&format!("CREATE INDEX ON {index}")).await.unwrap();
    }
    for table in TABLES {
        let name = table.split(' ').nth(2).unwrap();
        saki_sql::bulk_load(database, name, batches(name), &mut |_| {}).unwrap();
    }
}

fn query(number: usize) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../saki/src/tpch/queries/q{number:02}.sql"));
    std::fs::read_to_string(path).unwrap()
}

async fn answer(session: &Session, sql: &str) -> Vec<Vec<String>> {
    let result = session.execute(sql).await.unwrap().pop().unwrap();
    let mut rows = text_rows(result).await.unwrap();
    // Ties may come in any order.
    rows.sort();
    rows
}

#[test]
fn every_plan_of_every_query_gives_the_same_answer() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let options = CreateOptions {
        page_size: PageSize::new(8 << 10).unwrap(),
        open: OpenOptions {
            cache_bytes: 64 << 20,
            reactors: Some(2),
            model: Some("latency=100us,iops=500000,bandwidth=4GB".into()),
            ..OpenOptions::default()
        },
        ..CreateOptions::default()
    };
    let database = Database::create(directory.path().join("tpch"), options).unwrap();
    let show = std::env::var_os("SHOW_PLANS").is_some();
    runtime.block_on(async {
        load(&database).await;
        let auto = Session::new(&database);
        let looking_up = Session::new(&database);
        looking_up.set("index_join", "always").unwrap();
        looking_up.set("access_path", "index").unwrap();
        let scanning = Session::new(&database);
        scanning.set("index_join", "never").unwrap();
        scanning.set("access_path", "scan").unwrap();
        scanning.set("join_order", "as_written").unwrap();
        let in_order = Session::new(&database);
        in_order.set("execution", "in_order").unwrap();
        let hashing = Session::new(&database);
        hashing.set("index_join", "never").unwrap();
        let datafusion = Session::new(&database);
        datafusion.set("operators", "datafusion").unwrap();
        datafusion.set("index_join", "never").unwrap();
        let columns = Session::new(&database);
        columns.set("access_path", "columns").unwrap();
        columns.set("index_join", "never").unwrap();
        let rows = Session::new(&database);
        rows.set("access_path", "rows").unwrap();
        for number in 1..=22 {
            let sql = query(number);
            if show {
                println!("Q{number}\n{}", auto.explain(&sql).await.unwrap());
            }
            let expected = answer(&scanning, &sql).await;
            assert!(number == 11 || !expected.is_empty() || SCALE < 1.0, "Q{number} is empty");
            let others = [
                ("auto", &auto),
                ("always", &looking_up),
                ("in order", &in_order),
                ("native hash joins", &hashing),
                ("DataFusion's operators", &datafusion),
                ("columns", &columns),
                ("rows", &rows),
            ];
            for (name, session) in others {
                let began = std::time::Instant::now();
                assert_eq!(answer(session, &sql).await, expected, "Q{number}, {name}");
                if show {
                    println!("Q{number} {name}: {:?}", began.elapsed());
                }
            }
        }
        assert_eq!(database.check(&mut |_| {}).unwrap().faults, []);
    });
}
