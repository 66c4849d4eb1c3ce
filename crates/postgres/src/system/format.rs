use crate::fixture::library;

#[test]
fn values_are_put_into_patterns() {
    library().check(&[
        ("select format('%s-%I-%L', 'a', 'B c', 'it''s')", "a-\"B c\"-'it''s'"),
        ("select format('%s %%', null)", " %"),
        ("select format('%L %s', null, 1)", "NULL 1"),
        ("select format('%1$s %2$s %1$s', 'a', 'b')", "a b a"),
        ("select format('%10s|%-10s|', 'a', 'b')", "         a|b         |"),
        ("select length(format('%100000s%-100000s', 'a', 'b'))", "200000"),
    ]);
}

#[test]
fn patterns_and_arguments_that_are_none_are_refused() {
    library().check_refused(&[
        ("select format('%I', null)", "22004"),
        ("select format('%s')", "22023"),
        ("select format('%x', 1)", "22023"),
    ]);
}
