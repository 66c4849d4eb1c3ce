use crate::fixture::{check_refused, check_values};

#[test]
fn values_are_put_together_as_text() {
    check_values(&[
        ("'ab'::char(4) || 'c'", "abc"),
        ("'a' || 'b'", "ab"),
        ("'a' || 1", "a1"),
        ("1 || 'a'", "1a"),
        ("'a' || null", "NULL"),
        ("'x' || 1.5::float8", "x1.5"),
        ("array[1, null, 3]", "{1,NULL,3}"),
        ("array['a b', '', 'NULL', null, 'c\"d', 'e']", r#"{"a b","","NULL",NULL,"c\"d",e}"#),
        ("array[array[1, 2], array[3, 4]]", "{{1,2},{3,4}}"),
        ("array[date '2024-01-31']", "{2024-01-31}"),
        ("array[true, false]", "{t,f}"),
        ("concat(array[1], '!')", "{1}!"),
        ("'x' || 1e20::float8", "x1e+20"),
        ("'x' || timestamp '2024-01-31 12:00:00'", "x2024-01-31 12:00:00"),
        ("'x' || date '2024-01-31'", "x2024-01-31"),
        ("'x' || true", "xtrue"),
        ("concat('a', 1, null, true, 2.5)", "a1t2.5"),
        ("concat('a', 1.0::float8)", "a1"),
        ("concat_ws('-', 'a', null, 1, timestamp '2024-01-31 12:00:00')", "a-1-2024-01-31 12:00:00"),
        ("1.0::float8::text", "1"),
        ("1.5::real::text", "1.5"),
    ]);
}

#[test]
fn floats_are_written_as_postgresql_does() {
    check_values(&[
        ("1.0::float8", "1"),
        ("1e15::float8", "1e+15"),
        ("1e16::float8", "1e+16"),
        ("1e-5::float8", "1e-05"),
        ("123456789.123::float8", "123456789.123"),
        ("1.5::real", "1.5"),
        ("1e10::real", "1e+10"),
        ("'Infinity'::float8", "Infinity"),
        ("'-Infinity'::float8", "-Infinity"),
        ("'NaN'::float8", "NaN"),
        ("'inf'::float8", "Infinity"),
        ("0.0::float8", "0"),
        ("-0.0::float8", "-0"),
        ("'-0'::float8", "-0"),
    ]);
}

#[test]
fn text_that_is_no_float_is_refused() {
    check_refused(&[("'x'::float8", "22P02")]);
}

#[test]
fn times_are_written_as_postgresql_does() {
    check_values(&[
        ("date '2024-01-31'", "2024-01-31"),
        ("'2024-01-31'::date", "2024-01-31"),
        ("timestamp '2024-01-31 12:00:00'", "2024-01-31 12:00:00"),
        ("timestamp '2024-01-31 12:00:00.5'", "2024-01-31 12:00:00.5"),
        ("timestamp '2024-01-31 12:00:00.123456'", "2024-01-31 12:00:00.123456"),
        ("'2024-01-31'::timestamp", "2024-01-31 00:00:00"),
        ("timestamptz '2024-01-31 12:00:00+02'", "2024-01-31 10:00:00+00"),
        ("timestamptz '2024-01-31 12:00:00'", "2024-01-31 12:00:00+00"),
        ("date '2024-01-31'::timestamp", "2024-01-31 00:00:00"),
        ("timestamp '2024-01-31 12:00:00'::date", "2024-01-31"),
    ]);
}

#[test]
fn text_that_is_no_time_is_refused() {
    check_refused(&[("'x'::date", "22007")]);
}
