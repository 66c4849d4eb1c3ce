use crate::fixture::{check_refused, check_values};

#[test]
fn functions_have_postgresqls_values() {
    check_values(&[
        ("|/ 25.0", "5"),
        ("sqrt(2::float8)", "1.4142135623730951"),
        ("sqrt(16)", "4"),
        ("log(100)", "2"),
        ("ln(1::float8)", "0"),
        ("exp(0::float8)", "1"),
    ]);
}

#[test]
fn numbers_outside_of_a_function_are_refused() {
    check_refused(&[
        ("sqrt(-1)", "2201F"),
        ("sqrt(-1::float8)", "2201F"),
        ("ln(0::float8)", "2201E"),
        ("ln(-1::float8)", "2201E"),
        ("ln(0)", "2201E"),
        ("log(0::float8)", "2201E"),
        ("log(-1)", "2201E"),
        ("lpad('a', 1000000000)", "54000"),
        ("rpad('a', 1000000000, 'b')", "54000"),
    ]);
}
