//! Statements that belong together: of one text, of one pipeline, and the cursors of a transaction.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::hostile::Raw;
use crate::server::{TestServer, code};

/// The first column of the rows that a text gives.
async fn values(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap();
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

#[tokio::test]
async fn statements_of_one_text_are_one_transaction() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    assert_eq!(
        code(client.simple_query("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT 1 / 0").await)[..2],
        *"22"
    );
    assert!(values(&client, "SELECT id FROM t").await.is_empty());
    // What COMMIT has ended stays; what follows it is another transaction.
    let text = "INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)";
    assert_eq!(code(client.simple_query(text).await), "23505");
    assert_eq!(values(&client, "SELECT id FROM t").await, ["1"]);
    // BEGIN takes what was before it in, and what is open at the end stays open.
    let text = "INSERT INTO t VALUES (3); BEGIN; INSERT INTO t VALUES (4)";
    client.batch_execute(text).await.unwrap();
    assert_eq!(values(&client, "SELECT id FROM t ORDER BY id").await, ["1", "3", "4"]);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(values(&client, "SELECT id FROM t").await, ["1"]);
    assert_eq!(code(client.simple_query("SELECT 1; SAVEPOINT s").await), "25P01");
    assert_eq!(code(client.simple_query("SELECT 1; VACUUM").await), "25001");
    client.batch_execute("VACUUM").await.unwrap();
    // Changes of a table and of its rows are one transaction.
    client.batch_execute("INSERT INTO t VALUES (5); CREATE INDEX ON t (id); INSERT INTO t VALUES (6)").await.unwrap();
    assert_eq!(values(&client, "SELECT id FROM t ORDER BY id").await, ["1", "5", "6"]);
    let text = "INSERT INTO t VALUES (7); CREATE TABLE u (id int); INSERT INTO t VALUES (1)";
    assert_eq!(code(client.simple_query(text).await), "23505");
    assert_eq!(values(&client, "SELECT id FROM t ORDER BY id").await, ["1", "5", "6"]);
    assert_eq!(code(client.simple_query("SELECT * FROM u").await), "42P01");
}

/// What Alembic and Django send.
#[tokio::test]
async fn a_migration_is_there_or_not() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)").await.unwrap();
    for (end, versions) in [("ROLLBACK", 0), ("COMMIT", 1)] {
        client.batch_execute("BEGIN").await.unwrap();
        for statement in [
            "CREATE TABLE author (id SERIAL NOT NULL, name VARCHAR(80) NOT NULL, PRIMARY KEY (id))",
            "CREATE TABLE book (id SERIAL NOT NULL, author_id INTEGER, title TEXT, PRIMARY KEY (id))",
            "CREATE INDEX ix_book_title ON book (title)",
            "ALTER TABLE book ADD CONSTRAINT fk_author FOREIGN KEY(author_id) REFERENCES author (id)",
            "INSERT INTO author (name) VALUES ('a'), ('b')",
            "ALTER TABLE author ADD COLUMN born DATE",
            "INSERT INTO book (author_id, title) SELECT id, name FROM author",
            "ALTER TABLE book ALTER COLUMN author_id SET NOT NULL",
            "INSERT INTO alembic_version (version_num) VALUES ('1a2b')",
        ] {
            client.execute(statement, &[]).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
        client.batch_execute(end).await.unwrap();
        let found = client.query("SELECT version_num FROM alembic_version", &[]).await.unwrap().len();
        assert_eq!(found, versions);
    }
    let found = client.query("SELECT title FROM book JOIN author ON author.id = author_id", &[]).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(code(client.simple_query("INSERT INTO book (author_id) VALUES (77)").await), "23503");
}

#[tokio::test]
async fn statements_up_to_sync_are_one_transaction() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    let raw = Raw::connect(&server).await;
    let (one, two) = ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)");
    assert_eq!(raw.pipeline(&[one, two, two]).await, "12C12C12EZ");
    assert!(values(&client, "SELECT id FROM t").await.is_empty());
    assert_eq!(raw.pipeline(&[one, two]).await, "12C12CZ");
    assert_eq!(values(&client, "SELECT id FROM t ORDER BY id").await, ["1", "2"]);
    // COMMIT parts them.
    let (three, four) = ("INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)");
    assert_eq!(raw.pipeline(&[three, "COMMIT", four, one]).await, "12C12NC12C12EZ");
    assert_eq!(values(&client, "SELECT id FROM t ORDER BY id").await, ["1", "2", "3"]);
    assert_eq!(raw.pipeline(&["VACUUM"]).await, "12CZ");
    assert_eq!(raw.pipeline(&["SELECT 1", "VACUUM"]).await, "12DC12EZ");
}

