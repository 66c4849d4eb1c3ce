//! Texts that differ by their literals alone: they mean what each of them means by itself, the first time and later.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::server::{TestServer, code};

/// The rows of a text, or the condition that it ended with.
async fn told(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Err(error) => error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()),
        Ok(messages) => {
            let row = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|column| row.get(column).unwrap_or("NULL"));
                    Some(values.collect::<Vec<_>>().join("|"))
                }
                SimpleQueryMessage::CommandComplete(rows) => Some(format!("({rows})")),
                _ => None,
            };
            messages.iter().filter_map(row).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Whether all of the texts, which have one shape, are answered so.
async fn check(client: &Client, texts: &[(&str, &str)]) {
    for (sql, expected) in texts {
        assert_eq!(told(client, sql).await, *expected, "{sql}");
    }
}

async fn filled(server: &TestServer) -> Client {
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int, s text, c char(3), d date, m numeric(8,2)); \
             CREATE INDEX ON t (n); \
             INSERT INTO t SELECT i, i * 10, 'row ' || i, 'c' || i, date '2024-01-01' + i, i / 4.0 \
             FROM generate_series(1, 9) g(i)",
        )
        .await
        .unwrap();
    client
}

#[tokio::test]
async fn each_text_is_answered_by_its_own_literals() {
    let server = TestServer::start();
    let client = filled(&server).await;
    check(
        &client,
        &[
            ("SELECT n, s FROM t WHERE id = 1", "10|row 1 (1)"),
            ("SELECT n, s FROM t WHERE id = 2", "20|row 2 (1)"),
            ("SELECT n, s FROM t WHERE id = 3", "30|row 3 (1)"),
            ("SELECT n, s FROM t WHERE id = -3", "(0)"),
            ("SELECT n, s FROM t WHERE id = 3000000000", "(0)"),
            ("SELECT n, s FROM t WHERE id = 3000000001", "(0)"),
            ("SELECT n, s FROM t WHERE id = 2.0", "20|row 2 (1)"),
            ("SELECT n, s FROM t WHERE id = '2'", "20|row 2 (1)"),
            ("SELECT n, s FROM t WHERE id = '3'", "30|row 3 (1)"),
            ("SELECT n, s FROM t WHERE id = 'x'", "22P02"),
            ("SELECT n, s FROM t WHERE id = '4'", "40|row 4 (1)"),
        ],
    )
    .await;
    check(
        &client,
        &[
            ("UPDATE t SET n = n + -5, s = 'it''s' WHERE id = 1", "(1)"),
            ("UPDATE t SET n = n + -6, s = '' WHERE id = 2", "(1)"),
            ("UPDATE t SET n = n + -7, s = 'ü' WHERE id = 3", "(1)"),
            ("SELECT n, s FROM t WHERE id IN (1, 2)", "5|it's 14| (2)"),
            ("SELECT n, s FROM t WHERE id IN (3, 1)", "5|it's 23|ü (2)"),
            ("SELECT n, s FROM t WHERE id IN (9, 3)", "23|ü 90|row 9 (2)"),
        ],
    )
    .await;
    check(
        &client,
        &[
            ("INSERT INTO t VALUES (11, 1, 'a', 'x', '2024-05-01', 1.5)", "(1)"),
            ("INSERT INTO t VALUES (12, 2, 'b', 'y', '2024-05-02', 2.5)", "(1)"),
            ("INSERT INTO t VALUES (13, 3, 'c', 'z', '2024-05-03', 3.5)", "(1)"),
            ("INSERT INTO t VALUES (13, 3, 'c', 'z', '2024-05-03', 3.5)", "23505"),
            ("INSERT INTO t VALUES (14, 3, 'c', 'long', '2024-05-03', 3.5)", "22001"),
            ("INSERT INTO t VALUES (14, 3, 'c', 'z', '2024-13-03', 3.5)", "22008"),
            ("SELECT id, c, d, m FROM t WHERE d = '2024-05-02'", "12|y  |2024-05-02|2.50 (1)"),
            ("SELECT id, c, d, m FROM t WHERE d = '2024-05-03'", "13|z  |2024-05-03|3.50 (1)"),
            ("DELETE FROM t WHERE id = 12", "(1)"),
            ("DELETE FROM t WHERE id = 12", "(0)"),
            ("DELETE FROM t WHERE id = 13", "(1)"),
        ],
    )
    .await;
}

