//! Native operators and DataFusion's give the same answers to the same queries.
//!
//! Queries are made up of joins of all kinds, residual conditions, filters, expressions and aggregates, over tables
//! with NULLs in every column, few distinct values and many, and over an empty one. What floats sum up to does not
//! depend on order here: they are multiples of a quarter.

use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use saki_sql::{CreateOptions, Database, OpenOptions, Session};

use crate::support::text_rows;

/// Columns of every table: a key that repeats, and one of each type.
const COLUMNS: &str =
    "(id int PRIMARY KEY, k int, b bigint, n numeric(12,2), f double precision, t text, d date, q boolean)";

/// A table's rows: column values follow from the row's number, with NULLs at distances of their own.
fn insert(table: &str, rows: usize, distinct: usize) -> String {
    let value = |column: usize, modulus: usize, text: &str| {
        format!(
            "CASE WHEN v % {} = 0 THEN NULL ELSE {} END",
            column + 5,
            text.replace('#', &format!("(v * 7919 % {modulus})"))
        )
    };
    let columns = [
        value(0, distinct, "#"),
        value(1, distinct * 3, "(# - 5) * 4000000000"),
        value(2, distinct, "# / 4.0 - 3"),
        value(3, distinct, "# / 4.0::double precision"),
        value(4, distinct, "'word ' || #"),
        value(5, distinct, "(date '2020-02-27' + (# || ' days')::interval)::date"),
        value(6, 2, "# = 1"),
    ];
    format!("INSERT INTO {table} SELECT v, {} FROM generate_series(1, {rows}) AS s(v)", columns.join(", "))
}

async fn fill(session: &Session) {
    for (table, rows, distinct) in [("small", 60, 7), ("large", 3000, 400), ("skewed", 500, 3), ("empty", 0, 1)] {
        session.execute(&format!("CREATE TABLE {table} {COLUMNS}")).await.unwrap();
        session.execute(&insert(table, rows, distinct)).await.unwrap();
    }
    session.execute("ANALYZE").await.unwrap();
}

fn table() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just("small"), 3 => Just("large"), 2 => Just("skewed"), 1 => Just("empty")]
}

/// A condition of rows of `a` (and of `b`, if there is one).
fn condition(two: bool) -> BoxedStrategy<String> {
    let one = prop::sample::select(vec![
        "a.n > 2.5",
        "a.n * 2 - a.n <= 1.75",
        "a.t LIKE 'word 1%'",
        "a.t NOT LIKE '%3'",
        "a.k IN (1, 2, 3, 300)",
        "a.k NOT IN (1, 4)",
        "a.q",
        "NOT a.q",
        "a.q IS NULL OR a.f < 1",
        "a.d BETWEEN date '2020-02-28' AND date '2020-03-03'",
        "extract(year FROM a.d) = 2020 AND extract(month FROM a.d) > 2",
        "a.b > 0 AND a.b < 100000000000",
        "substring(a.t, 6, 1) = '2'",
        "a.k % 3 = 1",
        "CASE WHEN a.k > 3 THEN a.n > 0 ELSE a.q END",
        "upper(a.t) <> 'WORD 2'",
        "a.k IS NOT NULL AND a.t IS NOT NULL",
        "a.k + a.id > 100",
    ]);
    let both = prop::sample::select(vec!["a.n < b.n", "a.id + b.id < 400", "a.t <> b.t", "a.q OR b.q", "a.d > b.d"]);
    if two {
        prop_oneof![one.clone().prop_map(str::to_owned), both.prop_map(str::to_owned)].boxed()
    } else {
        one.prop_map(str::to_owned).boxed()
    }
}

/// Equalities of a join.
fn equality() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a.k = b.k",
        "a.id = b.k",
        "a.k = b.id",
        "a.n = b.n",
        "a.t = b.t",
        "a.d = b.d",
        "a.b = b.b",
        "a.k = b.k AND a.t = b.t",
        "a.k = b.k AND a.d = b.d AND a.q = b.q",
        "a.k + 1 = b.k",
        "a.f = b.f AND a.n = b.n",
        "a.k IS NOT DISTINCT FROM b.k",
    ])
}

