//! Values of sequences: given out once, whatever stops or publishes meanwhile.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use saki_sql::{CreateOptions, Database, OpenOptions, Session};

async fn number(session: &Session, sql: &str) -> i64 {
    let result = session.execute(sql).await.unwrap().pop().unwrap();
    result.collect().await.unwrap()[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_is_given_out_twice_after_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("database");
    let database = Database::create(&path, CreateOptions::default()).unwrap();
    let session = Session::new(&database);
    session.execute("CREATE SEQUENCE s; CREATE TABLE t AS SELECT nextval('s') AS id").await.unwrap();
    assert_eq!(number(&session, "SELECT nextval('s')").await, 2);
    assert_eq!(number(&Session::new(&database), "SELECT nextval('s')").await, 3);
    // Nothing is written at the end: what a stop at any time leaves.
    drop((session, database));
    let database = Database::open(&path, OpenOptions::default()).unwrap();
    let next = number(&Session::new(&database), "SELECT nextval('s')").await;
    assert!((4..200).contains(&next), "{next}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_get_values_of_their_own_while_others_publish() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::create(directory.path().join("database"), CreateOptions::default()).unwrap();
    Session::new(&database).execute("CREATE SEQUENCE s").await.unwrap();
    let fill = "CREATE TABLE t AS SELECT nextval('s') AS id FROM generate_series(1, 20000)";
    let filling = Session::new(&database);
    let filling = tokio::spawn(async move { filling.execute(fill).await.map(|_| ()) });
    let session = Session::new(&database);
    let mut others = Vec::new();
    for _ in 0..300 {
        others.push(number(&session, "SELECT nextval('s')").await);
    }
    filling.await.unwrap().unwrap();
    let list = others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    assert_eq!(number(&session, &format!("SELECT count(*) FROM t WHERE id IN ({list})")).await, 0);
    assert_eq!(number(&session, "SELECT count(DISTINCT id) FROM t").await, 20_000);
    others.sort_unstable();
    others.dedup();
    assert_eq!(others.len(), 300);
}
