use crate::fixture::{check_refused, check_values};

#[test]
fn texts_without_a_type_are_what_the_others_are() {
    check_values(&[
        ("coalesce(null, date '2024-01-31', '2024-02-01')", "2024-01-31"),
        ("coalesce(null::date, '2024-02-01') + 1", "2024-02-02"),
        ("coalesce(null::int, '7') + 1", "8"),
        ("coalesce(null::boolean, 'f')", "false"),
        ("greatest(date '2024-01-31', '2024-02-01')", "2024-02-01"),
        ("least(2.5, '1.50', 2)", "1.50"),
        ("nullif(date '2024-01-31', '2024-01-31')", "NULL"),
        (
            "coalesce(uuid 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
            "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("nullif('1', 1)", "NULL"),
        ("nullif(1, 2.5)", "1.0"),
        ("coalesce('a', 'b')", "a"),
        ("coalesce(null, null)", "NULL"),
    ]);
}

#[test]
fn what_does_not_match_is_refused() {
    check_refused(&[
        ("coalesce(1, 'x')", "22P02"),
        ("coalesce(1, 'x'::text)", "42804"),
        ("coalesce(1, true)", "42804"),
        ("greatest(date '2024-01-31', 'x')", "22007"),
        ("nullif(1, 'x'::text)", "42883"),
    ]);
}