/// FROM and WHERE; and whether there is a `b`.
fn rows() -> impl Strategy<Value = (String, bool)> {
    let single = (table(), prop::option::of(condition(false))).prop_map(|(table, condition)| {
        let condition = condition.map_or(String::new(), |condition| format!(" WHERE {condition}"));
        (format!("{table} a{condition}"), false)
    });
    let kind = prop::sample::select(vec!["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let joined =
        (table(), kind, table(), equality(), prop::option::of(condition(true)), prop::option::of(condition(false)))
            .prop_map(|(a, kind, b, equality, residual, condition)| {
                // DataFusion has no full join with a condition beyond the equalities of one side alone.
                let residual = residual.map_or(String::new(), |residual| format!(" AND ({residual})"));
                let condition = condition.map_or(String::new(), |condition| format!(" WHERE {condition}"));
                (format!("{a} a {kind} {b} b ON {equality}{residual}{condition}"), true)
            });
    let exists = (table(), any::<bool>(), table(), equality(), prop::option::of(condition(true))).prop_map(
        |(a, negated, b, equality, residual)| {
            let not = if negated { "NOT " } else { "" };
            let residual = residual.map_or(String::new(), |residual| format!(" AND ({residual})"));
            (format!("{a} a WHERE {not}EXISTS (SELECT 1 FROM {b} b WHERE {equality}{residual})"), false)
        },
    );
    let within = (table(), any::<bool>(), table(), prop::sample::select(vec!["k", "id", "t", "n"]), any::<bool>())
        .prop_map(|(a, negated, b, column, or)| {
            let not = if negated { "NOT " } else { "" };
            let or = if or { " OR a.q" } else { "" };
            (format!("{a} a WHERE a.{column} {not}IN (SELECT {column} FROM {b}){or}"), false)
        });
    prop_oneof![2 => single, 5 => joined, 2 => exists, 2 => within]
}

fn query() -> impl Strategy<Value = String> {
    let groups = prop::sample::subsequence(vec!["a.k", "a.t", "a.n", "a.d", "a.q", "a.b", "a.f", "a.id % 100"], 0..=3);
    let calls = prop::sample::subsequence(
        vec![
            "count(*)",
            "count(a.k)",
            "sum(a.k)",
            "sum(a.b)",
            "sum(a.n)",
            "sum(a.n * (1 - a.n))",
            "sum(a.f)",
            "avg(a.n)",
            "avg(a.f)",
            "avg(a.k)",
            "min(a.t)",
            "max(a.t)",
            "min(a.d)",
            "max(a.n)",
            "min(a.b)",
            "max(a.f)",
            "count(DISTINCT a.k)",
            "count(*) FILTER (WHERE a.q)",
            "sum(a.n) FILTER (WHERE a.k > 2)",
            "sum(CASE WHEN a.q THEN a.n ELSE 0 END)",
        ],
        1..=4,
    );
    let grouped = (groups, calls);
    (rows(), prop::option::of(grouped), any::<bool>()).prop_map(|((from, two), grouped, of_b)| {
        let Some((groups, calls)) = grouped else {
            let b = if two { ", b.id, b.t, b.n" } else { "" };
            return format!("SELECT a.id, a.k + 1, a.n * 2, a.t, a.d, a.q{b} FROM {from}");
        };
        let list = groups.iter().chain(&calls).copied().collect::<Vec<_>>().join(", ");
        let by = if groups.is_empty() { String::new() } else { format!(" GROUP BY {}", groups.join(", ")) };
        let (list, by) = if two && of_b { (list.replace("a.", "b."), by.replace("a.", "b.")) } else { (list, by) };
        format!("SELECT {list} FROM {from}{by}")
    })
}

async fn answer(session: &Session, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let mut results = session.execute(sql).await.map_err(|error| error.to_string())?;
    let mut rows = text_rows(results.pop().expect("a query has a result")).await.map_err(|error| error.to_string())?;
    rows.sort();
    Ok(rows)
}

#[test]
fn native_operators_agree_with_datafusions() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let open = OpenOptions { cache_bytes: 64 << 20, reactors: Some(2), ..OpenOptions::default() };
    let options = CreateOptions { open, ..CreateOptions::default() };
    let database: Arc<Database> = Database::create(directory.path().join("database"), options).unwrap();
    runtime.block_on(fill(&Session::new(&database)));
    let session = |settings: &[(&str, &str)]| {
        let session = Session::new(&database);
        for (name, value) in settings.iter().chain(&[("index_join", "never")]) {
            session.set(name, value).unwrap();
        }
        session
    };
    let reference = session(&[("operators", "datafusion")]);
    let natives = [
        ("native", session(&[])),
        ("native, one partition", session(&[("partitions", "1")])),
        ("native, small batches, 5 partitions", session(&[("batch_rows", "7"), ("partitions", "5")])),
        ("native joins only", session(&[("native_aggregate", "off"), ("native_filter", "off")])),
        ("native aggregates only", session(&[("native_join", "off")])),
    ];
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&query(), |sql| {
        runtime.block_on(async {
            let expected = answer(&reference, &sql).await;
            for (name, native) in &natives {
                let found = answer(native, &sql).await;
                // Of what fails, both fail; the words may differ.
                if expected.is_err() && found.is_err() {
                    continue;
                }
                prop_assert!(found == expected, "{}", difference(name, &sql, &found, &expected, native).await);
            }
            Ok(())
        })
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

type Answer = Result<Vec<Vec<String>>, String>;

async fn difference(name: &str, sql: &str, found: &Answer, expected: &Answer, session: &Session) -> String {
    let mut text = format!("{name}: {sql}\n{}\n", session.explain(sql).await.unwrap_or_else(|error| error.to_string()));
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            let _ = writeln!(text, "{} rows, not {}", found.len(), expected.len());
            for row in found.iter().filter(|row| !expected.contains(row)).take(5) {
                let _ = writeln!(text, "  only native: {row:?}");
            }
            for row in expected.iter().filter(|row| !found.contains(row)).take(5) {
                let _ = writeln!(text, "  only DataFusion: {row:?}");
            }
        }
        _ => {
            let _ = writeln!(text, "{:?}\n{:?}", found.as_ref().err(), expected.as_ref().err());
        }
    }
    text
}
