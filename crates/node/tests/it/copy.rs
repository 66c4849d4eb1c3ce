//! COPY over the connection, in its three formats.

use bytes::Bytes;
use tokio_postgres::Client;

use crate::server::{TestServer, code};

async fn copy_in(client: &Client, sql: &str, parts: &[&[u8]]) -> Result<u64, tokio_postgres::Error> {
    use futures::SinkExt;
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    let mut sink = std::pin::pin!(sink);
    for part in parts {
        sink.send(Bytes::copy_from_slice(part)).await?;
    }
    sink.finish().await
}

async fn copy_out(client: &Client, sql: &str) -> Vec<u8> {
    use futures::TryStreamExt;
    let parts: Vec<Bytes> = client.copy_out(sql).await.unwrap().try_collect().await.unwrap();
    parts.concat()
}

#[tokio::test]
async fn rows_go_in_and_out_alike() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(10,2), d date)").await.unwrap();
    let text: &[u8] = b"1\ta\\tb\\\\c\t1.50\t2024-01-01\n2\t\\N\t\\N\t\\N\n3\t\t-0.01\t1999-12-31\n";
    // Cut anywhere.
    let parts: Vec<&[u8]> = text.chunks(3).collect();
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &parts).await.unwrap(), 3);
    assert_eq!(copy_out(&client, "COPY (SELECT * FROM t ORDER BY id) TO STDOUT").await, text);
    let csv = copy_out(&client, "COPY (SELECT * FROM t ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER)").await;
    assert_eq!(
        String::from_utf8(csv.clone()).unwrap(),
        "id,v,n,d\n1,a\tb\\c,1.50,2024-01-01\n2,,,\n3,\"\",-0.01,1999-12-31\n"
    );
    let binary = copy_out(&client, "COPY (SELECT * FROM t ORDER BY id) TO STDOUT WITH (FORMAT binary)").await;
    for (name, format, bytes) in [("c", "csv, HEADER", csv), ("b", "binary", binary)] {
        client
            .batch_execute(&format!("CREATE TABLE {name} (id int PRIMARY KEY, v text, n numeric(10,2), d date)"))
            .await
            .unwrap();
        let parts: Vec<&[u8]> = bytes.chunks(5).collect();
        let sql = format!("COPY {name} (id, v, n, d) FROM STDIN WITH (FORMAT {format})");
        assert_eq!(copy_in(&client, &sql, &parts).await.unwrap(), 3, "{format}");
        assert_eq!(copy_out(&client, &format!("COPY (SELECT * FROM {name} ORDER BY id) TO STDOUT")).await, text);
    }
}

/// As PostgreSQL has it, but for what it forgets when a savepoint that has emptied a table is gone back to.
#[tokio::test]
async fn freeze_is_for_tables_that_the_subtransaction_has_made_or_emptied() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int)").await.unwrap();
    for (before, expected) in [
        ("SELECT 1", "55000"),
        ("TRUNCATE t", "55000"),
        ("BEGIN", "55000"),
        ("BEGIN; TRUNCATE t", ""),
        ("BEGIN; DROP TABLE t; CREATE TABLE t (id int)", ""),
        ("BEGIN; DROP TABLE t; CREATE TABLE t AS SELECT 1 AS id", ""),
        ("BEGIN; TRUNCATE t; CREATE INDEX ON t (id); ALTER TABLE t ADD COLUMN v int", ""),
        ("BEGIN; INSERT INTO t VALUES (1); CREATE INDEX ON t (id)", "55000"),
        ("BEGIN; ALTER TABLE t ADD COLUMN v int", "55000"),
        ("BEGIN; TRUNCATE t; SAVEPOINT s", "55000"),
        ("BEGIN; TRUNCATE t; SAVEPOINT s; RELEASE s", ""),
        ("BEGIN; SAVEPOINT s; TRUNCATE t", ""),
        ("BEGIN; SAVEPOINT s; TRUNCATE t; RELEASE s", ""),
        ("BEGIN; SAVEPOINT s; TRUNCATE t; ROLLBACK TO s", "55000"),
        ("BEGIN; TRUNCATE t; DECLARE c CURSOR FOR SELECT 1", "25000"),
        ("BEGIN; DECLARE c CURSOR FOR SELECT 1; FETCH ALL FROM c; TRUNCATE t", "25000"),
        ("BEGIN; TRUNCATE t; DECLARE c CURSOR FOR SELECT 1; CLOSE c", ""),
    ] {
        // A connection of its own: where COPY ends early, the driver has sent one Sync too many.
        let other = server.client().await;
        other.batch_execute(before).await.unwrap();
        let copied = copy_in(&other, "COPY t (id) FROM STDIN (FREEZE on)", &[b"7\n"]).await;
        match copied {
            Ok(rows) => assert_eq!((rows, ""), (1, expected), "{before}"),
            Err(error) => assert_eq!(code(Err::<(), _>(error)), expected, "{before}"),
        }
        drop(other);
        // Without it, and with its opposite, anything goes.
        assert_eq!(copy_in(&client, "COPY t FROM STDIN (FREEZE false)", &[b"7\n"]).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn what_fails_stores_nothing() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await.unwrap();
    for (bytes, expected) in
        [(&b"1\ta\n2\n"[..], "22P04"), (b"1\ta\textra\n", "22P04"), (b"1\t\xff\n", "22021"), (b"x\ta\n", "22P02")]
    {
        assert_eq!(code(copy_in(&client, "COPY t FROM STDIN", &[bytes]).await), expected, "{bytes:?}");
    }
    // A connection of its own: the driver sends one Sync too many when a COPY does not begin.
    let other = server.client().await;
    assert_eq!(code(copy_in(&other, "COPY nothing FROM STDIN", &[]).await).get(..2), Some("42"));
    assert_eq!(copy_out(&client, "COPY t TO STDOUT").await, b"");
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &[b"1\ta\n"]).await.unwrap(), 1);
}

