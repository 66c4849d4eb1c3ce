//! What expressions mean, over whole tables of operands: compared with arithmetic and logic done here, by PostgreSQL's
//! rules.

use proptest::prelude::*;

use crate::fixture::{check_refused, check_values, value};

/// What a condition is, in a word.
fn truth(condition: &str) -> String {
    let word = format!("CASE WHEN ({condition}) THEN 'yes' WHEN NOT ({condition}) THEN 'no' ELSE 'unknown' END");
    value(&word).unwrap_or_else(|error| panic!("{condition}: {error}")).expect("a word")
}

fn word(truth: Option<bool>) -> &'static str {
    match truth {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}

const TRUTHS: [(&str, Option<bool>); 3] = [("true", Some(true)), ("false", Some(false)), ("NULL::boolean", None)];

#[test]
fn logic_has_three_values() {
    for (left, a) in TRUTHS {
        assert_eq!(truth(&format!("NOT {left}")), word(a.map(|a| !a)), "NOT {left}");
        for (right, b) in TRUTHS {
            let both = match (a, b) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            let either = match (a, b) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            assert_eq!(truth(&format!("{left} AND {right}")), word(both), "{left} AND {right}");
            assert_eq!(truth(&format!("{left} OR {right}")), word(either), "{left} OR {right}");
            let equal = a.zip(b).map(|(a, b)| a == b);
            assert_eq!(truth(&format!("{left} = {right}")), word(equal), "{left} = {right}");
            let distinct = truth(&format!("{left} IS DISTINCT FROM {right}"));
            assert_eq!(distinct, word(Some(a != b)), "{left} IS DISTINCT FROM {right}");
        }
    }
}

#[test]
fn null_among_many_is_unknown_unless_the_others_decide() {
    for (condition, expected) in [
        ("1 IN (1, NULL)", "yes"),
        ("2 IN (1, NULL)", "unknown"),
        ("2 NOT IN (1, NULL)", "unknown"),
        ("1 NOT IN (1, NULL)", "no"),
        ("NULL::int IN (1, 2)", "unknown"),
        ("2 BETWEEN NULL AND 1", "no"),
        ("2 BETWEEN NULL AND 3", "unknown"),
        ("2 NOT BETWEEN 3 AND NULL", "yes"),
        ("'a' LIKE NULL", "unknown"),
        ("NULL IS NULL", "yes"),
        ("(NULL = NULL) IS NULL", "yes"),
        ("(NULL::boolean AND false) IS FALSE", "yes"),
    ] {
        assert_eq!(truth(condition), expected, "{condition}");
    }
}

#[test]
fn what_takes_one_of_many_passes_null_by() {
    check_values(&[
        ("coalesce(NULL, 2, 3)", "2"),
        ("coalesce(NULL::int, NULL)", "NULL"),
        ("nullif(1, 1)", "NULL"),
        ("nullif(1, 2)", "1"),
        ("greatest(1, NULL, 3)", "3"),
        ("least(4, NULL, 3)", "3"),
        ("'a' || NULL", "NULL"),
        ("concat('a', NULL, 'b')", "ab"),
        ("CASE NULL WHEN NULL THEN 'same' ELSE 'other' END", "other"),
        ("CASE WHEN NULL THEN 1 END", "NULL"),
    ]);
}

/// Integers at the ends of their type and about zero.
fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![
        prop::sample::select(vec![i64::MIN + 1, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX), -1, 0, 1]),
        -1000..1000_i64,
        any::<i64>().prop_filter("its literal is no bigint", |number| *number != i64::MIN),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whole_numbers_are_exact_or_refused(a in integer(), b in integer()) {
        let zero = || Err("22012".to_owned());
        let or_refused = |exact: Option<i64>| exact.map(|exact| exact.to_string()).ok_or("22003".to_owned());
        let cases = [
            ("+", or_refused(a.checked_add(b))),
            ("-", or_refused(a.checked_sub(b))),
            ("*", or_refused(a.checked_mul(b))),
            ("/", if b == 0 { zero() } else { or_refused(a.checked_div(b)) }),
            ("%", if b == 0 { zero() } else { Ok(a.wrapping_rem(b).to_string()) }),
        ];
        for (operator, expected) in cases {
            let expression = format!("({a})::bigint {operator} ({b})::bigint");
            let found = value(&expression).map(|found| found.expect("no NULL"));
            let found = found.map_err(|error| error.sqlstate().to_owned());
            prop_assert_eq!(found, expected, "{}", expression);
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written(number in integer()) {
        let read = value(&format!("('{number}'::text)::bigint")).expect("a number");
        prop_assert_eq!(read, Some(number.to_string()));
        let fits = i32::try_from(number).is_ok();
        prop_assert_eq!(value(&format!("({number})::bigint::int")).is_ok(), fits);
    }
}

#[test]
fn what_is_no_value_of_a_type_is_refused() {
    check_refused(&[
        ("'x'::int", "22P02"),
        ("''::int", "22P02"),
        ("'1.5'::int", "22P02"),
        ("'2147483648'::int", "22003"),
        ("'yess'::boolean", "22P02"),
        ("1 / 0", "22012"),
        ("1.0 / 0", "22012"),
    ]);
}
