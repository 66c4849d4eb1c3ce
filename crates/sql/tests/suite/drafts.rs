//! Changes of the catalog within transactions: what others see before and after the commit, who waits, and what is
//! there after reopening.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use futures::StreamExt;
use saki_sql::{CreateOptions, Database, OpenOptions, Session};

use crate::fast_cold::{prepared, ran};
use crate::support::{create, number, options, refused, reopen, run, waits};

/// Nothing is wrong with what is stored, and nothing is left of transactions.
fn check(database: &Database) {
    database.store().write(|_| Ok(())).unwrap();
    let faults = database.store().check(&mut |_| {}).unwrap().faults;
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(database.store().generation().catalog.staged().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn others_see_a_change_when_it_is_committed() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(
        &one,
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, i FROM generate_series(1, 100) AS s (i)",
    )
    .await;
    run(&one, "BEGIN; CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1); CREATE INDEX t_v ON t (v)").await;
    assert_eq!(refused(&two, "SELECT * FROM u").await, "42P01");
    assert_eq!(number(&two, "SELECT count(*) FROM pg_class WHERE relname IN ('u', 't_v')").await, 0);
    assert_eq!(number(&one, "SELECT count(*) FROM pg_class WHERE relname IN ('u', 't_v')").await, 2);
    assert_eq!(number(&two, "SELECT count(*) FROM t WHERE v = 5").await, 1);
    // An index being made keeps changes out, and a name is its maker's until the end.
    let other = Session::new(&database);
    let mut writing = two.execute("UPDATE t SET v = v + 1 WHERE id = 5");
    let mut naming = other.execute("CREATE TABLE u (other text)");
    assert!(waits(&mut writing).await && waits(&mut naming).await);
    run(&one, "COMMIT").await;
    writing.await.unwrap();
    assert_eq!(naming.await.err().map(|error| error.sqlstate().to_owned()).as_deref(), Some("42P07"));
    assert_eq!(number(&two, "SELECT count(*) FROM u").await, 1);
    assert_eq!(number(&two, "SELECT id FROM t WHERE v = 6 ORDER BY id LIMIT 1").await, 5);
    check(&database);
    drop((one, two, other));
    drop(database);
    database = reopen(directory.path());
    let one = Session::new(&database);
    assert_eq!(number(&one, "SELECT count(*) FROM u").await, 1);
    assert_eq!(number(&one, "SELECT count(*) FROM t WHERE v = 6").await, 2);
    check(&database);
}

/// Outside of a block as well: rows that were never merged go with their table, and do not come into its successor.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_takes_its_rows_along() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    {
        let one = Session::new(&database);
        for round in 0..3 {
            run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE INDEX t_v ON t (v)").await;
            let rows = "INSERT INTO t SELECT i, i FROM generate_series(1, 50) AS s (i)";
            run(&one, &format!("{rows}; UPDATE t SET v = {round} WHERE id < 10")).await;
            run(&one, "DROP TABLE t").await;
            check(&database);
        }
        run(&one, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (100)").await;
    }
    drop(database);
    database = reopen(directory.path());
    assert_eq!(number(&Session::new(&database), "SELECT sum(id) FROM t").await, 100);
    check(&database);
    Session::new(&database).execute("CHECKPOINT").await.unwrap();
    assert_eq!(number(&Session::new(&database), "SELECT sum(id) FROM t").await, 100);
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_goes_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(
        &one,
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, i FROM generate_series(1, 3000) AS s (i)",
    )
    .await;
    run(
        &one,
        "BEGIN; INSERT INTO t VALUES (0, 0); ALTER TABLE t ADD COLUMN w text DEFAULT 'w'; CREATE INDEX t_w ON t (w)",
    )
    .await;
    assert_eq!(number(&one, "SELECT count(*) FROM t WHERE w = 'w'").await, 3001);
    drop(one);
    assert_eq!(number(&two, "SELECT count(*) FROM t").await, 3000);
    assert_eq!(refused(&two, "SELECT w FROM t").await, "42703");
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_beside_an_open_change_take_nothing_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE o (id int PRIMARY KEY)").await;
    run(&one, "INSERT INTO t SELECT i, i FROM generate_series(1, 500) AS s (i); INSERT INTO t VALUES (0, 0)").await;
    for round in 0..6 {
        run(&one, &format!("BEGIN; INSERT INTO t VALUES ({}, -1)", 1000 + round)).await;
        run(&one, &format!("ALTER TABLE t ADD COLUMN c{round} int DEFAULT {round}")).await;
        run(&two, &format!("INSERT INTO o VALUES ({round}); CHECKPOINT")).await;
        run(&one, &format!("CREATE TABLE n{round} (id int); INSERT INTO n{round} VALUES (1), (2)")).await;
        run(&one, &format!("UPDATE t SET v = v + 1 WHERE id < 10; COMMENT ON TABLE o IS 'round {round}'")).await;
        run(&two, "CHECKPOINT").await;
        run(&one, if round % 2 == 0 { "COMMIT" } else { "ROLLBACK" }).await;
        run(&two, "CHECKPOINT").await;
        check(&database);
        assert_eq!(number(&two, "SELECT count(*) FROM t").await, 502 + round / 2);
        assert_eq!(number(&two, "SELECT v FROM t WHERE id = 5").await, 6 + round / 2);
        assert_eq!(number(&two, "SELECT count(*) FROM o").await, round + 1);
    }
    drop((one, two));
    drop(database);
    let database = reopen(directory.path());
    let one = Session::new(&database);
    assert_eq!(number(&one, "SELECT sum(c0 + c2 + c4) FROM t").await, 6 * 504);
    assert_eq!(number(&one, "SELECT count(*) FROM n4").await, 2);
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_kept_does_not_take_rows_away() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)").await;
    run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await;
    run(&two, "INSERT INTO t VALUES (2, 2)").await;
    assert_eq!(refused(&one, "ALTER TABLE t ALTER COLUMN v TYPE bigint").await, "40001");
    run(&one, "ROLLBACK").await;
    assert_eq!(number(&two, "SELECT count(*) FROM t").await, 2);
    run(&one, "BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (3, 3)").await;
    run(&one, "ALTER TABLE t ALTER COLUMN v TYPE bigint; CREATE TABLE u (id int); INSERT INTO u SELECT id FROM t")
        .await;
    assert_eq!(number(&one, "SELECT count(*) FROM u").await, 3);
    run(&one, "COMMIT").await;
    assert_eq!(number(&two, "SELECT count(*) FROM u JOIN t ON t.id = u.id").await, 3);
    check(&database);
}

