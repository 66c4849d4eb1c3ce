//! Clients are told of nothing that is not durable, whatever they ask.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use saki_base::PageSize;
use saki_catalog::Result;
use saki_sql::{Database, ScalarValue, Session, StatementResult};
use saki_store::SimStorage;
use saki_store::delta::{Held, SimLogs};
use tokio::task::JoinHandle;

use super::support::{number, options, run};

/// A database, and its logs.
fn database() -> (Arc<Database>, Arc<SimLogs>) {
    let storage = SimStorage::default();
    let store = storage.create("simulated", PageSize::new(8192).unwrap(), options()).unwrap();
    (Database::over(store), storage.logs)
}

/// What somebody asks, and how.
enum Ask {
    /// A text of statements: what the last one says.
    Text(String),
    /// A prepared statement with one value.
    Prepared(&'static str, i64),
    /// The same text, when another one has been asked before, whose answer was not waited for.
    After(&'static str, &'static str),
}

/// What a session is told, rows and all.
async fn told(session: Session, settings: String, ask: Ask) -> String {
    run(&session, &settings).await;
    let result = match ask {
        Ask::Text(text) => answer(session.execute(&text).await.map(|mut results| results.pop().unwrap())).await,
        Ask::Prepared(text, value) => {
            let prepared = session.prepare(text, &[]).await.unwrap();
            answer(session.execute_prepared(&prepared, &[ScalarValue::Int64(Some(value))]).await).await
        }
        Ask::After(before, text) => {
            let asked = async { answer(session.execute(before).await.map(|mut results| results.pop().unwrap())).await };
            assert!(tokio::time::timeout(Duration::from_millis(200), asked).await.is_err(), "{before}: told");
            answer(session.execute(text).await.map(|mut results| results.pop().unwrap())).await
        }
    };
    match result {
        Ok(batches) => format!("{} rows", batches.iter().map(|batch| batch.num_rows()).sum::<usize>()),
        Err(error) => error.to_string(),
    }
}

async fn answer(result: Result<StatementResult>) -> Result<Vec<RecordBatch>> {
    result?.collect().await
}

/// Those who ask, each in a session of its own, while nothing becomes durable.
struct Asked {
    database: Arc<Database>,
    asked: Vec<(String, JoinHandle<String>)>,
}

impl Asked {
    fn start(&mut self, name: impl Into<String>, settings: impl Into<String>, ask: Ask) {
        let task = tokio::spawn(told(Session::new(&self.database), settings.into(), ask));
        self.asked.push((name.into(), task));
    }

    fn text(&mut self, settings: &str, statement: &str) {
        self.start(statement, settings, Ask::Text(statement.to_owned()));
    }

