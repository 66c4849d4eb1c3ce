use crate::fixture::library;

#[test]
fn series_have_the_type_of_their_ends() {
    library().check(&[
        ("select generate_series(1, 3)", "1\n2\n3"),
        ("select generate_series(3, 1, -1)", "3\n2\n1"),
        ("select generate_series(3, 1)", ""),
        ("select pg_typeof(generate_series(1, 1))", "integer"),
        ("select pg_typeof(generate_series(1, 1::int8))", "bigint"),
        ("select pg_typeof(g) from generate_series(1.5, 1.5) g", "numeric"),
        ("select * from generate_series(1.0, 2.0, 0.5) as t(x)", "1.0\n1.5\n2.0"),
        ("select * from generate_series(1, 2) with ordinality as t(a, b)", "1|1\n2|2"),
        (
            "select * from generate_series(timestamp '2024-01-31', '2024-04-30', '1 month') g",
            "2024-01-31T00:00:00\n2024-02-29T00:00:00\n2024-03-29T00:00:00\n2024-04-29T00:00:00",
        ),
        (
            "select g::date from generate_series('2024-01-01'::date, '2024-01-03', '1 day') g",
            "2024-01-01\n2024-01-02\n2024-01-03",
        ),
        (
            "select generate_series(timestamp '2024-01-02', '2024-01-01', '-12 hours')",
            "2024-01-02T00:00:00\n2024-01-01T12:00:00\n2024-01-01T00:00:00",
        ),
        ("select count(*) from generate_series(1, null)", "0"),
    ]);
    library().check_refused(&[
        ("select generate_series(1, 3, 0)", "22023"),
        ("select * from generate_series(timestamp '2024-01-01', '2024-01-02', '0 days')", "22023"),
        ("select * from generate_series(1, true)", "42883"),
        ("select generate_series(1, 100000000)", "54000"),
    ]);
}
