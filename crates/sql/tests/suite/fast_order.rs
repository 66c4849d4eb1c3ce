//! The first rows in an order that a key has, without a query plan: as a plan gives them, NULLs, zeros and what is no
//! number included, whatever lies in the delta.

use std::path::Path;
use std::sync::Arc;

use saki_base::Random;
use saki_sql::{Database, Pace, Session};

use crate::fast_cold::{prepared, ran};
use crate::support::{answer, create, planned, refused};

/// As a server opens it: compiled statements run.
fn opened(directory: &Path) -> Arc<Database> {
    let database = create(directory);
    database.store().start_engine().unwrap();
    database
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

const COLUMNS: &str = "id, n, f, s";

async fn change(session: &Session, random: &mut Random) {
    for _ in 0..200 {
        let id = random.below(3000);
        let value = |random: &mut Random, of: &[&str]| {
            let place = random.below(of.len() as u64 * 2) as usize;
            of.get(place).map_or_else(|| random.below(50).to_string(), |value| (*value).to_owned())
        };
        let n = value(random, &["NULL", "-1"]);
        let f = value(random, &["NULL", "'NaN'", "'-0'", "0", "'-Infinity'", "-0.5"]);
        let s = if random.below(4) == 0 { "NULL".to_owned() } else { format!("'s{}'", random.below(9)) };
        let sql = match random.below(4) {
            0 => format!("DELETE FROM t WHERE id = {id}"),
            1 => format!("UPDATE t SET n = {n}, f = {f} WHERE id = {id}"),
            _ => format!("INSERT INTO t VALUES ({id}, {n}, {f}, {s}) ON CONFLICT (id) DO UPDATE SET n = {n}, f = {f}"),
        };
        session.execute(&sql).await.unwrap();
    }
}

async fn by_a_plan(session: &Session, sql: &str) -> String {
    planned(session, answer(session, sql)).await
}

/// A statement that is compiled, and one that means the same, whose condition is an expression.
fn pairs(random: &mut Random) -> Vec<(String, String)> {
    let (limit, offset) = (1 + random.below(30), random.below(20));
    let (low, n) = (random.below(40), random.below(50));
    let mut pairs = Vec::new();
    for order in ["id", "id DESC", "n, id", "n DESC, id DESC", "f, id", "f DESC, id DESC", "s DESC, n, id"] {
        for (condition, planned) in [
            (String::new(), "WHERE id + 0 >= 0".to_owned()),
            (format!("WHERE n > {low}"), format!("WHERE n + 0 > {low}")),
            (format!("WHERE n <= {low}"), format!("WHERE n + 0 <= {low}")),
            (format!("WHERE s = 's{}'", low % 9), format!("WHERE s || '' = 's{}'", low % 9)),
            (format!("WHERE n IS NOT NULL AND id > {n}"), format!("WHERE n + 0 IS NOT NULL AND id > {n}")),
            ("WHERE s > 's3'".to_owned(), "WHERE s || '' > 's3'".to_owned()),
            ("WHERE s <= 's3'".to_owned(), "WHERE s || '' <= 's3'".to_owned()),
            ("WHERE f = 0".to_owned(), "WHERE f + 0 = 0".to_owned()),
            ("WHERE f >= -0.5 AND f < 7.25".to_owned(), "WHERE f + 0 >= -0.5 AND f + 0 < 7.25".to_owned()),
        ] {
            let statement = |condition: &str| {
                format!("SELECT {COLUMNS} FROM t {condition} ORDER BY {order} LIMIT {limit} OFFSET {offset}")
            };
            pairs.push((statement(&condition), statement(&planned)));
        }
    }
    let worked_out =
        "upper(s), coalesce(n, 0) * 2, f * 2, CASE WHEN n < 20 THEN s ELSE 'much' END, n::text, s LIKE 's1%'";
    for (from, order) in [("", "id"), ("", "n DESC, id DESC"), (" JOIN t AS u ON u.id = t.n", "t.id")] {
        let worked_out = if from.is_empty() { worked_out } else { "lower(u.s) || t.id, greatest(t.n, u.n), t.f - u.f" };
        let statement = |condition: &str| {
            format!("SELECT t.id, {worked_out} FROM t{from} WHERE {condition} ORDER BY {order} LIMIT {limit}")
        };
        let of = if from.is_empty() { "id" } else { "t.id" };
        pairs.push((statement(&format!("{of} >= {low}")), statement(&format!("{of} + 0 >= {low}"))));
    }
    for aggregate in ["min", "max"] {
        for column in ["id", "n"] {
            for (condition, planned) in [
                ("", "id + 0 >= 0"),
                ("s = 's3'", "s || '' = 's3'"),
                ("n > 20", "n + 0 > 20"),
                ("n = 20", "n + 0 = 20"),
                ("n > 20000", "n + 0 > 20000"),
            ] {
                let clause = if condition.is_empty() { String::new() } else { format!(" WHERE {condition}") };
                pairs.push((
                    format!("SELECT {aggregate}({column}) FROM t{clause}"),
                    format!("SELECT {aggregate}({column}) FROM t WHERE {planned}"),
                ));
            }
        }
    }
    pairs
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_are_those_of_a_plan() {
    let directory = tempfile::tempdir().unwrap();
    let database = opened(directory.path());
    let (session, mut random) = (Session::new(&database), Random::new(11));
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int, f float8, s text)").await.unwrap();
    session.execute("CREATE INDEX t_n ON t (n)").await.unwrap();
    session.execute("CREATE INDEX t_f ON t (f)").await.unwrap();
    session.execute("CREATE INDEX t_s ON t (s DESC, n)").await.unwrap();
    let filled =
        "INSERT INTO t SELECT i, nullif(i % 61, 7), i % 40 - 9, 's' || i % 9 FROM generate_series(1, 2500) g(i)";
    session.execute(filled).await.unwrap();
    for round in 0..3 {
        change(&session, &mut random).await;
        if round % 2 == 1 {
            database.checkpoint(&Pace::full()).unwrap();
        }
        // Warm: what is not in memory is read first.
        answer(&session, "SELECT sum(n), max(f), max(s || '') FROM t WHERE id + 0 >= 0").await;
        for (compiled, planned) in pairs(&mut random) {
            let expected = by_a_plan(&session, &planned).await;
            assert_eq!(answer(&session, &compiled).await, expected, "round {round}: {compiled}");
        }
        session.execute("BEGIN").await.unwrap();
        change(&session, &mut random).await;
        for (compiled, planned) in pairs(&mut random) {
            let expected = by_a_plan(&session, &planned).await;
            assert_eq!(answer(&session, &compiled).await, expected, "own changes: {compiled}");
        }
        for (condition, planned) in [("n <= 3", "n + 0 <= 3"), ("n > 48", "n + 0 > 48"), ("f = 0", "f + 0 = 0")] {
            let found = answer(&session, &format!("SELECT id FROM t WHERE {planned}")).await;
            for verb in ["UPDATE t SET s = s", "DELETE FROM t"] {
                let sql = format!("{verb} WHERE {condition} RETURNING id");
                assert!(session.prepare_fast(&sql, &[]).is_some(), "{sql}");
                assert_eq!(sorted(&answer(&session, &sql).await), sorted(&found), "{sql}");
            }
        }
        session.execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_keys_have_are_compiled() {
    let directory = tempfile::tempdir().unwrap();
    let database = opened(directory.path());
    let session = Session::new(&database);
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int, f float8, s text, d int)").await.unwrap();
    session.execute("CREATE INDEX t_n ON t (n, s DESC)").await.unwrap();
    session.execute("CREATE INDEX t_f ON t (f)").await.unwrap();
    session.execute("INSERT INTO t SELECT i, i, i, 's', i FROM generate_series(1, 5000) g(i)").await.unwrap();
    database.checkpoint(&Pace::full()).unwrap();
    let is_compiled = |sql: &str| session.prepare_fast(sql, &[]).is_some_and(|prepared| prepared.fast.is_some());
    for sql in [
        "SELECT * FROM t LIMIT 5",
        "SELECT * FROM t ORDER BY id LIMIT 5",
        "SELECT * FROM t ORDER BY n DESC LIMIT 5",
        "SELECT * FROM t ORDER BY n, s DESC LIMIT 5 OFFSET 3",
        "SELECT * FROM t ORDER BY f LIMIT $1",
        "SELECT * FROM t WHERE d > 5 ORDER BY f DESC LIMIT 5",
        "SELECT * FROM t WHERE f > 1.5 ORDER BY f LIMIT 5",
        "SELECT * FROM t WHERE n > 5 ORDER BY n LIMIT 5",
        "SELECT * FROM t JOIN t AS u ON u.id = t.d ORDER BY t.n LIMIT 5",
        "SELECT upper(s), n * 1.5, d IS NULL FROM t ORDER BY id DESC LIMIT 5",
        "SELECT coalesce(t.s, u.s) FROM t JOIN t AS u ON u.id = t.d WHERE t.id = 5",
        "UPDATE t SET n = 5 WHERE id = 5 RETURNING lower(s), n / 2",
        "SELECT min(n) FROM t",
        "SELECT max(id) FROM t WHERE d = 5",
        "SELECT coalesce(max(n), 0) FROM t",
        "SELECT f FROM t WHERE n BETWEEN 5 AND 7",
    ] {
        assert!(is_compiled(sql), "{sql}");
    }
    for sql in [
        "SELECT * FROM t",
        "SELECT * FROM t ORDER BY id",
        "SELECT * FROM t ORDER BY d LIMIT 5",
        "SELECT * FROM t ORDER BY n, s LIMIT 5",
        "SELECT * FROM t ORDER BY n NULLS FIRST LIMIT 5",
        "SELECT DISTINCT n FROM t ORDER BY n LIMIT 5",
        "SELECT * FROM t ORDER BY id LIMIT 5 FOR UPDATE",
        "SELECT min(d) FROM t",
        "SELECT min(n), max(n) FROM t",
        "SELECT count(*) FROM t",
        "SELECT random(), upper(s) FROM t ORDER BY id LIMIT 5",
        "SELECT now() - interval '1 day', repeat(s, 1000000000) FROM t WHERE id = 5",
        "SELECT upper((SELECT 's')) FROM t WHERE id = 5",
        "SELECT upper($1) FROM t WHERE id = 5",
    ] {
        assert!(!is_compiled(sql), "{sql}");
    }
}

/// Whoever reads the first row of an order has read that there is none before it.
#[tokio::test(flavor = "multi_thread")]
async fn first_rows_that_two_transactions_read_and_go_before_are_refused_to_one() {
    let directory = tempfile::tempdir().unwrap();
    let database = opened(directory.path());
    let [one, other] = [(); 2].map(|()| Session::new(&database));
    one.execute("CREATE TABLE t (id int PRIMARY KEY, n int)").await.unwrap();
    one.execute("CREATE INDEX t_n ON t (n)").await.unwrap();
    one.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 5000) g(i)").await.unwrap();
    for (round, has_delta) in [false, true, false, true].into_iter().enumerate() {
        if !has_delta {
            database.checkpoint(&Pace::full()).unwrap();
        }
        let id = 6000 + 10 * round;
        for (place, sql) in [
            "SELECT max(id) FROM t",
            "SELECT id FROM t ORDER BY id DESC LIMIT 1",
            "SELECT max(n) FROM t",
            "SELECT id FROM t ORDER BY n DESC LIMIT 1",
        ]
        .into_iter()
        .enumerate()
        {
            for session in [&one, &other] {
                session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
                let rows = ran(session, &prepared(session, sql)).await.unwrap();
                assert!(rows.is_some(), "{sql} goes the ordinary way");
            }
            let id = id + 2 * place;
            one.execute(&format!("INSERT INTO t VALUES ({id}, {id})")).await.unwrap();
            let inserted = other.execute(&format!("INSERT INTO t VALUES ({0}, {0})", id + 1)).await;
            one.execute("COMMIT").await.unwrap();
            let committed = match inserted {
                Ok(_) => other.execute("COMMIT").await.map(drop),
                Err(error) => Err(error),
            };
            assert_eq!(committed.expect_err(sql).sqlstate(), "40001", "{sql}");
            other.execute("ROLLBACK").await.unwrap();
        }
    }
}

/// What the planner has worked out for a compiled statement depends on the session's parameters.
#[tokio::test(flavor = "multi_thread")]
async fn expressions_follow_the_parameters_that_they_depend_on() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&opened(directory.path()));
    session.execute("CREATE TABLE t (id int PRIMARY KEY, d date)").await.unwrap();
    session.execute("INSERT INTO t VALUES (1, '2024-02-03')").await.unwrap();
    let sql = "SELECT d::text FROM t WHERE id = 1";
    let plan = prepared(&session, sql);
    assert_eq!(ran(&session, &plan).await.unwrap(), Some(vec![r#"[Text("2024-02-03")]"#.to_owned()]));
    session.execute("SET datestyle = 'German'").await.unwrap();
    assert_eq!(ran(&session, &plan).await.unwrap(), None, "it was planned for others");
    assert_eq!(answer(&session, sql).await, "03.02.2024");
    let rows = ran(&session, &prepared(&session, sql)).await.unwrap();
    assert_eq!(rows, Some(vec![r#"[Text("03.02.2024")]"#.to_owned()]));
    // So do conditions of tables, which are planned alone as well.
    session.execute("CREATE TABLE u (d date CHECK (d::text <> '03.02.2024'))").await.unwrap();
    assert_eq!(refused(&session, "INSERT INTO u SELECT d FROM t").await, "23514");
    session.execute("SET datestyle = 'ISO'").await.unwrap();
    session.execute("INSERT INTO u SELECT d FROM t").await.unwrap();
}

/// What a condition says most by may be too much to be sorted, and the first rows in the order meet it soon.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_is_the_other_way_to_rows_that_are_too_many() {
    let directory = tempfile::tempdir().unwrap();
    let database = opened(directory.path());
    let session = Session::new(&database);
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int, s text)").await.unwrap();
    session.execute("CREATE INDEX t_n ON t (n)").await.unwrap();
    session.execute("INSERT INTO t SELECT i, i % 2, 's' || i FROM generate_series(1, 20000) g(i)").await.unwrap();
    database.checkpoint(&Pace::full()).unwrap();
    answer(&session, "SELECT sum(n), max(s || '') FROM t WHERE id + 0 > 0").await;
    let sql = "SELECT s FROM t WHERE n = 1 ORDER BY s LIMIT 2";
    assert_eq!(answer(&session, sql).await, "s1\ns10001");
    session.execute("CREATE INDEX t_s ON t (s DESC)").await.unwrap();
    database.checkpoint(&Pace::full()).unwrap();
    let rows = ran(&session, &prepared(&session, sql)).await.unwrap();
    assert!(rows.is_some_and(|rows| rows.len() == 2), "it does not go the ordinary way");
    assert_eq!(answer(&session, sql).await, "s1\ns10001");
    assert_eq!(answer(&session, "SELECT s FROM t WHERE n = 0 ORDER BY s DESC LIMIT 2").await, "s9998\ns9996");
    // The greatest of many, too.
    let sql = "SELECT max(id) FROM t WHERE n = 0";
    let rows = ran(&session, &prepared(&session, sql)).await.unwrap();
    assert!(rows.is_some_and(|rows| rows.len() == 1), "it does not go the ordinary way");
    assert_eq!(answer(&session, sql).await, "20000");
}

#[tokio::test(flavor = "multi_thread")]
async fn small_tables_are_read_whole() {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(&opened(directory.path()));
    session.execute("CREATE TABLE t (id int PRIMARY KEY, name text)").await.unwrap();
    session.execute("INSERT INTO t SELECT i, 'n' || i % 4 FROM generate_series(1, 9) g(i)").await.unwrap();
    let is_compiled = |sql: &str| session.prepare_fast(sql, &[]).is_some_and(|prepared| prepared.fast.is_some());
    for (sql, expected) in [
        ("SELECT id FROM t ORDER BY name DESC, id LIMIT 3", "3 | 7 | 2"),
        ("SELECT DISTINCT name FROM t ORDER BY name", "n0 | n1 | n2 | n3"),
        ("SELECT count(*) FROM t", "9"),
        ("SELECT name, count(*) FROM t GROUP BY name ORDER BY name", "n0,2 | n1,3 | n2,2 | n3,2"),
        ("SELECT id FROM t WHERE name = 'n1'", "1 | 5 | 9"),
    ] {
        assert!(is_compiled(sql), "{sql}");
        assert_eq!(answer(&session, sql).await.replace('\n', " | "), expected, "{sql}");
    }
    // Of rows that are changed or held, conditions have to say where they are.
    for sql in
        ["UPDATE t SET name = 'm' WHERE name = 'n1'", "DELETE FROM t WHERE name = 'n1'", "SELECT * FROM t FOR UPDATE"]
    {
        assert!(!is_compiled(sql), "{sql}");
    }
}
