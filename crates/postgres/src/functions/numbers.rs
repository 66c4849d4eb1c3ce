use crate::fixture::{check, shown};

#[test]
fn rows_are_numbered_by_signed_numbers() {
    let rows = "FROM (VALUES (10), (20), (20), (30)) AS t(a)";
    let ranks = "row_number() OVER (ORDER BY a, a), rank() OVER (ORDER BY a), dense_rank() OVER (ORDER BY a)";
    check(
        &[
            (
                format!("SELECT {ranks}, ntile(2) OVER (ORDER BY a) {rows} ORDER BY 1"),
                "1|1|1|1 2|2|2|1 3|2|2|2 4|4|3|2",
            ),
            (format!("SELECT row_number() OVER (ORDER BY a) - 5 {rows} ORDER BY 1"), "-4 -3 -2 -1"),
            (
                format!("SELECT ntile(4) OVER (ORDER BY a) - rank() OVER (ORDER BY a DESC) {rows} ORDER BY 1"),
                "-3 0 1 3",
            ),
            (format!("SELECT -row_number() OVER () {rows} ORDER BY 1"), "-4 -3 -2 -1"),
            (format!("SELECT count(*) FROM (SELECT rank() OVER (ORDER BY a) AS r {rows}) AS t WHERE r <= 2"), "3"),
        ],
        shown,
    );
}
