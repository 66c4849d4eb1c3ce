//! Clients that leave without a word, that do not listen, or come in crowds; and the server's own end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::SinkExt;
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::server::{ENDLESS, TestServer, code, connect};

/// How long the server may take to notice what has happened.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client, and the task that can be ended as its process would be.
async fn mortal(server: &TestServer) -> (Client, JoinHandle<()>) {
    let (client, connection) = server.config().connect(NoTls).await.unwrap();
    (client, tokio::spawn(async move { connection.await.unwrap_or_default() }))
}

/// A figure of the server's metrics; 0 if it was not counted yet.
async fn metric(server: &TestServer, name: &str) -> u64 {
    let mut socket = TcpStream::connect(server.admin()).await.unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    figure.map_or(0, |figure| figure.parse().unwrap())
}

async fn until_alone(server: &TestServer, others: u64) {
    let began = Instant::now();
    while metric(server, "saki_connections").await > others {
        assert!(began.elapsed() < PATIENCE, "connections without clients stay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn with_metrics(max_connections: usize) -> TestServer {
    TestServer::with(|options, _| {
        options.admin = Some("127.0.0.1:0".parse().unwrap());
        options.max_connections = max_connections;
    })
}

#[tokio::test]
async fn rows_are_free_once_the_client_that_changed_them_has_vanished() {
    let server = with_metrics(10);
    let other = server.client().await;
    other.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)").await.unwrap();
    let rows: String = (3..20_000).map(|id| format!("{id}\t-1\n")).collect();
    for last_words in ["", ENDLESS, "COPY t FROM STDIN"] {
        let (client, connection) = mortal(&server).await;
        client.batch_execute("BEGIN; UPDATE t SET n = -1 WHERE id = 1; INSERT INTO t VALUES (2, -1)").await.unwrap();
        if last_words.starts_with("COPY") {
            let sink = client.copy_in::<_, Bytes>(last_words).await.unwrap();
            let mut sink = std::pin::pin!(sink);
            sink.send(Bytes::from(rows.clone())).await.unwrap();
            connection.abort();
        } else {
            let words = tokio::spawn(async move { client.batch_execute(last_words).await.map(|()| client) });
            tokio::time::sleep(Duration::from_millis(200)).await;
            connection.abort();
            let _ = words.await;
        }
        until_alone(&server, 1).await;
        let update = other.execute("UPDATE t SET n = n + 1 WHERE id = 1", &[]);
        assert_eq!(tokio::time::timeout(PATIENCE, update).await.expect("the row is locked").unwrap(), 1);
    }
    let row = other.query_one("SELECT count(*), max(n) FROM t", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (1, 3));
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_its_own_query_alone() {
    let server = with_metrics(10);
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let startup = b"\0\0\0\x12\0\x03\0\0user\0ada\0\0";
    socket.write_all(startup).await.unwrap();
    let query = b"SELECT value, repeat('x', 100) FROM generate_series(1, 20000000) AS s(value)\0";
    socket.write_all(&[&b"Q\0\0\0"[..], &[query.len() as u8 + 4][..], query].concat()).await.unwrap();
    // Until the buffers of both sockets are full.
    let (mut sent, mut before) = (0, u64::MAX);
    let began = Instant::now();
    while sent != before || sent < 100_000 {
        assert!(began.elapsed() < PATIENCE, "{sent} bytes were sent to a client that does not read");
        tokio::time::sleep(Duration::from_millis(500)).await;
        (before, sent) = (sent, metric(&server, "saki_sent_bytes_total").await);
    }
    // Of more than two gigabytes.
    assert!(sent < 64 << 20, "{sent} bytes were sent to a client that does not read");
    let other = server.client().await;
    let answer =
        tokio::time::timeout(PATIENCE, other.query_one("SELECT count(*) FROM generate_series(1, 100000)", &[]));
    assert_eq!(answer.await.expect("an answer").unwrap().get::<_, i64>(0), 100_000);
    drop(socket);
    until_alone(&server, 1).await;
}

/// So many as the limit of open files lets this process have: both ends are here.
fn crowd() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let soft = files.split_whitespace().next().and_then(|soft| soft.parse().ok()).unwrap_or(usize::MAX);
    (soft.saturating_sub(200) / 2).min(500)
}

#[tokio::test]
async fn a_crowd_comes_works_and_leaves_nothing_behind() {
    let many = crowd();
    let server = with_metrics(many);
    let first = server.client().await;
    first.batch_execute("CREATE TABLE t (id bigint PRIMARY KEY, n int)").await.unwrap();
    for round in 0..2 {
        let mut clients = join_all((1..many).map(|_| server.client())).await;
        assert_eq!(code(connect(&server.config()).await), "53300");
        // All transactions are open at once.
        join_all(clients.iter().zip(0_i64..).map(async |(client, number)| {
            client.batch_execute("BEGIN").await.unwrap();
            let row = number * 2 + round;
            client.execute("INSERT INTO t VALUES ($1, 1)", &[&row]).await.unwrap();
        }))
        .await;
        // Half of them end as they should.
        let leaving = clients.split_off(many / 2);
        let kept = clients.len() as i64;
        join_all(clients.iter().map(async |client| client.batch_execute("COMMIT").await.unwrap())).await;
        drop((clients, leaving));
        until_alone(&server, 1).await;
        let rows = first.query_one("SELECT count(*) FROM t", &[]).await.unwrap();
        assert_eq!(rows.get::<_, i64>(0), kept * (round + 1));
    }
}

#[tokio::test]
async fn a_server_that_stops_keeps_what_it_acknowledged_and_ends_in_time() {
    const GRACE: Duration = Duration::from_millis(500);
    let server = TestServer::start();
    let clients = join_all((0..5).map(|_| server.client())).await;
    clients[0].batch_execute("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    let have_written = Arc::new(Barrier::new(clients.len()));
    let writers: Vec<JoinHandle<i64>> = clients
        .into_iter()
        .zip(0_i64..)
        .map(|(client, number)| {
            let have_written = Arc::clone(&have_written);
            tokio::spawn(async move {
                if number == 0 {
                    assert_eq!(code(client.batch_execute(ENDLESS).await), "57P01");
                    return 0;
                }
                let mut acknowledged = 0;
                while client.execute("INSERT INTO t VALUES ($1)", &[&(acknowledged * 5 + number)]).await.is_ok() {
                    acknowledged += 1;
                    if acknowledged == 1 {
                        have_written.wait().await;
                    }
                }
                acknowledged
            })
        })
        .collect();
    have_written.wait().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    let directory = server.stop(GRACE).await;
    assert!(began.elapsed() >= GRACE && began.elapsed() < PATIENCE, "it took {:?}", began.elapsed());
    let acknowledged: Vec<i64> = join_all(writers).await.into_iter().map(|writer| writer.unwrap()).collect();
    assert!(acknowledged[1..].iter().all(|count| *count > 0), "nobody wrote: {acknowledged:?}");
    let server = TestServer::over(directory);
    let rows = server.client().await.query("SELECT id % 5, count(*) FROM t GROUP BY 1 ORDER BY 1", &[]).await.unwrap();
    for (row, acknowledged) in rows.iter().zip(&acknowledged[1..]) {
        let found = row.get::<_, i64>(1);
        assert!((*acknowledged..=acknowledged + 1).contains(&found), "{found} rows, {acknowledged} acknowledged");
    }
    assert_eq!(rows.len(), 4);
}

#[tokio::test]
async fn temporary_tables_go_with_their_client_however_it_goes() {
    let server = with_metrics(10);
    let other = server.client().await;
    let count = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";
    let temporary = async || other.query_one(count, &[]).await.unwrap().get::<_, i64>(0);
    for last_words in ["", "BEGIN; INSERT INTO t VALUES (3)", "DISCARD TEMP", "DISCARD ALL"] {
        let (client, connection) = mortal(&server).await;
        client.batch_execute("CREATE TEMP TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").await.unwrap();
        client.execute("INSERT INTO t VALUES ($1)", &[&2]).await.unwrap();
        assert_eq!(client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0), 2);
        assert_eq!(code(other.simple_query("SELECT * FROM t").await), "42P01");
        client.batch_execute(last_words).await.unwrap();
        if last_words.starts_with("DISCARD") {
            assert_eq!(temporary().await, 0, "{last_words}");
        }
        connection.abort();
        let began = Instant::now();
        while temporary().await > 0 {
            assert!(began.elapsed() < PATIENCE, "temporary tables of a client that has gone stay");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
