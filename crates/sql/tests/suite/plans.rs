//! Which plans are chosen and shown, what they measure, and how they end early.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::StreamExt;
use saki_sql::{CreateOptions, Database, ErrorKind, OpenOptions, Position, Session, StatementResult};
use tempfile::TempDir;

use crate::support::text_rows;

fn options(model: &str) -> OpenOptions {
    OpenOptions { cache_bytes: 32 << 20, reactors: Some(2), model: Some(model.to_owned()), ..OpenOptions::default() }
}

fn create(directory: &Path, model: &str) -> Arc<Database> {
    let create = CreateOptions { open: options(model), ..CreateOptions::default() };
    Database::create(directory.join("database"), create).unwrap()
}

/// A database with the tables of [`fill`], which takes its time: they are made once, and copied.
fn filled(directory: &Path, model: &str) -> Arc<Database> {
    static MADE: LazyLock<TempDir> = LazyLock::new(|| {
        let directory = tempfile::tempdir().unwrap();
        let database = create(directory.path(), "latency=10us");
        run(async { fill(&Session::new(&database)).await });
        database.close().unwrap();
        directory
    });
    std::fs::copy(MADE.path().join("database"), directory.join("database")).unwrap();
    Database::open(directory.join("database"), options(model)).unwrap()
}

async fn fill(session: &Session) {
    for sql in [
        "CREATE TABLE customer (c_id int PRIMARY KEY, c_balance int, c_name text)",
        "CREATE TABLE orders (o_id int PRIMARY KEY, o_customer int, o_date date)",
        "CREATE TABLE line (l_order int, l_number int, l_price numeric(10,2), PRIMARY KEY (l_order, l_number))",
        "CREATE INDEX customer_balance ON customer (c_balance)",
        "CREATE INDEX orders_customer ON orders (o_customer)",
        "INSERT INTO customer SELECT value, (value * 7919) % 10000, 'c' FROM generate_series(1, 10000) AS s(value)",
        "INSERT INTO orders SELECT v, v % 10000 + 1, date '2020-01-01' FROM generate_series(1, 40000) AS s(v)",
        "INSERT INTO line SELECT o, n, 1.5 FROM generate_series(1, 40000) o, generate_series(1, 3) n",
        "CHECKPOINT",
        "ANALYZE",
    ] {
        session.execute(sql).await.unwrap();
    }
}

const THREE_TABLES: &str = "SELECT sum(l_price) FROM customer, orders, line \
     WHERE c_id = o_customer AND o_id = l_order AND c_balance BETWEEN 100 AND 110";

async fn lines(session: &Session, sql: &str) -> Vec<String> {
    let result = session.execute(sql).await.unwrap().pop().unwrap();
    text_rows(result).await.unwrap().into_iter().map(|row| row.join(" ")).collect()
}

fn run<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

#[test]
fn selective_joins_become_one_pipeline_of_lookups() {
    let directory = tempfile::tempdir().unwrap();
    let database = filled(directory.path(), "latency=1ms,iops=100000,bandwidth=1GB");
    run(async {
        let session = Session::new(&database);
        // So small a table would be read whole.
        session.set("access_path", "index").unwrap();
        session.set("index_join", "always").unwrap();
        let plan = session.explain(THREE_TABLES).await.unwrap();
        assert!(plan.contains("IndexJoinExec: customer by index customer_balance"), "{plan}");
        assert!(plan.contains("stage 1: join orders.orders_customer on o_customer = customer.c_id"), "{plan}");
        assert!(plan.contains("join line on l_order = orders.o_id"), "{plan}");
        assert!(!plan.contains("HashJoinExec"), "{plan}");
        // The whole table is cheaper by hashing.
        session.set("access_path", "auto").unwrap();
        session.set("index_join", "auto").unwrap();
        let whole = THREE_TABLES.replace("BETWEEN 100 AND 110", ">= 0");
        let plan = session.explain(&whole).await.unwrap();
        assert!(plan.contains("HashJoinExec"), "{plan}");
        // In order, every lookup costs a millisecond: the break-even point is elsewhere.
        session.set("execution", "in_order").unwrap();
        let expected = lines(&session, THREE_TABLES).await;
        session.set("execution", "out_of_order").unwrap();
        assert_eq!(lines(&session, THREE_TABLES).await, expected);
    });
}

#[test]
fn a_key_lookup_reads_one_path() {
    let directory = tempfile::tempdir().unwrap();
    let database = filled(directory.path(), "latency=1ms,iops=100000,bandwidth=1GB");
    run(async {
        let session = Session::new(&database);
        database.drop_caches();
        let text = lines(&session, "EXPLAIN ANALYZE SELECT c_name FROM customer WHERE c_id = 77.0").await.join("\n");
        assert!(text.contains("customer by primary key, 1 key: c_id = 77"), "{text}");
        assert!(text.contains("pages_read=2 "), "{text}");
        assert!(text.contains("1 rows in"), "{text}");
        session.set("access_path", "index").unwrap();
        let plan = session.explain("SELECT c_balance FROM customer WHERE c_balance < 50").await.unwrap();
        assert!(plan.contains("index only"), "{plan}");
    });
}

