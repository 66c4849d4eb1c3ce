use crate::fixture::library;

#[test]
fn a_session_sees_itself() {
    library().check(&[(
        "select datname, usename, state from pg_stat_activity where pid = pg_backend_pid()",
        "saki|saki|active",
    )]);
}
