//! Rows are those of the same subqueries run for each row outside.

use std::sync::LazyLock;

use saki_base::DataType;
use saki_base::value::Value;

use crate::fixture::{Fixture, NoTransaction, TableBuilder, block_on, sorted_rows, task_context};
use crate::subqueries::nested_loops::{last_resort, physical_plan};

/// `a`: ids 0 to 39, keys 0 to 9 and NULL. `b`: for most keys some rows, whose `y` has NULLs and comes more than once.
static TABLES: LazyLock<Fixture> = LazyLock::new(|| {
    let fixture = Fixture::new();
    let value = |is_there: bool, number: i64| if is_there { Value::Int8(number) } else { Value::Null };
    let a = TableBuilder::new("a").column("id", DataType::Int8).nullable("k", DataType::Int8).key(&["id"]);
    let rows: Vec<_> = (0..40).map(|id| vec![Value::Int8(id), value(id % 11 < 10, id % 11)]).collect();
    fixture.load(a, &rows);
    let b = TableBuilder::new("b")
        .column("id", DataType::Int8)
        .nullable("k", DataType::Int8)
        .nullable("y", DataType::Int8)
        .column("small", DataType::Int4)
        .key(&["id"]);
    let row = |id: i64| {
        let (k, y) = (id * 7 % 8, id * 5 % 6);
        vec![Value::Int8(id), value(k < 7, k), value(y < 5, y), Value::Int4((id % 9) as i32)]
    };
    fixture.load(b, &(0..50).map(row).collect::<Vec<_>>());
    // One row for each key.
    let c = TableBuilder::new("c").column("k", DataType::Int8).column("name", DataType::Text).key(&["k"]);
    fixture.load(c, &(0..6).map(|k| vec![Value::Int8(k), Value::Text(format!("name {k}"))]).collect::<Vec<_>>());
    fixture
});

/// The rows of a query, and its plan.
fn run(sql: &str, loops: bool) -> saki_catalog::Result<(Vec<String>, String)> {
    let env = TABLES.default_env();
    let plan = block_on(async {
        let state = TABLES.session(&env).state();
        let logical = state.create_logical_plan(sql).await?;
        let logical = if loops { last_resort(logical, &state)? } else { logical };
        physical_plan(&state, &logical, &env).await
    })?;
    let plan = plan.track(&mut NoTransaction)?;
    let batches = block_on(async { datafusion::physical_plan::common::collect(plan.stream(task_context(8))?).await })?;
    Ok((sorted_rows(&batches), plan.text(false)))
}

const LIFTED: [&str; 37] = [
    "SELECT id, (SELECT y FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1) FROM a",
    "SELECT id, (SELECT y FROM b WHERE b.k = a.k ORDER BY y DESC NULLS LAST, b.id DESC LIMIT 1) FROM a",
    "SELECT id, (SELECT y FROM b WHERE a.k = b.k AND y > 2 ORDER BY b.id OFFSET 1 LIMIT 1) FROM a",
    "SELECT id, (SELECT z FROM (SELECT y AS z, id AS i, k AS q FROM b) s WHERE q = a.k ORDER BY i LIMIT 1) FROM a",
    "SELECT id, (SELECT b.id AS i FROM b WHERE b.small = a.k ORDER BY b.id LIMIT 1) FROM a",
    "SELECT id, (SELECT y FROM b WHERE b.k = a.k AND b.small = a.id ORDER BY b.id LIMIT 1) FROM a",
    "SELECT id, (SELECT name FROM c WHERE c.k = a.k) FROM a",
    "SELECT id, (SELECT name FROM c WHERE c.k = a.k ORDER BY name) FROM a",
    "SELECT id FROM a WHERE (SELECT name FROM c WHERE c.k = a.k) = 'name 3'",
    "SELECT id, CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND y = 3) THEN 1 ELSE 0 END FROM a",
    "SELECT id, NOT EXISTS (SELECT * FROM b WHERE b.k = a.k) FROM a",
    "SELECT sum((SELECT count(*) FROM b WHERE b.k = a.k)) FROM a",
    "SELECT id % 3, sum((SELECT y FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1)), count(*) FROM a GROUP BY id % 3",
    "SELECT id, (SELECT max(y) FROM b WHERE b.k = a.k LIMIT 1) FROM a",
    "SELECT id, (SELECT max(y) FROM b WHERE b.k = a.k ORDER BY 1) FROM a",
    "SELECT a.id, x.id, x.y FROM a, LATERAL (SELECT * FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 2) x",
    "SELECT a.id, x.i FROM a CROSS JOIN LATERAL (SELECT b.id AS i FROM b WHERE b.k = a.k ORDER BY y, b.id \
     LIMIT 3 OFFSET 1) x",
    "SELECT a.id, x.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1) x ON true",
    "SELECT a.id, x.n FROM a LEFT JOIN LATERAL (SELECT b.id AS n FROM b JOIN c ON c.k = b.k WHERE b.k = a.k \
     ORDER BY b.id LIMIT 1) AS x ON true",
    "SELECT a.id, (SELECT y FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1), (SELECT b.id AS i FROM b \
     WHERE b.k = a.k ORDER BY y, b.id LIMIT 1) FROM a",
    "SELECT id, (SELECT 5 FROM b WHERE b.k = a.k LIMIT 1) FROM a",
    "SELECT id, EXISTS (SELECT 1::int FROM b WHERE b.k = a.k AND y > 3) FROM a",
    // Compared otherwise than by equality.
    "SELECT id, (SELECT count(*) FROM b WHERE b.k = a.k AND b.id > a.id) FROM a",
    "SELECT id, (SELECT count(*) FROM b WHERE b.y < a.k) FROM a",
    "SELECT id, (SELECT count(y) FROM b WHERE a.k <= b.k) FROM a",
    "SELECT id, (SELECT sum(y) FROM b WHERE b.k = a.k AND b.small >= a.id) FROM a",
    "SELECT id, (SELECT min(b.id) FROM b WHERE b.id > a.id AND b.y = 3) FROM a",
    "SELECT id, (SELECT max(b.id) + 1 FROM b WHERE b.id BETWEEN a.id - 5 AND a.id + 1) FROM a",
    "SELECT id, (SELECT coalesce(sum(y), -1) FROM b WHERE b.small > a.k AND b.k = a.k) AS s FROM a ORDER BY s, id",
    "SELECT id FROM a WHERE (SELECT count(*) FROM b WHERE b.y > a.k) > 12",
    "SELECT id FROM a WHERE id > 3 AND (SELECT count(*) FROM b WHERE b.y > a.k) = 0",
    "SELECT id, (SELECT count(*) FROM (SELECT y AS z FROM b) s WHERE z > a.k) FROM a",
    "SELECT sum((SELECT count(*) FROM b WHERE b.k = a.k AND b.id > a.id)), count(*) FROM a",
    "SELECT id, (SELECT count(*) FROM b JOIN c ON c.k = b.k WHERE b.id > a.id AND c.k < 4) FROM a",
    "SELECT n, (SELECT count(*) FROM b WHERE b.id > n) FROM (SELECT k, count(*) AS n FROM a GROUP BY k) s",
    "SELECT id, EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.id > a.id) FROM a",
    "SELECT id, NOT EXISTS (SELECT * FROM b WHERE b.small > a.k AND b.id < a.id) FROM a",
];

