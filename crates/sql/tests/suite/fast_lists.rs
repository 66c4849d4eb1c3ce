//! Lists of any length: whatever finds their rows, these are the same.

use arrow_schema::DataType;
use saki_base::Random;
use saki_sql::{Pace, ScalarValue, Session, StatementResult};

use crate::support::{create, run};

const ROWS: u64 = 3000;

async fn lines(result: StatementResult) -> Vec<String> {
    let batches = result.collect().await.unwrap();
    let drawn = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<String> =
        drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).await.unwrap_or_else(|error| panic!("{:.200}: {error}", sql));
    lines(results.into_iter().next_back().expect("a result")).await
}

fn is_compiled(session: &Session, sql: &str) -> bool {
    session.prepare_fast(sql, &[]).is_some()
}

async fn with_rows(session: &Session, database: &saki_sql::Database) {
    run(session, "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL, a int2 NOT NULL, b bigint, n numeric(8,2))")
        .await;
    run(session, "CREATE INDEX t_k ON t (k)").await;
    run(session, "CREATE INDEX t_a_b ON t (a, b)").await;
    let fill =
        format!("INSERT INTO t SELECT i, i * 7 % 500, i % 40, i / 40, i / 4.0 FROM generate_series(0, {ROWS}) s (i)");
    run(session, &fill).await;
    database.checkpoint(&Pace::full()).unwrap();
    run(session, "UPDATE t SET n = n + 1 WHERE id % 5 = 2").await;
    run(session, "DELETE FROM t WHERE id % 11 = 3").await;
}

/// Some that no row has, and some twice.
fn numbers(random: &mut Random, count: usize, below: u64) -> Vec<u64> {
    (0..count).map(|_| random.below(below)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_find_what_planned_ones_do() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let (session, mut random) = (Session::new(&database), Random::new(5));
    with_rows(&session, &database).await;
    for count in [1, 70, 2000] {
        let list = |values: Vec<u64>| values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let ids = list(numbers(&mut random, count, ROWS + 500));
        let pairs: Vec<String> = numbers(&mut random, count.min(300), 50)
            .into_iter()
            .map(|a| format!("({a}, {})", random.below(90)))
            .collect();
        let (pairs, odd) = (pairs.join(", "), list(numbers(&mut random, count, 600)));
        for condition in [
            format!("id IN ({ids})"),
            format!("id = ANY(ARRAY[{ids}])"),
            format!("id IN ({ids}, NULL, 1.5, 3000000000)"),
            format!("id IN ({ids}) AND k IN ({odd}) AND n > 20"),
            format!("k IN ({odd})"),
            format!("(a, b) IN ({pairs})"),
            format!("(b, a) IN ({pairs}) AND n < 600"),
            format!("(id, k) IN ({pairs}, (7, 49), (8, NULL))"),
            format!("a = 3 AND (b, k) IN ({pairs}, (2, 81))"),
        ] {
            let select = format!("SELECT id, k, a, b, n FROM t WHERE {condition}");
            assert!(is_compiled(&session, &select), "{count}: {select:.200}");
            session.set("compiled", "off").unwrap();
            let planned = rows(&session, &select).await;
            session.set("compiled", "on").unwrap();
            assert_eq!(rows(&session, &select).await, planned, "{count}: {select:.200}");
        }
        let update = format!("UPDATE t SET n = n + 1 WHERE id IN ({ids}) RETURNING id");
        assert!(is_compiled(&session, &update));
        let found = rows(&session, &format!("SELECT id FROM t WHERE id IN ({ids})")).await;
        assert_eq!(rows(&session, &update).await, found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_of_a_parameter_leave_the_thread_that_others_wait_for() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    with_rows(&session, &database).await;
    for sql in ["SELECT id, n FROM t WHERE id = ANY($1)", "SELECT count(*) FROM t WHERE k = ANY($1)"] {
        let prepared = session.prepare_fast(sql, &[]).expect("compiled");
        let plan = prepared.fast.clone().expect("compiled");
        for (count, is_long) in [(1, false), (1000, false), (1001, true), (20_000, true)] {
            let values: Vec<_> = (0..count).map(|i| ScalarValue::Int32(Some(i * 3))).collect();
            let list = ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int32));
            assert_eq!(plan.is_long(std::slice::from_ref(&list)), is_long, "{count}");
            let found = lines(session.execute_prepared(&prepared, &[list]).await.unwrap()).await;
            let text = (0..count).map(|i| (i * 3).to_string()).collect::<Vec<_>>().join(", ");
            session.set("compiled", "off").unwrap();
            let planned = rows(&session, &sql.replace("$1", &format!("ARRAY[{text}]"))).await;
            session.set("compiled", "on").unwrap();
            assert_eq!(found, planned, "{count}: {sql}");
        }
    }
}

/// What is as deep as it is long when it is read is not so deep when it is compiled.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_values_are_no_death() {
    let directory = tempfile::tempdir().unwrap();
    let database = create(directory.path());
    let session = Session::new(&database);
    with_rows(&session, &database).await;
    let all = |text: fn(u32) -> String, between: &str| (0..100_000).map(text).collect::<Vec<_>>().join(between);
    let expected = rows(&session, "SELECT count(*), sum(id) FROM t").await;
    for condition in [
        format!("id IN ({})", all(|i| i.to_string(), ", ")),
        format!("(a, b) IN ({})", all(|i| format!("({}, {})", i % 40, i / 40), ", ")),
    ] {
        assert_eq!(rows(&session, &format!("SELECT count(*), sum(id) FROM t WHERE {condition}")).await, expected);
    }
}
