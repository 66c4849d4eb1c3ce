//! Conditions that are no comparison of a column with a value: compiled statements have the planner work them out of
//! the rows that they find, and answer as a plan does.

use std::path::Path;
use std::sync::Arc;

use saki_base::Random;
use saki_sql::{Database, Pace, Session};

use crate::support::{answer, create, planned, run, text_rows};

/// As a server opens it: compiled statements run. A large table, and a small one that is read whole.
async fn opened(directory: &Path) -> (Arc<Database>, Session) {
    let database = create(directory);
    database.store().start_engine().unwrap();
    let session = Session::new(&database);
    for (table, rows) in [("t", 3000), ("small", 300)] {
        let columns = "id int PRIMARY KEY, n int, f float8, s text, d date, ts timestamp, b boolean, x numeric(10, 2)";
        run(&session, &format!("CREATE TABLE {table} ({columns})")).await;
        run(&session, &format!("CREATE INDEX {table}_n ON {table} (n)")).await;
        let filled = format!(
            "INSERT INTO {table} SELECT i, nullif(i % 61, 7), nullif(i % 40 - 9, 4), nullif('s' || i % 9, 's5'), \
             date '2020-01-01' + i % 90, timestamp '2020-01-01' + i % 100 * interval '11 hours', \
             CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END, i % 50 / 4.0 FROM generate_series(1, {rows}) g(i)"
        );
        run(&session, &filled).await;
    }
    (database, session)
}

const CONDITIONS: [&str; 26] = [
    "lower(s) = 's3'",
    "s LIKE 's1%'",
    "s NOT LIKE '%2'",
    "s ILIKE 'S_'",
    "NOT (f > 3)",
    "NOT b",
    "b",
    "f + n > 12.5",
    "n <> f",
    "n IS DISTINCT FROM 9",
    "n IS NOT DISTINCT FROM 9",
    "d + 7 > date '2020-02-20'",
    "extract(month FROM d) = 2",
    "date_trunc('month', ts) = timestamp '2020-02-01'",
    "b IS NOT TRUE",
    "b IS UNKNOWN",
    "coalesce(s, 'none') = 'none'",
    "CASE WHEN id < 200 THEN s = 's1' ELSE b END",
    "x * 2 > 20 OR s IS NULL",
    "id % 3 = 1",
    "s NOT IN ('s1', 's2')",
    "length(s) BETWEEN 2 AND 3",
    "f NOT BETWEEN 0 AND 5",
    "n = 9 OR lower(s) = 's4'",
    "(lower(s), b) IS NULL",
    "n / nullif(id % 5, 0) = 2 AND upper(s) > 'S3'",
];

/// Statements of a table with a condition `$`.
const SHAPES: [&str; 9] = [
    "SELECT id, s FROM @ WHERE $",
    "SELECT upper(s), n + 1, f FROM @ WHERE $",
    "SELECT count(*), sum(n), max(d) FROM @ WHERE $",
    "SELECT max(n) FROM @ WHERE $",
    "SELECT s, count(*), min(id) FROM @ WHERE $ GROUP BY s",
    "SELECT DISTINCT s FROM @ WHERE $",
    "SELECT id, f FROM @ WHERE $ ORDER BY f DESC, id LIMIT 7 OFFSET 2",
    "SELECT id, lower(s) FROM @ WHERE $ ORDER BY id DESC LIMIT 3",
    "SELECT id FROM @ WHERE $ AND EXISTS (SELECT 1 FROM small AS u WHERE u.id = @.n)",
];

/// Orders of what is worked out, or is called so, or stands there.
const ORDERS: [&str; 7] = [
    "SELECT id, s FROM small ORDER BY lower(s) DESC, id",
    "SELECT id, lower(s) AS low FROM small ORDER BY low, id DESC LIMIT 20",
    "SELECT s, id FROM small ORDER BY 1 DESC, 2 LIMIT 30 OFFSET 5",
    "SELECT n AS id, id AS n FROM small ORDER BY id, n LIMIT 50",
    "SELECT t.id, u.s FROM t JOIN small u ON u.id = t.n WHERE t.id < 200 ORDER BY u.f - t.f, 1",
    "SELECT id, f FROM t WHERE n IN (7, 8, 9) ORDER BY f * -1, coalesce(s, 'a'), id",
    "SELECT id FROM t WHERE n = 8 AND lower(s) <> 's1' ORDER BY x DESC, id % 7, id LIMIT 10",
];

const JOINS: [&str; 9] = [
    "SELECT t.id, u.s FROM t JOIN small u ON u.id = t.n WHERE t.id BETWEEN 1 AND 300 AND lower(u.s) = 's3'",
    "SELECT t.id, u.id FROM t JOIN small u ON u.id = t.n AND t.n + u.n > 40 WHERE t.id BETWEEN 1 AND 300",
    "SELECT t.id, u.id FROM t JOIN small u ON u.id = t.n WHERE t.id < 300 AND (t.s = 's1' OR u.s = 's2')",
    "SELECT t.id, u.id FROM t LEFT JOIN small u ON u.id = t.n WHERE t.id < 300 AND coalesce(u.s, 'none') = 'none'",
    "SELECT t.id, u.id FROM t LEFT JOIN small u ON u.id = t.n WHERE t.id < 300 AND (u.id IS NULL) = t.b",
    "SELECT t.id, u.id FROM t LEFT JOIN small u ON u.id = t.n WHERE t.id < 300 AND u.id + t.id > 100",
    "SELECT t.id, u.id FROM t LEFT JOIN small u ON u.id = t.n JOIN small v ON v.id = t.id AND v.s <> u.s \
     WHERE t.id < 90",
    "SELECT sum(u.n), count(*) FROM t JOIN small u ON u.id = t.n WHERE t.n = 8 AND t.s || u.s <> 's1s1'",
    "SELECT u.s, count(*) FROM t JOIN small u ON u.id = t.n WHERE t.id < 300 AND t.x > u.x GROUP BY u.s",
];

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

