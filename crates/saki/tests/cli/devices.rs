//! Databases on several devices.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{check, command, saki, scratch, sql};

fn device(database: &Path, arguments: &[&str]) -> crate::support::Said {
    let (command, rest) = arguments.split_first().expect("what to do");
    let path = database.to_str().expect("a plain path");
    saki(["device", command, "--db", path].into_iter().chain(rest.iter().copied()))
}

/// A database on two devices with a table of 60 000 rows, and the path of the second.
fn filled() -> (tempfile::TempDir, std::path::PathBuf, String) {
    let (directory, path) = scratch();
    let second = directory.path().join("second").display().to_string();
    let spec = format!("{second}:64MB:slow");
    saki(["create", path.to_str().expect("a plain path"), "--device", &spec]).answer();
    sql(
        &path,
        "CREATE TABLE t (id int PRIMARY KEY, name text); \
         INSERT INTO t SELECT n, 'the name of row number ' || n FROM generate_series(1, 60000) AS s(n); CHECKPOINT",
    )
    .answer();
    (directory, path, second)
}

const SUM: &str = "SELECT count(*) AS n, sum(id) AS s, min(name) AS m FROM t";
const EXPECTED: &str = "n,s,m\n60000,1800030000,the name of row number 1\n";

#[test]
fn devices_are_added_drained_and_removed() {
    let (directory, path, second) = filled();
    let listed = device(&path, &["list"]).answer();
    assert!(listed.contains(&second) && listed.contains("slow") && listed.contains("metadata, homes"), "{listed}");
    let third = directory.path().join("third").display().to_string();
    device(&path, &["add", &format!("{third}:64MB:fast")]).answer();
    let refused = device(&path, &["add", &third]).failure();
    assert!(refused.contains("third"), "{refused}");
    let refused = device(&path, &["remove", &second]).failure();
    assert!(refused.contains("drain it first"), "{refused}");
    device(&path, &["drain", &second]).answer();
    device(&path, &["remove", &second]).answer();
    assert_eq!(sql(&path, SUM).answer(), EXPECTED);
    assert!(check(&path).answer().ends_with("no faults\n"));
    let by_sql = format!(
        "CALL saki.add_device('{second}', '64MB', 'slow'); CALL saki.drain_device('{}'); \
         SELECT count(*) AS n FROM saki.chunks WHERE device_number = 0; \
         SELECT class, role, state FROM saki.devices ORDER BY number",
        path.display()
    );
    let told = sql(&path, &by_sql).answer();
    assert!(told.contains("n\n0\n"), "{told}");
    assert!(told.contains("slow,\"metadata, homes\",online") && told.contains("fast,copies,online"), "{told}");
    let refused = sql(&path, "BEGIN; CALL saki.remove_device('2')").failure();
    assert!(refused.contains("transaction block"), "{refused}");
    let refused = sql(&path, "CALL saki.drain_device()").failure();
    assert!(refused.contains("does not take these arguments"), "{refused}");
    assert_eq!(sql(&path, SUM).answer(), EXPECTED);
    assert!(check(&path).answer().ends_with("no faults\n"));
}

#[test]
fn what_chooses_copies_is_chosen() {
    let (_directory, path, _) = filled();
    let policy = "SELECT policy FROM saki.tier";
    assert_eq!(sql(&path, policy).answer(), "policy\nheat\n");
    let told = sql(&path, &format!("CALL saki.set_tier_policy('LRU'); {policy}")).answer();
    assert_eq!(told, "policy\nlru\n");
    let refused = sql(&path, "CALL saki.set_tier_policy('fifo')").failure();
    assert!(refused.contains("there are none, static, lru, heat"), "{refused}");
    let path = path.to_str().expect("a plain path");
    let by_option = ["sql", "--db", path, "--format", "csv", "--tier-policy", "static", "-c", policy];
    assert_eq!(saki(by_option).answer(), "policy\nstatic\n");
}

#[test]
fn a_table_that_is_to_be_fast_is_copied_and_is_told_to_be() {
    let (directory, path, _) = filled();
    let fast = directory.path().join("fast").display().to_string();
    let tier = || saki(["tier", "--db", path.to_str().expect("a plain path")]).answer();
    let is_leaves = |line: &&str| line.trim_start().starts_with("t ") && line.contains("| leaves");
    let leaves = |told: &str| told.lines().find(is_leaves).map(String::from);
    assert!(leaves(&tier()).is_some_and(|line| line.ends_with("  0 %")));
    device(&path, &["add", &format!("{fast}:64MB:fast")]).answer();
    sql(&path, "ALTER TABLE t SET (tier = 'fast')").answer();
    let began = Instant::now();
    // Copies are made while the database is open, and are there again when it is opened the next time.
    while !leaves(&tier()).is_some_and(|line| line.ends_with("100 %")) {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", tier());
        sql(&path, "SELECT pg_sleep(1)").answer();
    }
    let told =
        sql(&path, "SELECT bytes = copied_bytes AS c FROM saki.parts WHERE part = 'leaves' AND table_name = 't'");
    assert_eq!(told.answer(), "c\nt\n");
}

