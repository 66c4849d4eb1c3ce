use crate::fixture::{check_refused, check_values};

#[test]
fn bytes_are_written_in_postgresqls_formats_and_read_back() {
    check_values(&[
        ("encode('abc', 'hex')", "616263"),
        ("encode('a', 'base64')", "YQ=="),
        ("encode('ab'::bytea, 'BASE64')", "YWI="),
        ("encode('abc', 'base64')", "YWJj"),
        ("encode('', 'base64')", ""),
        ("length(encode(repeat('a', 60)::bytea, 'base64'))", "81"),
        ("encode('a\\\\b'::bytea, 'escape')", "a\\\\b"),
        ("encode('\\x00ff61'::bytea, 'escape')", "\\000\\377a"),
        ("encode(null, 'hex')", "NULL"),
        ("decode('616263', 'hex') = 'abc'", "true"),
        ("decode('YQ==', 'base64') = 'a'", "true"),
        ("decode('YWI=', 'base64') = 'ab'", "true"),
        ("decode('YW Jj', 'base64') = 'abc'", "true"),
        ("decode('a\\\\b', 'escape') = 'a\\\\b'", "true"),
        ("chr(97)", "a"),
        ("chr(128640)", "🚀"),
        ("chr(null)", "NULL"),
    ]);
}

#[test]
fn what_cannot_be_is_refused() {
    check_refused(&[
        ("encode('abc', 'xx')", "22023"),
        ("decode('a', 'base64')", "22023"),
        ("decode('$$$$', 'base64')", "22023"),
        ("chr(0)", "54000"),
        ("chr(-1)", "22023"),
        ("chr(1114112)", "54000"),
        ("chr(55296)", "54000"),
        ("make_date(2024, 2, 30)", "22008"),
        ("make_date(2024, 13, 1)", "22008"),
    ]);
}
