//! From an empty directory to query results.

use std::io::Write;
use std::process::Stdio;

use crate::support::{LINES, check, command, lines_expected, saki, scratch, sql, tpch};

#[test]
fn tpch_is_loaded_queried_and_checked() {
    let (_directory, path) = tpch();
    assert_eq!(sql(&path, LINES).answer(), lines_expected());
    let joined = "SELECT count(*) AS n FROM customer JOIN orders ON c_custkey = o_custkey \
                  JOIN lineitem ON o_orderkey = l_orderkey WHERE c_acctbal BETWEEN 100 AND 300";
    let answers: Vec<String> = ["out_of_order", "in_order"]
        .iter()
        .flat_map(|execution| {
            ["always", "never"]
                .map(|join| format!("SET saki.execution = {execution}; SET saki.index_join = {join}; {joined}"))
        })
        .map(|text| sql(&path, &text).answer())
        .collect();
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.starts_with("n\n")), "{answers:?}");
    let checked = check(&path).answer();
    assert!(checked.contains("8 tables, 8 indexes") && checked.ends_with("no faults\n"), "{checked}");
}

#[test]
fn formats_and_several_statements() {
    let (_directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str(), "--page-size".as_ref(), "16k".as_ref()]).answer();
    sql(&path, "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'a,b')")
        .answer();
    assert_eq!(sql(&path, "SELECT * FROM t ORDER BY a").answer(), "a,b\n1,x\n2,\n3,\"a,b\"\n");
    let with = |format: &str| {
        let path = path.to_str().expect("a plain path");
        saki(["sql", "--db", path, "--format", format, "-c", "SELECT * FROM t ORDER BY a"]).answer()
    };
    assert_eq!(with("table"), " a |  b\n---+-----\n 1 | x\n 2 |\n 3 | a,b\n(3 rows)\n\n");
    assert_eq!(with("json"), "[\n{\"a\":1,\"b\":\"x\"},\n{\"a\":2,\"b\":null},\n{\"a\":3,\"b\":\"a,b\"}\n]\n");
}

#[test]
fn scripts_come_from_files_and_standard_input() {
    let (directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    let script = directory.path().join("script.sql");
    let text = "-- a comment;\nCREATE TABLE t (a int PRIMARY KEY);\n\\timing off\n\
                INSERT INTO t\n  VALUES (7);\n\\d t\nSELECT a FROM t";
    std::fs::write(&script, text).unwrap();
    let said = saki(["sql".as_ref(), "--db".as_ref(), path.as_os_str(), "-f".as_ref(), script.as_os_str()]).answer();
    for part in ["CREATE TABLE", "INSERT 1", "t_pkey PRIMARY KEY (a)", " 7\n(1 row)"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let mut child =
        command().args(["sql", "--format", "csv"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 1 AS one; SELECT 2 AS two").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"one\n1\ntwo\n2\n");
}

#[test]
fn files_are_queried_without_a_database() {
    let (directory, _) = scratch();
    let csv = directory.path().join("numbers.csv");
    std::fs::write(&csv, "a,b\n1,2\n3,4\n").unwrap();
    let create =
        format!("CREATE EXTERNAL TABLE n STORED AS CSV LOCATION '{}' OPTIONS ('has_header' 'true')", csv.display());
    let said = saki(["sql", "--format", "csv", "-c", &format!("{create}; SELECT sum(a * b) AS s FROM n")]).answer();
    assert_eq!(said, "s\n14\n");
}

#[test]
fn a_device_is_calibrated_and_the_profile_kept() {
    let (_directory, path) = tpch();
    let said = saki(["calibrate".as_ref(), path.as_os_str()]).answer();
    assert!(said.contains("reads/s") && said.contains("stored in"), "{said}");
    check(&path).answer();
}

#[test]
fn readers_share_a_database_and_change_nothing() {
    let (_directory, path) = tpch();
    let read = ["sql".as_ref(), "--db".as_ref(), path.as_os_str(), "--read-only".as_ref(), "-c".as_ref()];
    let said = saki(read.into_iter().chain(["DROP TABLE nation".as_ref()])).failure();
    assert!(said.contains("read"), "{said}");
    // As a file that the system refuses to open for writing would be.
    assert_eq!(sql(&path, "SELECT count(*) AS n FROM nation").answer(), "n\n25\n");
}

#[test]
fn a_reader_that_leaves_is_no_drama() {
    let (_directory, path) = tpch();
    let mut child = command()
        .args(["sql".as_ref(), "--db".as_ref(), path.as_os_str(), "-c".as_ref(), "SELECT * FROM lineitem".as_ref()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
