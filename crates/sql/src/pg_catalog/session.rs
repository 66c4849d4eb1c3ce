//! Who a session is: what `current_user`, `current_database()` and `current_setting()` answer.

use std::collections::BTreeMap;

use saki_base::wall_micros;

use super::parameters;

/// The database's oid, as in `pg_database`.
pub const DATABASE_OID: i64 = 16383;

/// A session's user, database and settings. Whoever accepts connections states them; otherwise they are defaults.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    pub user: String,
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
            user: "saki".to_owned(),
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
