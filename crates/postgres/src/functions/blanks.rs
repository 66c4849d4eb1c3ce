use crate::fixture::check_values;

#[test]
fn blanks_at_the_end_of_a_char_do_not_count() {
    check_values(&[
        ("'ab  '::char(4) = 'ab'", "true"),
        ("'ab'::char(4) = 'ab   '", "true"),
        ("'ab'::char(4) <> 'ab '", "false"),
        ("'ab'::char(4) in ('x ', 'ab ')", "true"),
        ("'ab'::char(4) between 'aa ' and 'ab '", "true"),
        ("'ab ' > 'ab'::char(4)", "false"),
        ("'ab'::char(4) = 'ab '::text", "false"),
        ("length('ab  '::char(4))", "2"),
        ("'abc'::char(2) || 'd'", "abd"),
        ("case 'ab'::char(4) when 'ab ' then 1 end", "1"),
    ]);
}
