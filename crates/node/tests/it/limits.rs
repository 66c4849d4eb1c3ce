//! One statement does not end the server: long lists, plans that double, more memory than there is.

use std::time::Instant;

use saki_node::ServerOptions;

use crate::server::{TestServer, code};

fn small() -> TestServer {
    TestServer::with(|options: &mut ServerOptions, _| options.memory_bytes = Some(64 << 20))
}

const NUMBERS: &str = "CREATE TABLE numbers (id bigint PRIMARY KEY, v bigint, t text); \
    INSERT INTO numbers SELECT value, value % 7, 'x' FROM generate_series(1, 2000) s(value)";

async fn one(client: &tokio_postgres::Client, sql: &str) -> String {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{:.60}: {error:?}", sql));
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap_or_default()
}

#[tokio::test]
async fn long_flat_lists_are_answered() {
    let server = small();
    let client = server.client().await;
    client.simple_query(NUMBERS).await.unwrap();
    let list = |term: &str, by: &str, count: usize| vec![term; count].join(by);
    assert_eq!(one(&client, &format!("SELECT {}", list("1", " + ", 2000))).await, "2000");
    let sum = format!("SELECT {} FROM numbers WHERE id = 3", list("v", " + ", 2000));
    assert_eq!(one(&client, &sum).await, "6000");
    assert_eq!(one(&client, &format!("SELECT length({})", list("'ab'", " || ", 2000))).await, "4000");
    let any = (0..1000).map(|n| format!("id = {n}")).collect::<Vec<_>>().join(" OR ");
    assert_eq!(one(&client, &format!("SELECT count(*) FROM numbers WHERE {any}")).await, "999");
    let union = format!("SELECT count(*) FROM ({}) q", list("SELECT 1", " UNION ALL ", 300));
    assert_eq!(one(&client, &union).await, "300");
    assert_eq!(one(&client, &format!("SELECT 1{}", "::int".repeat(300))).await, "1");
    assert_eq!(code(client.simple_query(&format!("SELECT 1{}", " + 1".repeat(15_000))).await), "54001");
}

#[tokio::test]
async fn a_plan_that_doubles_is_refused() {
    let server = small();
    let client = server.client().await;
    let doubled: String = (1..60).map(|n| format!(", a{n} AS (SELECT x.n FROM a{} x, a{} y)", n - 1, n - 1)).collect();
    let sql = format!("WITH a0 AS (SELECT 1 AS n){doubled} SELECT count(*) FROM a59");
    assert_eq!(code(client.simple_query(&sql).await), "54001");
    assert_eq!(one(&client, "SELECT 1").await, "1");
}

#[tokio::test]
async fn planning_ends_when_it_is_told_to() {
    let server = TestServer::start();
    let client = server.client().await;
    client.simple_query(NUMBERS).await.unwrap();
    let query = "SELECT count(*) FROM numbers a JOIN numbers b ON a.id = b.v WHERE a.v = 3";
    let long = format!("EXPLAIN {}", vec![query; 600].join(" UNION ALL "));
    let begun = Instant::now();
    client.simple_query(&long).await.unwrap();
    let whole = begun.elapsed();
    client.simple_query(&format!("SET statement_timeout = {}", whole.as_millis() / 10)).await.unwrap();
    assert_eq!(code(client.simple_query(&long).await), "57014");
    client.simple_query("RESET statement_timeout").await.unwrap();
    // The session plans one statement at a time: this one waits for the end of the last.
    assert_eq!(one(&client, "SELECT max(id) FROM numbers WHERE v = 3").await, "1998");
    assert!(begun.elapsed() < whole + whole / 2, "{whole:?} to plan it whole, {:?} in all", begun.elapsed());
}

