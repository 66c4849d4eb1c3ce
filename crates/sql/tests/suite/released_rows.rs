//! Rows that leave memory after a merge, beside statements of every kind that read them: each answer is a state that
//! some commit made.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::util::pretty::pretty_format_batches;
use saki_sql::{CreateOptions, Database, OpenOptions, Pace, Session};

const ROWS: usize = 10_000;
/// Of each of the tests that run beside merges.
const DURATION: Duration = Duration::from_secs(4);

fn options() -> OpenOptions {
    OpenOptions { cache_bytes: 16 << 20, reactors: Some(1), segment_rows: 1_000, ..OpenOptions::default() }
}

fn create(directory: &Path) -> Arc<Database> {
    let options = CreateOptions { open: options(), ..CreateOptions::default() };
    Database::create(directory.join("database"), options).expect("created")
}

/// The first row of an answer, its values by comma; the code of an error.
async fn first(session: &Session, sql: &str) -> String {
    let answer = match session.execute(sql).await {
        Err(error) => return format!("{}: {error}", error.sqlstate()),
        Ok(mut results) => match results.pop().expect("a result").collect().await {
            Err(error) => return format!("{}: {error}", error.sqlstate()),
            Ok(batches) => pretty_format_batches(&batches).expect("values").to_string(),
        },
    };
    let line = answer.lines().filter(|line| line.starts_with('|')).nth(1).unwrap_or_default();
    line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(",")
}

async fn run(session: &Session, sql: &str) {
    if let Err(error) = session.execute(sql).await {
        panic!("{sql}: {error}");
    }
}

/// Queries, each with how many rows its answer is made of: the count comes first, then the least and the greatest
/// value.
fn queries(at: usize) -> Vec<(String, usize)> {
    let from = at * 37 % (ROWS - 500);
    let to = from + 499;
    vec![
        ("SELECT count(*), min(v), max(v) FROM t".into(), ROWS),
        (format!("SELECT count(*), min(v), max(v) FROM t WHERE id BETWEEN {from} AND {to}"), 500),
        (format!("SELECT count(*), min(v), max(v) FROM t WHERE k BETWEEN {from} AND {to}"), 500),
        (format!("SELECT count(*), v, v FROM t WHERE id = {from} GROUP BY v"), 1),
        (format!("SELECT 1, v, v FROM t WHERE id = {from}"), 1),
        (format!("SELECT count(*), min(a.v), max(b.v) FROM t a JOIN t b ON b.k = a.id WHERE a.id < {to}"), to),
        (
            format!(
                "SELECT count(*), min(v), max(v) FROM (SELECT v FROM t WHERE id >= {from} ORDER BY id LIMIT 500) s"
            ),
            500,
        ),
        (
            format!(
                "SELECT count(*), min(v), max(v) FROM t a WHERE NOT EXISTS \
                 (SELECT 1 FROM t b WHERE b.k = a.id AND b.id BETWEEN {from} AND {to})"
            ),
            ROWS - 500,
        ),
        (format!("SELECT count(*), min(v), max(v) FROM t WHERE id IN ({from}, {to}, {})", from + 7), 3),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn statements_see_whole_commits_beside_merges_and_releases() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = create(directory.path());
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, k int, v int)").await;
    run(&session, "CREATE INDEX t_k ON t (k)").await;
    run(&session, &format!("INSERT INTO t SELECT i, i, 0 FROM generate_series(0, {}) AS s(i)", ROWS - 1)).await;
    let began = Instant::now();
    let is_over = Arc::new(AtomicBool::new(false));
    let go_on = {
        let is_over = Arc::clone(&is_over);
        move || began.elapsed() < DURATION && !is_over.load(Ordering::Relaxed)
    };
    let updates = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    {
        let (database, go_on) = (Arc::clone(&database), go_on.clone());
        tasks.spawn_blocking(move || {
            while go_on() {
                database.checkpoint(&Pace::full()).expect("merged");
                database.release_merged().expect("released");
            }
            None
        });
    }
    {
        let (database, go_on, updates) = (Arc::clone(&database), go_on.clone(), Arc::clone(&updates));
        tasks.spawn(async move {
            let session = Session::new(&database);
            while go_on() {
                let updated = session.execute("UPDATE t SET v = v + 1").await;
                match updated.map(|mut results| results.pop()) {
                    Ok(Some(saki_sql::StatementResult::Done { rows, .. })) if rows == ROWS as u64 => {}
                    other => return Some(format!("an update: {:?}", other.map(|_| "other rows"))),
                }
                updates.fetch_add(1, Ordering::Relaxed);
            }
            None
        });
    }
    for path in ["auto", "rows", "columns"] {
        let (database, go_on) = (Arc::clone(&database), go_on.clone());
        tasks.spawn(async move {
            let session = Session::new(&database);
            run(&session, &format!("SET saki.access_path = '{path}'")).await;
            for at in 0.. {
                for (sql, rows) in queries(at) {
                    if !go_on() {
                        return None;
                    }
                    let answer = first(&session, &sql).await;
                    let values: Vec<&str> = answer.split(',').collect();
                    if values.len() != 3 || values[0] != rows.to_string() || values[1] != values[2] {
                        return Some(format!("{path}: {sql}: {answer}"));
                    }
                }
            }
            None
        });
    }
    let mut faults = Vec::new();
    while let Some(fault) = tasks.join_next().await {
        if let Some(fault) = fault.expect("no panic") {
            is_over.store(true, Ordering::Relaxed);
            faults.push(fault);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let updates = updates.load(Ordering::Relaxed);
    assert!(updates > 0);
    assert_eq!(first(&session, "SELECT count(*), min(v), max(v) FROM t").await, format!("{ROWS},{updates},{updates}"));
    let faults = database.check(&mut |_| {}).expect("checked").faults;
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_table_without_a_key_are_not_overwritten_after_a_load() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut database = create(directory.path());
    let count = "SELECT count(*), count(DISTINCT a), max(a) FROM t";
    let mut session = Session::new(&database);
    run(&session, "CREATE TABLE t (a int)").await;
    run(&session, "INSERT INTO t VALUES (0), (1)").await;
    run(&session, "TRUNCATE t").await;
    run(&session, "INSERT INTO t SELECT i FROM generate_series(0, 39999) AS s(i)").await;
    run(&session, "INSERT INTO t VALUES (40000), (40001)").await;
    assert_eq!(first(&session, count).await, "40002,40002,40001");
    drop((session, database));
    database = Database::open(directory.path().join("database"), options()).expect("opened");
    session = Session::new(&database);
    run(&session, "INSERT INTO t VALUES (40002)").await;
    assert_eq!(first(&session, count).await, "40003,40003,40002");
    run(&session, "TRUNCATE t").await;
    run(&session, "INSERT INTO t SELECT i FROM generate_series(0, 34999) AS s(i)").await;
    run(&session, "INSERT INTO t VALUES (35000), (35001)").await;
    database.checkpoint(&Pace::full()).expect("merged");
    assert_eq!(first(&session, count).await, "35002,35002,35001");
    let faults = database.check(&mut |_| {}).expect("checked").faults;
    assert!(faults.is_empty(), "{faults:?}");
}