#[tokio::test]
async fn places_are_no_values() {
    let server = TestServer::start();
    let client = filled(&server).await;
    check(
        &client,
        &[
            ("SELECT id, -n FROM t WHERE id > 7 ORDER BY 1", "8|-80 9|-90 (2)"),
            ("SELECT id, -n FROM t WHERE id > 7 ORDER BY 2", "9|-90 8|-80 (2)"),
            ("SELECT id, -n FROM t WHERE id > 7 ORDER BY 1", "8|-80 9|-90 (2)"),
            ("SELECT n, count(*) FROM t WHERE id > 7 GROUP BY 1 ORDER BY 1", "80|1 90|1 (2)"),
            ("SELECT n, count(*) FROM t WHERE id > 8 GROUP BY 1 ORDER BY 1", "90|1 (1)"),
            ("SELECT n, count(*) FROM t WHERE id > 6 GROUP BY 1 ORDER BY 1", "70|1 80|1 90|1 (3)"),
            ("SELECT id FROM t ORDER BY id LIMIT 2", "1 2 (2)"),
            ("SELECT id FROM t ORDER BY id LIMIT 1", "1 (1)"),
            ("SELECT id FROM t ORDER BY id LIMIT 3", "1 2 3 (3)"),
            ("SELECT id FROM t WHERE d = DATE '2024-01-03'", "2 (1)"),
            ("SELECT id FROM t WHERE d = DATE '2024-01-04'", "3 (1)"),
            ("SELECT id FROM t WHERE d = DATE '2024-01-05'", "4 (1)"),
        ],
    )
    .await;
}

/// Queries that take a plan: one serves all keys.
#[tokio::test]
async fn planned_queries_are_answered_by_their_own_keys() {
    let server = TestServer::start();
    let client = filled(&server).await;
    client.batch_execute("ALTER TABLE t ADD COLUMN b bigint, ADD COLUMN w smallint").await.unwrap();
    client.batch_execute("UPDATE t SET b = id, w = id").await.unwrap();
    let window = |key: &str| format!("SELECT id, round(n * 1.5, 1), row_number() OVER (ORDER BY s) FROM t WHERE {key}");
    for id in 1..6 {
        let expected = format!("{id}|{}.0|1 (1)", id * 15);
        for column in ["id", "b", "w"] {
            assert_eq!(told(&client, &window(&format!("{column} = {id}"))).await, expected, "{column}");
        }
        assert_eq!(told(&client, &window(&format!("n = {}", id * 10))).await, expected);
        assert_eq!(
            told(&client, &window(&format!("m = {id}"))).await,
            if id < 3 { format!("{}|{}.0|1 (1)", id * 4, id * 60) } else { "(0)".to_owned() }
        );
        assert_eq!(told(&client, &window(&format!("w = {}", 70_000 + id))).await, "(0)");
    }
    // Literals in front of WHERE are no parameters: what is worked out depends on them.
    for (id, digits) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 0)] {
        let sql = format!("SELECT round(m * 1.5, {digits}), upper(s), d + 7 FROM t WHERE id = {id}");
        let value = f64::from(id) / 4.0 * 1.5;
        let day = 8 + id;
        // Halves go away from zero.
        let factor = 10_f64.powi(digits);
        let rounded = (value * factor).round() / factor;
        let expected = format!("{rounded:.*}|ROW {id}|2024-01-{day:02} (1)", usize::try_from(digits).unwrap());
        assert_eq!(told(&client, &sql).await, expected, "{sql}");
    }
    for k in [3, 4, 5, 30] {
        let sql = format!("SELECT id FROM t WHERE id = {k} UNION SELECT n FROM t WHERE n = {} ORDER BY 1", k * 10);
        let expected = if k < 10 { format!("{k} {} (2)", k * 10) } else { "(0)".to_owned() };
        assert_eq!(told(&client, &sql).await, expected);
    }
    // What fails does so for itself, within a transaction and outside of one.
    for id in 0..4 {
        let sql = format!("SELECT sum(10 / id) OVER () FROM t WHERE id = {id} OR n = {}", 10 * id);
        assert!(!told(&client, &sql).await.contains("22012"), "{sql}");
        let sql = format!("SELECT sum(10 / (id - {id})) OVER () FROM t WHERE id = {id}");
        assert_eq!(told(&client, &sql).await, if id == 0 { "(0)" } else { "22012" }, "{sql}");
    }
    client.batch_execute("BEGIN").await.unwrap();
    for id in 1..4 {
        let changed = format!("UPDATE t SET n = n + 1 WHERE id = {id}");
        assert_eq!(told(&client, &changed).await, "(1)");
        assert_eq!(told(&client, &window(&format!("n = {}", id * 10))).await, "(0)", "it sees its own change");
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(told(&client, &window("n = 10")).await, "1|15.0|1 (1)");
    client.batch_execute("ALTER TABLE t RENAME COLUMN s TO other").await.unwrap();
    assert_eq!(told(&client, &window("n = 20")).await, "42703");
    client
        .batch_execute("ALTER TABLE t RENAME COLUMN other TO s; ALTER TABLE t ALTER COLUMN n TYPE text")
        .await
        .unwrap();
    assert_eq!(told(&client, "SELECT id, row_number() OVER () FROM t WHERE n = 20").await, "42883");
}