/// The same where rows did not lie in memory in between: many go straight to the base, and the table gets a delta anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_kept_does_not_take_loaded_rows_away() {
    let directory = tempfile::tempdir().unwrap();
    let open = OpenOptions { bulk_rows: 8, ..options() };
    let options = CreateOptions { open, ..CreateOptions::default() };
    let database = Database::create(directory.path().join("database"), options).unwrap();
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)").await;
    for change in ["ADD CHECK (v > 0)", "ADD COLUMN w int DEFAULT 3", "ALTER COLUMN v TYPE bigint"] {
        let before = number(&two, "SELECT count(*) FROM t").await;
        run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await;
        copy(&two, before as i32 + 1..before as i32 + 20).await;
        assert_eq!(refused(&one, &format!("ALTER TABLE t {change}")).await, "40001", "{change}");
        run(&one, "ROLLBACK").await;
        assert_eq!(number(&two, "SELECT count(*) FROM t").await, before + 19);
    }
    // What it altered itself it may alter again.
    run(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ; ALTER TABLE t ALTER COLUMN v TYPE bigint").await;
    run(&one, "INSERT INTO t VALUES (0, 1); ALTER TABLE t ADD CHECK (v > 0); COMMIT").await;
    assert_eq!(number(&two, "SELECT count(*) FROM t").await, 59);
    check(&database);
}

/// Rows by COPY, with these keys.
async fn copy(session: &Session, keys: Range<i32>) {
    let columns = ["id".to_owned(), "v".to_owned()];
    let target = session.copy_target("t", &columns).unwrap();
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(keys));
    let batch = RecordBatch::try_new(target.schema, vec![Arc::clone(&keys), keys]).unwrap();
    let batches = futures::stream::iter([Ok(batch)]).boxed();
    session.copy_in("t", &columns, batches).await.unwrap();
}

