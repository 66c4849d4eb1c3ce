//! Plans say what they are about to read, and what they say is so.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use saki_base::{DeviceId, PartKind};
use saki_sql::{CreateOptions, Database, DeviceClass, DeviceSpec, OpenOptions, PolicyKind, Session, StatementResult};

use crate::support::text_rows;

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

#[test]
fn plans_go_by_where_a_table_lies() {
    let directory = tempfile::tempdir().unwrap();
    let open = OpenOptions {
        model: Some("modeled:latency=8ms,servers=1,bandwidth=500MB".to_owned()),
        tier_policy: PolicyKind::None,
        ..OpenOptions::default()
    };
    let fast = DeviceSpec { path: directory.path().join("fast"), bytes: Some(64 << 20), class: DeviceClass::Fast };
    let options = CreateOptions { open, devices: vec![fast], ..CreateOptions::default() };
    let database = Database::create(directory.path().join("database"), options).unwrap();
    run(async {
        let session = Session::new(&database);
        for sql in [
            "CREATE TABLE w (id int PRIMARY KEY, v int, name text) WITH (columns = off)",
            "INSERT INTO w SELECT value, value % 4000, 'name ' || value FROM generate_series(1, 20000) AS s(value)",
            "CREATE INDEX w_v ON w (v)",
            "CHECKPOINT",
            "ANALYZE",
        ] {
            session.execute(sql).await.unwrap();
        }
        // Few rows are looked up without a plan, wherever they lie.
        session.set("compiled", "off").unwrap();
        let is_by_index = async |v: u32| {
            let told = lines(&session, &format!("EXPLAIN SELECT name FROM w WHERE v = {v}")).await;
            told.iter().any(|line| line.contains("w_v"))
        };
        let volume = database.volume();
        let chunks: Vec<_> = volume.published_chunks().iter().map(|chunk| chunk.chunk).collect();
        assert!(!is_by_index(1).await, "a disk that seeks is read from end to end");
        volume.promote(&chunks, DeviceId(1)).unwrap();
        assert!(!volume.copies().is_empty());
        assert!(is_by_index(2).await, "five rows are looked up where that is quick");
        volume.evict(&chunks);
        assert!(!is_by_index(3).await);
    });
}

#[test]
fn tables_say_whether_they_are_copied() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path(), PolicyKind::None);
    run(async {
        let session = Session::new(&database);
        fill(&session).await;
        let copies = async |wanted: &str| {
            session.execute(&format!("ALTER TABLE t SET (tier = '{wanted}')")).await.unwrap();
            let (mut before, mut seen) = (usize::MAX, Vec::new());
            let sql = "SELECT tables || ' ' || parts FROM saki.chunks WHERE copy_device IS NOT NULL";
            // Until nothing more comes or goes.
            while seen.len() != before {
                before = seen.len();
                tokio::time::sleep(Duration::from_millis(700)).await;
                seen = lines(&session, sql).await;
            }
            seen
        };
        assert_eq!(copies("auto").await, [""; 0], "nothing chooses");
        let fast = copies("fast").await;
        for part in ["t leaves", "t column name"] {
            assert!(fast.iter().any(|chunk| chunk == part), "{part}: {fast:?}");
        }
        let own = |chunks: &[String]| chunks.iter().filter(|chunk| !chunk.contains(';')).cloned().collect::<Vec<_>>();
        assert_eq!(own(&copies("auto").await), own(&fast), "they may stay");
        let slow = copies("slow").await;
        assert!(slow.iter().all(|chunk| chunk.contains(';')), "what is shared with others may stay: {slow:?}");
        assert!(slow.len() < fast.len());
    });
}

#[test]
fn a_slow_device_holds_back_nothing_that_lies_on_a_fast_one() {
    let directory = tempfile::tempdir().unwrap();
    let open = OpenOptions { segment_rows: 1024, tier_policy: PolicyKind::None, ..OpenOptions::default() };
    let fast = DeviceSpec { path: directory.path().join("fast"), bytes: Some(64 << 20), class: DeviceClass::Fast };
    let options = CreateOptions { open: open.clone(), devices: vec![fast], ..CreateOptions::default() };
    let path = directory.path().join("database");
    let database = Database::create(&path, options).unwrap();
    run(async { fill(&Session::new(&database)).await });
    // All but every second chunk of what is scanned.
    let mut odd = false;
    let mut on_fast = |kind: Option<PartKind>| {
        odd ^= matches!(kind, Some(PartKind::Leaves | PartKind::Column(2)));
        !odd
    };
    let chunks = database.volume().published_chunks();
    let of_one = |parts: &[saki_base::Part]| parts.first().filter(|_| parts.len() == 1).map(|part| part.kind);
    let chunks =
        chunks.iter().filter(|chunk| on_fast(of_one(&chunk.parts))).map(|chunk| chunk.chunk).collect::<Vec<_>>();
    database.volume().promote(&chunks, DeviceId(1)).unwrap();
    database.close().unwrap();
    drop(database);
    let open = OpenOptions { model: Some("modeled:latency=200ms,iops=2".to_owned()), ..open };
    let database = Database::open(&path, open).unwrap();
    assert_eq!(database.volume().copies().len(), chunks.len(), "taken up again");
    let slow_reads = || database.devices()[0].reads.requests;
    run(async {
        let session = Session::new(&database);
        // More than the slow device is given at once: neighbours come back from it together.
        session.set("max_in_flight", "64").unwrap();
        for way in ["rows", "columns"] {
            session.set("access_path", way).unwrap();
            let before = slow_reads();
            let result = session.execute("SELECT name FROM t").await.unwrap().pop().unwrap();
            let StatementResult::Rows { mut stream, .. } = result else { panic!("no rows") };
            let mut rows = 0;
            while rows < 60_000 {
                rows += stream.next().await.expect("there are more").unwrap().num_rows();
            }
            // Read on in order it would be a whole chunk of 128 first; two of them come in a second.
            let reads = slow_reads() - before;
            assert!(reads < 100, "{way}: {reads} reads of the slow device came first");
        }
    });
}