#[tokio::test]
async fn what_a_session_changes_counts_at_once() {
    let server = TestServer::start();
    let client = filled(&server).await;
    let day = "SELECT id FROM t WHERE d = '";
    for (style, text) in [("ISO, MDY", "01/03/2024"), ("ISO, DMY", "03/01/2024"), ("ISO, MDY", "01/03/2024")] {
        client.batch_execute(&format!("SET DateStyle = '{style}'")).await.unwrap();
        assert_eq!(told(&client, &format!("{day}{text}'")).await, "2 (1)", "{style}");
    }
    for id in 1..4 {
        assert_eq!(told(&client, &format!("SELECT * FROM t WHERE id = {id} AND n < 0")).await, "(0)");
        assert_eq!(told(&client, &format!("DELETE FROM t WHERE id = {}", 100 + id)).await, "(0)");
    }
    client.batch_execute("BEGIN READ ONLY").await.unwrap();
    assert_eq!(told(&client, "DELETE FROM t WHERE id = 1").await, "25006");
    assert_eq!(told(&client, "DELETE FROM t WHERE id = 2").await, "25P02");
    client.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(told(&client, "DELETE FROM t WHERE id = 1").await, "(1)");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(told(&client, "SELECT n FROM t WHERE id = 1").await, "10 (1)");

    // The same text means a table with another column, another table, and one that is not there.
    client.batch_execute("ALTER TABLE t ADD COLUMN e int DEFAULT 7").await.unwrap();
    for id in 1..4 {
        let found = told(&client, &format!("SELECT * FROM t WHERE id = {id}")).await;
        assert!(found.ends_with("|7 (1)"), "{found}");
    }
    client.batch_execute("CREATE SCHEMA other; CREATE TABLE other.t (id text PRIMARY KEY, n int)").await.unwrap();
    client.batch_execute("INSERT INTO other.t VALUES ('a', -1), ('b', -2)").await.unwrap();
    let by = async |id: &str| told(&client, &format!("SELECT n FROM t WHERE id = '{id}'")).await;
    assert_eq!([by("1").await, by("2").await, by("3").await], ["10 (1)", "20 (1)", "30 (1)"]);
    client.batch_execute("SET search_path = other, public").await.unwrap();
    assert_eq!([by("a").await, by("b").await, by("1").await], ["-1 (1)", "-2 (1)", "(0)"]);
    client.batch_execute("DROP TABLE other.t").await.unwrap();
    assert_eq!([by("1").await, by("2").await], ["10 (1)", "20 (1)"]);
    client.batch_execute("DROP TABLE t").await.unwrap();
    assert_eq!([by("1").await, by("2").await], ["42P01", "42P01"]);
}

#[tokio::test]
async fn labels_are_those_of_now() {
    let server = TestServer::start();
    let client = server.client().await;
    client.batch_execute("CREATE TYPE mood AS ENUM ('sad', 'ok')").await.unwrap();
    client.batch_execute("CREATE TABLE p (id int PRIMARY KEY, m mood)").await.unwrap();
    for id in 1..4 {
        assert_eq!(told(&client, &format!("INSERT INTO p VALUES ({id}, 'ok')")).await, "(1)");
    }
    assert_eq!(told(&client, "INSERT INTO p VALUES (4, 'glad')").await, "22P02");
    client
        .batch_execute("ALTER TYPE mood ADD VALUE 'glad'; ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
        .await
        .unwrap();
    assert_eq!(told(&client, "INSERT INTO p VALUES (5, 'glad')").await, "(1)");
    assert_eq!(told(&client, "INSERT INTO p VALUES (6, 'ok')").await, "22P02");
    assert_eq!(told(&client, "INSERT INTO p VALUES (7, 'fine')").await, "(1)");
    assert_eq!(told(&client, "SELECT id, m FROM p WHERE id = 1").await, "1|fine (1)");
    assert_eq!(told(&client, "SELECT id, m FROM p WHERE id = 5").await, "5|glad (1)");
}

#[tokio::test]
async fn whoever_may_not_is_refused() {
    let server = TestServer::start();
    let client = filled(&server).await;
    client.batch_execute("CREATE ROLE reader").await.unwrap();
    for id in 1..4 {
        assert_eq!(told(&client, &format!("SELECT n FROM t WHERE id = {id}")).await, format!("{}0 (1)", id));
    }
    client.batch_execute("SET ROLE reader").await.unwrap();
    assert_eq!(told(&client, "SELECT n FROM t WHERE id = 5").await, "42501");
    client.batch_execute("RESET ROLE").await.unwrap();
    assert_eq!(told(&client, "SELECT n FROM t WHERE id = 6").await, "60 (1)");
    assert_eq!(code(client.simple_query("SELECT n FROM t WHERE id = 1 / 0").await), "22012");
}
