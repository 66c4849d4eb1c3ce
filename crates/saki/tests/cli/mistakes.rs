//! What users get wrong: each is told what, where, and what to do.

use std::ffi::OsStr;

use crate::support::{check, saki, scratch, sql};

#[test]
fn paths_and_sizes() {
    let (directory, path) = scratch();
    let name = path.to_str().expect("a plain path");
    for (arguments, parts) in [
        (vec!["sql", "--db", name, "-c", "SELECT 1"], vec!["no such file", "saki create"]),
        (vec!["check", name], vec!["no such file"]),
        (vec!["create", name, "--page-size", "5000"], vec!["not a power of two", "8192"]),
        (vec!["create", name, "--page-size", "1GB"], vec!["1073741824"]),
        (vec!["create", name, "--size", "many"], vec!["not a size", "256MB"]),
        (vec!["create", name, "--size", "900000TB"], vec!["cannot reserve"]),
        (vec!["create", "/nonexistent/directory/x"], vec!["/nonexistent/directory/x", "No such file"]),
        (vec!["create", "/etc/hostname"], vec!["is not a database"]),
        (vec!["load", "tpch", "--db", name, "--sf", "-1"], vec!["scale factor", "0.001"]),
        (vec!["load", "tpch", "--db", name, "--tables", "regions"], vec!["region", "lineitem"]),
        (vec!["sql", "--set", "execution", "-c", "SELECT 1"], vec!["NAME=VALUE"]),
        (vec!["sql", "--set", "exekution=in_order", "-c", "SELECT 1"], vec!["exekution", "saki.execution"]),
        (vec!["sql", "--model", "tape", "-c", "SELECT 1"], vec!["tape", "cloud-volume"]),
        (vec!["sql", "-f", "/nonexistent.sql"], vec!["/nonexistent.sql", "No such file"]),
    ] {
        let said = saki(&arguments).failure();
        assert!(parts.iter().all(|part| said.contains(part)), "{arguments:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "failures left files behind");
    saki(["create", name]).answer();
    assert!(saki(["create", name]).failure().contains("already"));
    assert!(
        saki(["create", directory.path().to_str().unwrap()]).failure().contains(directory.path().to_str().unwrap())
    );
}

#[test]
fn sql_errors_are_marked_in_the_text() {
    let said = saki(["sql", "-c", "SELECT 1 +\n  nothing FROM\nnowhere"]).failure();
    assert!(said.contains("LINE 3: nowhere\n        ^"), "{said}");
    let said = saki(["sql", "-c", "SELEC 1"]).failure();
    assert!(said.contains("LINE 1: SELEC 1\n        ^"), "{said}");
    let said = saki(["sql", "-c", "SET saki.execution = sideways"]).failure();
    assert!(said.contains("in_order"), "{said}");
    let said = saki(["sql", "-c", "\\nonsense"]).failure();
    assert!(said.contains("\\?"), "{said}");
}

#[test]
fn a_script_stops_at_its_first_error_and_says_where() {
    let (directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    let script = directory.path().join("script.sql");
    std::fs::write(&script, "CREATE TABLE a (x int);\n\nSELECT y FROM a;\nCREATE TABLE b (x int);\n").unwrap();
    let said = saki(["sql".as_ref(), "--db".as_ref(), path.as_os_str(), "-f".as_ref(), script.as_os_str()]).failure();
    assert!(said.contains("script.sql:3: "), "{said}");
    sql(&path, "SELECT x FROM a").answer();
    sql(&path, "SELECT x FROM b").failure();
}

#[test]
fn csv_errors_name_row_and_column_and_load_nothing() {
    let (directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    sql(&path, "CREATE TABLE t (id int PRIMARY KEY, born date, name varchar(5))").answer();
    for (text, parts) in [
        ("1,2020-01-01,ann\n2,someday,bob\n", ["2", "born"]),
        ("1,2020-01-01,ann\nx,2020-01-01,bob\n", ["2", "id"]),
        ("1,2020-01-01,ann\n2,2020-01-01,maximilian\n", ["2", "name"]),
        ("1,2020-01-01,ann\n2,2020-01-01\n", ["2", "column"]),
        ("1,2020-01-01,ann\n1,2020-01-01,bob\n", ["duplicate", "Key (id)=(1)"]),
    ] {
        let csv = directory.path().join("rows.csv");
        std::fs::write(&csv, text).unwrap();
        let said = sql(&path, &format!("COPY t FROM '{}' WITH (FORMAT csv)", csv.display())).failure();
        assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
        assert_eq!(sql(&path, "SELECT count(*) AS n FROM t").answer(), "n\n0\n");
    }
    check(&path).answer();
}

#[test]
fn a_database_in_use_and_one_that_may_not_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, path) = scratch();
    saki(["create".as_ref(), path.as_os_str()]).answer();
    // A lock of ours stands for another process.
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    assert!(sql(&path, "SELECT 1").failure().contains("in use"));
    drop(held);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    let arguments: [&OsStr; 6] =
        ["sql".as_ref(), "--db".as_ref(), path.as_ref(), "--read-only".as_ref(), "-c".as_ref(), "SELECT 1".as_ref()];
    saki(arguments).answer();
    check(&path).answer();
}
