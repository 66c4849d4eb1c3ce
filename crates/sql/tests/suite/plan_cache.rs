//! Plans that are kept: that they are used again, and never where another plan would be made.

use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use saki_sql::{CreateOptions, Database, OpenOptions, Pace, ScalarValue, Session};

fn create(directory: &std::path::Path) -> Arc<Database> {
    let open = OpenOptions { cache_bytes: 8 << 20, reactors: Some(1), ..OpenOptions::default() };
    Database::create(directory.join("database"), CreateOptions { open, ..CreateOptions::default() }).unwrap()
}

async fn run(session: &Session, sql: &str) -> String {
    let batches = session.execute(sql).await.unwrap().pop().expect("a result").collect().await.unwrap();
    if batches.is_empty() {
        return String::new();
    }
    let drawn = pretty_format_batches(&batches).unwrap().to_string();
    let line = |line: &str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(",");
    drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(line).collect::<Vec<_>>().join(";")
}

/// The answers to `sql`, and how many of them came by a plan that was kept.
async fn repeated(session: &Session, sql: &str, times: usize) -> (Vec<String>, u64) {
    let before = session.database().plans_reused();
    let mut answers = Vec::new();
    for _ in 0..times {
        answers.push(run(session, sql).await);
    }
    (answers, session.database().plans_reused() - before)
}

async fn filled(session: &Session) {
    run(session, "CREATE TABLE customer (id int PRIMARY KEY, name text, region int)").await;
    run(session, "CREATE TABLE sale (id int PRIMARY KEY, customer int, amount int)").await;
    run(session, "CREATE INDEX sale_customer ON sale (customer)").await;
    run(session, "INSERT INTO customer SELECT i, 'c' || i, i % 3 FROM generate_series(1, 60) AS s(i)").await;
    run(session, "INSERT INTO sale SELECT i, 1 + i % 60, i FROM generate_series(1, 600) AS s(i)").await;
    session.database().checkpoint(&Pace::full()).unwrap();
}

const JOIN: &str = "SELECT c.region, count(*), sum(s.amount) FROM customer c JOIN sale s ON s.customer = c.id \
     WHERE c.name < 'c5' GROUP BY c.region ORDER BY c.region";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_serves_again_and_sees_what_has_changed() {
    let directory = tempfile::tempdir().unwrap();
    let session = create(directory.path()).session();
    filled(&session).await;
    let (answers, reused) = repeated(&session, JOIN, 5).await;
    assert!(answers.iter().all(|answer| *answer == answers[0] && !answer.is_empty()), "{answers:?}");
    assert_eq!(reused, 3, "the first run plans, the second keeps its plan");

    // A delta where there was none: another plan. From then on the delta may change as it likes.
    run(&session, "INSERT INTO sale VALUES (601, 1, 1000000)").await;
    let (with_one, reused) = repeated(&session, JOIN, 3).await;
    assert_ne!(with_one[0], answers[0]);
    assert_eq!(reused, 2);
    run(&session, "INSERT INTO sale VALUES (602, 1, 1000000)").await;
    let (with_two, reused) = repeated(&session, JOIN, 2).await;
    assert_ne!(with_two[0], with_one[0]);
    assert_eq!((with_two[0] == with_two[1], reused), (true, 2));

    // A merge is a newer snapshot, and so is a change of tables.
    session.database().checkpoint(&Pace::full()).unwrap();
    let (merged, reused) = repeated(&session, JOIN, 2).await;
    assert_eq!((merged[0].as_str(), reused), (with_two[0].as_str(), 1));
    run(&session, "DROP INDEX sale_customer").await;
    assert_eq!(repeated(&session, JOIN, 2).await, (merged, 1));

    // Plans do not keep their database open. Threads in the background may, for a moment.
    let database = Arc::downgrade(session.database());
    drop(session);
    for _ in 0..1000 {
        if database.upgrade().is_none() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("something keeps the database open");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_plan_runs_in_many_sessions_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = database.session();
    filled(&session).await;
    let (answers, _) = repeated(&session, JOIN, 2).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let session = database.session();
            tokio::spawn(async move { repeated(&session, JOIN, 10).await.0 })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap().iter().all(|answer| *answer == answers[0]));
    }
    assert_eq!(database.plans_reused(), 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_values_and_settings_have_other_plans() {
    let directory = tempfile::tempdir().unwrap();
    let session = create(directory.path()).session();
    filled(&session).await;
    let sql = "SELECT sum(amount) FROM sale WHERE customer = $1 AND amount > $2";
    let prepared = session.prepare(sql, &[]).await.unwrap();
    let sum = async |customer: i32, amount: i32| {
        let values = [ScalarValue::Int32(Some(customer)), ScalarValue::Int32(Some(amount))];
        let result = session.execute_prepared(&prepared, &values).await.unwrap();
        pretty_format_batches(&result.collect().await.unwrap()).unwrap().to_string()
    };
    let (one, other) = (sum(1, 0).await, sum(2, 0).await);
    assert_ne!(one, other);
    for _ in 0..3 {
        assert_eq!(sum(1, 0).await, one);
        assert_eq!(sum(2, 0).await, other);
    }
    assert!(session.database().plans_reused() >= 4);
    let before = session.database().plans_reused();
    session.set("plan_cache", "off").unwrap();
    assert_eq!(sum(1, 0).await, one);
    assert_eq!(session.database().plans_reused(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_depends_on_the_moment_is_planned_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let session = create(directory.path()).session();
    filled(&session).await;
    for sql in [
        "SELECT now() FROM customer WHERE id = 1 OR id = 2",
        "SELECT count(*) FROM customer WHERE random() < 2",
        "SELECT current_user, count(*) FROM customer",
        "SELECT count(*) FROM pg_catalog.pg_class",
    ] {
        assert_eq!(repeated(&session, sql, 4).await.1, 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_has_written_gets_a_plan_for_what_it_sees() {
    let directory = tempfile::tempdir().unwrap();
    let session = create(directory.path()).session();
    filled(&session).await;
    let sql = "SELECT count(*), sum(amount) FROM sale";
    let (answers, _) = repeated(&session, sql, 3).await;
    run(&session, "BEGIN").await;
    run(&session, "DELETE FROM sale WHERE id <= 100").await;
    let (within, _) = repeated(&session, sql, 3).await;
    assert!(within[0].starts_with("500,"), "{within:?}");
    run(&session, "ROLLBACK").await;
    assert_eq!(run(&session, sql).await, answers[0]);
}
