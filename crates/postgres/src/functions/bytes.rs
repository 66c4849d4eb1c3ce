use crate::fixture::{check_refused, check_values};

#[test]
fn bytes_and_uuids_are_read_from_text() {
    check_values(&[
        ("'\\x41'::bytea", "\\x41"),
        ("'\\x'::bytea", "\\x"),
        ("'abc'::bytea", "\\x616263"),
        ("'a\\\\b'::bytea", "\\x615c62"),
        ("'a\\101'::bytea", "\\x6141"),
        ("length('\\x0102'::bytea)", "2"),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("'{a0eebc999c0b4ef8bb6d6bb9bd380a11}'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "true"),
        ("'\\x41'::bytea = 'A'::bytea", "true"),
        ("'\\x41'::bytea < '\\x42'", "true"),
    ]);
}

#[test]
fn text_that_is_neither_is_refused() {
    check_refused(&[("'a0eebc99'::uuid", "22P02")]);
}
