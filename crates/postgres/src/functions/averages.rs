use crate::fixture::{check, shown};

#[test]
fn averages_are_rounded() {
    let from = "FROM (VALUES (1, 1.5, 'a'), (2, 2.0, 'a'), (2, 2.5, 'a'), (NULL, NULL, 'b'), (-2, 0.1, 'c')) \
                AS t(a, b, c)";
    check(
        &[
            ("SELECT avg(a) # WHERE c = 'a'", "1.6666666666666667"),
            ("SELECT avg(-a) # WHERE c = 'a'", "-1.6666666666666667"),
            ("SELECT avg(a::int8), avg(a::int2) # WHERE c = 'a'", "1.6666666666666667|1.6666666666666667"),
            (
                "SELECT c, avg(a), avg(b) # GROUP BY c ORDER BY c",
                "a|1.6666666666666667|2.0000000000000000 b|NULL|NULL c|-2.0000000000000000|0.1000000000000000",
            ),
            (
                "SELECT avg(a) OVER (ORDER BY b ROWS 2 PRECEDING) # WHERE c = 'a' ORDER BY b",
                "1.0000000000000000 1.5000000000000000 1.6666666666666667",
            ),
            ("SELECT avg(a) # WHERE a > 5", "NULL"),
            ("SELECT avg(b) FILTER (WHERE b > 1), avg(a::float8) #", "2.0000000000000000|0.75"),
        ],
        |sql| shown(&sql.replace('#', from)),
    );
}
