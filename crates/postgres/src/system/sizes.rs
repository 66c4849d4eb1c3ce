use crate::fixture::library;

#[test]
fn sizes_are_of_relations_that_are_there() {
    library().check(&[
        (
            "select pg_size_pretty(0::bigint), pg_size_pretty(10239::bigint), \
             pg_size_pretty(10240::bigint), pg_size_pretty(1048576::bigint), \
             pg_size_pretty(-10240::bigint), pg_size_pretty(9223372036854775807)",
            "0 bytes|10239 bytes|10 kB|1024 kB|-10 kB|8192 PB",
        ),
        (
            "select name, setting, vartype, context from pg_settings where name in \
             ('server_encoding', 'standard_conforming_strings', 'DateStyle', 'max_index_keys', \
             'block_size') order by 1",
            "DateStyle|ISO, MDY|string|user\n\
             block_size|8192|integer|internal\n\
             max_index_keys|32|integer|internal\n\
             server_encoding|UTF8|string|internal\n\
             standard_conforming_strings|on|bool|user",
        ),
        (
            "select pg_relation_size('book') is not null, pg_total_relation_size('book'::regclass) is \
             not null",
            "true|true",
        ),
    ]);
}

#[test]
fn sizes_of_what_is_not_there_are_refused() {
    library().check_refused(&[("select pg_relation_size('nosuch')", "42P01")]);
}
