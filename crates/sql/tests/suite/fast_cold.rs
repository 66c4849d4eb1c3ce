//! Small statements whose pages are not in memory read them, and do not go by a plan for that.

use std::sync::Arc;

use saki_sql::{Database, FastAnswer, FastPlan, Pace, RowSink, Session, ValueRef};

use crate::support::{create, reopen, run};

/// Rows as lines.
#[derive(Default)]
pub struct Lines(Vec<String>);

impl RowSink for Lines {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn row(&mut self, values: &[ValueRef<'_>]) {
        self.0.push(format!("{values:?}"));
    }
}

/// What a compiled statement gives, or the condition it fails with; `None` if it goes the ordinary way.
pub async fn ran(session: &Session, plan: &FastPlan) -> Result<Option<Vec<String>>, String> {
    let mut rows = Lines::default();
    match session.execute_fast(plan, &[], &mut rows).await.map_err(|error| error.sqlstate().to_owned())? {
        FastAnswer::Done(_) => Ok(Some(rows.0)),
        FastAnswer::Ordinary => Ok(None),
    }
}

/// A statement compiled for its session.
pub fn prepared(session: &Session, sql: &str) -> Arc<FastPlan> {
    session.prepare_fast(sql, &[]).and_then(|prepared| prepared.fast).unwrap_or_else(|| panic!("{sql}"))
}

/// What a compiled statement gives; `None` if it went the ordinary way.
async fn compiled(session: &Session, sql: &str) -> Option<Vec<String>> {
    ran(session, &prepared(session, sql)).await.unwrap_or_else(|state| panic!("{sql}: {state}"))
}

/// A table of merged rows, of which none is in memory.
async fn cold(directory: &std::path::Path) -> Arc<Database> {
    let database = create(directory);
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL, c text)").await;
    run(&session, "CREATE INDEX t_k ON t (k)").await;
    run(
        &session,
        "INSERT INTO t SELECT i, i * 7919 % 20000, CASE WHEN i % 100 = 7 THEN repeat('long', 30000) ELSE 'short' END \
         FROM generate_series(0, 19999) AS s (i)",
    )
    .await;
    database.checkpoint(&Pace::full()).unwrap();
    drop((session, database));
    opened(directory)
}

/// As a server opens it: changes may come.
fn opened(directory: &std::path::Path) -> Arc<Database> {
    let database = reopen(directory);
    database.store().start_engine().unwrap();
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_in_memory_is_read() {
    let directory = tempfile::tempdir().unwrap();
    drop(cold(directory.path()).await);
    let list: Vec<String> = (0..100).map(|i| (i * 199).to_string()).collect();
    let list = list.join(", ");
    for (condition, behind, count) in [
        (format!("id IN ({list})"), "", 100),
        (format!("k IN ({list})"), "", 100),
        (format!("k IN ({list})"), "LIMIT 10", 10),
        ("k = 4433".to_owned(), "", 1),
        ("k BETWEEN 100 AND 400".to_owned(), "ORDER BY k", 301),
        ("k BETWEEN 100 AND 19000".to_owned(), "ORDER BY k DESC LIMIT 5", 5),
        ("id BETWEEN 100 AND 1500".to_owned(), "ORDER BY id", 1401),
        ("id > 100".to_owned(), "ORDER BY id DESC LIMIT 5", 5),
        ("id = 1007".to_owned(), "", 1),
    ] {
        // Opened anew for each: nothing is in memory.
        let session = Session::new(&opened(directory.path()));
        let sql = format!("SELECT id, k, c FROM t WHERE {condition} {behind}");
        let found = compiled(&session, &sql).await.unwrap_or_else(|| panic!("{sql} went the ordinary way"));
        assert_eq!(found.len(), count, "{sql}");
        assert_eq!(compiled(&session, &sql).await, Some(found), "{sql}, in memory");
    }
}

/// A statement that would read much goes by a plan, and is not tried each time.
#[tokio::test(flavor = "multi_thread")]
async fn long_ranges_are_planned_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&cold(directory.path()).await);
    for condition in ["k > 100", "id > 100"] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        let plan = session.prepare_fast(&sql, &[]).and_then(|prepared| prepared.fast).expect("compiled");
        for _ in 0..20 {
            let answer = session.execute_fast(&plan, &[], &mut Lines::default()).await.unwrap();
            assert_eq!(answer, FastAnswer::Ordinary, "{sql}");
        }
        let (few, all) = (session.execute(&sql).await.unwrap(), 19_899);
        let batches = few.into_iter().next_back().expect("a result").collect().await.unwrap();
        let found = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        assert!(found.contains(&all.to_string()), "{found}");
    }
}

/// What leads to the places of all new rows is read together: one after the other takes more turns than there are.
#[tokio::test(flavor = "multi_thread")]
async fn places_of_many_new_rows_are_read_together() {
    let directory = tempfile::tempdir().unwrap();
    let database = cold(directory.path()).await;
    let session = Session::new(&database);
    run(&session, "DELETE FROM t WHERE id % 200 = 5").await;
    database.checkpoint(&Pace::full()).unwrap();
    drop((session, database));
    for (first, behind) in [(5, ""), (9, "ON CONFLICT DO NOTHING"), (11, "ON CONFLICT (id) DO UPDATE SET k = t.k + 1")]
    {
        let session = Session::new(&opened(directory.path()));
        let rows: Vec<String> = (0..100).map(|i| format!("({}, {i}, 'new')", i * 200 + first)).collect();
        let sql = format!("INSERT INTO t VALUES {} {behind}", rows.join(", "));
        assert!(compiled(&session, &sql).await.is_some(), "{sql:.60} … {behind} went the ordinary way");
        let new = format!("SELECT id FROM t WHERE id % 200 = {first} AND c = 'new'");
        let found = session.execute(&new).await.unwrap().pop().expect("a result").collect().await.unwrap();
        let found: usize = found.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(found, if behind.is_empty() { 100 } else { 0 }, "{behind}");
    }
}