#[tokio::test]
async fn labels_go_in_and_out() {
    let server = TestServer::start();
    let client = server.client().await;
    client
        .batch_execute("CREATE TYPE mood AS ENUM ('sad', 'it''s, \"ok\"'); CREATE TABLE t (id int PRIMARY KEY, m mood)")
        .await
        .unwrap();
    let text: &[u8] = b"1\tsad\n2\tit's, \"ok\"\n3\t\\N\n";
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &[text]).await.unwrap(), 3);
    for format in ["text", "csv", "binary"] {
        let bytes =
            copy_out(&client, &format!("COPY (SELECT * FROM t ORDER BY id) TO STDOUT WITH (FORMAT {format})")).await;
        client.batch_execute("CREATE TABLE u (id int PRIMARY KEY, m mood)").await.unwrap();
        let sql = format!("COPY u FROM STDIN WITH (FORMAT {format})");
        assert_eq!(copy_in(&client, &sql, &[&bytes]).await.unwrap(), 3, "{format}");
        assert_eq!(copy_out(&client, "COPY (SELECT * FROM u ORDER BY id) TO STDOUT").await, text, "{format}");
        client.batch_execute("DROP TABLE u").await.unwrap();
    }
    assert_eq!(code(copy_in(&client, "COPY t FROM STDIN", &[b"4\tnone\n"]).await), "22P02");
}

#[tokio::test]
async fn arrays_go_in_and_out() {
    let server = TestServer::start();
    let client = server.client().await;
    let columns = "id int PRIMARY KEY, n int[], t text[], w timestamptz[]";
    client.batch_execute(&format!("CREATE TABLE t ({columns}); SET TimeZone = 'Asia/Tokyo'")).await.unwrap();
    let text: &[u8] =
        b"1\t{1,NULL,3}\t{\"a b\",\"\",\"NULL\",\"\\\\\"\"}\t{\"2024-02-29 12:00:00+09\"}\n2\t{}\t\\N\t{NULL}\n";
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &[text]).await.unwrap(), 2);
    for format in ["text", "csv", "binary"] {
        let bytes =
            copy_out(&client, &format!("COPY (SELECT * FROM t ORDER BY id) TO STDOUT WITH (FORMAT {format})")).await;
        client.batch_execute(&format!("CREATE TABLE u ({columns})")).await.unwrap();
        let sql = format!("COPY u FROM STDIN WITH (FORMAT {format})");
        assert_eq!(copy_in(&client, &sql, &[&bytes]).await.unwrap(), 2, "{format}");
        assert_eq!(copy_out(&client, "COPY (SELECT * FROM u ORDER BY id) TO STDOUT").await, text, "{format}");
        client.batch_execute("DROP TABLE u").await.unwrap();
    }
    for (bytes, expected) in [(&b"4\t{1,\n"[..], "22P02"), (b"4\t{x}\n", "22P02"), (b"4\t{{1}}\n", "0A000")] {
        assert_eq!(code(copy_in(&client, "COPY t (id, n) FROM STDIN", &[bytes]).await), expected);
    }
}
