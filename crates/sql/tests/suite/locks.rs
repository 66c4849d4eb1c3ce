//! Locks of tables: who waits for whom, what is found after a wait, and that no acknowledged row is lost beside
//! statements that change what tables are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use saki_sql::Session;

use crate::support::{HeldWriter, create, number, reopen, run, waits};

/// The condition of the error that a statement ends with, and what it says.
async fn refused(session: &Session, sql: &str) -> (String, String) {
    match session.execute(sql).await {
        Ok(_) => panic!("{sql} was done"),
        Err(error) => (error.sqlstate().to_owned(), error.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_table_wait_for_those_who_have_read_it_in_a_block() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (reader, ddl, other) = (Session::new(&database), Session::new(&database), Session::new(&database));
    run(&ddl, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)").await;
    run(&reader, "BEGIN").await;
    assert_eq!(number(&reader, "SELECT v FROM t WHERE id = 1").await, 1);
    let mut altering = ddl.execute("ALTER TABLE t ADD COLUMN w int DEFAULT 7");
    assert!(waits(&mut altering).await);
    // Its turn is before that of later statements in blocks; a query by itself needs no lock.
    run(&other, "BEGIN").await;
    let mut reading = other.execute("SELECT count(*) FROM t");
    assert!(waits(&mut reading).await);
    assert_eq!(number(&Session::new(&database), "SELECT count(*) FROM t").await, 1);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND waitstart IS NOT NULL";
    assert_eq!(number(&Session::new(&database), waiting).await, 2);
    run(&reader, "COMMIT").await;
    altering.await.unwrap();
    reading.await.unwrap();
    assert_eq!(number(&other, "SELECT sum(w) FROM t").await, 7);
    run(&other, "COMMIT").await;
    assert_eq!(number(&ddl, "SELECT count(*) FROM pg_locks").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_table_is_held_until_the_end_of_the_block_or_a_savepoint() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY)").await;
    assert_eq!(refused(&one, "LOCK TABLE t").await.0, "25P01");
    run(&one, "BEGIN; SAVEPOINT s; LOCK TABLE t IN SHARE MODE").await;
    let modes = "SELECT count(*) FROM pg_locks WHERE mode = 'ShareLock' AND granted AND relation = 't'::regclass";
    assert_eq!(number(&two, modes).await, 1);
    two.set_lock_timeout(Duration::from_millis(50));
    let (state, message) = refused(&two, "INSERT INTO t VALUES (1)").await;
    assert_eq!((state.as_str(), message.as_str()), ("55P03", "canceling statement due to lock timeout"));
    run(&two, "BEGIN").await;
    assert_eq!(refused(&two, "LOCK TABLE t IN ROW EXCLUSIVE MODE NOWAIT").await.0, "55P03");
    run(&two, "ROLLBACK; BEGIN; LOCK TABLE t IN ROW SHARE MODE NOWAIT; ROLLBACK").await;
    run(&one, "ROLLBACK TO s").await;
    run(&two, "INSERT INTO t VALUES (1)").await;
    run(&one, "LOCK t; COMMIT").await;
    run(&two, "INSERT INTO t VALUES (2)").await;
    run(&two, "BEGIN; INSERT INTO t VALUES (3)").await;
    one.set_lock_timeout(Duration::from_millis(50));
    assert_eq!(refused(&one, "DROP TABLE t").await.0, "55P03");
    assert_eq!(refused(&one, "UPDATE t SET id = 9 WHERE id = 3; INSERT INTO t VALUES (3)").await.0, "55P03");
    run(&two, "COMMIT").await;
    assert_eq!(number(&one, "SELECT count(*) FROM t").await, 3);
}

/// Each has a definition of the table of its own until it commits: one of the two was lost, and its pages with it.
#[tokio::test(flavor = "multi_thread")]
async fn indexes_of_one_table_are_made_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    {
        let [one, two] = [(); 2].map(|()| Session::new(&database));
        run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int, w int)").await;
        run(&one, "INSERT INTO t SELECT g, g % 7, g % 5 FROM generate_series(1, 500) g; CHECKPOINT").await;
        run(&one, "BEGIN; CREATE INDEX t_v ON t (v)").await;
        let mut making = two.execute("BEGIN; CREATE INDEX t_w ON t (w)");
        assert!(waits(&mut making).await);
        run(&one, "COMMIT").await;
        making.await.unwrap();
        run(&two, "COMMIT").await;
        run(&one, "INSERT INTO t VALUES (501, 7, 6)").await;
    }
    for _ in 0..2 {
        let session = Session::new(&database);
        session.set("access_path", "index").unwrap();
        let names = "SELECT count(*) FROM pg_indexes WHERE indexname IN ('t_v', 't_w')";
        assert_eq!(number(&session, names).await, 2);
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE v = 3").await, 72);
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE w = 6").await, 1);
        assert!(database.check(&mut |_| {}).unwrap().faults.is_empty());
        drop((session, database));
        database = reopen(directory.path());
    }
}

