//! Statements that wait for others: what they find when their turn comes, and what becomes of them if they are told to
//! stop before.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use futures::StreamExt;
use saki_sql::{Database, OpenOptions, Session};

use crate::support::{HeldWriter, create, number, run, waits};

/// Rows and catalog are committed together, and nobody begins to read meanwhile. A network thread serves many who do.
#[tokio::test]
async fn statements_that_wait_for_such_a_commit_leave_their_thread_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 7)").await;
    for (before, statement) in [
        ("SELECT 1", "SELECT v FROM t WHERE id = 1"),
        ("SELECT 1", "SELECT count(*) FROM t"),
        ("SELECT 1", "UPDATE t SET v = 8 WHERE id = 1"),
        ("SELECT 1", "UPDATE t SET v = v + 1"),
        ("BEGIN; SELECT count(*) FROM t", "SELECT sum(v) FROM t"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT v FROM t WHERE id = 1"),
    ] {
        run(&session, before).await;
        let (store, (begun, has_begun), (end, ending)) = (Arc::clone(database.store()), channel(), channel());
        let commit = std::thread::spawn(move || {
            let _announced = store.instants.announce();
            begun.send(()).unwrap();
            // Whoever holds the thread that would say so does not hear that it is over.
            let _ = ending.recv_timeout(Duration::from_secs(5));
        });
        has_begun.recv().unwrap();
        let mut asked = session.execute(statement);
        assert!(waits(&mut asked).await, "{statement} holds its thread");
        end.send(()).unwrap();
        for result in asked.await.unwrap() {
            result.collect().await.unwrap();
        }
        commit.join().unwrap();
        run(&session, "ROLLBACK").await;
    }
    assert_eq!(number(&session, "SELECT v FROM t").await, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn ddl_that_is_told_to_stop_while_it_waits_does_not_happen_later() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (a int PRIMARY KEY, b int)").await;
    run(&session, "INSERT INTO t VALUES (1, 2)").await;
    for statement in
        ["ALTER TABLE t DROP COLUMN b", "CREATE TABLE u (a int)", "DROP TABLE t", "CREATE INDEX t_b ON t (b)"]
    {
        let writer = HeldWriter::queue(&database);
        writer.holds().await;
        let outcome = tokio::time::timeout(Duration::from_millis(50), session.execute(statement)).await;
        assert!(outcome.is_err(), "{statement} did not wait");
        session.fail().await;
        writer.let_go();
        // What is still on its way has its turn now.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(number(&session, "SELECT b FROM t").await, 2, "{statement}");
    }
    assert_eq!(number(&session, "SELECT count(*) FROM pg_class WHERE relname IN ('u', 't_b')").await, 0);
    run(&session, "CREATE INDEX t_b ON t (b)").await;
}

/// Tables that are renamed or dropped while ANALYZE of all of them goes on.
#[tokio::test(flavor = "multi_thread")]
async fn analyze_of_all_tables_goes_on_without_those_that_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (ddl, analyst) = (Session::new(&database), Session::new(&database));
    for table in ["a", "b", "c"] {
        run(&ddl, &format!("CREATE TABLE {table} (id int PRIMARY KEY); INSERT INTO {table} VALUES (1)")).await;
    }
    run(&ddl, "BEGIN; ALTER TABLE a RENAME TO d; DROP TABLE b").await;
    let mut analyzing = analyst.execute("ANALYZE");
    assert!(waits(&mut analyzing).await);
    run(&ddl, "COMMIT").await;
    analyzing.await.unwrap();
    let generation = database.generation();
    assert!(["c", "d"].iter().all(|table| generation.catalog.table(table).unwrap().statistics.is_some()));
    assert_eq!(analyst.execute("ANALYZE b").await.err().unwrap().sqlstate(), "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_copy_that_waited_go_to_the_columns_that_it_named() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    for rows in [10, 40_000] {
        let (copying, altering) = (Session::new(&database), Session::new(&database));
        run(&altering, "CREATE TABLE t (a int, b int)").await;
        let target = copying.copy_target("t", &["b".to_owned()]).unwrap();
        let seven: ArrayRef = Arc::new(Int32Array::from(vec![7; rows]));
        let batch = RecordBatch::try_new(target.schema, vec![seven]).unwrap();
        // The table is altered between the moment at which the columns are looked up and the end of the rows.
        let last = async move {
            run(&altering, "ALTER TABLE t DROP COLUMN a").await;
            run(&altering, "ALTER TABLE t ADD COLUMN z int").await;
            Ok(batch)
        };
        let batches = futures::stream::once(last).boxed();
        let copied = copying.copy_in("t", &["b".to_owned()], batches).await.unwrap();
        assert_eq!(copied, rows as u64);
        let wanted = "SELECT count(*) FROM t WHERE b = 7 AND z IS NULL";
        assert_eq!(number(&copying, wanted).await, rows as i64);
        run(&copying, "DROP TABLE t").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_into_a_column_that_was_dropped_meanwhile_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    for rows in [10, 40_000] {
        let (copying, altering) = (Session::new(&database), Session::new(&database));
        run(&altering, "CREATE TABLE t (a int, b int)").await;
        let target = copying.copy_target("t", &[]).unwrap();
        let column: ArrayRef = Arc::new(Int32Array::from(vec![7; rows]));
        let batch = RecordBatch::try_new(target.schema, vec![Arc::clone(&column), column]).unwrap();
        let last = async move {
            run(&altering, "ALTER TABLE t DROP COLUMN a").await;
            run(&altering, "ALTER TABLE t ADD COLUMN z int").await;
            Ok(batch)
        };
        let error = copying.copy_in("t", &[], futures::stream::once(last).boxed()).await.unwrap_err();
        assert_eq!(error.sqlstate(), "42703", "{error}");
        assert_eq!(number(&copying, "SELECT count(*) FROM t").await, 0);
        run(&copying, "DROP TABLE t").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_query_into_an_empty_table_are_checked_against_its_foreign_keys() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, "CREATE TABLE parent (id int PRIMARY KEY)").await;
    run(&session, "CREATE TABLE child (id int REFERENCES parent)").await;
    let error = session
        .execute("INSERT INTO child SELECT v.id FROM (VALUES (1), (2)) AS v (id)")
        .await
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.sqlstate(), "23503", "{error}");
}

