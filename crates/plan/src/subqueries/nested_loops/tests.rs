//! Subqueries that the planner makes no join of, or a wrong one.

use std::sync::LazyLock;

use datafusion::common::TableReference;
use saki_base::DataType;
use saki_base::value::Value;

use super::*;
use crate::fixture::{Fixture, NoTransaction, TableBuilder, block_on};

/// `a`: (1, 10), (2, 20), (3, NULL). `b`: (1, 1, 5), (2, 1, 7), (3, 2, NULL), (4, 9, 20).
static TWO: LazyLock<Fixture> = LazyLock::new(|| {
    let fixture = Fixture::new();
    let value = |number: Option<i64>| number.map_or(Value::Null, Value::Int8);
    let a = TableBuilder::new("a").column("id", DataType::Int8).nullable("x", DataType::Int8).key(&["id"]);
    let rows = [(1, Some(10)), (2, Some(20)), (3, None)].map(|(id, x)| vec![Value::Int8(id), value(x)]);
    fixture.load(a, &rows);
    let b = TableBuilder::new("b")
        .column("id", DataType::Int8)
        .column("owner", DataType::Int8)
        .nullable("y", DataType::Int8)
        .key(&["id"]);
    let rows = [(1, 1, Some(5)), (2, 1, Some(7)), (3, 2, None), (4, 9, Some(20))];
    fixture.load(b, &rows.map(|(id, a, y)| vec![Value::Int8(id), Value::Int8(a), value(y)]));
    fixture
});

/// The rows of a query, every correlated subquery of which is a loop.
fn looped(sql: &str) -> saki_catalog::Result<Vec<String>> {
    let env = TWO.default_env();
    let plan = block_on(async {
        let state = TWO.session(&env).state();
        let looped = last_resort(state.create_logical_plan(sql).await?, &state)?;
        physical_plan(&state, &looped, &env).await
    })?;
    let plan = plan.track(&mut NoTransaction)?;
    let batches = block_on(async {
        Ok::<_, saki_catalog::SqlError>(
            datafusion::physical_plan::common::collect(plan.stream(crate::fixture::task_context(2))?).await?,
        )
    });
    Ok(crate::fixture::sorted_rows(&batches?))
}

fn planned(sql: &str) -> Vec<String> {
    TWO.rows(&TWO.default_env(), sql)
}

#[test]
fn a_loop_finds_what_sql_says() {
    let cases: [(&str, &[&str]); 14] = [
        ("SELECT id, (SELECT max(y) FROM b WHERE b.owner = a.id) FROM a", &["1|7", "2|NULL", "3|NULL"]),
        ("SELECT id, (SELECT count(*) FROM b WHERE b.owner = a.id) FROM a", &["1|2", "2|1", "3|0"]),
        (
            "SELECT id, (SELECT y FROM b WHERE b.owner = a.id ORDER BY b.id DESC LIMIT 1) FROM a",
            &["1|7", "2|NULL", "3|NULL"],
        ),
        ("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.owner = a.id)", &["1", "2"]),
        ("SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.owner = a.id)", &["3"]),
        (
            "SELECT id, EXISTS (SELECT 1 FROM b WHERE b.owner = a.id AND y > 6) FROM a",
            &["1|true", "2|false", "3|false"],
        ),
        ("SELECT id FROM a WHERE x IN (SELECT y FROM b)", &["2"]),
        ("SELECT id FROM a WHERE x NOT IN (SELECT y FROM b)", &[]),
        ("SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE y IS NOT NULL)", &["1"]),
        ("SELECT id FROM a WHERE 5 NOT IN (SELECT y FROM b WHERE b.owner = a.id)", &["3"]),
        ("SELECT id, x IN (SELECT y FROM b) FROM a", &["1|NULL", "2|true", "3|NULL"]),
        ("SELECT id FROM a WHERE (x IN (SELECT y FROM b)) IS NULL", &["1", "3"]),
        ("SELECT id FROM a WHERE id = (SELECT min(b.owner) FROM b WHERE y < x)", &["1"]),
        (
            "SELECT a.id, (SELECT sum(c.x) FROM a c \
             WHERE c.id <= a.id AND EXISTS (SELECT 1 FROM b WHERE b.owner = c.id)) FROM a",
            &["1|10", "2|30", "3|30"],
        ),
    ];
    for (sql, rows) in cases {
        assert_eq!(looped(sql).unwrap(), rows, "{sql}");
        assert_eq!(planned(sql), rows, "{sql}, as planned");
    }
}