#[test]
fn counting_all_rows_reads_none() {
    let directory = tempfile::tempdir().unwrap();
    let database = filled(directory.path(), "latency=1ms,iops=100000,bandwidth=1GB");
    run(async {
        let session = Session::new(&database);
        let plan = session.explain("SELECT count(*) FROM line").await.unwrap();
        assert!(!plan.contains("PageScanExec"), "{plan}");
        assert_eq!(lines(&session, "SELECT count(*) FROM line").await, ["120000"]);
    });
}

#[test]
fn operators_are_native_unless_settings_say_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let database = filled(directory.path(), "latency=10us");
    run(async {
        let session = Session::new(&database);
        session.set("index_join", "never").unwrap();
        let sql = "SELECT o_customer + 1, sum(l_price) FROM orders JOIN line ON o_id = l_order \
                   WHERE o_customer > l_number GROUP BY o_customer + 1";
        let plan = session.explain(sql).await.unwrap();
        assert!(plan.contains("NativeAggregateExec: sum(line.l_price) by"), "{plan}");
        assert!(plan.contains("NativeHashJoinExec: Inner on"), "{plan}");
        assert!(!plan.contains("RepartitionExec"), "{plan}");
        let analyzed = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
        assert!(analyzed.contains("build=[rows=40000 bytes="), "{analyzed}");
        let expected = lines(&session, sql).await.len();
        for (setting, value, gone) in [
            ("native_join", "off", "NativeHashJoinExec"),
            ("native_aggregate", "off", "NativeAggregateExec"),
            ("native_filter", "off", "NativeProjectExec"),
            ("operators", "datafusion", "Native"),
        ] {
            session.set(setting, value).unwrap();
            let plan = session.explain(sql).await.unwrap();
            assert!(!plan.contains(gone), "{plan}");
            assert_eq!(lines(&session, sql).await.len(), expected);
        }
    });
}

#[test]
fn bounds_of_a_join_are_looked_up_among_sorted_rows() {
    let directory = tempfile::tempdir().unwrap();
    let database = filled(directory.path(), "latency=10us");
    run(async {
        let session = Session::new(&database);
        let joined = "SELECT count(*), sum(o_id) FROM customer JOIN orders ON o_id BETWEEN c_balance AND c_balance + 3 \
                      WHERE c_id <= 500";
        let counted = "SELECT sum((SELECT count(*) FROM line WHERE l_order = o_id AND l_number >= o_customer)), \
                       sum((SELECT max(c_id) FROM customer WHERE c_balance < o_customer)) \
                       FROM orders WHERE o_id <= 300";
        let plan = session.explain(joined).await.unwrap();
        assert!(plan.contains("NativeRangeJoinExec: Inner on o_id@"), "{plan}");
        assert!(!plan.contains("NestedLoopJoinExec"), "{plan}");
        let plan = session.explain(counted).await.unwrap();
        assert!(plan.contains("NativeRangeJoinExec") && !plan.contains("nested_loop_"), "{plan}");
        let expected = [lines(&session, joined).await, lines(&session, counted).await];
        session.set("operators", "datafusion").unwrap();
        assert!(session.explain(joined).await.unwrap().contains("NestedLoopJoinExec"));
        assert_eq!([lines(&session, joined).await, lines(&session, counted).await], expected);
    });
}

#[test]
fn a_dropped_stream_stops_and_the_session_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let database = filled(directory.path(), "latency=1ms,iops=1000,bandwidth=1GB");
    run(async {
        let session = Session::new(&database);
        database.drop_caches();
        for sql in ["SELECT * FROM line", "SELECT * FROM orders JOIN line ON o_id = l_order"] {
            let Some(StatementResult::Rows { mut stream, .. }) = session.execute(sql).await.unwrap().pop() else {
                panic!("a query has rows");
            };
            let first = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.unwrap().unwrap().unwrap();
            assert!(first.num_rows() > 0);
            drop(stream);
        }
        assert_eq!(lines(&session, "SELECT c_id FROM customer WHERE c_id = 3").await, ["3"]);
    });
}

#[test]
fn errors_say_where_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path(), "latency=10us");
    run(async {
        let session = Session::new(&database);
        session.execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
        let error = |sql: &'static str| {
            let session = &session;
            async move { session.execute(sql).await.err().unwrap() }
        };
        let syntax = error("SELECT a\nFROM t WHER a = 1").await;
        assert_eq!(syntax.kind, ErrorKind::Syntax);
        assert_eq!(syntax.position.map(|p| p.line), Some(2), "{syntax}");
        let missing = error("SELECT\n  nope FROM t").await;
        assert_eq!(missing.position, Some(Position { line: 2, column: 3 }), "{missing}");
        let table = error("INSERT INTO nowhere VALUES (1)").await;
        assert_eq!(table.position, Some(Position { line: 1, column: 13 }), "{table}");
        assert!(table.hint.unwrap().contains("tables are: t"));
    });
}

#[test]
fn what_is_committed_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), "latency=10us").close().unwrap();
    run(async {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let database = Database::open(directory.path().join("database"), options).unwrap();
        let session = Session::new(&database);
        assert_eq!(
            lines(&session, "SELECT count(*), sum(l_price) FROM line WHERE l_order > 0").await,
            ["120000 180000.00"]
        );
        let refused = session.execute("INSERT INTO customer VALUES (0, 0, 'x')").await.err().unwrap();
        assert!(refused.message.contains("reading only"), "{refused}");
        assert_eq!(database.check(&mut |_| {}).unwrap().faults, []);
    });
}
