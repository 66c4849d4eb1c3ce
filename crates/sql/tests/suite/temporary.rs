//! Temporary tables: whose they are, and when they go.

use saki_sql::{Database, Session};

use super::support::{create, number, reopen, run};

fn schemas(db: &Database) -> Vec<String> {
    let generation = db.generation();
    generation.catalog.schema_names().filter(|name| name.starts_with("pg_temp")).map(str::to_owned).collect()
}

#[tokio::test]
async fn nobody_else_finds_them_and_they_go_with_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let db = create(directory.path());
    let (one, other) = (Session::new(&db), Session::new(&db));
    run(&one, "CREATE TEMP TABLE t (i int); INSERT INTO t VALUES (1), (2)").await;
    run(&other, "CREATE TEMP TABLE t (i int); INSERT INTO t VALUES (3)").await;
    assert_eq!((number(&one, "SELECT sum(i) FROM t").await, number(&other, "SELECT sum(i) FROM t").await), (3, 3));
    run(&one, "INSERT INTO t VALUES (4); CHECKPOINT").await;
    assert_eq!((number(&one, "SELECT sum(i) FROM t").await, number(&other, "SELECT count(*) FROM t").await), (7, 1));
    assert_eq!(schemas(&db).len(), 2);
    run(&other, "BEGIN; CREATE TEMP TABLE open (i int)").await;
    other.end().await.unwrap();
    assert_eq!(schemas(&db).len(), 1);
    assert_eq!(number(&one, "SELECT sum(i) FROM t").await, 7);
    one.end().await.unwrap();
    assert_eq!(schemas(&db), Vec::<String>::new());
    assert!(db.check(&mut |_| {}).unwrap().faults.is_empty());
}

#[tokio::test]
async fn what_is_left_of_sessions_that_did_not_end_goes_when_the_database_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let db = create(directory.path());
    let session = Session::new(&db);
    run(&session, "CREATE TABLE stays (i int); INSERT INTO stays VALUES (1)").await;
    run(&session, "CREATE TEMP TABLE t (i serial, v text); CREATE TEMP VIEW shown AS SELECT i FROM t").await;
    run(&session, "INSERT INTO t (v) VALUES ('x'); CHECKPOINT; INSERT INTO t (v) VALUES ('y')").await;
    assert_eq!(schemas(&db).len(), 1);
    drop((session, db));
    let db = reopen(directory.path());
    let session = Session::new(&db);
    assert_eq!(schemas(&db), Vec::<String>::new());
    assert_eq!(number(&session, "SELECT count(*) FROM stays").await, 1);
    assert_eq!(number(&session, "SELECT count(*) FROM pg_class WHERE relname IN ('t', 'shown', 't_i_seq')").await, 0);
    // The next ones are those of sessions that there are.
    run(&session, "CREATE TEMP TABLE t (i int)").await;
    drop(Session::new(&db));
    assert_eq!(number(&session, "SELECT count(*) FROM t").await, 0);
    assert!(db.check(&mut |_| {}).unwrap().faults.is_empty());
}

#[tokio::test]
async fn a_statement_that_was_prepared_means_the_table_that_its_name_is_now() {
    let directory = tempfile::tempdir().unwrap();
    let db = create(directory.path());
    let session = Session::new(&db);
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 10)").await;
    let prepared = session.prepare("SELECT v FROM t WHERE id = 1", &[]).await.unwrap();
    assert!(session.is_current(&prepared));
    run(&session, "CREATE TEMP TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 20)").await;
    assert!(!session.is_current(&prepared), "the name means another table");
    assert_eq!(number(&session, "SELECT v FROM t WHERE id = 1").await, 20);
    session.discard_temporary().await.unwrap();
    assert!(session.is_current(&prepared));
    assert_eq!(number(&session, "SELECT v FROM t WHERE id = 1").await, 10);
}
