//! Queries that need more memory than they may have.

use arrow::util::pretty::pretty_format_batches;
use saki_sql::{CreateOptions, Database, OpenOptions, Session};

async fn answer(session: &Session, sql: &str) -> Result<String, saki_sql::SqlError> {
    let result = session.execute(sql).await?.pop().expect("a result");
    Ok(pretty_format_batches(&result.collect().await?).unwrap().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_spills_and_gives_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let open = OpenOptions { cache_bytes: 16 << 20, reactors: Some(1), ..OpenOptions::default() };
    let database =
        Database::create(directory.path().join("database"), CreateOptions { open, ..CreateOptions::default() })
            .unwrap();
    let session = Session::new(&database);
    session.set("partitions", "1").unwrap();
    answer(&session, "CREATE TABLE t (id int PRIMARY KEY, name text)").await.unwrap();
    answer(
        &session,
        "INSERT INTO t SELECT i, 'a name as long as names are ' || i FROM generate_series(1, 60000) AS s(i)",
    )
    .await
    .unwrap();
    let queries = [
        "SELECT count(*), sum(n), min(name) FROM (SELECT name, count(*) AS n FROM t GROUP BY name) AS groups",
        "SELECT count(*), sum(a.id), max(b.name) FROM t AS a JOIN t AS b ON a.name = b.name",
        "SELECT max(place), min(name) FROM (SELECT name, row_number() OVER (ORDER BY name DESC) AS place FROM t) \
         AS sorted",
    ];
    for sql in queries {
        session.set("query_memory", "unlimited").unwrap();
        let expected = answer(&session, sql).await.unwrap();
        session.set("query_memory", "8MB").unwrap();
        for operators in ["native", "spilling"] {
            session.set("operators", operators).unwrap();
            assert_eq!(answer(&session, sql).await.unwrap(), expected, "{operators}: {sql}");
        }
        session.set("operators", "native").unwrap();
    }
    // One group that is larger than all of it can go nowhere.
    session.set("query_memory", "1MB").unwrap();
    let error =
        answer(&session, "SELECT length(string_agg(name, ',')), count(DISTINCT name) FROM t").await.unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{error}");
    // The session goes on, and has given everything back.
    session.set("query_memory", "8MB").unwrap();
    assert!(answer(&session, queries[0]).await.is_ok());
}