fn gives(row: &str) -> Result<Option<Vec<String>>, String> {
    Ok(Some(vec![row.to_owned()]))
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_statements_are_for_a_transactions_own_tables_as_well_and_for_nobody_elses() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    let rows = "INSERT INTO t SELECT i, i FROM generate_series(1, 10) AS s (i)";
    run(&one, &format!("CREATE TABLE t (id int PRIMARY KEY, v int); {rows}")).await;
    run(&one, "BEGIN; ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 5").await;
    // Goes the ordinary way, and locks the table for those that come.
    run(&one, "UPDATE t SET w = 6 WHERE id = 1").await;
    let wide = prepared(&one, "UPDATE t SET w = w + id WHERE id = 2 RETURNING w");
    assert_eq!(ran(&one, &wide).await, gives("[Int4(7)]"));
    // What others see has no such column.
    assert!(two.prepare_fast("SELECT w FROM t WHERE id = 2", &[]).is_none());
    assert_eq!(ran(&two, &wide).await, Ok(None));
    run(&one, "SAVEPOINT s; ALTER TABLE t DROP COLUMN w").await;
    run(&one, "UPDATE t SET v = 0 WHERE id = 4").await;
    let narrow = prepared(&one, "UPDATE t SET v = v - 3 WHERE id = 3 RETURNING id, v");
    assert_eq!((ran(&one, &wide).await, ran(&one, &narrow).await), (Ok(None), gives("[Int4(3), Int4(0)]")));
    run(&one, "ROLLBACK TO s").await;
    assert_eq!((ran(&one, &wide).await, ran(&one, &narrow).await), (gives("[Int4(9)]"), Ok(None)));
    assert_eq!(number(&one, "SELECT sum(v + w) FROM t").await, 55 + 55);
    run(&one, "ROLLBACK").await;
    assert_eq!((ran(&one, &wide).await, ran(&one, &narrow).await), (Ok(None), Ok(None)));
    assert_eq!(refused(&one, "SELECT w FROM t").await, "42703");
    assert_eq!(number(&two, "SELECT sum(v) FROM t").await, 55);
    run(&one, "BEGIN; ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 5; UPDATE t SET w = 6 WHERE id = 1").await;
    let wide = prepared(&one, "UPDATE t SET w = w + id WHERE id = 2 RETURNING w");
    assert_eq!(ran(&one, &wide).await, gives("[Int4(7)]"));
    run(&one, "COMMIT").await;
    // From here on everybody sees it.
    assert_eq!((ran(&two, &wide).await, ran(&one, &wide).await), (gives("[Int4(9)]"), gives("[Int4(11)]")));
    check(&database);
}

/// The layout stays the same, and so do plans; what rows have to satisfy does not.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_compiled_statement_keeps_of_rules_is_kept_for_one_catalog() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 6), (2, 6), (3, 6)").await;
    let raise = "UPDATE t SET v = v + 95 WHERE id = 1 RETURNING v";
    run(&one, "BEGIN; ALTER TABLE t ADD CONSTRAINT c CHECK (v < 100); UPDATE t SET v = 7 WHERE id = 2").await;
    let plan = prepared(&one, raise);
    assert_eq!(ran(&one, &plan).await, Err("23514".to_owned()));
    run(&one, "ROLLBACK").await;
    assert_eq!(ran(&one, &plan).await, gives("[Int4(101)]"), "nothing is left of the condition");
    run(&one, "UPDATE t SET v = 6 WHERE id = 1; ALTER TABLE t ADD CONSTRAINT c CHECK (v < 100)").await;
    let plan = prepared(&one, raise);
    assert_eq!(ran(&one, &plan).await, Err("23514".to_owned()));
    run(&one, "BEGIN; SAVEPOINT s; ALTER TABLE t DROP CONSTRAINT c; UPDATE t SET v = 7 WHERE id = 2").await;
    let plan = prepared(&one, raise);
    assert_eq!(ran(&one, &plan).await, gives("[Int4(101)]"), "the transaction has none");
    run(&one, "ROLLBACK TO s; UPDATE t SET v = 7 WHERE id = 3").await;
    assert_eq!(ran(&one, &plan).await, Err("23514".to_owned()), "it has one again");
    run(&one, "ROLLBACK").await;
    assert_eq!(ran(&one, &plan).await, Err("23514".to_owned()));
    assert_eq!(ran(&two, &plan).await, Err("23514".to_owned()));
    assert_eq!(number(&two, "SELECT sum(v) FROM t").await, 18);
    check(&database);
}

/// Rights are those of the transaction's own catalog.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_a_transaction_takes_away_is_gone_for_its_compiled_statements() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let one = Session::new(&database);
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 6); CREATE ROLE reader").await;
    run(&one, "GRANT SELECT ON t TO reader").await;
    let read = "SELECT v FROM t WHERE id = 1";
    let plan = prepared(&one, read);
    run(&one, "SET ROLE reader").await;
    assert_eq!(ran(&one, &plan).await, gives("[Int4(6)]"));
    run(&one, "RESET ROLE; BEGIN; REVOKE SELECT ON t FROM reader; SELECT v FROM t; SET ROLE reader").await;
    assert_eq!(ran(&one, &plan).await, Ok(None), "the ordinary way says what is wrong");
    assert_eq!(refused(&one, read).await, "42501");
    run(&one, "ROLLBACK; SET ROLE reader").await;
    assert_eq!(ran(&one, &plan).await, gives("[Int4(6)]"));
}
