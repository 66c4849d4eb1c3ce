//! What the server says of itself, and how it describes what it sends.

use crate::server::TestServer;

#[tokio::test]
async fn sessions_and_their_statements_are_seen() {
    let server = TestServer::start();
    let (watching, other) = (server.client().await, server.client().await);
    other.batch_execute("SET application_name = 'other'").await.unwrap();
    other.batch_execute("BEGIN").await.unwrap();
    let pid: i32 = other.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let own = "SELECT current_user, current_database(), inet_client_addr()";
    let own = watching.query_one(own, &[]).await.unwrap();
    assert_eq!((own.get::<_, &str>(0), own.get::<_, &str>(1), own.get::<_, &str>(2)), ("saki", "test", "127.0.0.1"));
    let sessions = "SELECT pid, state, statement FROM saki.sessions WHERE application_name = 'other'";
    let row = watching.query_one(sessions, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), i64::from(pid));
    assert_eq!((row.get::<_, &str>(1), row.get::<_, &str>(2)), ("idle in transaction", "SELECT pg_backend_pid()"));
    let activity = "SELECT state, query, usename FROM pg_stat_activity WHERE application_name = 'other'";
    let row = watching.query_one(activity, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1), row.get::<_, &str>(2)),
        ("idle in transaction", "SELECT pg_backend_pid()", "saki")
    );
    let queries = "SELECT statement, rows_sent, visits_done <= visits_estimated FROM saki.queries";
    let row = watching.query_one(queries, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1), row.get::<_, bool>(2)), (queries, 0, true));
    drop(other);
    for _ in 0..100 {
        if watching.query_opt(sessions, &[]).await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("a session that has ended is still there");
}

#[tokio::test]
async fn columns_have_postgresqls_types() {
    let server = TestServer::start();
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(20), c char(5), n numeric(10,2))")
        .await
        .unwrap();
    client.batch_execute("INSERT INTO t VALUES (1, 'v', 'c', 1.5)").await.unwrap();
    for (sql, types) in [
        ("SELECT id, v, c, n FROM t WHERE id = 1", vec!["int4", "varchar", "bpchar", "numeric"]),
        ("SELECT s.v, s.c || 'x' FROM (SELECT * FROM t) s ORDER BY s.id", vec!["varchar", "text"]),
        ("SELECT oid, relname, relkind FROM pg_class WHERE relname = 't'", vec!["oid", "name", "char"]),
        ("SELECT indkey, indclass FROM pg_index", vec!["int2vector", "oidvector"]),
    ] {
        let statement = client.prepare(sql).await.unwrap();
        let found: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
        assert_eq!(found, types, "{sql}");
    }
    let row = client.query_one("SELECT c FROM t WHERE id = 1", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "c    ");
    let row = client.query_one("SELECT c FROM t", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "c    ");
    let row = client.query_one("SELECT oid FROM pg_class WHERE relname = 't'", &[]).await.unwrap();
    assert!(row.get::<_, u32>(0) >= 16384);
}
