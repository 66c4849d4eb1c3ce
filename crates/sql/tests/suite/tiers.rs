//! Plans say what they are about to read, and what they say is so.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_sql::{CreateOptions, Database, DeviceClass, DeviceSpec, OpenOptions, PolicyKind, Session};

use crate::sql_logic::text_rows;

/// On a fast device too.
fn create(directory: &Path, tier_policy: PolicyKind) -> Arc<Database> {
    let open = OpenOptions { cache_bytes: 32 << 20, reactors: Some(2), tier_policy, ..OpenOptions::default() };
    let fast = DeviceSpec { path: directory.join("fast"), bytes: Some(64 << 20), class: DeviceClass::Fast };
    let options = CreateOptions { open, devices: vec![fast], ..CreateOptions::default() };
    Database::create(directory.join("database"), options).unwrap()
}

async fn fill(session: &Session) {
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, five int, name text)",
        "INSERT INTO t SELECT value, value % 5, 'name ' || value FROM generate_series(1, 300000) AS s(value)",
        "CHECKPOINT",
        "ANALYZE",
    ] {
        session.execute(sql).await.unwrap();
    }
}

async fn lines(session: &Session, sql: &str) -> Vec<String> {
    let result = session.execute(sql).await.unwrap().pop().unwrap();
    text_rows(result).await.unwrap().into_iter().map(|row| row.join(" ")).collect()
}

/// The numbers of the line that begins so.
fn numbers(lines: &[String], is_it: impl Fn(&str) -> bool) -> Vec<u64> {
    let line = lines.iter().find(|line| is_it(line)).unwrap_or_else(|| panic!("{lines:#?}"));
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn run<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

#[test]
fn what_is_predicted_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path(), PolicyKind::Plan);
    run(async {
        let session = Session::new(&database);
        fill(&session).await;
        // Predicted, read, and read as predicted.
        let measured = async |way: &str, before: &[&str], sql: &str| {
            session.set("access_path", way).unwrap();
            database.drop_caches();
            for sql in before {
                lines(&session, sql).await;
            }
            let told = lines(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
            assert!(numbers(&told, |line| line.contains("chunks predicted"))[0] > 0, "{told:#?}");
            let numbers = numbers(&told, |line| line.contains("pages predicted"));
            [numbers[0], numbers[1], numbers[2]]
        };
        // Only segments that the zones leave, and only the columns that are asked for.
        let [predicted, read, hit] = measured("columns", &[], "SELECT sum(five) FROM t WHERE id < 150000").await;
        assert!(predicted > 0 && predicted == read && read == hit, "{predicted} {read} {hit}");
        let [all, ..] = measured("columns", &[], "SELECT sum(five), max(name) FROM t").await;
        assert!(all > 2 * predicted, "{all} against {predicted}");
        let [predicted, read, hit] = measured("rows", &[], "SELECT sum(five) FROM t").await;
        assert!(hit * 10 >= read * 8 && hit * 10 >= predicted * 8, "{predicted} {read} {hit}");
        // Inner pages that are in memory say which leaves have the keys.
        let ends = ["SELECT five FROM t WHERE id = 1", "SELECT five FROM t WHERE id = 29999"];
        let [predicted, read, hit] = measured("rows", &ends, "SELECT sum(five) FROM t WHERE id < 30000").await;
        assert!(predicted > 0, "{read}");
        assert!(hit * 10 >= read * 8 && hit * 10 >= predicted * 8, "{predicted} {read} {hit}");
    });
}

#[test]
fn nothing_is_said_where_nothing_moves() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path(), PolicyKind::None);
    run(async {
        let session = Session::new(&database);
        fill(&session).await;
        let told = lines(&session, "EXPLAIN ANALYZE SELECT sum(five) FROM t").await;
        assert!(!told.iter().any(|line| line.contains("tier")), "{told:#?}");
        session.execute("CALL saki.set_tier_policy('plan')").await.unwrap();
        let told = lines(&session, "EXPLAIN SELECT sum(five) FROM t").await;
        assert!(told.iter().any(|line| line.contains("chunks predicted")), "{told:#?}");
    });
}

#[test]
fn chunks_are_copied_for_a_statement_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path(), PolicyKind::Plan);
    run(async {
        let session = Session::new(&database);
        fill(&session).await;
        session.set("access_path", "rows").unwrap();
        let began = Instant::now();
        while database.volume().copies().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is copied");
            database.drop_caches();
            lines(&session, "SELECT count(*), sum(five) FROM t").await;
        }
        database.drop_caches();
        assert_eq!(lines(&session, "SELECT count(*), sum(five) FROM t").await, ["300000 600000"]);
    });
}
