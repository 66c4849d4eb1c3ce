//! A device that fills up: the statement fails, and everything is as before it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{check, saki, scratch, sql};

#[test]
fn a_load_that_finds_no_room_leaves_the_database_as_it_was() {
    let (directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    sql(&path, "CREATE TABLE t (id int PRIMARY KEY, name text); INSERT INTO t VALUES (-1, 'here before')").answer();
    let csv = directory.path().join("rows.csv");
    let rows: String = (0..400_000).map(|row| format!("{row},{row:0>400}\n")).collect();
    std::fs::write(&csv, rows).unwrap();
    let copy = format!("COPY t FROM '{}' WITH (FORMAT csv)", csv.display());
    finds_no_room(&sql_in_files_of(100 << 20, &path, &copy));
    check(&path).answer();
    assert_eq!(sql(&path, "SELECT * FROM t").answer(), "id,name\n-1,here before\n");
    // With room again, the same statement succeeds.
    sql(&path, &copy).answer();
    check(&path).answer();
    assert_eq!(sql(&path, "SELECT count(*) AS n FROM t").answer(), "n\n400001\n");
}

#[test]
fn column_segments_that_find_no_room_leave_the_table_without_any() {
    let (directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    sql(&path, "CREATE TABLE t (id int PRIMARY KEY, name text) WITH (columns = off)").answer();
    let csv = directory.path().join("rows.csv");
    // Text that no encoding makes small.
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'A' + (state >> 59) as u8)
    };
    let rows: String =
        (0..250_000).map(|row| format!("{row},{}\n", (0..800).map(|_| letter()).collect::<String>())).collect();
    std::fs::write(&csv, rows).unwrap();
    sql(&path, &format!("COPY t FROM '{}' WITH (FORMAT csv)", csv.display())).answer();
    let alter = "ALTER TABLE t SET (columns = on)";
    finds_no_room(&sql_in_files_of(std::fs::metadata(&path).unwrap().len(), &path, alter));
    check(&path).answer();
    let scan = "EXPLAIN SELECT max(name) FROM t";
    assert!(sql(&path, scan).answer().contains("PageScanExec"), "there are no segments to scan");
    sql(&path, alter).answer();
    check(&path).answer();
    assert!(sql(&path, scan).answer().contains("ColumnScanExec"));
}

/// Runs a statement in a process none of whose files may grow beyond `bytes`.
fn sql_in_files_of(bytes: u64, path: &Path, statement: &str) -> Output {
    // The limit is counted in blocks of 512 bytes; the signal that comes with the refusal is ignored.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" sql --db \"$1\" -c \"$2\"", bytes / 512);
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_saki")])
        .arg(path)
        .arg(statement)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn finds_no_room(output: &Output) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("test.saki"), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}