/// What an old snapshot writes after another session has changed the table's layout is refused, or is there: never
/// lost.
#[tokio::test(flavor = "multi_thread")]
async fn writes_of_an_old_snapshot_are_not_lost_beside_a_change_of_layout() {
    for change in ["ALTER TABLE t ADD COLUMN w int DEFAULT 7", "CREATE INDEX ON t (v)"] {
        for level in ["REPEATABLE READ", "SERIALIZABLE"] {
            let directory = tempfile::tempdir().unwrap();
            let database = create(directory.path());
            let (old, other) = (Session::new(&database), Session::new(&database));
            run(&other, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)").await;
            run(&other, "CREATE TABLE u (id int)").await;
            run(&old, &format!("BEGIN ISOLATION LEVEL {level}")).await;
            // Of another table: what has been read is not changed before the block ends.
            assert_eq!(number(&old, "SELECT count(*) FROM u").await, 0);
            run(&other, change).await;
            let expected = match old.execute("INSERT INTO t (id, v) VALUES (2, 2)").await {
                Ok(_) => {
                    run(&old, "COMMIT").await;
                    2
                }
                Err(error) => {
                    assert_eq!(error.sqlstate(), "40001", "{change}, {level}: {error}");
                    run(&old, "ROLLBACK").await;
                    1
                }
            };
            assert_eq!(number(&other, "SELECT count(*) FROM t").await, expected, "{change}, {level}");
            drop((old, other, database));
            let database = Database::open(directory.path().join("database"), OpenOptions::default()).unwrap();
            assert_eq!(
                number(&Session::new(&database), "SELECT count(*) FROM t").await,
                expected,
                "reopened: {change}, {level}"
            );
        }
    }
}
