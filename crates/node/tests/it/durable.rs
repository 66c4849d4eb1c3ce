//! Over the wire, too, nothing is told that is not durable.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use saki_base::PageSize;
use saki_sql::Database;
use saki_store::SimStorage;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::server::{TestServer, open_options};

/// How clients learn of rows.
const WAYS: [&str; 7] = ["fetch", "fetch nothing", "move", "copy", "copy a query", "portal", "count"];

/// Rows, or how many rows a statement says that it was about.
fn told(messages: &[SimpleQueryMessage]) -> u64 {
    let last = messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
        _ => None,
    });
    last.expect("a statement ends")
}

async fn copied(client: &Client, statement: &str) -> u64 {
    let stream = client.copy_out(statement).await.unwrap();
    let chunks: Vec<_> = pin!(stream).try_collect().await.unwrap();
    chunks.iter().flat_map(|chunk| chunk.iter()).filter(|byte| **byte == b'\n').count() as u64
}

/// How many rows a client is told of, in a transaction that has begun.
async fn asked(client: Client, way: &'static str) -> u64 {
    let said = async |sql| told(&client.simple_query(sql).await.unwrap());
    match way {
        "fetch" => said("DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k; FETCH ALL FROM c").await,
        "fetch nothing" => said("DECLARE c CURSOR FOR SELECT k FROM t WHERE v = 0 AND k > 1; FETCH 10 FROM c").await,
        "move" => said("DECLARE c CURSOR FOR SELECT k + v FROM t; MOVE ALL FROM c").await,
        "copy" => copied(&client, "COPY t TO STDOUT").await,
        "copy a query" => copied(&client, "COPY (SELECT k + 1 FROM t WHERE k > 1) TO STDOUT").await,
        "portal" => client.query("SELECT k FROM t WHERE k >= $1", &[&0_i64]).await.unwrap().len() as u64,
        _ => said("UPDATE t SET v = 1 WHERE k = 3").await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_durable_is_told_in_no_way() {
    let storage = SimStorage::default();
    let store = storage.create("test", PageSize::new(8192).unwrap(), open_options()).unwrap();
    let database = Database::over(Arc::clone(&store));
    let server = TestServer::serve(database, tempfile::tempdir().unwrap(), |_, _| ());
    let writer = server.client().await;
    writer.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v int)").await.unwrap();
    writer.batch_execute("INSERT INTO t VALUES (1, 0), (2, 0)").await.unwrap();
    let held = storage.logs.hold();
    let write = "INSERT INTO t SELECT g, 1 FROM generate_series(3, 9) g; UPDATE t SET v = 1 WHERE k = 2";
    let writing = tokio::spawn(async move { writer.batch_execute(write).await });
    let newer = || {
        let snapshot = store.newest_snapshot().unwrap();
        snapshot.newer_rows(store.generation().catalog.table("t").unwrap())
    };
    while newer() < 9 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The last may be about to be committed.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut asking: Vec<(&str, JoinHandle<u64>)> = Vec::new();
    for way in WAYS {
        let client = server.client().await;
        client.batch_execute("BEGIN").await.unwrap();
        asking.push((way, tokio::spawn(asked(client, way))));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let early = asking.iter().filter(|(_, asked)| asked.is_finished()).map(|(way, _)| *way);
    assert_eq!(early.collect::<Vec<_>>(), [""; 0], "told of what is not durable");
    assert!(!writing.is_finished(), "acknowledged before it is durable");
    drop(held);
    // Wakes who waits to write.
    store.engine().unwrap().database.finish_cut(0);
    writing.await.unwrap().unwrap();
    let mut answers = Vec::new();
    for (way, asked) in asking {
        let answer = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("told by now");
        answers.push((way, answer.unwrap()));
    }
    let rows = [9, 0, 9, 9, 8, 9, 1];
    assert_eq!(answers, WAYS.into_iter().zip(rows).collect::<Vec<_>>());
}
