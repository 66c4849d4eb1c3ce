//! What a connection writes to the server's log, as the parameters of its session say: `log_statement`,
//! `log_min_duration_statement`, `log_min_messages`, `log_connections` and their like.
//!
//! Texts of statements are values of fields, so that no line end in them begins a line of the log.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use saki_base::wall_micros;
use saki_sql::{Command, LogLevel, LoggedStatements, Parsed, State, without_passwords};

use super::Connection;
use crate::failure::{Failure, Severity};

/// By what `RUST_LOG` names these lines.
const TARGET: &str = "saki_log";

fn shown(sql: &str) -> Cow<'_, str> {
    without_passwords(sql).map_or(Cow::Borrowed(sql), Cow::Owned)
}

fn level(severity: Severity) -> LogLevel {
    match severity {
        Severity::Warning => LogLevel::Warning,
        Severity::Error => LogLevel::Error,
        Severity::Fatal => LogLevel::Fatal,
    }
}

impl Connection {
    fn user(&self) -> String {
        self.place.activity.user().unwrap_or_default()
    }

    /// A statement begins: others see it, and the log has it if it is one of those that the session logs. Whether it
    /// does.
    ///
    /// `watched` is its text without passwords.
    pub fn begin(&mut self, sql: &Arc<str>, watched: &Arc<str>, by: impl FnOnce(&Self) -> LoggedStatements) -> bool {
        self.text = Some(Arc::clone(sql));
        let asked = |state: &Arc<State>| (state.effective.track_activities, state.effective.logging.statements);
        let (is_tracked, wanted) = self.session.parameters().ask_state(asked);
        self.place.activity.begin(watched, is_tracked);
        let is_logged = wanted != LoggedStatements::None && by(self) <= wanted;
        if is_logged {
            let (process, user) = (self.place.process, self.user());
            tracing::info!(target: TARGET, process, user, statement = &*shown(sql), "statement");
        }
        is_logged
    }

    /// The least `log_statement` that is about a statement; of EXECUTE, about what was prepared.
    pub fn logged_by(&self, parsed: &Parsed) -> LoggedStatements {
        let prepared = match parsed.command() {
            Ok(Command::Execute { name, .. }) => self.statements.get(&name),
            _ => None,
        };
        saki_sql::logged_by(prepared.and_then(|found| found.prepared.statement.as_ref()).unwrap_or(parsed))
    }

    /// A statement has ended well. `is_logged`: the log has its text.
    pub fn log_duration(&self, sql: &str, began: Instant, is_logged: bool) {
        let logging = self.session.parameters().ask_state(|state| state.effective.logging);
        if logging.slow.is_none() && !logging.durations {
            return;
        }
        let took = began.elapsed();
        let is_slow = logging.slow.is_some_and(|least| took >= least);
        let (process, milliseconds) = (self.place.process, took.as_secs_f64() * 1e3);
        if is_slow && !is_logged {
            let (user, statement) = (self.user(), shown(sql));
            tracing::info!(target: TARGET, process, user, milliseconds, statement = &*statement, "duration");
        } else if is_slow || logging.durations {
            tracing::info!(target: TARGET, process, user = self.user(), milliseconds, "duration");
        }
    }

    /// A client is told of something.
    pub fn log_failure(&self, failure: &Failure) {
        let logging = self.session.parameters().state().effective.logging;
        let level = level(failure.severity);
        if level < logging.messages {
            return;
        }
        let (process, user, severity) = (self.place.process, self.user(), failure.severity.name());
        let (code, text) = (failure.code, &*failure.message);
        match self.text.as_deref().filter(|_| level >= logging.statements_of).map(shown) {
            Some(sql) => {
                tracing::info!(target: TARGET, process, user, code, text, statement = &*sql, "{severity}");
            }
            None => tracing::info!(target: TARGET, process, user, code, text, "{severity}"),
        }
    }

    /// The client has been let in.
    pub fn log_connection(&self) {
        if self.told.effective.logging.connections {
            let (process, user) = (self.place.process, self.user());
            let application = self.told.setting("application_name").unwrap_or_default();
            tracing::info!(target: TARGET, process, user, application, "connection authorized");
        }
    }

    /// The session, begun at a moment in microseconds since 1970, has ended.
    pub fn log_disconnection(&self) {
        let logging = self.session.parameters().state().effective.logging;
        if let Some(client) = self.place.activity.client().filter(|_| logging.disconnections) {
            let seconds = wall_micros().saturating_sub(client.connected) as f64 / 1e6;
            tracing::info!(target: TARGET, process = self.place.process, user = client.user, seconds, "disconnection");
        }
    }
}