#[tokio::test]
async fn a_query_that_fails_on_its_way_fails_its_transaction() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (0), (1)").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(code(client.query("SELECT 1 / id FROM t", &[]).await)[..2], *"22");
    assert_eq!(code(client.query("SELECT id FROM t", &[]).await), "25P02");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(values(&client, "SELECT id FROM t ORDER BY id").await, ["0", "1"]);
}

#[tokio::test]
async fn cursors_give_rows_when_they_are_asked() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    client.batch_execute("INSERT INTO t SELECT value FROM generate_series(1, 1000) AS s(value)").await.unwrap();
    let declare = "DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id";
    assert_eq!(code(client.simple_query(declare).await), "25P01");
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute(declare).await.unwrap();
    assert_eq!(code(client.simple_query("SELECT 1; FETCH 1 FROM d").await), "34000");
    client.batch_execute("ROLLBACK; BEGIN").await.unwrap();
    client.batch_execute(declare).await.unwrap();
    assert_eq!(values(&client, "FETCH 2 FROM c").await, ["1", "2"]);
    // In binary, and described.
    let rows = client.query("FETCH FORWARD 2 FROM c", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(values(&client, "FETCH c").await, ["5"]);
    client.batch_execute("MOVE FORWARD 2 c").await.unwrap();
    assert_eq!(values(&client, "FETCH NEXT FROM c").await, ["8"]);
    assert_eq!(client.execute("MOVE 2 IN c", &[]).await.unwrap(), 2, "it says how many it passed over");
    assert_eq!(values(&client, "FETCH ALL FROM c").await.len(), 990);
    assert_eq!(client.execute("MOVE ALL FROM c", &[]).await.unwrap(), 0);
    assert!(values(&client, "FETCH ALL FROM c").await.is_empty());
    client.batch_execute("CLOSE c").await.unwrap();
    assert_eq!(code(client.simple_query("FETCH ALL FROM c").await), "34000");
    client.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id").await.unwrap();
    client.batch_execute("DELETE FROM t WHERE id = 1").await.unwrap();
    assert_eq!(values(&client, "FETCH 1 FROM h").await, ["1"]);
    client.batch_execute("CLOSE ALL").await.unwrap();
    assert_eq!(code(client.simple_query("FETCH BACKWARD 1 FROM h").await), "0A000");
}

/// Its turn to publish may be long in coming: until it has it, nothing is committed.
#[tokio::test]
async fn a_commit_that_waits_for_its_turn_can_be_stopped() {
    let server = TestServer::start();
    let (client, other) = (server.client().await, server.client().await);
    client.batch_execute("CREATE TABLE t (id int)").await.unwrap();
    let within = async |work: &mut (dyn Future<Output = Result<(), tokio_postgres::Error>> + Unpin)| {
        code(tokio::time::timeout(std::time::Duration::from_secs(10), work).await.expect("it waits on"))
    };
    for rows in ["", "; INSERT INTO t VALUES (1)"] {
        for by_time in [true, false] {
            client.batch_execute(&format!("BEGIN; CREATE TABLE n (a int){rows}")).await.unwrap();
            let held = server.hold_turn();
            if by_time {
                client.batch_execute("SET LOCAL statement_timeout = 200").await.unwrap();
            }
            let mut commit = Box::pin(client.batch_execute("COMMIT"));
            if !by_time {
                assert!(tokio::time::timeout(std::time::Duration::from_millis(200), &mut commit).await.is_err());
                client.cancel_token().cancel_query(tokio_postgres::NoTls).await.unwrap();
            }
            assert_eq!(within(&mut commit).await, "57014");
            held.send(()).unwrap();
            let left = "SELECT (SELECT count(*) FROM pg_class WHERE relname = 'n') + (SELECT count(*) FROM t)";
            assert_eq!(values(&client, left).await, ["0"]);
        }
    }
    // The end of a text commits as well.
    client.batch_execute("SET statement_timeout = '2s'").await.unwrap();
    let text = "CREATE TABLE n (a int); SELECT pg_sleep(0.5)";
    let mut together = Box::pin(client.batch_execute(text));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), &mut together).await.is_err());
    let held = server.hold_turn();
    assert_eq!(within(&mut together).await, "57014");
    held.send(()).unwrap();
    other.batch_execute("CREATE TABLE n (a int)").await.unwrap();
}

