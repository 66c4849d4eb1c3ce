//! Where a session is: what `current_database()` and its like answer.

use saki_base::wall_micros;

/// The database's oid, as in `pg_database`.
pub const DATABASE_OID: i64 = 16383;

/// A session's database and connection. Whoever accepts connections states them; otherwise they are defaults.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    pub database: String,
    pub backend_pid: i64,
    /// Address and port of the server's end of the connection; `None`: no connection.
    pub server: Option<(String, u16)>,
    /// Address and port of the client's end.
    pub client: Option<(String, u16)>,
    /// Microseconds since 1970 when the session began.
    pub started_micros: i64,
}

impl Default for SessionFacts {
    fn default() -> Self {
        Self {
            database: "saki".to_owned(),
            backend_pid: i64::from(std::process::id()),
            server: None,
            client: None,
            started_micros: wall_micros(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_apart_by_their_process_unless_stated() {
        let session = SessionFacts::default();
        assert_eq!(session.backend_pid, i64::from(std::process::id()));
        assert!(session.started_micros <= wall_micros());
        assert_eq!((session.server, session.client), (None, None));
    }
}
