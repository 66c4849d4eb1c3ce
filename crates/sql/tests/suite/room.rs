//! Newer rows have a limit: whoever writes more waits, and is told who keeps them.

use std::time::{Duration, Instant};

use saki_sql::{CreateOptions, Database, OpenOptions, Session, SqlError};

use crate::support::{number, options, reopen, run, waits};

const ROWS: i64 = 200;

/// Rows of half a kilobyte.
fn insert(of: &str, first: i64) -> String {
    let last = first + ROWS - 1;
    format!("INSERT INTO {of} SELECT g, repeat('y', 500) FROM generate_series({first}, {last}) g")
}

/// Rows until there is no room for more; how many were taken, and what was said then.
async fn filled(session: &Session) -> (i64, SqlError) {
    let mut taken = 0;
    loop {
        assert!(taken < 100_000, "newer rows have a limit");
        match session.execute(&insert("t", taken)).await {
            Ok(_) => taken += ROWS,
            Err(error) => return (taken, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_wait_for_room_and_are_told_who_keeps_it() {
    let directory = tempfile::tempdir().unwrap();
    let open = OpenOptions { delta_limit_bytes: 4 << 20, ..options() };
    let path = directory.path().join("database");
    let database = Database::create(path, CreateOptions { open, ..CreateOptions::default() }).unwrap();
    let [reader, writer, other] = [(); 3].map(|()| Session::new(&database));
    run(&writer, "CREATE TABLE t (id int PRIMARY KEY, name text); CREATE TABLE u (id int PRIMARY KEY, name text)")
        .await;
    run(&writer, "INSERT INTO u VALUES (1, 'x')").await;
    run(&reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t").await;

    let (taken, refused) = filled(&writer).await;
    assert_eq!(refused.sqlstate(), "53200", "{refused}");
    assert!(taken > ROWS, "{taken}");
    let detail = refused.detail.as_deref().unwrap_or_default();
    assert!(detail.contains("that of the transaction of process"), "{detail}");
    assert_eq!(number(&other, "SELECT count(*) FROM t").await, taken, "reading goes on");

    // Compiled ones and planned ones wait alike, and go on when there is room.
    run(&other, "SET saki.compiled = 'off'").await;
    let (planned, compiled) = ("UPDATE u SET name = name || 'z'".to_owned(), insert("t", taken));
    let (mut planned, mut compiled) = (other.execute(&planned), writer.execute(&compiled));
    assert!(waits(&mut planned).await && waits(&mut compiled).await);
    let began = Instant::now();
    run(&reader, "COMMIT").await;
    planned.await.unwrap();
    compiled.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    drop((reader, writer, other, database));

    let session = Session::new(&reopen(directory.path()));
    assert_eq!(number(&session, "SELECT count(*) FROM t").await, taken + ROWS);
    assert_eq!(number(&session, "SELECT length(name) FROM u").await, 2);
}
