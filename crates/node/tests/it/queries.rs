//! Statements: both protocols, portals, parameters, errors, and how statements are stopped.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio_postgres::SimpleQueryMessage;

use crate::server::{ENDLESS, TestServer, code};

fn rows(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

#[tokio::test]
async fn several_statements_of_one_text() {
    let server = TestServer::start();
    let client = server.client().await;
    let text = "CREATE TABLE t (id int PRIMARY KEY, name text); \
                INSERT INTO t VALUES (1, 'a'), (2, NULL); SELECT name FROM t ORDER BY id";
    let messages = client.simple_query(text).await.unwrap();
    assert_eq!(rows(&messages), ["a", "NULL"]);
    let tags: Vec<u64> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        })
        .collect();
    assert_eq!(tags, [0, 2, 2]);
    assert!(client.simple_query("").await.is_ok());
}

/// A text that is compiled is described before it has run.
#[tokio::test]
async fn what_is_described_is_what_comes() {
    let server = TestServer::start();
    let client = server.client().await;
    client.simple_query("CREATE TABLE t (id int PRIMARY KEY, name text)").await.unwrap();
    client.simple_query("INSERT INTO t SELECT i, i::text FROM generate_series(1, 5000) AS s (i)").await.unwrap();
    let told = async |text: &str| {
        let mut messages = std::pin::pin!(client.simple_query_raw(text).await.unwrap());
        let (mut described, mut rows, mut error) = (0, 0, String::new());
        while let Some(message) = messages.next().await {
            match message {
                Ok(SimpleQueryMessage::RowDescription(_)) => described += 1,
                Ok(SimpleQueryMessage::Row(_)) => rows += 1,
                Ok(_) => {}
                Err(failed) => failed.code().expect("the server's").code().clone_into(&mut error),
            }
        }
        (described, rows, error)
    };
    assert_eq!(told("SELECT name FROM t WHERE id = 7").await, (1, 1, String::new()));
    // It fails when its columns have been told.
    let refused = "INSERT INTO t VALUES (8, 'again') RETURNING name";
    assert_eq!(told(refused).await, (0, 0, "23505".to_owned()));
    assert_eq!(told("UPDATE t SET id = 9 WHERE id = 8 RETURNING name").await, (0, 0, "23505".to_owned()));
    // More than is read without a plan, and more keys than this thread looks up.
    assert_eq!(told("SELECT name FROM t WHERE id > 0").await, (1, 5000, String::new()));
    let keys: Vec<String> = (1..2000).map(|id| id.to_string()).collect();
    let keys = keys.join(",");
    assert_eq!(told(&format!("SELECT name FROM t WHERE id IN ({keys})")).await, (1, 1999, String::new()));
    let list: Vec<i32> = (1..3000).collect();
    assert_eq!(client.query("SELECT name FROM t WHERE id = ANY($1)", &[&list]).await.unwrap().len(), 2999);
}

#[tokio::test]
async fn prepared_statements_find_their_types() {
    let server = TestServer::start();
    let client = server.client().await;
    client
        .simple_query("CREATE TABLE t (id bigint PRIMARY KEY, name text, price numeric(10,2), day date)")
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO t (id, name, day) VALUES ($1, $2, $3)").await.unwrap();
    let types: Vec<&str> = insert.params().iter().map(|kind| kind.name()).collect();
    assert_eq!(types, ["int8", "text", "date"]);
    assert_eq!(client.execute("INSERT INTO t (id, name) VALUES ($1, $2)", &[&7_i64, &"it's"]).await.unwrap(), 1);
    let select = client.prepare("SELECT name FROM t WHERE id = $1").await.unwrap();
    assert_eq!(select.params()[0].name(), "int8");
    assert_eq!(client.query_one(&select, &[&7_i64]).await.unwrap().get::<_, String>(0), "it's");
    assert!(client.query(&select, &[&8_i64]).await.unwrap().is_empty());
    // The statement means the table as it is when it runs.
    client.simple_query("INSERT INTO t (id, name) VALUES (8, 'later')").await.unwrap();
    assert_eq!(client.query_one(&select, &[&8_i64]).await.unwrap().get::<_, String>(0), "later");
    let limited = client.query("SELECT id FROM t ORDER BY id LIMIT $1", &[&1_i64]).await.unwrap();
    assert_eq!(limited.len(), 1);
}

