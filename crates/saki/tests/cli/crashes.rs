//! Processes killed at a random moment: the database opens, is clean, and holds a table before or after, never between.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{LINES, check, command, lines_expected, saki, scratch, sql, tpch};

const ROWS: usize = 200_000;

/// How often each kind of work is killed; `SAKI_KILLS=50` for a long run.
fn kills() -> u32 {
    std::env::var("SAKI_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

fn run_and_kill(path: &Path, text: &str, after: Duration) -> bool {
    let mut child = command()
        .args(["sql".as_ref(), "--db".as_ref(), path.as_os_str(), "-c".as_ref(), text.as_ref()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    let died = child.try_wait().unwrap().is_none();
    // On Unix this is SIGKILL.
    let _ = child.kill();
    child.wait().unwrap();
    died
}

#[test]
fn a_load_killed_at_any_moment_is_done_or_not_begun() {
    let (directory, path) = scratch();
    let csv = directory.path().join("rows.csv");
    let rows: String = (0..ROWS).map(|row| format!("{row},{},name of row {row}\n", row * 7919 % ROWS)).collect();
    std::fs::write(&csv, rows).unwrap();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    sql(&path, "CREATE TABLE t (id int PRIMARY KEY, other int, name text); CREATE INDEX other_idx ON t (other)")
        .answer();
    let copy = format!("COPY t FROM '{}' WITH (FORMAT csv)", csv.display());

    let started = Instant::now();
    let (_copy, whole) =
        (std::fs::copy(&path, directory.path().join("whole.saki")), directory.path().join("whole.saki"));
    sql(&whole, &copy).answer();
    let takes = started.elapsed();
    let mut killed = 0;
    for attempt in 0..kills() {
        killed += u32::from(run_and_kill(
            &path,
            &copy,
            takes * attempt / kills() + Duration::from_millis(u64::from(attempt)),
        ));
        check(&path).answer();
        let count = sql(&path, "SELECT count(*) AS n FROM t").answer();
        match count.as_str() {
            "n\n0\n" => {}
            "n\n200000\n" => {
                let found = sql(&path, "SELECT id FROM t WHERE other = 7919").answer();
                assert_eq!(found, "id\n1\n");
                let again = "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, other int, name text); \
                             CREATE INDEX other_idx ON t (other)";
                sql(&path, again).answer();
            }
            other => panic!("between: {other}"),
        }
    }
    assert!(killed >= kills() / 2, "only {killed} of {} loads were killed", kills());
}

#[test]
fn an_index_build_killed_at_any_moment_is_done_or_not_begun() {
    let (_directory, path) = tpch();
    for attempt in 0..kills() {
        let after = Duration::from_millis(20 + 320 * u64::from(attempt) / u64::from(kills()));
        run_and_kill(&path, "CREATE INDEX ship_idx ON lineitem (l_shipdate)", after);
        let checked = check(&path).answer();
        if checked.contains("9 indexes") {
            sql(&path, "DROP INDEX ship_idx").answer();
        } else {
            assert!(checked.contains("8 indexes"), "{checked}");
        }
    }
}

#[test]
fn column_segments_built_and_killed_at_any_moment_are_there_or_not() {
    let (_directory, path) = tpch();
    let segments = |said: &str| -> u64 {
        let before = said.split(" column segments").next().unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let with = segments(&check(&path).answer());
    sql(&path, "ALTER TABLE lineitem SET (columns = off)").answer();
    let without = segments(&check(&path).answer());
    assert!(without < with);
    for attempt in 0..kills() {
        let after = Duration::from_millis(20 + 320 * u64::from(attempt) / u64::from(kills()));
        run_and_kill(&path, "ALTER TABLE lineitem SET (columns = on)", after);
        let found = segments(&check(&path).answer());
        assert!(found == with || found == without, "between: {found}");
        assert_eq!(sql(&path, LINES).answer(), lines_expected());
        if found == with {
            sql(&path, "ALTER TABLE lineitem SET (columns = off)").answer();
        }
    }
}

#[test]
fn migrations_killed_at_any_moment_are_whole_or_not_there() {
    let (_directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    let begin = "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE version (n int PRIMARY KEY); \
                 INSERT INTO t SELECT i, i FROM generate_series(1, 500) AS s (i)";
    sql(&path, begin).answer();
    let number = |text: &str| -> u64 {
        let said = sql(&path, text).answer();
        said.lines().nth(1).and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{text}: {said}"))
    };
    let step = |n: u64, end: &str| {
        format!(
            "BEGIN; CREATE TABLE m{n} (id int PRIMARY KEY, note text); \
             INSERT INTO m{n} SELECT i, 'note' || i FROM generate_series(1, 50) AS s (i); \
             CREATE INDEX m{n}_note ON m{n} (note); INSERT INTO t VALUES ({}, {n}); \
             ALTER TABLE t ADD COLUMN c{n} int DEFAULT {n}, DROP COLUMN IF EXISTS p{}, \
             ADD COLUMN p{n} text DEFAULT 'p'; \
             UPDATE t SET v = -1 WHERE id = {}; INSERT INTO version VALUES ({n}); {end}; ",
            1000 + n,
            n.wrapping_sub(1),
            1 + n
        )
    };
    for attempt in 0..kills() {
        let done = number("SELECT count(*) AS n FROM version");
        let text: String = (done..done + 30).map(|n| step(n, "ROLLBACK") + &step(n, "COMMIT")).collect();
        run_and_kill(&path, &text, Duration::from_millis(60 + 97 * u64::from(attempt) % 700));
        check(&path).answer();
        let done = number("SELECT count(*) AS n FROM version");
        assert_eq!(number("SELECT count(*) AS n FROM t"), 500 + done);
        assert_eq!(number("SELECT count(*) AS n FROM pg_tables WHERE tablename LIKE 'm%'"), done);
        assert_eq!(number("SELECT count(*) AS n FROM pg_indexes WHERE indexname LIKE 'm%note'"), done);
        let columns = if done > 0 { 3 + done } else { 2 };
        assert_eq!(number("SELECT count(*) AS n FROM information_schema.columns WHERE table_name = 't'"), columns);
        if done > 0 {
            let last = done - 1;
            let has = format!("SELECT count(*) AS n FROM t WHERE c{last} = {last} AND p{last} = 'p' AND c0 = 0");
            assert_eq!(number(&has), 500 + done);
            assert_eq!(number("SELECT count(*) AS n FROM t WHERE v = -1"), done);
            assert_eq!(number(&format!("SELECT count(*) AS n FROM m{} WHERE note LIKE 'note%'", done - 1)), 50);
        }
        check(&path).answer();
    }
}

/// Over rows of base and delta: the index is there with all of them, or it is not, and no row is lost or doubled.
#[test]
fn an_index_made_concurrently_and_killed_at_any_moment_is_whole_or_not_there() {
    let (_directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    let begin = "CREATE TABLE t (id int PRIMARY KEY, v int); \
                 INSERT INTO t SELECT i, i FROM generate_series(1, 40000) AS s (i)";
    sql(&path, begin).answer();
    let number = |text: &str| -> u64 {
        let said = sql(&path, text).answer();
        said.lines().nth(1).and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{text}: {said}"))
    };
    let (mut there, mut changed) = (0, 0);
    for attempt in 0..kills() {
        let text: String = (0..20)
            .map(|round| {
                format!(
                    "UPDATE t SET v = v + 1 WHERE id IN ({}, 7); CREATE INDEX CONCURRENTLY t_v ON t (v); \
                     UPDATE t SET v = v + 1 WHERE id IN ({}, 8); REINDEX INDEX CONCURRENTLY t_v; \
                     UPDATE t SET v = v + 2 WHERE id = 9; DROP INDEX CONCURRENTLY t_v; ",
                    100 + round,
                    200 + round
                )
            })
            .collect();
        run_and_kill(&path, &text, Duration::from_millis(30 + 131 * u64::from(attempt) % 900));
        check(&path).answer();
        assert_eq!(number("SELECT count(*) AS n FROM t"), 40_000);
        let grown = number("SELECT sum(v) - 40000 * 40001 / 2 AS n FROM t");
        assert!(grown.is_multiple_of(2) && grown >= changed, "{grown} after {changed}");
        changed = grown;
        if number("SELECT count(*) AS n FROM pg_indexes WHERE indexname = 't_v'") == 1 {
            there += 1;
            let all = number("SELECT sum(id) AS n FROM t WHERE v + 0 BETWEEN 1 AND 300");
            let by_index: u64 = (1..=6)
                .map(|part| {
                    let (from, to) = (part * 50 - 49, part * 50);
                    number(&format!("SELECT coalesce(sum(id), 0) AS n FROM t WHERE v BETWEEN {from} AND {to}"))
                })
                .sum();
            assert_eq!(by_index, all);
            sql(&path, "DROP INDEX CONCURRENTLY t_v").answer();
        }
    }
    assert!(changed > 0 && there < kills());
}