async fn change(session: &Session, random: &mut Random) {
    for _ in 0..100 {
        let (id, n) = (random.below(3200), random.below(61));
        let table = if id < 320 { "small" } else { "t" };
        let sql = match random.below(3) {
            0 => format!("DELETE FROM {table} WHERE id = {id}"),
            1 => format!("UPDATE {table} SET n = {n}, s = 'S3', b = NOT b WHERE id = {id}"),
            _ => format!("INSERT INTO {table} (id, n, s) VALUES ({id}, {n}, 'new') ON CONFLICT DO NOTHING"),
        };
        run(session, &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_meet_expressions_are_those_of_a_plan() {
    let directory = tempfile::tempdir().unwrap();
    let (database, session) = opened(directory.path()).await;
    let mut random = Random::new(17);
    let is_compiled = |sql: &str| session.prepare_fast(sql, &[]).is_some_and(|prepared| prepared.fast.is_some());
    for round in 0..3 {
        if round == 1 {
            database.checkpoint(&Pace::full()).unwrap();
            // Warm: what is not in memory is read first.
            run(&session, "SELECT sum(n), max(s || '') FROM t").await;
        }
        let mut statements: Vec<String> = JOINS.map(str::to_owned).into();
        for (at, condition) in CONDITIONS.into_iter().enumerate() {
            let shape = SHAPES[(at + 3 * round) % SHAPES.len()];
            let where_it_is = format!("@.n IN ({}, 8, 9) AND ({condition})", random.below(61));
            statements.push(shape.replace('$', &where_it_is).replace('@', "t"));
            statements.push(shape.replace('$', condition).replace('@', "small"));
        }
        for sql in &statements {
            let expected = planned(&session, answer(&session, sql)).await;
            assert_eq!(sorted(&answer(&session, sql).await), sorted(&expected), "round {round}: {sql}");
        }
        for sql in ORDERS {
            assert!(is_compiled(sql), "{sql}");
            let expected = planned(&session, answer(&session, sql)).await;
            assert_eq!(answer(&session, sql).await, expected, "round {round}: {sql}");
        }
        let left: Vec<_> = statements.iter().filter(|sql| !is_compiled(sql)).collect();
        // Rows and patterns of their own; and `sum` and groups that name columns of two tables are the planner's.
        assert!(left.len() <= 6, "{} of {} are planned: {left:#?}", left.len(), statements.len());
        run(&session, "BEGIN").await;
        change(&session, &mut random).await;
        for sql in &statements {
            let expected = planned(&session, answer(&session, sql)).await;
            assert_eq!(sorted(&answer(&session, sql).await), sorted(&expected), "own changes: {sql}");
        }
        run(&session, if round == 0 { "COMMIT" } else { "ROLLBACK" }).await;
    }
}

/// The condition that a query fails with, at once or while its rows are read.
async fn failed(session: &Session, sql: &str) -> String {
    let rows = match session.execute(sql).await {
        Ok(mut results) => text_rows(results.pop().expect("a result")).await,
        Err(error) => Err(error),
    };
    rows.expect_err(sql).sqlstate().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_fail_as_in_a_plan_and_hold_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (_database, session) = opened(directory.path()).await;
    for (sql, code) in [
        ("SELECT id FROM t WHERE n = 8 AND 10 / (n - 8) > 1", "22012"),
        ("SELECT id FROM small WHERE s::int = 5", "22P02"),
        ("SELECT id FROM t WHERE n = 8 AND lower(s)", "42804"),
        ("SELECT id FROM t WHERE n = 8 AND lower(nowhere) = 'a'", "42703"),
        ("SELECT id FROM t WHERE n = 8 AND lower(s) = 5", "42883"),
    ] {
        assert_eq!(failed(&session, sql).await, code, "{sql}");
    }
    // A row that is not asked for makes no error, where the other condition is a range.
    assert_eq!(answer(&session, "SELECT count(*) FROM t WHERE n = 9 AND 10 / (n - 8) > 1").await, "50");
    let is_compiled = |sql: &str| session.prepare_fast(sql, &[]).is_some_and(|prepared| prepared.fast.is_some());
    for sql in [
        "SELECT id FROM t WHERE n = 8 AND lower(s) = 's1' FOR UPDATE",
        "SELECT id FROM t WHERE n = 8 AND s ~ '^s1'",
        "SELECT id FROM t WHERE n = 8 AND random() < 2",
        "SELECT id FROM t WHERE n = 8 AND s = lower($1)",
        "SELECT id FROM t WHERE n = 8 AND lower(s) = (SELECT 's1')",
        "SELECT id FROM t WHERE lower(s) = 's1' LIMIT 3",
    ] {
        assert!(!is_compiled(sql), "{sql}");
    }
}