#[tokio::test]
async fn portals_give_rows_in_parts() {
    let server = TestServer::start();
    let mut client = server.client().await;
    client.simple_query("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    client.simple_query("INSERT INTO t SELECT value FROM generate_series(1, 10) AS s(value)").await.unwrap();
    let raw = crate::hostile::Raw::connect(&server).await;
    drop(client.transaction().await);
    let kinds = raw.portal("SELECT id FROM t ORDER BY id", 4).await;
    assert_eq!(kinds, "12DDDDsDDDDsDDCZ");
}

#[tokio::test]
async fn errors_say_where() {
    let server = TestServer::start();
    let client = server.client().await;
    let error = client.simple_query("SELECT 1;\nSELEC 2").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "42601");
    assert_eq!(error.position(), Some(&tokio_postgres::error::ErrorPosition::Original(11)));
    assert_eq!(code(client.query("SELECT nothing", &[]).await).get(..2), Some("42"));
    // After an error the connection goes on.
    assert_eq!(client.query_one("SELECT 1::int", &[]).await.unwrap().get::<_, i32>(0), 1);
    assert_eq!(code(client.simple_query("LISTEN x").await), "0A000");
}

#[tokio::test]
async fn errors_of_constraints_name_their_objects() {
    let server = TestServer::start();
    let client = server.client().await;
    let tables = "CREATE SCHEMA s; CREATE TABLE s.p (id int PRIMARY KEY, n int UNIQUE CHECK (n > 0));
        CREATE TABLE c (id int NOT NULL, p int CONSTRAINT owner REFERENCES s.p);
        INSERT INTO s.p VALUES (1, 1); INSERT INTO c VALUES (1, 1)";
    client.batch_execute(tables).await.unwrap();
    let wrongs = [
        ("INSERT INTO s.p VALUES (1, 2)", "23505 s p - p_pkey Key (id)=(1) already exists."),
        ("INSERT INTO s.p VALUES (2, 1)", "23505 s p - p_n_key Key (n)=(1) already exists."),
        ("INSERT INTO s.p VALUES (2, -1)", "23514 s p - p_n_check Failing row contains (2, -1)."),
        ("INSERT INTO c VALUES (NULL, 1)", "23502 public c id - Failing row contains (null, 1)."),
        ("INSERT INTO c VALUES (2, 7)", "23503 public c - owner Key (p)=(7) is not present in table \"p\"."),
        ("DELETE FROM s.p", "23503 public c - owner Key (id)=(1) is still referenced from table \"c\"."),
    ];
    for (sql, expected) in wrongs {
        let error = client.batch_execute(sql).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        let fields = [error.schema(), error.table(), error.column(), error.constraint(), error.detail()];
        let fields = fields.map(|field| field.unwrap_or("-")).join(" ");
        assert_eq!(format!("{} {fields}", error.code().code()), expected, "{sql}");
    }
}

#[tokio::test]
async fn parameters_of_drivers() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("SET extra_float_digits = 3; SET application_name TO 'x'; SET TIME ZONE 'UTC'").await.unwrap();
    assert_eq!(rows(&client.simple_query("SHOW application_name").await.unwrap()), ["x"]);
    assert_eq!(rows(&client.simple_query("SHOW transaction isolation level").await.unwrap()), ["read committed"]);
    client.batch_execute("SET default_transaction_isolation = 'serializable'").await.unwrap();
    assert_eq!(rows(&client.simple_query("SHOW transaction_isolation").await.unwrap()), ["serializable"]);
    assert_eq!(client.query_one("SHOW server_version_num", &[]).await.unwrap().get::<_, String>(0), "150000");
    assert_eq!(code(client.simple_query("SET nonsense = 1").await), "42704");
    assert_eq!(code(client.simple_query("SET client_encoding = 'LATIN1'").await), "22023");
    client.batch_execute("SET saki.batch_rows = 100; RESET ALL").await.unwrap();
    client.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(rows(&client.simple_query("SHOW application_name").await.unwrap()), [""]);
}

#[tokio::test]
async fn statements_prepared_in_sql() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("PREPARE add (int, int) AS SELECT $1 + $2 AS sum").await.unwrap();
    assert_eq!(rows(&client.simple_query("EXECUTE add(2, 3)").await.unwrap()), ["5"]);
    assert_eq!(code(client.simple_query("EXECUTE add(2)").await), "42601");
    client.batch_execute("DEALLOCATE add").await.unwrap();
    assert_eq!(code(client.simple_query("EXECUTE add(2, 3)").await), "26000");
}

