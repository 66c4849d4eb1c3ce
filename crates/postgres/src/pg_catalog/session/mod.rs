//! Who a session is: what `current_user`, `current_database()` and `current_setting()` answer.

pub mod parameters;

use std::collections::BTreeMap;

use saki_base::wall_micros;
use saki_catalog::RoleId;

/// The database's oid, as in `pg_database`.
pub const DATABASE_OID: i64 = 16383;

/// Whom a session acts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionRoles {
    /// Who has logged in.
    pub authenticated: RoleId,
    /// `session_user`: that one, unless SET SESSION AUTHORIZATION says otherwise.
    pub session: RoleId,
    /// `current_user`: that one, unless SET ROLE says otherwise.
    pub current: RoleId,
    /// Session and current role to go back to when the transaction ends.
    pub until_end: Option<(RoleId, RoleId)>,
}

impl SessionRoles {
    /// Those of a session that a role has begun.
    pub fn of(role: RoleId) -> Self {
        Self { authenticated: role, session: role, current: role, until_end: None }
    }
}

impl Default for SessionRoles {
    fn default() -> Self {
        Self::of(RoleId::OWNER)
    }
}

/// A session's user, database and settings. Whoever accepts connections states them; otherwise they are defaults.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    pub roles: SessionRoles,
    pub database: String,
    pub backend_pid: i64,
    /// Address and port of the server's end of the connection; `None`: no connection.
    pub server: Option<(String, u16)>,
    /// Address and port of the client's end.
    pub client: Option<(String, u16)>,
    /// Microseconds since 1970 when the session began.
    pub started_micros: i64,
    /// Settings by lower-case name that differ from [`parameters::ALL`].
    pub parameters: BTreeMap<String, String>,
}

impl Default for SessionFacts {
    fn default() -> Self {
        Self {
            roles: SessionRoles::default(),
            database: "saki".to_owned(),
            backend_pid: i64::from(std::process::id()),
            server: None,
            client: None,
            started_micros: wall_micros(),
            parameters: BTreeMap::new(),
        }
    }
}

impl SessionFacts {
    /// The value of a setting, if the session has stated one.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.parameters.get(&name.to_lowercase()).cloned()
    }

    /// The value of a setting: the session's, or the default.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.parameter(name).or_else(|| parameters::find(name).map(|parameter| parameter.value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_sessions_or_else_the_defaults() {
        let mut session = SessionFacts::default();
        assert_eq!(session.setting("datestyle").as_deref(), Some("ISO, MDY"));
        assert_eq!(session.setting("DateStyle"), session.setting("DATESTYLE"));
        assert_eq!(session.parameter("DateStyle"), None, "it has stated none");
        session.parameters.insert("datestyle".to_owned(), "ISO, DMY".to_owned());
        assert_eq!(session.setting("DateStyle").as_deref(), Some("ISO, DMY"));
        assert_eq!(session.setting("nosuch"), None);
        session.parameters.insert("my.own".to_owned(), "1".to_owned());
        assert_eq!(session.setting("My.Own").as_deref(), Some("1"));
    }

    #[test]
    fn sessions_are_told_apart_by_their_process_unless_stated() {
        let session = SessionFacts::default();
        assert_eq!(session.backend_pid, i64::from(std::process::id()));
        assert!(session.started_micros <= wall_micros());
        assert_eq!((session.server, session.client), (None, None));
    }
}
