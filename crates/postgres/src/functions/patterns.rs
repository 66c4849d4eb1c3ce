use crate::fixture::{check_refused, check_values};

#[test]
fn a_pattern_is_similar_to_the_whole_text() {
    check_values(&[
        ("'abc' similar to 'abc'", "true"),
        ("'abc' similar to 'a'", "false"),
        ("'abc' similar to '%(b|d)%'", "true"),
        ("'abc' similar to '(b|c)%'", "false"),
        ("'abc' not similar to 'a_'", "true"),
        ("'abc' similar to 'a|abc'", "true"),
        ("'a.c' similar to 'a.c'", "true"),
        ("'abc' similar to 'a.c'", "false"),
        ("'a%' similar to 'a\\%'", "true"),
        ("'ab' similar to 'a\\%'", "false"),
        ("'a%' similar to 'a!%' escape '!'", "true"),
        ("'a' || chr(10) || 'b' similar to 'a_b'", "true"),
        ("'abb' similar to '[a-b]+'", "true"),
        ("'x' similar to null", "NULL"),
    ]);
    check_refused(&[("'a' similar to 'a' escape 'xy'", "22025")]);
}