#[tokio::test]
async fn what_does_not_fit_fails_alone() {
    let server = small();
    let client = server.client().await;
    client.simple_query(NUMBERS).await.unwrap();
    assert_eq!(one(&client, "SELECT limit_bytes FROM saki.memory").await, (64 << 20).to_string());
    for sql in [
        "SELECT length(repeat('y', 900000000))",
        "SELECT sum(length(repeat(t, 100000))) FROM numbers",
        "SELECT max(lpad(t, 100000, 'x')) FROM numbers",
        "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000)))",
        "SELECT length(concat(repeat('y', 30000000), repeat('y', 30000000), repeat('y', 30000000)))",
        "SELECT length(repeat('y', 30000000) || repeat('z', 30000000) || repeat('z', 30000000))",
        "SELECT length(regexp_replace(repeat('a', 100000), 'a', repeat('b', 1000), 'g'))",
        "SELECT length(array_to_string(string_to_array(repeat('a,', 10000), ','), repeat('b', 10000)))",
        "SELECT count(g) FROM (SELECT generate_series(1, 1000000 + id) AS g FROM numbers) q",
        "SELECT sum(length(format(repeat('%100000s', 9), t, t, t, t, t, t, t, t, t))) FROM numbers",
        "UPDATE numbers SET t = repeat('y', 100000)",
        "UPDATE numbers SET t = repeat('y', 20000)",
        "INSERT INTO numbers SELECT value, 1, repeat('y', 20000) FROM generate_series(3000, 5000) s(value)",
        "SELECT array_agg(value) FROM generate_series(1, 100000000) s(value)",
        // Either fits, and both at once do not.
        "SELECT length(b) FROM (SELECT a || a AS b FROM (SELECT repeat(t, 15000) AS a FROM numbers) q) r",
        "SELECT length(repeat('y', 20000000))",
    ] {
        assert_eq!(code(client.simple_query(sql).await), "53200", "{sql}");
    }
    assert_eq!(code(client.simple_query("SELECT repeat('y', 2000000000)").await), "54000");
    assert_eq!(code(client.simple_query("SELECT lpad('', 400000000, 'ä')").await), "54000");
    for sql in [
        "SELECT cardinality(array_repeat(1, 2000000000))",
        "CREATE TABLE lists (id int, n int DEFAULT cardinality(array_repeat(1, 2000000000)))",
        "CREATE TABLE lists (id int, CHECK (cardinality(array_resize(ARRAY[id], 2000000000, 1)) > 1))",
        "CREATE TABLE lists (id int, CHECK (cardinality(generate_series(1, 3000000000)) > id))",
    ] {
        assert_eq!(code(client.simple_query(sql).await), "42883", "{sql}");
    }
    let limited = "SELECT v, max(id) FROM numbers GROUP BY v ORDER BY max(id) DESC LIMIT 2147483647";
    assert_eq!(client.simple_query(limited).await.unwrap().len(), 9);
    assert_eq!(one(&client, "SELECT count(*) FROM numbers WHERE t = 'x'").await, "2000");
    client.simple_query("BEGIN").await.unwrap();
    let mut outcome = String::new();
    for number in 0..200 {
        let change = format!("UPDATE numbers SET t = repeat('z', 1000) WHERE id > {number} AND id <= {number} + 1000");
        match client.simple_query(&change).await {
            Ok(_) => {}
            failed => {
                outcome = code(failed);
                break;
            }
        }
    }
    assert_eq!(outcome, "53200", "changes of a transaction wait together");
    client.simple_query("ROLLBACK").await.unwrap();
    let held: usize = one(&client, "SELECT used_bytes FROM saki.memory").await.parse().unwrap();
    assert!(held < 1 << 20, "{held} bytes are still held");
}

/// A query without values for its parameters is a tree, and a plan that waits for them.
#[tokio::test]
async fn statements_are_counted_for_as_long_as_they_are_prepared() {
    let server = small();
    let client = server.client().await;
    client.simple_query(NUMBERS).await.unwrap();
    let mut prepared = Vec::new();
    let refused = loop {
        let number = prepared.len();
        match client.prepare(&format!("SELECT {number} + v FROM numbers WHERE id = $1")).await {
            Ok(statement) => prepared.push(statement),
            Err(error) => break error,
        }
        assert!(prepared.len() < 5000, "5000 queries are kept in 64 MiB");
    };
    assert_eq!(refused.code().map(|code| code.code()), Some("53200"));
    assert!(prepared.len() > 1000, "refused at {}", prepared.len());
    drop(prepared);
    assert_eq!(one(&client, "SELECT 1").await, "1");
}

