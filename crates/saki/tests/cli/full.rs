//! A device that fills up: the statement fails, and everything is as before it.

use std::process::{Command, Stdio};

use crate::support::{check, saki, scratch, sql};

#[test]
fn a_load_that_finds_no_room_leaves_the_database_as_it_was() {
    let (directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    sql(&path, "CREATE TABLE t (id int PRIMARY KEY, name text); INSERT INTO t VALUES (-1, 'here before')").answer();
    let csv = directory.path().join("rows.csv");
    let rows: String = (0..400_000).map(|row| format!("{row},{row:0>400}\n")).collect();
    std::fs::write(&csv, rows).unwrap();
    // No file may grow beyond 100 MiB (counted in blocks of 512 bytes); the signal that comes with the refusal is ignored.
    let copy = format!("COPY t FROM '{}' WITH (FORMAT csv)", csv.display());
    let script = "trap '' XFSZ; ulimit -f 204800; exec \"$0\" sql --db \"$1\" -c \"$2\"";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_saki")])
        .arg(&path)
        .arg(&copy)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("test.saki"), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    check(&path).answer();
    assert_eq!(sql(&path, "SELECT * FROM t").answer(), "id,name\n-1,here before\n");
    // With room again, the same statement succeeds.
    sql(&path, &copy).answer();
    check(&path).answer();
    assert_eq!(sql(&path, "SELECT count(*) AS n FROM t").answer(), "n\n400001\n");
}