#[tokio::test]
async fn locks_are_waited_for_as_long_as_lock_timeout_says() {
    let server = TestServer::start();
    let (holder, waiter) = (server.client().await, server.client().await);
    // Apart, since BEGIN takes in what its message did before.
    holder.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE t IN SHARE MODE").await.unwrap();
    waiter.batch_execute("SET lock_timeout = '50ms'").await.unwrap();
    assert_eq!(code(waiter.simple_query("INSERT INTO t VALUES (1)").await), "55P03");
    // Local to a transaction, and over with it. Apart as well, or ROLLBACK would take both back.
    waiter.batch_execute("SET lock_timeout = 0").await.unwrap();
    waiter.batch_execute("BEGIN; SET LOCAL lock_timeout = 50").await.unwrap();
    assert_eq!(code(waiter.simple_query("INSERT INTO t VALUES (1)").await), "55P03");
    waiter.batch_execute("ROLLBACK; SET statement_timeout = '300ms'").await.unwrap();
    assert_eq!(code(waiter.simple_query("INSERT INTO t VALUES (1)").await), "57014");
    waiter.batch_execute("SET statement_timeout = 0").await.unwrap();
    let waiting = tokio::spawn(async move { waiter.batch_execute("INSERT INTO t VALUES (1)").await });
    let events = "SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE wait_event_type IS NOT NULL";
    while values(&holder, events).await != ["Lock relation"] {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let modes = "SELECT mode FROM pg_locks WHERE relation = 't'::regclass ORDER BY granted DESC";
    assert_eq!(values(&holder, modes).await, ["ShareLock", "RowExclusiveLock"]);
    holder.batch_execute("COMMIT").await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// Cursors go with what declared them.
#[tokio::test]
async fn cursors_follow_savepoints_and_rollbacks() {
    let server = TestServer::start();
    let client = server.client().await;
    let fetch = async |name: &str| match client.simple_query(&format!("FETCH FROM {name}")).await {
        Ok(messages) => format!("{} messages", messages.len()),
        Err(error) => error.code().expect("the server's").code().to_owned(),
    };
    let there = "3 messages";
    // A savepoint.
    client.batch_execute("BEGIN; DECLARE a CURSOR FOR SELECT generate_series(1, 9); SAVEPOINT s").await.unwrap();
    client.batch_execute("DECLARE b CURSOR FOR SELECT generate_series(1, 9); SAVEPOINT inner_one").await.unwrap();
    client.batch_execute("DECLARE c CURSOR FOR SELECT 1; ROLLBACK TO inner_one").await.unwrap();
    assert_eq!([fetch("a").await.as_str(), fetch("b").await.as_str()], [there, there]);
    assert_eq!(fetch("c").await, "34000");
    client.batch_execute("ROLLBACK TO s").await.unwrap();
    assert_eq!(fetch("a").await, there);
    assert_eq!(fetch("b").await, "34000");
    client.batch_execute("ROLLBACK").await.unwrap();
    // One that is released takes nothing with it.
    client.batch_execute("BEGIN; SAVEPOINT s; DECLARE b CURSOR FOR SELECT 1; RELEASE s").await.unwrap();
    assert_eq!(fetch("b").await, there);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(fetch("b").await, "34000");
    // One that is to outlive a transaction does so if that commits.
    client.batch_execute("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT generate_series(1, 9); COMMIT").await.unwrap();
    assert_eq!(fetch("h").await, there);
    client.batch_execute("BEGIN; DECLARE g CURSOR WITH HOLD FOR SELECT 1; ROLLBACK").await.unwrap();
    assert_eq!(fetch("g").await, "34000");
    assert_eq!(fetch("h").await, there);
    client.batch_execute("DECLARE alone CURSOR WITH HOLD FOR SELECT generate_series(1, 9)").await.unwrap();
    assert_eq!(fetch("alone").await, there);
    client.batch_execute("BEGIN; DECLARE i CURSOR FOR SELECT 1; COMMIT AND CHAIN").await.unwrap();
    assert_eq!(fetch("i").await, "34000");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(fetch("alone").await, there);
}
