//! Conditions at the edges of ranges, keys and types: whichever path is chosen, the rows are those that DataFusion
//! finds in the same data, and nothing that has a value is taken for NULL or the other way round.

use std::sync::LazyLock;

use proptest::prelude::*;
use saki_base::DataType;
use saki_base::value::Value;

use crate::fixture::{Fixture, TableBuilder};
use saki_settings::Settings;

/// Numbers at the ends of their types, and about zero.
const NUMBERS: [i64; 9] = [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 2, i64::MAX - 1, i64::MAX];
/// Texts that begin with each other, with bytes that keys escape.
const TEXTS: [&str; 8] = ["", "a", "a\u{1}", "aa", "ab", "b", "é", "\u{10ffff}"];

/// Each pair of a number and a text; an index on each, on both, and a copy in columns.
static EDGES: LazyLock<Fixture> = LazyLock::new(|| {
    let fixture = Fixture::new();
    let mut rows = Vec::new();
    for (at, number) in NUMBERS.iter().enumerate() {
        for (with, text) in TEXTS.iter().enumerate() {
            let maybe = if (at + with) % 5 == 3 { Value::Null } else { Value::Text((*text).to_owned()) };
            let small = if (at * with) % 7 == 2 { Value::Null } else { Value::Int2((at as i16 - 4) * 8191) };
            rows.push(vec![Value::Int8(*number), Value::Text((*text).to_owned()), maybe, small]);
        }
    }
    let table = |name: &str| {
        TableBuilder::new(name)
            .column("n", DataType::Int8)
            .column("s", DataType::Text)
            .nullable("maybe", DataType::Text)
            .nullable("small", DataType::Int2)
            .key(&["n", "s"])
    };
    fixture.load(
        table("trees").index("by_maybe", &["maybe"]).index("by_small", &["small", "maybe"]).covering(
            "by_text",
            &["s"],
            &["small"],
        ),
        &rows,
    );
    fixture.load(table("columns").with_segments(), &rows);
    fixture
});

/// A query's rows by every path there is to them.
fn on_every_path(condition: &str) {
    for table in ["trees", "columns"] {
        for path in ["auto", "scan", "index", "rows", "columns"] {
            let mut settings = Settings { partitions: 2, ..Settings::default() };
            settings.set("access_path", Some(path)).unwrap();
            let env = EDGES.env(settings);
            for columns in ["n, s, maybe, small", "s, small"] {
                EDGES.check(&env, &format!("SELECT {columns} FROM {table} WHERE {condition}"));
            }
        }
    }
}

#[test]
fn ranges_end_where_they_are_said_to() {
    for condition in [
        "n = 9223372036854775807",
        "n > 9223372036854775806",
        "n >= 9223372036854775807 AND s >= 'b'",
        "n > 9223372036854775807",
        "n < -9223372036854775807",
        "n BETWEEN -1 AND 1",
        "n BETWEEN 1 AND -1",
        "n > -1 AND n < 0",
        "n >= 0 AND n <= 0 AND s > 'a' AND s < 'ab'",
        "n = 2 AND n = 1",
        "n IN (2, 1, 2, -1)",
        "n NOT IN (0, 1, 2)",
        "n <> 0 AND n < 2",
    ] {
        on_every_path(condition);
    }
}

#[test]
fn texts_that_begin_with_each_other_are_told_apart() {
    for condition in [
        "s = ''",
        "s = 'a'",
        "s > 'a' AND s < 'b'",
        "s >= 'aa' AND s <= 'aa'",
        "s > 'é'",
        "s LIKE 'a%'",
        "s LIKE 'a_'",
        "s LIKE ''",
        "s LIKE '%'",
        "s NOT LIKE 'a%' AND n = 0",
        "n = 0 AND s IN ('a', 'aa', '', 'nothing')",
        "s < ''",
    ] {
        on_every_path(condition);
    }
}

#[test]
fn null_is_found_by_its_own_conditions_alone() {
    for condition in [
        "maybe IS NULL",
        "maybe IS NOT NULL",
        "maybe = NULL",
        "maybe <> 'a'",
        "NOT (maybe = 'a')",
        "maybe IS NULL AND small IS NULL",
        "small = -32764 AND maybe IS NULL",
        "small IN (0, 8191) AND maybe >= 'a'",
        "maybe = 'a' OR maybe IS NULL",
        "small > NULL",
        "maybe IS NOT DISTINCT FROM NULL",
        "maybe IS DISTINCT FROM 'a'",
    ] {
        on_every_path(condition);
    }
}

#[test]
fn numbers_beyond_a_columns_type_are_no_errors() {
    for condition in [
        "small < 100000",
        "small > 100000",
        "small >= -32768",
        "small = 8191.0",
        "small = 8191.5",
        "small > 8190.5 AND small < 8191.5",
        "n < 9223372036854775808.0",
        "n > 0.5 AND n < 1.5",
    ] {
        on_every_path(condition);
    }
}

fn comparison() -> impl Strategy<Value = String> {
    let op = prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let number = prop::sample::select(NUMBERS[1..].to_vec());
    let text = prop::sample::select(TEXTS[..7].to_vec());
    prop_oneof![
        (op.clone(), number).prop_map(|(op, number)| format!("n {op} {number}")),
        (op.clone(), text.clone()).prop_map(|(op, text)| format!("s {op} '{text}'")),
        (op.clone(), text).prop_map(|(op, text)| format!("maybe {op} '{text}'")),
        (op, -40_000..40_000_i32).prop_map(|(op, small)| format!("small {op} {}", small / 8191 * 8191)),
        Just("maybe IS NULL".to_owned()),
        Just("small IS NOT NULL".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn conditions_together_leave_the_same_rows_on_every_path(
        conditions in prop::collection::vec(comparison(), 1..4),
        any: bool,
    ) {
        on_every_path(&conditions.join(if any { " OR " } else { " AND " }));
    }
}
