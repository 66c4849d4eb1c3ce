//! Segments against the rows they were made of, value by value and in order, after loads, inserts, upserts and changes
//! of options.

use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;
use saki_base::value::{Value, compare};
use saki_base::{DataType, PageSize, Random};
use saki_columns::values::for_each_value;
use saki_columns::{ColumnType, InspectColumns, VerifySource, verify};
use saki_page::IoShare;
use saki_tree::{Fetcher, LivePages};
use saki_vector::Column;

use saki_sql::{CreateOptions, Database, OpenOptions, Session, Table};
use saki_store::segments::RowBatch;

/// A database with segments so small that a table has many.
struct Bench {
    _directory: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    database: Arc<Database>,
    session: Session,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let open = OpenOptions { cache_bytes: 4 << 20, segment_rows: 7, reactors: Some(1), ..OpenOptions::default() };
        let options =
            CreateOptions { page_size: PageSize::new(4096).expect("valid"), open, ..CreateOptions::default() };
        let database = Database::create(directory.path().join("database"), options).expect("created");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("started");
        let session = Session::new(&database);
        Self { _directory: directory, runtime, database, session }
    }

    fn run(&self, sql: &str) {
        let done = self.runtime.block_on(self.session.execute(sql));
        if let Err(error) = done {
            panic!("{sql}: {error}");
        }
    }

    /// The table's segments have exactly its rows, in order, and every page is accounted for.
    fn check(&self) {
        let generation = self.database.generation();
        let table = generation.catalog.table("t").expect("created");
        assert_eq!(self.database.check(&mut |_| {}).expect("checked").faults, []);
        let Some(root) = &table.segments else { return };
        let (rows, in_segments) = (self.rows(table), self.in_segments(table));
        assert_eq!(root.rows, table.root.entries);
        for (column, (expected, found)) in rows.iter().zip(&in_segments).enumerate() {
            assert_eq!(expected.len(), found.len(), "column {column}");
            for (row, (expected, found)) in expected.iter().zip(found).enumerate() {
                let same = compare(expected.as_ref(), found.as_ref()).is_eq();
                assert!(same, "row {row}, column {column}: {expected:?} and {found:?}");
            }
        }
    }

    /// Values of the primary tree, by column.
    fn rows(&self, table: &Table) -> Vec<Vec<Value>> {
        let mut columns = vec![Vec::new(); table.columns.len()];
        let mut reader = self.database.tree_reader().expect("opened");
        let mut entries = reader.scan(&table.root);
        let mut rows = RowBatch::new(table);
        while let Some((key, row)) = entries.next().expect("read") {
            rows.push(key, row).expect("a row of the table");
        }
        let batch = rows.take().expect("native");
        for ((column, values), definition) in batch.columns.iter().zip(&mut columns).zip(&table.columns) {
            for_each_value(column, definition.data_type, |value| values.push(value.into())).expect("native");
        }
        columns
    }

    /// Values of the segments, by column.
    fn in_segments(&self, table: &Table) -> Vec<Vec<Value>> {
        let db = &self.database;
        let mut fetcher = Fetcher::new(&db.cache, &db.store, &IoShare::new(u32::MAX)).expect("opened");
        let types = table.column_types();
        let mut gather = Gather { types: &types, found: Vec::new() };
        let source = VerifySource { fetcher: &mut fetcher, runs: &*db.volume, codec: db.codec.as_ref() };
        let root = table.segments.as_ref().expect("columns are on");
        verify(source, root, &table.segment_columns(), &mut LivePages::new(db.page_size()), &mut gather);
        gather.found.sort_by_key(|(segment, ..)| *segment);
        let mut columns = vec![Vec::new(); types.len()];
        for (_, column, values) in gather.found {
            columns[column].extend(values);
        }
        columns
    }
}

struct Gather<'t> {
    types: &'t [ColumnType],
    found: Vec<(usize, usize, Vec<Value>)>,
}

impl InspectColumns for Gather<'_> {
    fn column(&mut self, segment: usize, column: usize, values: &Column) {
        let mut found = Vec::new();
        for_each_value(values, self.types[column].data_type, |value| found.push(value.into())).expect("native");
        self.found.push((segment, column, found));
    }
}

const TYPES: [(&str, DataType); 11] = [
    ("boolean", DataType::Bool),
    ("smallint", DataType::Int2),
    ("numeric(12,2)", DataType::Decimal { precision: 12, scale: 2 }),
    ("numeric(38,3)", DataType::Decimal { precision: 38, scale: 3 }),
    ("double precision", DataType::Float8),
    ("text", DataType::Text),
    ("char(6)", DataType::Char(6)),
    ("date", DataType::Date),
    ("timestamptz", DataType::Timestamptz),
    ("time", DataType::Time),
    ("interval", DataType::Interval),
];