    /// Waits until a table has so many rows that are not in its base.
    async fn until_newer(&self, table: &str, rows: usize) {
        let count = || {
            let store = self.database.store();
            store.newest_snapshot().unwrap().newer_rows(store.generation().catalog.table(table).unwrap())
        };
        while (count() as usize) < rows {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The last may be about to be committed.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    /// What they are told, none of it before the logs are let go.
    async fn answers(self, held: Held<'_>) -> Vec<(String, String)> {
        let early = self.asked.iter().filter(|(_, task)| task.is_finished());
        let early: Vec<String> = early.map(|(name, _)| name.clone()).collect();
        drop(held);
        // Wakes who waits to write.
        self.database.store().engine().unwrap().database.finish_cut(0);
        let mut answers = Vec::new();
        for (name, task) in self.asked {
            let answer = tokio::time::timeout(Duration::from_secs(60), task).await.expect("told by now").unwrap();
            answers.push((name, answer));
        }
        assert_eq!(early, [""; 0], "told of what is not durable");
        answers
    }
}

/// Each rests on a row that is committed and not durable; the second scan of columns is shown what the first has made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_durable_is_not_told() {
    let (database, logs) = database();
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (k bigint PRIMARY KEY, v bigint)").await;
    run(&session, "INSERT INTO t SELECT g, g FROM generate_series(1, 300) g").await;
    run(&session, "CHECKPOINT").await;
    run(&session, "INSERT INTO t VALUES (301, 1)").await;
    let held = logs.hold();
    let mut asked = Asked { database, asked: Vec::new() };
    // Committed, and not yet told.
    asked.text("SET saki.access_path = 'auto'", "INSERT INTO t VALUES (1000, 1)");
    asked.until_newer("t", 2).await;
    for (settings, statement) in [
        ("SET saki.access_path = 'columns'", "SELECT sum(v) FROM t"),
        ("SET saki.access_path = 'columns'", "SELECT sum(v) + 0 FROM t"),
        ("SET saki.access_path = 'rows'", "SELECT count(*) FROM t"),
        ("SET saki.access_path = 'auto'", "SELECT v FROM t WHERE k = 1000"),
        ("SET saki.access_path = 'auto'", "EXPLAIN ANALYZE SELECT count(*) FROM t"),
        ("SET saki.access_path = 'auto'", "SELECT 1 / (k - 1000) FROM t"),
        ("SET saki.access_path = 'auto'", "INSERT INTO t VALUES (1000, 2)"),
        ("SET saki.access_path = 'auto'", "UPDATE t SET v = v WHERE k = 1000 RETURNING v"),
        ("SET saki.access_path = 'auto'", "CREATE TABLE u AS SELECT * FROM t"),
        ("SET saki.access_path = 'auto'", "ANALYZE t"),
    ] {
        asked.text(settings, statement);
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let answers = asked.answers(held).await;
    let of = |wanted: &str| &answers.iter().find(|(statement, _)| statement == wanted).unwrap().1;
    assert!(of("SELECT 1 / (k - 1000) FROM t").contains("division by zero"), "{answers:?}");
    assert!(of("INSERT INTO t VALUES (1000, 2)").contains("duplicate key"), "{answers:?}");
    assert_eq!(number(&session, "SELECT count(*) FROM u").await, 302);
}

/// Each rests on a row of its own, so that none waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_durable_is_not_told_in_a_transaction_either() {
    let ((database, logs), directory) = (database(), tempfile::tempdir().unwrap());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (k bigint PRIMARY KEY, v bigint); CREATE TABLE u (k bigint PRIMARY KEY)").await;
    run(&session, "INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (1); CHECKPOINT").await;
    let held = logs.hold();
    let mut asked = Asked { database: Arc::clone(&database), asked: Vec::new() };
    asked.text("SET saki.compiled = 'on'", "INSERT INTO t SELECT g, 1 FROM generate_series(1000, 1099) g");
    asked.text("SET saki.compiled = 'on'", "INSERT INTO u VALUES (-1)");
    asked.until_newer("t", 100).await;
    asked.until_newer("u", 1).await;
    let mut key = 1000;
    for how in ["on", "off"] {
        for (statement, block) in [
            ("SELECT v FROM t WHERE k = $k", "BEGIN"),
            ("SELECT v FROM t WHERE k = $k", "BEGIN ISOLATION LEVEL REPEATABLE READ"),
            ("UPDATE t SET v = v WHERE k = $k RETURNING v", "BEGIN"),
            ("UPDATE t SET v = 3 WHERE k = $k", "BEGIN"),
            ("DELETE FROM t WHERE k = $k", "BEGIN"),
            ("INSERT INTO t VALUES ($k, 2) ON CONFLICT (k) DO UPDATE SET v = 3", "BEGIN"),
            ("DELETE FROM t WHERE k = $k RETURNING k", "BEGIN"),
            ("DELETE FROM t WHERE k = $k AND v = 2", "BEGIN"),
            ("DELETE FROM t WHERE k = $k AND v = 2", "SET saki.compiled = 'on'"),
            ("INSERT INTO t VALUES ($k, 2) ON CONFLICT DO NOTHING", "BEGIN"),
            ("INSERT INTO t VALUES ($k, 2)", "BEGIN"),
            ("SELECT v FROM t WHERE k = $k FOR UPDATE", "BEGIN"),
        ] {
            key += 1;
            let (name, text) = (format!("{block}; {statement}, {how}"), statement.replace("$k", &key.to_string()));
            asked.start(name, format!("SET saki.compiled = '{how}'; {block}"), Ask::Text(text));
        }
    }
    let file = directory.path().join("rows.csv");
    let copy = format!("COPY (SELECT * FROM t WHERE k = 1050) TO '{}' WITH (FORMAT csv)", file.display());
    asked.text("BEGIN", &copy);
    asked.start("prepared query", "BEGIN", Ask::Prepared("SELECT v FROM t WHERE k = $1", 1051));
    let text = "UPDATE t SET v = v WHERE k = $1 RETURNING v";
    asked.start("prepared change", "BEGIN", Ask::Prepared(text, 1052));
    let level = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    asked.start("commit", level, Ask::After("SELECT v FROM t WHERE k = 1053", "COMMIT"));
    let constraint = "ALTER TABLE u ADD CONSTRAINT above CHECK (k > 0)";
    asked.text("SET saki.compiled = 'on'", constraint);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let answers = asked.answers(held).await;
    for (name, answer) in &answers {
        let fails = name.contains("VALUES ($k, 2),") || *name == constraint;
        assert_eq!(!answer.ends_with(" rows"), fails, "{name}: {answer}");
    }
}

/// That there are rows is durable, though not what is in them: a count of keys is told at once, within a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_rows_that_were_there_before_are_told_at_once() {
    let (database, logs) = database();
    let session = Session::new(&database);
    run(
        &session,
        "CREATE TABLE t (k bigint PRIMARY KEY, v bigint); CREATE TABLE c (k bigint PRIMARY KEY CHECK (k > 0))",
    )
    .await;
    run(&session, "CREATE TABLE p (k bigint PRIMARY KEY, u bigint UNIQUE); CREATE TABLE r (u bigint REFERENCES p (u))")
        .await;
    run(&session, "INSERT INTO t SELECT g, g FROM generate_series(1, 30) g; INSERT INTO p VALUES (1, 1)").await;
    run(&session, "CHECKPOINT").await;
    run(&session, "UPDATE t SET v = v + 1 WHERE k <= 25").await;
    let held = logs.hold();
    let mut asked = Asked { database: Arc::clone(&database), asked: Vec::new() };
    asked.text("SET saki.compiled = 'on'", "UPDATE t SET v = v + 100 WHERE k <= 25");
    tokio::time::sleep(Duration::from_millis(200)).await;
    asked.text("SET saki.compiled = 'on'", "DELETE FROM t WHERE k > 25");
    asked.text("SET saki.compiled = 'on'", "UPDATE p SET u = 2 WHERE k = 1");
    asked.until_newer("t", 30).await;
    asked.until_newer("p", 1).await;
    let seen = async |sql: &str| {
        let session = Session::new(&database);
        run(&session, "BEGIN").await;
        let told = async { answer(session.execute(sql).await.map(|mut all| all.pop().unwrap())).await.map(drop) };
        tokio::time::timeout(Duration::from_millis(300), told).await.is_ok()
    };
    for sql in [
        "UPDATE t SET v = v + 1 WHERE k = 3",
        "DELETE FROM t WHERE k = 4",
        "INSERT INTO t VALUES (100, 1)",
        "INSERT INTO c VALUES (1)",
    ] {
        assert!(seen(sql).await, "{sql}");
    }
    for sql in [
        "UPDATE t SET v = v + 1 WHERE k = 5 RETURNING v",
        "UPDATE t SET v = v + 1 WHERE k = 6 AND v > 3",
        "DELETE FROM t WHERE k = 30",
        "SELECT v FROM t WHERE k = 7",
        "INSERT INTO t VALUES (8, 1) ON CONFLICT (k) DO NOTHING",
        // The row was there before, and not this value of it.
        "INSERT INTO r VALUES (2)",
        "SELECT count(*) FROM t",
    ] {
        assert!(!seen(sql).await, "{sql}");
    }
    drop(held);
    database.store().engine().unwrap().database.finish_cut(0);
    for (_, task) in asked.asked {
        tokio::time::timeout(Duration::from_secs(60), task).await.expect("told by now").unwrap();
    }
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE v > 100").await, 25);
}
