//! What sessions have the server's log say.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};
use std::time::Duration;

use tokio_postgres::Client;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::server::{TestServer, connect};

/// Lines of all servers of this process.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Kept;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "saki_log"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn keep_lines() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| tracing::subscriber::set_global_default(Kept).unwrap());
}

/// Lines with all of these words; tests run side by side, and each looks for words of its own.
fn lines_with(words: &[&str]) -> usize {
    LINES.lock().unwrap().iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

async fn run(client: &Client, statements: &[&str]) {
    for statement in statements {
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

#[tokio::test]
async fn statements_are_logged_as_parameters_say() {
    keep_lines();
    let server = TestServer::start();
    let client = server.client().await;
    run(&client, &["CREATE TABLE unlogged_1 (a int)", "SET log_statement = ddl", "SELECT 'log_1'"]).await;
    run(&client, &["CREATE TABLE log_2 (a int)", "INSERT INTO log_2 VALUES (1)", "SET log_statement = mod"]).await;
    run(&client, &["INSERT INTO log_2 VALUES (3)", "SELECT 'log_4'", "CREATE ROLE log_5 PASSWORD 'geheim'"]).await;
    run(&client, &["SET log_statement = all", "SELECT 'log_6',\n 1", "SELECT 1; SELECT 'log_7'"]).await;
    client.query("SELECT $1::text || 'log_8'", &[&"x"]).await.unwrap();
    run(&client, &["SET log_statement = none", "CREATE TABLE unlogged_9 (a int)"]).await;
    let statement = |text: &str| lines_with(&["message=statement", "user=\"saki\"", text]);
    for (text, times) in [
        ("unlogged_", 0),
        ("log_1", 0),
        ("CREATE TABLE log_2", 1),
        ("INSERT INTO log_2 VALUES (1)", 0),
        ("INSERT INTO log_2 VALUES (3)", 1),
        ("log_4", 0),
        ("CREATE ROLE log_5 PASSWORD '***'", 1),
        ("geheim", 0),
        // A line end begins no line.
        ("SELECT 'log_6',\\n 1", 1),
        ("SELECT 1; SELECT 'log_7'", 1),
        ("log_8", 1),
    ] {
        assert_eq!(statement(text), times, "{text}");
    }
}

#[tokio::test]
async fn durations_are_logged_as_parameters_say() {
    keep_lines();
    let server = TestServer::start();
    let client = server.client().await;
    run(&client, &["SET log_min_duration_statement = '50ms'", "SELECT 'took_1'"]).await;
    run(&client, &["SELECT 'took_2', pg_sleep(0.06)", "SET log_min_duration_statement = 0"]).await;
    client.query("SELECT $1::text || 'took_3'", &[&"x"]).await.unwrap();
    run(&client, &["SET log_statement = all", "SELECT 'took_4'"]).await;
    let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
    let own = format!("process={pid} ");
    for (text, times) in [("took_1", 0), ("took_2", 1), ("took_3", 1), ("took_4", 0)] {
        assert_eq!(lines_with(&["message=duration", "milliseconds=", text]), times, "{text}");
    }
    run(&client, &["SET log_statement = none", "SET log_min_duration_statement = -1"]).await;
    let before = lines_with(&["message=duration", &own]);
    run(&client, &["SELECT 1", "SET log_duration = on", "SELECT 'took_5'", "SELECT 1"]).await;
    // Also that of the SET: it had been set when it ended.
    assert_eq!(lines_with(&["message=duration", &own]), before + 3);
    assert_eq!(lines_with(&["took_5"]), 0);
}

#[tokio::test]
async fn errors_are_logged_as_parameters_say() {
    keep_lines();
    let server = TestServer::start();
    let client = server.client().await;
    let fail = async |statement: &str| client.batch_execute(statement).await.unwrap_err();
    fail("SELECT 'failed_1' FROM absent_1").await;
    run(&client, &["SET log_min_messages = error"]).await;
    fail("SELECT 'failed_2' FROM absent_2").await;
    fail("SELEC 'failed_3'").await;
    client.query("SELECT 'failed_4' FROM absent_4", &[]).await.unwrap_err();
    run(&client, &["SET log_min_error_statement = panic"]).await;
    fail("SELECT 'failed_5' FROM absent_5").await;
    assert_eq!(lines_with(&["failed_1"]) + lines_with(&["absent_1"]), 0);
    assert_eq!(lines_with(&["message=ERROR", "code=\"42P01\"", "absent_2", "failed_2"]), 1);
    assert_eq!(lines_with(&["message=ERROR", "code=\"42601\"", "failed_3"]), 1);
    assert_eq!(lines_with(&["message=ERROR", "failed_4"]), 1);
    assert_eq!((lines_with(&["message=ERROR", "absent_5"]), lines_with(&["failed_5"])), (1, 0));
}

#[tokio::test]
async fn connections_are_logged_as_parameters_say() {
    keep_lines();
    let server = TestServer::start();
    let mut config = server.config();
    config.options("-c log_connections=on -c log_disconnections=on").application_name("watched_1");
    let client = connect(&config).await.unwrap();
    let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
    assert_eq!(lines_with(&["message=connection authorized", "watched_1"]), 1);
    let ended = || lines_with(&["message=disconnection", &format!("process={pid} ")]);
    // Another server of this process may have had the number.
    let before = ended();
    drop(client);
    for _ in 0..200 {
        if ended() == before + 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the end of a session has not been logged");
}