/// A literal of a type.
fn literal(data_type: DataType, random: &mut Random) -> String {
    let number = random.below(1 << 20) as i64 - (1 << 19);
    match data_type {
        _ if random.chance(0.15) => "NULL".to_owned(),
        DataType::Bool => (number % 2 == 0).to_string(),
        DataType::Int2 => (number % 3000).to_string(),
        DataType::Decimal { precision: 12, .. } => format!("{number}.{:02}", random.below(100)),
        DataType::Decimal { .. } => format!("{number}00000000000000000000.125"),
        DataType::Float8 => format!("'{}'", ["NaN", "-0", "Infinity", "1.5", "0"][random.below(5) as usize]),
        DataType::Text if random.chance(0.05) => format!("'{}'", "long ".repeat(1000)),
        DataType::Text => format!("'{}'", "ab".repeat(random.below(5) as usize)),
        DataType::Char(_) => format!("'{} '", number.unsigned_abs() % 100),
        DataType::Date => format!("'20{:02}-03-04'", random.below(90) + 10),
        DataType::Time => format!("'{:02}:00:00.5'", random.below(24)),
        DataType::Interval => format!("'{} mons {} days'", number % 5, random.below(90)),
        _ => format!("'20{:02}-03-04 05:06:07+00'", random.below(90) + 10),
    }
}

/// A table's columns and their types; `id` is the primary key unless there is none.
fn definition(columns: &[(&str, DataType)], key: &str) -> String {
    let mut sql = format!("CREATE TABLE t (id {key}");
    for (index, (name, _)) in columns.iter().enumerate() {
        let _ = write!(sql, ", c{index} {name}");
    }
    sql + ")"
}

fn insert(columns: &[(&str, DataType)], keys: &[String], random: &mut Random) -> String {
    let rows: Vec<String> = keys
        .iter()
        .map(|key| {
            let values: Vec<String> = columns.iter().map(|(_, data_type)| literal(*data_type, random)).collect();
            format!("({key}, {})", values.join(", "))
        })
        .collect();
    format!("INSERT INTO t VALUES {}", rows.join(", "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn segments_are_the_rows(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let columns: Vec<(&str, DataType)> =
            (0..1 + random.below(5)).map(|_| TYPES[random.below(TYPES.len() as u64) as usize]).collect();
        let (key, float) = [("bigint PRIMARY KEY", false), ("double precision PRIMARY KEY", true), ("bigint", false)]
            [random.below(3) as usize];
        let keyed = key.contains("PRIMARY");
        let bench = Bench::new();
        bench.run(&definition(&columns, key));
        let update: Vec<String> = (0..columns.len()).map(|index| format!("c{index} = excluded.c{index}")).collect();
        for _ in 0..6 {
            let mut keys: Vec<u64> = (0..1 + random.below(40)).map(|_| random.below(200)).collect();
            if random.chance(0.5) {
                keys.sort_unstable();
            }
            let mut seen = std::collections::HashSet::new();
            keys.retain(|key| seen.insert(*key));
            let spelled = |key: &u64| match float {
                true if *key == 0 => "'-0'::double precision".to_owned(),
                true => format!("{key}.5"),
                false => key.to_string(),
            };
            let keys: Vec<String> = keys.iter().map(spelled).collect();
            let rows = insert(&columns, &keys, random);
            bench.run(&match keyed {
                true if random.chance(0.7) => format!("{rows} ON CONFLICT (id) DO UPDATE SET {}", update.join(", ")),
                true => format!("{rows} ON CONFLICT (id) DO NOTHING"),
                false => rows,
            });
            bench.check();
            if random.chance(0.2) {
                bench.run("ALTER TABLE t SET (columns = off)");
                bench.check();
                bench.run("ALTER TABLE t SET (columns = on)");
                bench.check();
            }
            if random.chance(0.3) {
                let filtered: Vec<String> = (0..columns.len())
                    .filter(|index| columns[*index].1 != DataType::Bool && random.chance(0.5))
                    .map(|index| format!("c{index}"))
                    .collect();
                bench.run(&format!("ALTER TABLE t SET (bloom = '{}')", filtered.join(", ")));
                bench.check();
            }
        }
    }

    #[test]
    fn loads_in_any_order_have_their_segments(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let columns = [TYPES[5], TYPES[2]];
        let bench = Bench::new();
        bench.run(&definition(&columns, "bigint PRIMARY KEY"));
        let mut keys: Vec<u64> = (0..random.below(120)).collect();
        if random.chance(0.5) {
            random.shuffle(&mut keys);
        }
        if !keys.is_empty() {
            let keys: Vec<String> = keys.iter().map(u64::to_string).collect();
            bench.run(&insert(&columns, &keys, random));
        }
        bench.check();
        bench.run("DROP TABLE t");
        let live: u32 = bench.database.volume.live_pages().iter().map(|(_, pages)| pages).sum();
        prop_assert!(live <= 2, "{} pages live besides the catalog's", live);
    }
}
