//! Statements over many rows beside others that never rest: they come to an end, with every change counted once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use saki_sql::{Database, Pace, Session};
use tokio::task::JoinHandle;

use crate::support::{answer, create, number, reopen, run};

const ROWS: u64 = 6;
/// What takes longer would not have come to an end.
const PATIENCE: Duration = Duration::from_secs(60);

/// As a server opens it: compiled statements run.
async fn opened(directory: &Path) -> (Arc<Database>, Session) {
    let database = create(directory);
    database.store().start_engine().unwrap();
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL, n bigint NOT NULL)").await;
    run(&session, "CREATE INDEX t_k ON t (k)").await;
    run(&session, &format!("INSERT INTO t SELECT i, -i, 0 FROM generate_series(1, {ROWS}) AS s(i)")).await;
    (database, session)
}

/// Writers that change one row each, all the time.
struct Restless {
    is_over: Arc<AtomicBool>,
    changes: Arc<AtomicU64>,
    writers: Vec<JoinHandle<()>>,
}

impl Restless {
    fn start(database: &Arc<Database>) -> Self {
        let (is_over, changes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = |id: u64| {
            let (session, is_over, changes) = (Session::new(database), Arc::clone(&is_over), Arc::clone(&changes));
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    run(&session, &format!("UPDATE t SET n = n + 1 WHERE id = {id}")).await;
                    changes.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let writers = (1..=ROWS).map(writer).collect();
        Self { is_over, changes, writers }
    }

    /// How many changes they have made.
    async fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await.unwrap();
        }
        self.changes.load(Ordering::Relaxed)
    }
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(PATIENCE, work).await;
    ended.unwrap_or_else(|_| panic!("{what}: not over after {PATIENCE:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_over_many_rows_end_beside_writers_that_never_rest() {
    let directory = tempfile::tempdir().unwrap();
    let (database, session) = opened(directory.path()).await;
    let restless = Restless::start(&database);
    // Planned, compiled; by themselves and in a transaction.
    let all = ["UPDATE t SET n = n + 1", "UPDATE t SET n = n + 1 WHERE id >= 1", "UPDATE t SET n = n + 1 WHERE k < 0"];
    let mut own = 0;
    for _ in 0..5 {
        for sql in all {
            within(sql, run(&session, sql)).await;
            run(&session, "BEGIN").await;
            within(sql, run(&session, sql)).await;
            run(&session, "COMMIT").await;
            own += 2 * ROWS;
        }
        let sql = "SELECT id, n FROM t ORDER BY id FOR UPDATE";
        run(&session, "BEGIN").await;
        let held = within(sql, answer(&session, sql)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(answer(&session, "SELECT id, n FROM t ORDER BY id").await, held, "what is held stays as it is");
        // What it has held goes with what it has changed.
        within(all[0], run(&session, all[0])).await;
        run(&session, "ROLLBACK").await;
    }
    let others = restless.end().await;
    assert_eq!(number(&session, "SELECT sum(n) FROM t").await, (own + others) as i64);
}

/// Each holds rows that the other wants, beside merges: statements by themselves are not told.
#[tokio::test(flavor = "multi_thread")]
async fn statements_that_meet_in_opposite_orders_are_all_carried_out() {
    const TIMES: u64 = 30;
    let directory = tempfile::tempdir().unwrap();
    let (database, session) = opened(directory.path()).await;
    let restless = Restless::start(&database);
    let sweep = |sql: &'static str| {
        let session = Session::new(&database);
        tokio::spawn(async move {
            for _ in 0..TIMES {
                within(sql, run(&session, sql)).await;
            }
        })
    };
    let upwards = "UPDATE t SET n = n + 1 WHERE id >= 1";
    let downwards = "UPDATE t SET n = n + 1 WHERE k < 0";
    let planned = "UPDATE t SET n = n + 1 WHERE abs(k) > 0";
    let sweeps = [upwards, downwards, planned, upwards, downwards].map(sweep);
    let swept = sweeps.len() as u64 * TIMES * ROWS;
    for sweep in sweeps {
        // Rows that are held may be in the base alone by then.
        while !sweep.is_finished() {
            tokio::task::block_in_place(|| database.checkpoint(&Pace::full()).unwrap());
        }
        sweep.await.unwrap();
    }
    let others = restless.end().await;
    assert_eq!(number(&session, "SELECT sum(n) FROM t").await, (swept + others) as i64);
    drop((session, database));
    let session = Session::new(&reopen(directory.path()));
    assert_eq!(number(&session, "SELECT sum(n) FROM t").await, (swept + others) as i64, "after reopening");
}

/// Whoever gives a statement up lets go of the rows that it has met.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_given_up_holds_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (database, session) = opened(directory.path()).await;
    let (first, other) = (Session::new(&database), Session::new(&database));
    let all = ["UPDATE t SET n = n + 1", "UPDATE t SET n = n + 1 WHERE id >= 1"];
    for sql in all {
        let restless = Restless::start(&database);
        run(&first, "BEGIN").await;
        within("the last row", run(&first, &format!("UPDATE t SET n = n + 1 WHERE id = {ROWS}"))).await;
        // Beside the writers it holds the rows before the last, and waits for that for ever.
        assert!(tokio::time::timeout(Duration::from_millis(300), run(&session, sql)).await.is_err());
        // One row's writer waits for the first as well.
        run(&first, "ROLLBACK").await;
        restless.end().await;
        for id in 1..=ROWS {
            let sql = format!("UPDATE t SET n = n + 1 WHERE id = {id}");
            within(&sql, run(&other, &sql)).await;
        }
    }
}
