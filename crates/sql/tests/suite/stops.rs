//! Statements that are told to stop in the middle of their work: what they held is free soon, and nothing of them is
//! there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_sql::{Session, SqlError, Stop, TransactionStatus, stoppable};
use tokio::task::JoinHandle;

use crate::support::{HeldWriter, create, number, run, waits};

/// Longer than a statement takes to notice, shorter than what it was about to do.
const SOON: Duration = Duration::from_secs(5);

/// A statement under way, as a server has it.
struct Running {
    session: Arc<Session>,
    stop: Stop,
    task: JoinHandle<Result<(), String>>,
}

impl Running {
    fn start(session: &Arc<Session>, statement: &str) -> Self {
        let (stop, asks, statement) = (Stop::default(), Arc::clone(session), statement.to_owned());
        let work = async move {
            let results = asks.execute(&statement).await.map_err(|error| error.to_string())?;
            for result in results {
                result.collect().await.map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        let task = tokio::spawn(stoppable(stop.clone(), work));
        Self { session: Arc::clone(session), stop, task }
    }

    /// Stops it as a server does; how long that took.
    async fn stop(self) -> Duration {
        assert!(!self.task.is_finished(), "it has ended before");
        let told = Instant::now();
        self.stop.tell();
        self.task.abort();
        let _ = self.task.await;
        self.session.fail().await;
        told.elapsed()
    }
}

/// The error that a statement ends with, be it while its rows are asked for.
async fn refused(session: &Session, statement: &str) -> SqlError {
    match session.execute(statement).await {
        Err(error) => error,
        Ok(mut results) => results.pop().unwrap().collect().await.expect_err(statement),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_are_told_to_stop_while_they_write_let_go_soon() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (session, other) = (Arc::new(Session::new(&database)), Session::new(&database));
    run(&other, "CREATE TABLE u (id int PRIMARY KEY, v int)").await;
    run(&other, "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, p int)").await;
    run(&other, "INSERT INTO u SELECT g, 0 FROM generate_series(1, 200000) g").await;
    run(&other, "INSERT INTO p SELECT g FROM generate_series(1, 50000) g").await;
    run(&other, "INSERT INTO c SELECT g, g FROM generate_series(1, 50000) g; CREATE INDEX c_p ON c (p)").await;
    run(&other, "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p ON DELETE CASCADE").await;
    for statement in [
        "UPDATE u SET v = v + 1",
        "INSERT INTO u SELECT g, 1 FROM generate_series(1000001, 1200000) g",
        "DELETE FROM p",
    ] {
        let began = Instant::now();
        run(&session, &format!("BEGIN; {statement}; ROLLBACK")).await;
        let whole = began.elapsed();
        for block in [false, true] {
            run(&other, "CHECKPOINT").await;
            if block {
                run(&session, "BEGIN").await;
            }
            let running = Running::start(&session, statement);
            tokio::time::sleep(whole * 2 / 5).await;
            let took = running.stop().await;
            if block {
                run(&session, "ROLLBACK").await;
            }
            assert!(took < whole / 2, "{statement}: {took:?} of {whole:?}");
            // Nobody holds rows or tables any more.
            other.set_lock_timeout(Duration::from_millis(500));
            run(&other, "BEGIN; LOCK TABLE u, p, c; UPDATE u SET v = v WHERE id = 1; ROLLBACK").await;
        }
    }
    let found = "SELECT (SELECT count(*) + sum(v) FROM u) + (SELECT count(*) FROM p) + (SELECT count(*) FROM c)";
    assert_eq!(number(&other, found).await, 300_000);
    run(&session, "UPDATE u SET v = 7 WHERE id = 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subquery_that_runs_for_each_row_stops_between_two_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let session = Arc::new(Session::new(&create(directory.path())));
    // Of each row a query about the system: for all of them it takes minutes.
    let query = "SELECT sum((SELECT count(*) FROM pg_class c, pg_attribute a WHERE c.oid::bigint <> g.i)) \
                 FROM generate_series(1, 8000) g (i)";
    let running = Running::start(&session, query);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let took = running.stop().await;
    assert!(took < SOON, "{took:?}");
    assert_eq!(number(&session, "SELECT 1").await, 1);
}

/// No pair is left of thousands of millions, so that no row leaves the join before it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_by_a_range_stops_between_its_pairs() {
    let directory = tempfile::tempdir().unwrap();
    let session = Arc::new(Session::new(&create(directory.path())));
    run(
        &session,
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, g FROM generate_series(1, 200000) g",
    )
    .await;
    for query in [
        "SELECT count(*) FROM t a JOIN t b ON a.v < b.v AND a.id + b.id < 0",
        "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.v > a.v AND a.id + b.id < 0)",
    ] {
        assert!(session.explain(query).await.unwrap().contains("NativeRangeJoinExec"), "{query}");
        let running = Running::start(&session, query);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let took = running.stop().await;
        assert!(took < SOON, "{query}: {took:?}");
    }
    assert_eq!(number(&session, "SELECT 1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_stops_while_it_waits_for_its_turn_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Arc::new(Session::new(&database));
    run(&session, "CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE SEQUENCE s").await;
    // As CREATE INDEX does while it builds.
    let writer = HeldWriter::queue(&database);
    writer.holds().await;
    for (block, statement) in [
        ("SELECT 1", "CREATE TABLE n AS SELECT * FROM t"),
        ("BEGIN", "CREATE TABLE n AS SELECT * FROM t"),
        ("SELECT 1", "CREATE INDEX ON t (a)"),
        ("SELECT 1", "SELECT nextval('s')"),
        ("SELECT 1", "CHECKPOINT"),
    ] {
        run(&session, block).await;
        let running = Running::start(&session, statement);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let stopped = tokio::time::timeout(SOON, tokio::spawn(running.stop())).await;
        assert!(stopped.is_ok_and(|stopped| stopped.is_ok()), "{block}; {statement}");
        if block == "BEGIN" {
            run(&session, "ROLLBACK").await;
        }
    }
    session.set_lock_timeout(Duration::from_millis(50));
    for statement in [
        "CREATE TABLE n (a int)",
        "CREATE INDEX ON t (a)",
        "CREATE INDEX CONCURRENTLY ON t (a)",
        "SELECT nextval('s')",
        "SELECT setval('s', 7)",
        "CHECKPOINT",
        "BEGIN; CREATE TABLE n (a int)",
    ] {
        let error = tokio::time::timeout(SOON, refused(&session, statement)).await.expect(statement);
        assert_eq!(error.sqlstate(), "55P03", "{statement}: {error}");
    }
    run(&session, "ROLLBACK").await;
    session.set_lock_timeout(Duration::ZERO);
    let mut making = session.execute("CREATE TABLE n AS SELECT * FROM t");
    assert!(waits(&mut making).await);
    writer.let_go();
    making.await.unwrap();
    let made = "SELECT count(*) FROM pg_class WHERE relname IN ('n', 't_a_idx')";
    assert_eq!(number(&session, made).await, 1);
    run(&session, "SELECT nextval('s')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_stops_while_it_waits_for_its_turn_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Arc::new(Session::new(&database));
    run(&session, "CREATE TABLE t (a int)").await;
    for rows in ["", "; INSERT INTO t VALUES (1)"] {
        for is_stopped in [true, false] {
            run(&session, &format!("BEGIN; CREATE TABLE n (a int){rows}")).await;
            let writer = HeldWriter::queue(&database);
            writer.holds().await;
            if is_stopped {
                let running = Running::start(&session, "COMMIT");
                tokio::time::sleep(Duration::from_millis(100)).await;
                let stopped = tokio::time::timeout(SOON, tokio::spawn(running.stop())).await;
                assert!(stopped.is_ok_and(|stopped| stopped.is_ok()), "{rows}");
            } else {
                session.set_lock_timeout(Duration::from_millis(50));
                let error = tokio::time::timeout(SOON, refused(&session, "COMMIT")).await.expect("it waits on");
                assert_eq!(error.sqlstate(), "55P03", "{error}");
                session.set_lock_timeout(Duration::ZERO);
            }
            assert_eq!(session.transaction_status(), TransactionStatus::Idle);
            writer.let_go();
            let left = "SELECT (SELECT count(*) FROM pg_class WHERE relname = 'n') + (SELECT count(*) FROM t)";
            assert_eq!(number(&session, left).await, 0, "{rows}");
        }
    }
    run(&session, "BEGIN; CREATE TABLE n (a int); INSERT INTO t VALUES (1); COMMIT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_change_of_rows_waits_for_its_turn_no_longer_than_lock_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (a int)").await;
    let writer = HeldWriter::queue(&database);
    writer.holds().await;
    session.set_lock_timeout(Duration::from_millis(50));
    for statement in ["INSERT INTO t VALUES (1)", "BEGIN; CREATE TABLE n (a int)"] {
        let error = tokio::time::timeout(SOON, refused(&session, statement)).await.expect(statement);
        assert_eq!(error.sqlstate(), "55P03", "{statement}: {error}");
    }
    run(&session, "ROLLBACK").await;
    writer.let_go();
    run(&session, "INSERT INTO t VALUES (1)").await;
}
