//! Indexes over expressions and with a condition: queries find rows by them, and what is written together stays
//! together, through transactions, restarts and concurrent writers.

use std::sync::Arc;

use saki_sql::{Database, Session};

use crate::support::{create, number, refused, reopen, run, text_rows, waits};

async fn filled(session: &Session) {
    run(session, "CREATE TABLE t (id int PRIMARY KEY, name text, v int, gone bool NOT NULL DEFAULT false)").await;
    run(session, "INSERT INTO t SELECT i, 'Name ' || i::text, i, i % 3 = 0 FROM generate_series(1, 3000) AS s (i)")
        .await;
}

async fn plan(session: &Session, sql: &str) -> String {
    let explained = session.execute(&format!("EXPLAIN {sql}")).await.unwrap().pop().unwrap();
    text_rows(explained).await.unwrap().into_iter().map(|row| row.join(" ")).collect::<Vec<_>>().join("\n")
}

/// A query finds as much by an index as without one.
async fn found_by(session: &Session, index: &str, condition: &str, rows: i64) {
    let sql = format!("SELECT count(*) FROM t WHERE {condition}");
    run(session, "SET saki.access_path = scan").await;
    assert_eq!(number(session, &sql).await, rows, "{condition}");
    run(session, "SET saki.access_path = index").await;
    let shown = plan(session, &sql).await;
    assert!(shown.contains(index), "{condition}: {shown}");
    assert_eq!(number(session, &sql).await, rows, "{condition}");
    run(session, "SET saki.access_path = auto").await;
}