#[tokio::test]
async fn a_cancel_request_stops_the_statement() {
    let server = TestServer::start();
    let client = server.client().await;
    let cancel = client.cancel_token();
    let began = Instant::now();
    let mut statement = std::pin::pin!(client.simple_query(ENDLESS));
    // A request that comes before its statement stops nothing: on a busy machine it takes more than one.
    let result = loop {
        match tokio::time::timeout(Duration::from_millis(200), &mut statement).await {
            Ok(result) => break result,
            Err(_) => cancel.cancel_query(tokio_postgres::NoTls).await.unwrap(),
        }
    };
    assert_eq!(code(result), "57014");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(rows(&client.simple_query("SELECT 1").await.unwrap()), ["1"]);
}

#[tokio::test]
async fn a_statement_has_its_time() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("SET statement_timeout = '100ms'").await.unwrap();
    assert_eq!(code(client.simple_query(ENDLESS).await), "57014");
    assert_eq!(rows(&client.simple_query("SELECT 1").await.unwrap()), ["1"]);
}

#[tokio::test]
async fn a_slow_reader_holds_the_query_up_and_gets_all_rows() {
    let server = TestServer::start();
    let client = server.client().await;
    let rows =
        client.query("SELECT value, repeat('x', 100) FROM generate_series(1, 50000) AS s(value)", &[]).await.unwrap();
    assert_eq!(rows.len(), 50_000);
    assert_eq!(rows[49_999].get::<_, i32>(0), 50_000);
}

#[tokio::test]
async fn a_server_that_stops_lets_statements_finish() {
    let server = TestServer::start();
    let (idle, busy) = (server.client().await, server.client().await);
    let running = tokio::spawn(async move { code(busy.simple_query(ENDLESS).await) });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.stop(Duration::from_millis(300)).await;
    assert_eq!(running.await.unwrap(), "57P01");
    assert!(idle.simple_query("SELECT 1").await.is_err());
}

/// What object-relational mappers send: each row comes once, whoever was in the way.
#[tokio::test]
async fn changed_rows_are_given_by_prepared_statements() {
    const ROUNDS: i32 = 40;
    let server = TestServer::start();
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (id serial PRIMARY KEY, k int UNIQUE, n int, c char(4)); \
             INSERT INTO t (k, n) VALUES (0, 0)",
        )
        .await
        .unwrap();
    let insert =
        client.prepare("INSERT INTO t (k, n, c) VALUES ($1, $2, $3) RETURNING id, c, t.k AS key").await.unwrap();
    let names: Vec<&str> = insert.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["id", "c", "key"]);
    let row = client.query_one(&insert, &[&5, &1, &"ab"]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1), row.get::<_, i32>(2)), (2, "ab  ", 5));
    assert_eq!(code(client.query_one(&insert, &[&5, &1, &"ab"]).await), "23505");
    let text = client.simple_query("UPDATE t SET n = 2 WHERE id = 2 RETURNING c, n").await.unwrap();
    assert_eq!(rows(&text), ["ab  "]);
    let others: Vec<_> = futures::future::join_all((0..3).map(|_| server.client())).await;
    let work = others.iter().map(|client| async move {
        let upsert = "INSERT INTO t (k, n) VALUES (9, 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1 RETURNING n";
        let upsert = client.prepare(upsert).await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..ROUNDS {
            seen.push(client.query_one(&upsert, &[]).await.unwrap().get::<_, i32>(0));
        }
        seen
    });
    let mut seen = futures::future::join_all(work).await.concat();
    seen.sort_unstable();
    assert_eq!(seen, (1..=3 * ROUNDS).collect::<Vec<_>>());
}

/// A `char(n)` has its blanks also as a group, as what parts of a UNION have in common, and by a cast.
#[tokio::test]
async fn blanks_are_shown_wherever_a_char_comes_from() {
    let server = TestServer::start();
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, c char(4)); INSERT INTO t VALUES (1, 'ab')")
        .await
        .unwrap();
    for query in [
        "SELECT c FROM t GROUP BY c",
        "SELECT c FROM t GROUP BY c, id HAVING count(*) = 1",
        "SELECT c FROM t UNION SELECT c FROM t",
        "SELECT 'ab'::char(4) FROM t",
    ] {
        assert_eq!(rows(&client.simple_query(query).await.unwrap()), ["ab  "], "{query}");
        let row = client.query_one(query, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "ab  ", "{query}");
    }
}
