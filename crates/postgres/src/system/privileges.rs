use crate::fixture::library;

#[test]
fn the_first_role_may_do_everything() {
    library().check(&[
        (
            "select has_table_privilege('book', 'select'), has_schema_privilege('public', 'usage'), \
             has_table_privilege(null, 'select')",
            "true|true|",
        ),
        (
            "select pg_has_role('saki', 'usage'), has_database_privilege('saki', 'connect'), \
             has_column_privilege('book', 'id', 'select')",
            "true|true|true",
        ),
    ]);
}

#[test]
fn others_may_what_everybody_may() {
    library().check(&[(
        "select has_table_privilege('pg_monitor', 'book', 'select'), \
         has_table_privilege('pg_read_all_data', 'book', 'select, insert'), \
         has_schema_privilege('pg_monitor', 'public', 'usage'), \
         has_schema_privilege('pg_monitor', 'public', 'create'), \
         pg_has_role('pg_monitor', 'pg_read_all_stats', 'member')",
        "false|true|true|false|true",
    )]);
}

#[test]
fn privileges_on_what_is_not_there_are_refused() {
    library().check_refused(&[
        ("select has_table_privilege('nosuch', 'select')", "42P01"),
        ("select has_table_privilege('nobody', 'book', 'select')", "42704"),
        ("select has_table_privilege('book', 'nonsense')", "22023"),
    ]);
}

#[test]
fn privileges_are_of_relations_by_name_or_oid_and_of_nothing_else() {
    library().check(&[
        (
            "select has_table_privilege('saki', 'book', 'insert'), has_table_privilege(0::oid, 'select'), \
             has_sequence_privilege('shop.ticket', 'usage'), has_any_column_privilege('book', 'update')",
            "true||true|true",
        ),
        ("select has_table_privilege('book'::regclass, 'delete'), row_security_active('book')", "true|false"),
    ]);
}