/// A name that comes to mean something between the locks of a statement and its turn to write: DROP INDEX IF EXISTS
/// finds no index, and so no table to lock; when it may write, there is one, and rows have come into its table.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_does_not_replace_a_table_that_it_found_only_after_its_locks() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = create(directory.path());
    {
        let [maker, dropper, writer] = [(); 3].map(|()| Session::new(&database));
        run(&maker, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE o (id int PRIMARY KEY)").await;
        run(&maker, "INSERT INTO o VALUES (1)").await;
        let first = HeldWriter::queue(&database);
        first.holds().await;
        let mut making = maker.execute("CREATE INDEX t_v ON t (v)");
        assert!(waits(&mut making).await);
        let second = HeldWriter::queue(&database);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut dropping = dropper.execute("DROP INDEX IF EXISTS t_v");
        assert!(waits(&mut dropping).await);
        first.let_go();
        making.await.unwrap();
        second.holds().await;
        run(&writer, "INSERT INTO t VALUES (1, 7)").await;
        second.let_go();
        dropping.await.unwrap();
        assert_eq!(number(&writer, "SELECT count(*) FROM t WHERE v = 7").await, 1);
        assert_eq!(number(&writer, "SELECT count(*) FROM pg_class WHERE relname = 't_v'").await, 0);
    }
    drop(database);
    database = reopen(directory.path());
    assert_eq!(number(&Session::new(&database), "SELECT count(*) FROM t WHERE v = 7").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn circles_of_rows_and_tables_end_with_an_error_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)").await;
    run(&one, "CREATE TABLE u (id int)").await;
    run(&one, "BEGIN; LOCK TABLE u").await;
    run(&two, "BEGIN; UPDATE t SET v = 2 WHERE id = 1").await;
    let mut first = one.execute("UPDATE t SET v = 1 WHERE id = 1");
    assert!(waits(&mut first).await);
    assert_eq!(refused(&two, "INSERT INTO u VALUES (1)").await.0, "40P01");
    run(&two, "ROLLBACK").await;
    first.await.unwrap();
    run(&one, "COMMIT").await;
    assert_eq!(number(&two, "SELECT v FROM t WHERE id = 1").await, 1);
    // Two readers that both want to change the table.
    run(&one, "BEGIN; SELECT * FROM t").await;
    run(&two, "BEGIN; SELECT * FROM t").await;
    let mut first = one.execute("LOCK TABLE t");
    assert!(waits(&mut first).await);
    assert_eq!(refused(&two, "LOCK TABLE t").await.0, "40P01");
    run(&two, "ROLLBACK").await;
    first.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_cancelled_in_the_queue_leaves_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (reader, ddl, writer) = (Session::new(&database), Session::new(&database), Session::new(&database));
    run(&reader, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    run(&reader, "BEGIN; INSERT INTO t VALUES (1, 1)").await;
    let statements = ["ALTER TABLE t DROP COLUMN v", "DROP TABLE t", "TRUNCATE t", "CREATE INDEX ON t (v)"];
    for (number, statement) in statements.into_iter().enumerate() {
        let mut waiting = ddl.execute(statement);
        assert!(waits(&mut waiting).await, "{statement}");
        drop(waiting);
        run(&writer, &format!("INSERT INTO t VALUES ({}, 1)", number + 100)).await;
    }
    run(&reader, "COMMIT").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(number(&reader, "SELECT count(v) FROM t").await, 5);
    assert_eq!(number(&reader, "SELECT count(*) FROM pg_locks").await, 0);
    run(&ddl, "ALTER TABLE t DROP COLUMN v").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_not_rewritten_from_an_old_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (old, other) = (Session::new(&database), Session::new(&database));
    run(&other, "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int); INSERT INTO t VALUES (1)").await;
    run(&old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM u").await;
    run(&other, "INSERT INTO t VALUES (2)").await;
    // It may be refused, as it takes place in a transaction that cannot see the row; it must not lose it.
    if old.execute("ALTER TABLE t ADD COLUMN v int NOT NULL DEFAULT 5").await.is_ok() {
        run(&old, "COMMIT").await;
        assert_eq!(number(&other, "SELECT sum(v) FROM t").await, 10);
    } else {
        run(&old, "ROLLBACK").await;
    }
    assert_eq!(number(&other, "SELECT count(*) FROM t").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_bulk_load_are_not_overwritten_from_an_old_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (old, other) = (Session::new(&database), Session::new(&database));
    run(&other, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int)").await;
    run(&old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM u").await;
    run(&other, "INSERT INTO t SELECT g.v, 1 FROM (VALUES (1), (2), (3)) AS g (v)").await;
    assert_eq!(refused(&old, "INSERT INTO t VALUES (2, 9)").await.0, "40001");
    run(&old, "ROLLBACK").await;
    assert_eq!(refused(&old, "INSERT INTO t VALUES (2, 9)").await.0, "23505");
    assert_eq!(number(&other, "SELECT sum(v) FROM t").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_was_compiled_before_a_constraint_follows_it() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&create(directory.path()));
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)").await;
    let deletion = session.prepare("DELETE FROM t WHERE id = 1", &[]).await.unwrap();
    let update = session.prepare("UPDATE t SET v = 9 WHERE id = 2", &[]).await.unwrap();
    // Rows go to the base, so that no constraint needs another delta.
    run(&session, "CHECKPOINT").await;
    run(&session, "CREATE TABLE child (id int REFERENCES t); INSERT INTO child VALUES (1)").await;
    assert_eq!(
        session.execute_prepared(&deletion, &[]).await.err().map(|e| e.sqlstate().to_owned()),
        Some("23503".into())
    );
    run(&session, "ALTER TABLE t ADD CHECK (v < 5)").await;
    assert_eq!(
        session.execute_prepared(&update, &[]).await.err().map(|e| e.sqlstate().to_owned()),
        Some("23514".into())
    );
}

/// Every row whose COMMIT was answered is there at the end, by every access path, and after reopening.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_are_there_beside_changes_of_their_table() {
    const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
    const CHANGES: [&str; 6] = [
        "CREATE INDEX t_v ON t (v)",
        "ALTER TABLE t ADD COLUMN w int DEFAULT 3",
        "DROP INDEX t_v",
        "TRUNCATE u",
        "ALTER TABLE t DROP COLUMN w",
        "CHECKPOINT",
    ];
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    run(&Session::new(&database), "CREATE TABLE t (id bigint PRIMARY KEY, v bigint); CREATE TABLE u (id bigint)").await;
    let (next, is_over) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = LEVELS
        .into_iter()
        .map(|level| {
            let (database, next, is_over) = (Arc::clone(&database), Arc::clone(&next), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (session, mut acknowledged) = (Session::new(&database), 0);
                while !is_over.load(Ordering::Relaxed) {
                    acknowledged += write_one(&session, level, next.fetch_add(1, Ordering::Relaxed)).await;
                }
                acknowledged
            })
        })
        .collect();
    let ddl = Session::new(&database);
    for round in 0..60 {
        run(&ddl, CHANGES[round % CHANGES.len()]).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut acknowledged = 0;
    for writer in writers {
        acknowledged += writer.await.unwrap();
    }
    assert!(acknowledged > 10, "{acknowledged} of {next:?}");
    run(&ddl, "CREATE INDEX t_v ON t (v)").await;
    assert_there(&ddl, acknowledged).await;
    drop((ddl, database));
    let database = reopen(directory.path());
    assert_there(&Session::new(&database), acknowledged).await;
}

/// 1 if a row was added and its COMMIT answered.
async fn write_one(session: &Session, level: &str, id: i64) -> i64 {
    let steps = [
        format!("BEGIN ISOLATION LEVEL {level}"),
        "SELECT count(*) FROM u".to_owned(),
        format!("INSERT INTO t (id, v) VALUES ({id}, 1)"),
        format!("INSERT INTO u VALUES ({id})"),
        "COMMIT".to_owned(),
    ];
    for step in steps {
        let done = match session.execute(&step).await {
            Ok(results) => {
                for result in results {
                    result.collect().await.unwrap();
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            assert!(["40001", "40P01"].contains(&error.sqlstate()), "{level}, {step}: {error}");
            run(session, "ROLLBACK").await;
            return 0;
        }
    }
    1
}

async fn assert_there(session: &Session, rows: i64) {
    assert_eq!(number(session, "SELECT count(*) FROM t").await, rows);
    assert_eq!(number(session, "SELECT sum(v) FROM t WHERE id >= 0").await, rows);
    assert_eq!(number(session, "SELECT count(*) FROM t WHERE v = 1").await, rows);
    session.set("access_path", "rows").unwrap();
    assert_eq!(number(session, "SELECT count(*) FROM t").await, rows);
    assert_eq!(number(session, "SELECT count(DISTINCT id) FROM t").await, rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_foreign_key_waits_for_whoever_changes_either_of_its_tables() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (ddl, writer) = (Session::new(&database), Session::new(&database));
    run(&ddl, "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, parent int)").await;
    run(&ddl, "INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1), (2, 2)").await;
    const ADD: &str = "ALTER TABLE child ADD FOREIGN KEY (parent) REFERENCES parent";
    run(&writer, "BEGIN; DELETE FROM parent WHERE id = 1").await;
    let mut adding = ddl.execute(ADD);
    assert!(waits(&mut adding).await);
    run(&writer, "COMMIT").await;
    assert_eq!(adding.await.err().unwrap().sqlstate(), "23503");
    run(&writer, "INSERT INTO parent VALUES (1); BEGIN; INSERT INTO child VALUES (3, 3)").await;
    let mut adding = ddl.execute(ADD);
    assert!(waits(&mut adding).await);
    run(&writer, "ROLLBACK").await;
    adding.await.unwrap();
    assert_eq!(refused(&writer, "DELETE FROM parent WHERE id = 1").await.0, "23503");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_snapshot_does_not_write_past_constraints_that_are_newer() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let ddl = Session::new(&database);
    run(&ddl, "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, parent int)").await;
    run(&ddl, "CREATE TABLE clock (id int PRIMARY KEY); INSERT INTO parent VALUES (1), (2)").await;
    run(&ddl, "INSERT INTO child VALUES (1, 1)").await;
    for constraint in ["FOREIGN KEY (parent) REFERENCES parent", "CHECK (parent < 2)", "UNIQUE (parent)"] {
        for change in
            ["INSERT INTO child VALUES (3, 3)", "UPDATE child SET parent = 3", "DELETE FROM parent WHERE id = 1"]
        {
            if change.starts_with("DELETE") && !constraint.starts_with("FOREIGN") {
                continue;
            }
            let old = Session::new(&database);
            run(&old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM clock").await;
            run(&ddl, &format!("ALTER TABLE child ADD CONSTRAINT c {constraint}")).await;
            assert_eq!(refused(&old, change).await.0, "40001", "{constraint}: {change}");
            run(&old, "ROLLBACK").await;
            run(&ddl, "ALTER TABLE child DROP CONSTRAINT c").await;
        }
    }
    assert_eq!(number(&ddl, "SELECT count(*) * 10 + max(parent) FROM child").await, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_referred_to_stays_until_the_reference_is_committed() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (one, two) = (Session::new(&database), Session::new(&database));
    run(&one, "CREATE TABLE parent (id int PRIMARY KEY)").await;
    run(&one, "CREATE TABLE child (id int PRIMARY KEY, parent int DEFAULT 0 REFERENCES parent ON DELETE SET DEFAULT)")
        .await;
    run(&one, "INSERT INTO parent VALUES (0), (1); INSERT INTO child VALUES (1, 1)").await;
    // The default that an action sets is held as well.
    run(&one, "BEGIN; DELETE FROM parent WHERE id = 1").await;
    let mut deleting = two.execute("DELETE FROM parent WHERE id = 0");
    assert!(waits(&mut deleting).await);
    run(&one, "COMMIT").await;
    assert_eq!(deleting.await.err().unwrap().sqlstate(), "23503");
    assert_eq!(number(&one, "SELECT count(*) FROM child JOIN parent ON child.parent = parent.id").await, 1);
}
