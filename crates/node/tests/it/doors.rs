//! Who holds which places before and after logging in, and what a client may reach of the server's machine.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{TestServer, code, connect};

/// A connection that says nothing.
async fn silent(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.address()).await.unwrap()
}

/// Whether the server ends a connection soon.
async fn is_ended(socket: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read_u8()).await;
    read.is_ok_and(|read| read.is_err())
}

#[tokio::test]
async fn those_who_only_knock_take_nobodys_place() {
    let server = TestServer::with(|options, _| {
        (options.max_connections, options.reserved_connections, options.half_open_max) = (2, 0, Some(8));
    });
    let mut knocking = Vec::new();
    for _ in 0..40 {
        knocking.push(silent(&server).await);
    }
    // The oldest have left for the newest.
    for socket in &mut knocking[..32] {
        assert!(is_ended(socket).await);
    }
    let (first, _second) = (server.client().await, server.client().await);
    assert!(first.simple_query("SELECT 1").await.is_ok());
    assert_eq!(code(connect(&server.config()).await), "53300");
}

#[tokio::test]
async fn whoever_does_not_log_in_is_sent_away() {
    let server = TestServer::with(|options, _| options.login_timeout = Duration::from_millis(200));
    let mut socket = silent(&server).await;
    assert!(is_ended(&mut socket).await);
    // A packet that never ends is no better than none.
    let mut socket = silent(&server).await;
    socket.write_all(&[0, 0, 0, 100, 0, 3, 0, 0, b'u']).await.unwrap();
    assert!(is_ended(&mut socket).await);
}

#[tokio::test]
async fn a_server_that_stops_does_not_wait_for_those_who_knock() {
    let server = TestServer::start();
    let _knocking = silent(&server).await;
    server.client().await;
    let began = Instant::now();
    server.stop(Duration::from_secs(9)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn wrong_passwords_are_answered_late_and_keep_nobody_out() {
    let delay = Duration::from_millis(400);
    let server = TestServer::with(|options, _| {
        (options.password_delay, options.half_open_max) = (delay, Some(4));
    });
    server.add_user("ada", "right").await;
    let wrong = |user: &'static str| {
        let mut config = server.config();
        config.user(user).password("wrong");
        tokio::spawn(async move {
            let began = Instant::now();
            (code(connect(&config).await), began.elapsed())
        })
    };
    for user in ["ada", "nobody"] {
        let (code, took) = wrong(user).await.unwrap();
        assert_eq!(code, "28P01", "{user}");
        assert!(took >= delay, "{user}: {took:?}");
    }
    let guesses: Vec<_> = (0..20).map(|_| wrong("ada")).collect();
    tokio::time::sleep(delay / 2).await;
    assert!(connect(server.config().password("right")).await.is_ok());
    for guess in guesses {
        assert_ne!(guess.await.unwrap().0, "no error");
    }
}

#[tokio::test]
async fn databases_that_are_not_there_are_refused() {
    let server = TestServer::start();
    let mut config = server.config();
    for (name, expected) in [("test", "no error"), ("postgres", "no error"), ("ada", "no error"), ("other", "3D000")] {
        assert_eq!(code(connect(config.dbname(name)).await), expected, "{name}");
    }
    let server = TestServer::with(|options, _| options.database_name = Some("other".to_owned()));
    config = server.config();
    assert_eq!(code(connect(&config).await), "3D000");
    assert!(connect(config.dbname("other")).await.is_ok());
}

#[tokio::test]
async fn names_may_say_the_database() {
    let server = TestServer::start();
    let client = server.client().await;
    let statements =
        "CREATE SCHEMA s; CREATE TABLE test.s.t (a int PRIMARY KEY); INSERT INTO \"test\".\"s\".\"t\" VALUES (1);
        CREATE VIEW test.public.v AS SELECT test.s.t.a FROM test.s.t; UPDATE test.s.t SET a = 2";
    client.batch_execute(statements).await.unwrap();
    let row = client.query_one("SELECT a FROM test.public.v WHERE a = $1", &[&2]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 2);
    client.batch_execute("DROP VIEW test.public.v; DROP TABLE test.s.t").await.unwrap();
    let error = client.batch_execute("CREATE TABLE other.s.t (a int)").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "0A000");
}

#[tokio::test]
async fn files_are_reached_below_one_directory_or_nowhere() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)").await.unwrap();
    for sql in [
        "COPY t TO '/tmp/never.csv' WITH (FORMAT csv)",
        "COPY t FROM '/etc/passwd' WITH (FORMAT csv)",
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/etc/passwd'",
    ] {
        assert_eq!(code(client.simple_query(sql).await), "42501", "{sql}");
    }
    let server = TestServer::with(|options, directory| {
        let files = directory.join("files");
        std::fs::create_dir(&files).unwrap();
        std::os::unix::fs::symlink(directory, files.join("up")).unwrap();
        options.file_directory = Some(files);
    });
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)").await.unwrap();
    for (sql, expected) in [
        ("COPY t TO 't.csv' WITH (FORMAT csv)", "no error"),
        ("DELETE FROM t", "no error"),
        ("COPY t FROM 't.csv' WITH (FORMAT csv)", "no error"),
        ("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 't.csv'", "no error"),
        ("COPY t TO 'up/test.saki' WITH (FORMAT csv)", "42501"),
        ("COPY t TO '../test.saki' WITH (FORMAT csv)", "42501"),
        ("COPY t FROM '/etc/passwd' WITH (FORMAT csv)", "42501"),
    ] {
        assert_eq!(code(client.simple_query(sql).await), expected, "{sql}");
    }
}
