use crate::fixture::library;

#[test]
fn a_session_is_told_about_itself() {
    library().check(&[
        (
            "select current_user, session_user, current_database(), current_schema, current_catalog",
            "saki|saki|saki|public|saki",
        ),
        (
            "select current_setting('server_encoding'), \
             current_setting('standard_conforming_strings'), current_setting('search_path')",
            "UTF8|on|\"$user\", public",
        ),
        (
            "select pg_typeof(1), pg_typeof(1.5), pg_typeof('a'::text), pg_typeof('2024-01-01'::timestamptz), \
             pg_typeof(null::uuid), \
             pg_typeof(interval '1 day'), pg_typeof(array[1, 2])",
            "integer|numeric|text|timestamp with time zone|uuid|interval|integer[]",
        ),
        ("select clock_timestamp() >= now(), statement_timestamp() > '2024-01-01'", "true|true"),
        ("select current_setting('nosuch', true)", ""),
        ("select set_config('application_name', 'x', false)", "x"),
        ("select set_config('my.var', '1', false)", "1"),
        (
            "select pg_encoding_to_char(6), pg_char_to_encoding('UTF8'), getdatabaseencoding(), \
             pg_client_encoding()",
            "UTF8|6|UTF8|UTF8",
        ),
        ("select pg_is_in_recovery(), pg_my_temp_schema(), pg_backend_pid() > 0", "false|0|true"),
    ]);
}

#[test]
fn settings_that_are_none_are_refused() {
    library().check_refused(&[
        ("select current_setting('nosuch')", "42704"),
        ("select set_config('server_version', '1', false)", "55P02"),
        ("select set_config('nosuch', '1', false)", "42704"),
    ]);
}
