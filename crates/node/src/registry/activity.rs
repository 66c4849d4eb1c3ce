//! What a connection is doing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use saki_base::wall_micros;
use saki_sql::{Session, TransactionStatus};

use crate::stream::Ends;

/// Who a connection is.
#[derive(Clone, Debug)]
pub struct Client {
    pub user: String,
    pub database: String,
    pub ends: Ends,
    /// Microseconds since 1970.
    pub connected: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    #[default]
    Idle,
    Active,
    /// The session does not say.
    Disabled,
    InTransaction,
    InFailedTransaction,
}

impl State {
    /// As `pg_stat_activity` has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::InTransaction => "idle in transaction",
            Self::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// What one connection is doing.
#[derive(Default)]
pub struct Activity {
    pub(super) now: Mutex<Now>,
    /// Of the last statement.
    pub(super) rows: AtomicU64,
}

#[derive(Clone, Default)]
pub(super) struct Now {
    /// `None`: nobody has logged in yet.
    pub client: Option<Arc<Client>>,
    pub session: Weak<Session>,
    pub application: String,
    pub state: State,
    /// Microseconds since 1970.
    pub since: i64,
    pub statement: Option<Arc<str>>,
    pub began: i64,
}

impl Now {
    fn hide(&mut self, micros: i64) {
        if self.state != State::Disabled {
            self.state = State::Disabled;
            self.since = micros;
        }
        self.statement = None;
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activity").field("state", &self.now.lock().state).finish_non_exhaustive()
    }
}

impl Activity {
    /// A client has logged in.
    pub fn log_in(&self, client: Client, session: &Arc<Session>) {
        let mut now = self.now.lock();
        now.since = client.connected;
        now.client = Some(Arc::new(client));
        now.session = Arc::downgrade(session);
    }

    pub fn has_logged_in(&self) -> bool {
        self.now.lock().client.is_some()
    }

    pub fn user(&self) -> Option<String> {
        self.now.lock().client.as_ref().map(|client| client.user.clone())
    }

    pub fn client(&self) -> Option<Arc<Client>> {
        self.now.lock().client.clone()
    }

    pub(super) fn is_of(&self, user: &str) -> bool {
        self.now.lock().client.as_ref().is_some_and(|client| client.user == user)
    }

    /// The application calls itself so.
    pub fn rename(&self, application: &str) {
        application.clone_into(&mut self.now.lock().application);
    }

    /// A statement begins, whose text has no passwords. `is_tracked`: others may know.
    pub fn begin(&self, statement: &Arc<str>, is_tracked: bool) {
        let micros = wall_micros();
        self.rows.store(0, Ordering::Relaxed);
        let mut now = self.now.lock();
        if !is_tracked {
            return now.hide(micros);
        }
        if now.state != State::Active {
            now.state = State::Active;
            now.since = micros;
        }
        now.statement = Some(Arc::clone(statement));
        now.began = micros;
    }

    /// More rows of it were sent.
    pub fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// The connection waits for its client.
    pub fn rest(&self, status: TransactionStatus, is_tracked: bool) {
        let state = match status {
            TransactionStatus::Idle => State::Idle,
            TransactionStatus::Open => State::InTransaction,
            TransactionStatus::Failed => State::InFailedTransaction,
        };
        let mut now = self.now.lock();
        if !is_tracked {
            return now.hide(wall_micros());
        }
        now.state = state;
        now.since = wall_micros();
    }
}