#[test]
fn a_missing_device_is_told_and_the_rest_goes_on() {
    let (directory, path, second) = filled();
    let away = directory.path().join("away");
    std::fs::rename(&second, &away).unwrap();
    let told = device(&path, &["list"]).answer();
    assert!(told.contains("missing"), "{told}");
    // The catalogue lies with the superblocks. The rows lie in two forms, and one of them at least not there alone.
    let asked = ["rows", "columns"].map(|way| sql(&path, &format!("SET saki.access_path = {way}; {SUM}")));
    let failed: Vec<_> = asked.into_iter().filter(|said| !said.success).map(|said| said.failure()).collect();
    assert!(!failed.is_empty() && failed.iter().all(|told| told.contains("second")), "{failed:?}");
    assert!(check(&path).failure().contains("second"));
    std::fs::rename(&away, &second).unwrap();
    assert_eq!(sql(&path, SUM).answer(), EXPECTED);
}

fn run_and_kill(database: &Path, arguments: &[&str], after: Duration) {
    let (what, rest) = arguments.split_first().expect("what to do");
    let mut child = command()
        .args(["device", what, "--db"])
        .arg(database)
        .args(rest)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    // On Unix this is SIGKILL.
    let _ = child.kill();
    child.wait().unwrap();
}

/// Adding, draining and removing, killed at any moment: the database opens, is clean, and has all its rows.
#[test]
fn changes_of_devices_killed_at_any_moment_lose_nothing() {
    let kills = std::env::var("SAKI_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let (_directory, path, second) = filled();
    let started = Instant::now();
    device(&path, &["drain", &second]).answer();
    let takes = started.elapsed();
    for attempt in 0..kills {
        let after = takes * attempt / kills;
        // What was cut off may or may not have been done.
        let _ = device(&path, &["remove", &second]);
        if !device(&path, &["list"]).answer().contains(&second) {
            let _ = std::fs::remove_file(&second);
            run_and_kill(&path, &["add", &second], after);
            if !device(&path, &["list"]).answer().contains(&second) {
                let _ = std::fs::remove_file(&second);
                device(&path, &["add", &second]).answer();
            }
        }
        run_and_kill(&path, &["drain", &path.display().to_string()], after);
        assert_eq!(sql(&path, SUM).answer(), EXPECTED, "after {after:?}");
        assert!(check(&path).answer().ends_with("no faults\n"), "after {after:?}");
        // Back to where it was: the first device takes homes again once it is another's turn to be drained.
        run_and_kill(&path, &["remove", &second], after);
        assert_eq!(sql(&path, SUM).answer(), EXPECTED, "after {after:?}");
        assert!(check(&path).answer().ends_with("no faults\n"), "after {after:?}");
    }
}

/// A plan and sizes of PostgreSQL 15.
#[test]
fn relations_of_another_database_are_advised() {
    let beside = |name: &str| format!("{}/tests/cli/postgres/{name}", env!("CARGO_MANIFEST_DIR"));
    let (plan, sizes) = (beside("plan.json"), beside("sizes.csv"));
    let advise =
        |sizes: &str, room: &str| saki(["tier", "advise", "--explain", &plan, "--sizes", sizes, "--room", room]);
    let told = advise(&sizes, "6MB").answer();
    let verdicts: Vec<_> = told
        .lines()
        .filter_map(|line| Some((line.split_whitespace().next()?, line.contains("move"), line.contains("no room"))))
        .filter(|(relation, ..)| relation.starts_with(['l', 'o']) || *relation == "region")
        .collect();
    let expected = [
        ("orders", true, false),
        ("lineitem_pkey", false, true),
        ("lineitem", false, true),
        ("orders_custkey", true, false),
        ("region", false, false),
    ];
    assert_eq!(verdicts, expected, "{told}");
    let refused = advise(&plan, "6MB").failure();
    assert!(refused.contains("plan.json") && refused.contains("number of bytes"), "{refused}");
    assert!(saki(["tier"]).failure().contains("--db"), "it shows a database, if nothing else is said");
}
