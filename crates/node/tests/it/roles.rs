//! Roles at the door, and what a session is refused through the protocol.

use std::pin::pin;

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::{Client, Config};

use crate::server::{TestServer, code, connect};

const BEGUN: &str = "CREATE ROLE readers; CREATE ROLE bob LOGIN PASSWORD 'right' IN ROLE readers;
    CREATE ROLE outside PASSWORD 'right'; CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 10);
    GRANT SELECT ON t TO readers; ALTER ROLE bob SET work_mem = '7MB'; ALTER ROLE bob SET log_statement = 'none'";

async fn begun() -> (TestServer, Client) {
    let server = TestServer::start();
    let first = server.client().await;
    first.batch_execute(BEGUN).await.unwrap();
    (server, first)
}

fn bob(server: &TestServer) -> Config {
    let mut config = server.config();
    config.user("bob").password("right");
    config
}

async fn shown(client: &Client, sql: &str) -> String {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_as_its_role_and_its_client_say() {
    let (server, first) = begun().await;
    let client = connect(&bob(&server)).await.unwrap();
    assert_eq!(shown(&client, "SELECT current_user || ' ' || session_user").await, "bob bob");
    assert_eq!(shown(&client, "SELECT current_setting('work_mem') || current_setting('is_superuser')").await, "7MBoff");
    let told = connect(bob(&server).options("-c role=readers -c work_mem=8MB")).await.unwrap();
    assert_eq!(shown(&told, "SELECT current_user || ' ' || current_setting('work_mem')").await, "readers 8MB");
    told.batch_execute("SET ROLE NONE").await.unwrap();
    told.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(shown(&told, "SELECT current_user || ' ' || session_user").await, "readers bob");
    for (options, expected) in
        [("-c role=outside", "42501"), ("-c role=nobody", "22023"), ("-c log_statement=all", "42501")]
    {
        assert_eq!(code(connect(bob(&server).options(options)).await), expected, "{options}");
    }
    assert_eq!(code(connect(bob(&server).user("outside")).await), "28000");
    assert_eq!(code(connect(bob(&server).user("nobody")).await), "28P01");
    first.batch_execute("ALTER ROLE bob CONNECTION LIMIT 2").await.unwrap();
    assert_eq!(code(connect(&bob(&server)).await), "53300");
    first
        .batch_execute("REVOKE CONNECT ON DATABASE test FROM PUBLIC; ALTER ROLE bob CONNECTION LIMIT -1")
        .await
        .unwrap();
    assert_eq!(code(connect(&bob(&server)).await), "42501");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_in_and_out_for_those_who_may() {
    let (server, first) = begun().await;
    let client = connect(&bob(&server)).await.unwrap();
    let select = client.prepare("SELECT v FROM t WHERE id = $1").await.unwrap();
    assert_eq!(client.query_one(&select, &[&1]).await.unwrap().get::<_, i32>(0), 10);
    let out = client.copy_out("COPY t TO STDOUT").await.unwrap();
    assert_eq!(pin!(out).try_collect::<Vec<_>>().await.unwrap().concat(), b"1\t10\n");
    // A connection of its own: the driver sends one Sync too many when a COPY does not begin.
    let other = connect(&bob(&server)).await.unwrap();
    assert_eq!(code(other.copy_in::<_, Bytes>("COPY t FROM STDIN").await), "42501");
    first.batch_execute("GRANT INSERT ON t TO bob; REVOKE SELECT ON t FROM readers").await.unwrap();
    let mut sink = Box::pin(client.copy_in("COPY t FROM STDIN").await.unwrap());
    sink.send(Bytes::from("2\t20\n")).await.unwrap();
    assert_eq!(sink.as_mut().finish().await.unwrap(), 1);
    assert_eq!(code(client.query_one(&select, &[&1]).await), "42501");
    let refused = match client.copy_out("COPY t TO STDOUT").await {
        Ok(out) => code(pin!(out).try_collect::<Vec<_>>().await),
        Err(error) => code(Err::<(), _>(error)),
    };
    assert_eq!(refused, "42501");
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(code(client.batch_execute("DECLARE c CURSOR FOR SELECT * FROM t; FETCH ALL FROM c").await), "42501");
    client.batch_execute("ROLLBACK").await.unwrap();
    // What one message says is one transaction.
    let both = "GRANT SELECT ON t TO bob; SELECT 1 / 0";
    assert_eq!(code(first.batch_execute(both).await), "22012");
    assert_eq!(code(client.query_one(&select, &[&1]).await), "42501");
}
