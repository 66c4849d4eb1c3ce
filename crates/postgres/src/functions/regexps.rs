use crate::fixture::library;

#[test]
fn matches_are_lists() {
    library().check(&[
        ("select array_to_string(regexp_split_to_array('a1b22c', '[0-9]+'), ',')", "a,b,c"),
        ("select array_to_string(regexp_split_to_array('abc', ''), ',')", "a,b,c"),
        ("select array_to_string(regexp_split_to_array('1a1', '1'), ',', '-')", ",a,"),
        ("select array_to_string(regexp_split_to_array('aXbxc', 'x', 'i'), ',')", "a,b,c"),
        ("select regexp_split_to_array(null, 'x') is null", "true"),
        ("select * from regexp_split_to_table('a b  c', '\\s+')", "a\nb\nc"),
        ("select array_to_string(m, '|') from regexp_matches('foobarbequebaz', 'ba.', 'g') m", "bar\nbaz"),
        ("select (regexp_matches('foobarbequebaz', '(bar)(beque)'))[2]", "beque"),
        ("select count(*) from regexp_matches('abc', 'x')", "0"),
        ("select array_to_string(m, '|', '-') from regexp_matches('ab a', 'a(b)?', 'g') m", "b\n-"),
    ]);
    library().check_refused(&[
        ("select regexp_split_to_array('a', '(')", "2201B"),
        ("select regexp_split_to_array('a', 'b', 'g')", "22023"),
        ("select * from regexp_split_to_table('a', 'b', 'ig')", "22023"),
        ("select regexp_split_to_array('a', 'a', 'z')", "22023"),
    ]);
}