#[test]
fn lateral_sets_belong_to_their_row() {
    let cases: [(&str, &[&str]); 4] = [
        (
            "SELECT a.id, l.y FROM a, LATERAL (SELECT y FROM b WHERE b.owner = a.id ORDER BY y LIMIT 1) l",
            &["1|5", "2|NULL"],
        ),
        (
            "SELECT a.id, l.y FROM a \
             LEFT JOIN LATERAL (SELECT y FROM b WHERE b.owner = a.id ORDER BY y LIMIT 1) l ON true",
            &["1|5", "2|NULL", "3|NULL"],
        ),
        (
            "SELECT a.id, l.n FROM a CROSS JOIN LATERAL (SELECT count(*) AS n FROM b WHERE b.owner = a.id) l",
            &["1|2", "2|1", "3|0"],
        ),
        (
            "SELECT a.id, l.y FROM a LEFT JOIN LATERAL (SELECT y FROM b WHERE b.owner = a.id) l ON l.y > 5",
            &["1|7", "2|NULL", "3|NULL"],
        ),
    ];
    for (sql, rows) in cases {
        assert_eq!(planned(sql), rows, "{sql}");
    }
}

#[test]
fn more_than_one_row_as_a_value_is_an_error() {
    let error = looped("SELECT (SELECT y FROM b WHERE b.owner = a.id) FROM a").unwrap_err();
    assert_eq!(error.sqlstate(), "21000");
    assert!(error.message.contains("more than one row"));
}

#[test]
fn what_the_planner_refuses_for_another_reason_stays_refused() {
    let env = TWO.default_env();
    let error = TWO.try_plan(&env, "SELECT nonsense FROM a").err().unwrap();
    assert_eq!(error.sqlstate(), "42703");
}

#[test]
fn subqueries_are_told_from_none() {
    let env = TWO.default_env();
    let cases = [
        ("SELECT id FROM a", false),
        ("SELECT id FROM a WHERE x IN (1, 2)", false),
        ("SELECT id FROM a WHERE x = (SELECT 1)", true),
        ("SELECT id FROM a WHERE x IN (SELECT y FROM b)", true),
        ("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.owner = a.id)", true),
    ];
    for (sql, has) in cases {
        assert_eq!(has_subqueries(&TWO.logical(&env, sql)).unwrap(), has, "{sql}");
    }
}

#[test]
fn an_in_that_loses_nulls_is_known() {
    let env = TWO.default_env();
    let cases = [
        ("SELECT id FROM a WHERE x IN (SELECT y FROM b)", false),
        ("SELECT id FROM a WHERE x NOT IN (SELECT y FROM b)", false),
        ("SELECT id FROM a WHERE x IN (SELECT y FROM b WHERE b.owner = a.id)", false),
        ("SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.owner = a.id)", true),
        ("SELECT id FROM a WHERE 3 NOT IN (SELECT y FROM b)", true),
        ("SELECT id FROM a WHERE (x IN (SELECT y FROM b)) IS NULL", true),
        ("SELECT id FROM a WHERE x = 1 OR x IN (SELECT y FROM b)", false),
    ];
    for (sql, misread) in cases {
        assert_eq!(has_misread(&TWO.logical(&env, sql)).unwrap(), misread, "{sql}");
    }
}

#[test]
fn only_queries_of_small_relations_are_looped_from_the_start() {
    let env = TWO.default_env();
    let session = TWO.session(&env);
    let sql = "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.owner = a.id)";
    let logical = TWO.logical(&env, sql);
    let loops = |small: &[&str]| {
        let plan = nested_loops(logical.clone(), &session.state(), small).unwrap();
        plan.display_indent().to_string().contains("nested_loop_")
    };
    assert!(!loops(&["pg_catalog"]));
    let schema = TableReference::partial("public", "a");
    assert_eq!(schema.schema(), Some("public"));
    let qualified = sql.replace("FROM a", "FROM public.a");
    let logical = block_on(session.state().create_logical_plan(&qualified)).unwrap();
    let plan = nested_loops(logical, &session.state(), &["public"]).unwrap();
    assert!(plan.display_indent().to_string().contains("nested_loop_"));
}