/// Statements that need no query plan, each of them small.
#[tokio::test]
async fn small_changes_of_one_transaction_are_counted_together() {
    let server = small();
    let client = server.client().await;
    client.simple_query(NUMBERS).await.unwrap();
    let text = "y".repeat(20_000);
    let insert = client.prepare("INSERT INTO numbers VALUES ($1, 1, $2)").await.unwrap();
    let update = client.prepare("UPDATE numbers SET t = $2 WHERE id = $1").await.unwrap();
    let hold = client.prepare("SELECT id FROM numbers WHERE id = $1 FOR UPDATE").await.unwrap();
    // As many as fit twice over.
    for (statement, first, ids) in [(&insert, 3_000_i64, 6000), (&update, 1, 1500), (&update, 1, 1)] {
        client.simple_query("BEGIN").await.unwrap();
        let mut outcome = (0, Ok(0));
        for number in 0..6000 {
            outcome = (number, client.execute(statement, &[&(first + number % ids), &text]).await);
            if outcome.1.is_err() {
                break;
            }
        }
        let (changes, outcome) = outcome;
        assert_eq!(code(outcome), "53200", "after {changes} changes of 20 kB with 64 MiB");
        assert!(changes > 500, "refused at {changes}");
        client.simple_query("ROLLBACK").await.unwrap();
        let held: usize = one(&client, "SELECT used_bytes FROM saki.memory").await.parse().unwrap();
        assert!(held < 1 << 20, "{held} bytes are still held");
    }
    // By themselves they are as many as one likes, and what was committed is not held.
    for id in 10_000_i64..10_100 {
        client.execute(&insert, &[&id, &text]).await.unwrap();
    }
    client.simple_query("BEGIN").await.unwrap();
    for id in 10_000_i64..10_100 {
        assert_eq!(client.query(&hold, &[&id]).await.unwrap().len(), 1);
    }
    let held: usize = one(&client, "SELECT used_bytes FROM saki.memory").await.parse().unwrap();
    assert!(held > 100 * text.len(), "rows that are held are written, and only {held} bytes are counted");
    client.simple_query("COMMIT").await.unwrap();
    let held: usize = one(&client, "SELECT used_bytes FROM saki.memory").await.parse().unwrap();
    assert!(held < 1 << 20, "{held} bytes are still held");
}

/// Rows that are deleted with the one that they refer to, and values that are bound and wait.
#[tokio::test]
async fn what_follows_from_a_change_and_what_is_bound_is_counted() {
    let server = small();
    let client = server.client().await;
    client
        .simple_query(
            "CREATE TABLE parents (id bigint PRIMARY KEY); INSERT INTO parents VALUES (1); \
             CREATE TABLE children (id bigint PRIMARY KEY, t text, \
             p bigint REFERENCES parents ON DELETE CASCADE); CREATE INDEX ON children (p)",
        )
        .await
        .unwrap();
    for first in 0..10 {
        let rows = format!("SELECT {first} * 200 + value, repeat('y', 20000), 1 FROM generate_series(1, 200) s(value)");
        client.simple_query(&format!("INSERT INTO children {rows}")).await.unwrap();
    }
    assert_eq!(code(client.simple_query("DELETE FROM parents").await), "53200");
    assert_eq!(one(&client, "SELECT count(*) FROM children").await, "2000");

    let mut client = client;
    let transaction = client.transaction().await.unwrap();
    let statement = transaction.prepare("SELECT length($1::text)").await.unwrap();
    let text = "x".repeat(1 << 20);
    let mut bound = Vec::new();
    let refused = loop {
        match transaction.bind(&statement, &[&text]).await {
            Ok(portal) => bound.push(portal),
            Err(error) => break error,
        }
        assert!(bound.len() < 100, "100 texts of 1 MiB are held with 64 MiB");
    };
    assert_eq!(refused.code().map(|code| code.code()), Some("53200"));
    drop((bound, transaction));
    assert_eq!(one(&client, "SELECT 1").await, "1");
}