#[test]
fn no_subquery_runs_for_each_row_and_rows_are_the_same() {
    for sql in LIFTED {
        let (expected, looped) = run(sql, true).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(looped.contains("nested_loop_"), "{sql} would be joined anyway:\n{looped}");
        let (rows, text) = run(sql, false).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(!text.contains("nested_loop_"), "{sql}\n{text}");
        assert_eq!(rows, expected, "{sql}\n{text}");
    }
}

#[test]
fn rows_are_numbered_of_the_keys_that_there_are_outside() {
    for (sql, is_joined) in [
        ("SELECT id, (SELECT y FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1) FROM a WHERE id < 5", true),
        ("SELECT id FROM a WHERE id < 9 AND (SELECT y FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1) > 2", true),
        (
            "SELECT id, x.y FROM (SELECT * FROM a ORDER BY id LIMIT 3) a, LATERAL (SELECT y FROM b \
          WHERE b.k = a.k ORDER BY y, \
          b.id LIMIT 2) x",
            true,
        ),
        ("SELECT id, (SELECT y FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1) FROM a", false),
    ] {
        let (rows, text) = run(sql, false).unwrap();
        assert_eq!(rows, run(sql, true).unwrap().0, "{sql}\n{text}");
        assert_eq!(text.contains("Semi") || text.contains("semi"), is_joined, "{sql}\n{text}");
    }
}

#[test]
fn what_rows_are_ordered_by_is_a_column_below() {
    let by = "(SELECT count(*) FROM b WHERE b.k = a.k)";
    let (rows, text) = run(&format!("SELECT id, k FROM a ORDER BY {by}, id LIMIT 7"), false).unwrap();
    assert!(!text.contains("nested_loop_"), "{text}");
    let column = format!("SELECT id, k FROM (SELECT id, k, {by} AS n FROM a) s ORDER BY n, id LIMIT 7");
    assert_eq!(rows, run(&column, false).unwrap().0);
}

#[test]
fn more_than_one_row_as_a_value_is_refused() {
    let sql = "SELECT id, (SELECT y FROM b WHERE b.k = a.k) FROM a";
    let (looped, lifted) = (run(sql, true).unwrap_err(), run(sql, false).unwrap_err());
    assert_eq!((looped.sqlstate(), lifted.sqlstate()), ("21000", "21000"));
    // Rows that nothing outside asks for are nobody's value.
    let sql = "SELECT id, (SELECT y FROM b WHERE b.k = a.k) FROM a WHERE a.k > 6";
    assert_eq!(run(sql, false).unwrap().0, run(sql, true).unwrap().0);
    let sql = "SELECT id, CASE WHEN a.k > 6 THEN (SELECT y FROM b WHERE b.k = a.k) END FROM a";
    assert_eq!(run(sql, false).unwrap().0, run(sql, true).unwrap().0);
}

#[test]
fn what_could_fail_for_rows_of_nobody_stays_a_loop() {
    for sql in [
        "SELECT id, (SELECT count(*) FROM b WHERE coalesce(a.k, 0) < b.y) FROM a",
        "SELECT id, (SELECT count(*) FROM b WHERE a.k < b.y OR b.id = 3) FROM a",
        // Which rows these are may be decided otherwise each time.
        "SELECT id, (SELECT count(*) FROM b WHERE a.id < b.id) FROM (SELECT * FROM a ORDER BY id LIMIT 5) a",
        "SELECT id, (SELECT 10 / y FROM b WHERE b.k = a.k AND y <> 0 ORDER BY b.id LIMIT 1) FROM a",
        "SELECT id, (SELECT y FROM b WHERE b.k = a.k AND b.id > a.id ORDER BY b.id LIMIT 1) FROM a",
        "SELECT id, (SELECT y FROM b WHERE b.k = a.k ORDER BY y + 1, b.id LIMIT 1) FROM a",
    ] {
        let (rows, text) = run(sql, false).unwrap();
        assert_eq!(rows, run(sql, true).unwrap().0, "{sql}");
        assert!(text.contains("nested_loop_"), "{sql}\n{text}");
    }
}