fn check(database: &Database) {
    let faults = database.store().check(&mut |_| {}).unwrap().faults;
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_changes_find_rows_by_expressions() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    filled(&session).await;
    run(&session, "CREATE UNIQUE INDEX t_lower ON t (lower(name))").await;
    run(&session, "CREATE INDEX t_sum ON t ((v + id))").await;
    found_by(&session, "t_lower", "lower(name) = 'name 7'", 1).await;
    found_by(&session, "t_lower", "'name 7' = lower(t.name) AND v = 7", 1).await;
    found_by(&session, "t_lower", "lower(name) IN ('name 7', 'name 8', 'NAME 9')", 2).await;
    found_by(&session, "t_sum", "v + id BETWEEN 10 AND 20", 6).await;
    for merged in [false, true] {
        if merged {
            run(&session, "CHECKPOINT").await;
        }
        run(&session, "UPDATE t SET name = upper(name), v = v + 2 WHERE lower(name) = 'name 7'").await;
        run(&session, "UPDATE t SET v = v - 2 WHERE id = 7").await;
        found_by(&session, "t_lower", "lower(name) = 'name 7' AND name = 'NAME 7'", 1).await;
        found_by(&session, "t_sum", "v + id = 14", 1).await;
    }
    assert_eq!(refused(&session, "INSERT INTO t VALUES (4000, 'nAmE 7', 0)").await, "23505");
    run(&session, "DELETE FROM t WHERE v + id = 14").await;
    run(&session, "INSERT INTO t VALUES (4000, 'nAmE 7', 0)").await;
    found_by(&session, "t_lower", "lower(name) = 'name 7'", 1).await;
    check(session.database());
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_say_the_condition_find_rows_by_its_index() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    filled(&session).await;
    run(&session, "CREATE UNIQUE INDEX t_live ON t (v) WHERE NOT gone").await;
    run(&session, "CREATE INDEX t_named ON t (v, lower(name)) WHERE v IS NOT NULL AND v > 100").await;
    found_by(&session, "t_live", "v = 7 AND NOT gone", 1).await;
    found_by(&session, "t_live", "NOT gone AND v BETWEEN 7 AND 9", 2).await;
    found_by(&session, "t_named", "v > 100 AND v < 105 AND lower(name) = 'name 103'", 1).await;
    for (condition, rows) in [("v = 9", 1), ("v = 9 AND gone", 1), ("v = 9 AND NOT gone", 0), ("v IS NULL", 0)] {
        assert_eq!(number(&session, &format!("SELECT count(*) FROM t WHERE {condition}")).await, rows, "{condition}");
    }
    run(&session, "INSERT INTO t VALUES (5000, 'x', 7, true), (5001, 'x', 7, true)").await;
    assert_eq!(refused(&session, "UPDATE t SET gone = false WHERE id = 5000").await, "23505");
    run(&session, "UPDATE t SET gone = true WHERE id = 7").await;
    run(&session, "UPDATE t SET gone = false WHERE id = 5000").await;
    found_by(&session, "t_live", "v = 7 AND NOT gone", 1).await;
    check(session.database());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_part_of_its_transaction_and_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    filled(&session).await;
    run(&session, "BEGIN").await;
    run(&session, "CREATE UNIQUE INDEX t_lower ON t (lower(name))").await;
    assert_eq!(number(&session, "SELECT count(*) FROM pg_indexes WHERE indexname = 't_lower'").await, 1);
    run(&session, "SAVEPOINT s").await;
    assert_eq!(refused(&session, "INSERT INTO t VALUES (4000, 'NAME 1', 0)").await, "23505");
    run(&session, "ROLLBACK").await;
    run(&session, "INSERT INTO t VALUES (4000, 'NAME 1', 0)").await;
    assert_eq!(refused(&session, "CREATE UNIQUE INDEX t_lower ON t (lower(name))").await, "23505");
    run(&session, "DELETE FROM t WHERE id = 4000").await;
    run(&session, "CREATE UNIQUE INDEX t_lower ON t (lower(name))").await;
    run(&session, "CREATE INDEX t_live ON t (v) WHERE NOT gone").await;
    run(&session, "BEGIN").await;
    run(&session, "DROP INDEX t_lower").await;
    run(&session, "INSERT INTO t VALUES (4000, 'NAME 1', 0)").await;
    run(&session, "ROLLBACK").await;
    assert_eq!(refused(&session, "INSERT INTO t VALUES (4000, 'NAME 1', 0)").await, "23505");
    // Some rows are in the logs alone.
    run(&session, "INSERT INTO t VALUES (4001, 'Later', 4001)").await;
    drop(session);
    drop(database);
    let session = Session::new(&reopen(directory.path()));
    found_by(&session, "t_lower", "lower(name) = 'later'", 1).await;
    found_by(&session, "t_live", "v = 4001 AND NOT gone", 1).await;
    assert_eq!(refused(&session, "INSERT INTO t VALUES (4002, 'LATER', 0)").await, "23505");
    run(&session, "ALTER TABLE t DROP COLUMN gone").await;
    assert_eq!(number(&session, "SELECT count(*) FROM pg_indexes WHERE tablename = 't'").await, 2);
    found_by(&session, "t_lower", "lower(name) = 'later'", 1).await;
    check(session.database());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writers_of_one_value_the_second_waits_and_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let [one, other] = [(); 2].map(|()| Session::new(&database));
    filled(&one).await;
    run(&one, "CREATE UNIQUE INDEX t_lower ON t (lower(name))").await;
    for end in ["COMMIT", "ROLLBACK"] {
        run(&one, "BEGIN").await;
        run(&one, "INSERT INTO t VALUES (5000, 'Both', 0)").await;
        let mut second = Box::pin(other.execute("INSERT INTO t VALUES (5001, 'bOTH', 0)"));
        assert!(waits(&mut second).await, "{end}: the value may be taken");
        run(&one, end).await;
        let outcome = second.await.map(drop).map_err(|error| error.sqlstate());
        assert_eq!(outcome, if end == "COMMIT" { Err("23505") } else { Ok(()) }, "{end}");
        assert_eq!(number(&one, "SELECT count(*) FROM t WHERE lower(name) = 'both'").await, 1);
        run(&one, "DELETE FROM t WHERE lower(name) = 'both'").await;
    }
    check(&database);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_began_before_fill_the_columns_too() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let [maker, writer] = [(); 2].map(|()| Session::new(&database));
    filled(&maker).await;
    let database = Arc::clone(&database);
    // Statements that the session has kept, and a transaction that is waited for.
    for id in 6000..6005 {
        run(&writer, &format!("INSERT INTO t VALUES ({id}, 'kept {id}', 0)")).await;
    }
    run(&writer, "BEGIN").await;
    run(&writer, "INSERT INTO t VALUES (6005, 'kept 6005', 0)").await;
    let mut making = Box::pin(maker.execute("CREATE UNIQUE INDEX t_upper ON t (upper(name))"));
    assert!(waits(&mut making).await);
    run(&writer, "COMMIT").await;
    making.await.unwrap();
    for id in 6006..6010 {
        run(&writer, &format!("INSERT INTO t VALUES ({id}, 'kept {id}', 0)")).await;
    }
    for id in 6000..6010 {
        found_by(&writer, "t_upper", &format!("upper(name) = 'KEPT {id}'"), 1).await;
    }
    assert_eq!(refused(&writer, "INSERT INTO t VALUES (6010, 'KEPT 6001', 0)").await, "23505");
    check(&database);
}
