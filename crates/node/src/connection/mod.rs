//! One client's connection: it logs in, says what to run, and is told what came of it.
//!
//! ```text
//!   startup ─► loop: message ─► simple, extended, utility ─► execute ─► work ┬ on the query threads, or
//!                  ▲                                            │            └ here, if it is short
//!                  └──────── replies gather, and are sent before the connection waits
//! ```

mod copy;
mod cursor;
mod execute;
mod extended;
mod fast;
mod log;
mod login;
mod simple;
mod startup;
mod statement;
mod utility;
mod wire;
mod work;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use saki_sql::{Database, FileAccess, Session, State, TransactionStatus};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::failure::{Failure, Result};
use crate::message::backend;
use crate::message::frontend::Frontend;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::registry::{Place, Registry};

use statement::shapes::Shapes;
use statement::{Portal, Statement};
use wire::{Reader, Writer};

pub use startup::open;

/// How long the end of what was stopped is waited for.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// How far the server's end has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    Serving,
    /// Statements may finish; nothing new begins.
    Draining,
    /// Statements are stopped.
    Ending,
}

/// What all connections of a server share.
pub struct Shared {
    pub database: Arc<Database>,
    pub options: ServerOptions,
    pub registry: Arc<Registry>,
    pub metrics: Arc<Metrics>,
    pub tls: Option<TlsAcceptor>,
    /// By what encrypted channels are known: the digest of the server's certificate.
    pub certificate: Option<Vec<u8>>,
    /// Where queries run.
    pub queries: Handle,
    /// For users who are not there.
    pub secret: Vec<u8>,
    pub database_name: String,
}

impl Shared {
    /// Which files of this machine statements reach.
    fn file_access(&self) -> FileAccess {
        self.options.file_directory.clone().map_or(FileAccess::Refused, FileAccess::Below)
    }

    /// Files that statements never reach, wherever they lie.
    fn closed_files(&self) -> Vec<PathBuf> {
        self.options.tls.iter().flat_map(|tls| [tls.certificate.clone(), tls.key.clone()]).collect()
    }
}

/// A connection that has logged in.
pub struct Connection {
    shared: Arc<Shared>,
    place: Place,
    session: Arc<Session>,
    reader: Reader,
    writer: Writer,
    /// The parameters as the client was told of them.
    told: Arc<State>,
    statements: HashMap<String, Arc<Statement>>,
    portals: HashMap<String, Portal>,
    /// The transaction's, each with the portals that were there.
    savepoints: Vec<(String, HashSet<String>)>,
    shapes: Shapes,
    /// What is being done, for the log.
    text: Option<Arc<str>>,
    /// After an error in the extended protocol: until Sync nothing is heard.
    skipping: bool,
    /// Statements have run since the last Sync that are one transaction with those that follow.
    pipelining: bool,
    stage: watch::Receiver<Stage>,
}

impl Connection {
    /// Serves until the client or the server ends it.
    async fn serve(mut self) {
        if let Err(failure) = self.converse().await {
            self.tell(&failure);
        }
        self.writer.close().await;
        self.log_disconnection();
        self.end_session().await;
    }

    /// What is the session's alone goes with it.
    async fn end_session(&mut self) {
        if !self.session.has_temporary() {
            return;
        }
        let session = Arc::clone(&self.session);
        let ended = self.shared.queries.spawn(async move { session.end().await }).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!("temporary tables stay until the database is opened again: {error}");
        }
    }

    async fn converse(&mut self) -> Result<()> {
        while let Some(message) = self.next_message().await? {
            let message = Frontend::read(&message)?;
            if message == Frontend::Terminate {
                return Ok(());
            }
            self.hear(message).await?;
        }
        Ok(())
    }

    /// The next message; before it is waited for, replies are sent.
    async fn next_message(&mut self) -> Result<Option<BytesMut>> {
        let max = self.shared.options.message_bytes_max;
        loop {
            if let Some(message) = self.reader.buffered(max)? {
                return Ok(Some(message));
            }
            self.writer.flush().await?;
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Waits until the client says more; `false` when it has gone.
    async fn more(&mut self) -> Result<bool> {
        let (limit, code, what) = self.idle_limit();
        tokio::select! {
            biased;
            more = self.reader.more() => more,
            _ = self.stage.wait_for(|stage| *stage > Stage::Serving) => Err(stopped()),
            () = self.place.interrupt.ended() => Err(terminated()),
            () = tokio::time::sleep(limit), if !limit.is_zero() => {
                Err(Failure::fatal(code, format!("terminating connection due to {what} timeout")))
            }
        }
    }

    fn idle_limit(&self) -> (Duration, &'static str, &'static str) {
        let status = self.session.transaction_status();
        self.session.parameters().ask_state(|state| match status {
            TransactionStatus::Idle => (state.effective.idle_session_timeout, "57P05", "idle-session"),
            _ => (state.effective.idle_in_transaction_timeout, "25P03", "idle-in-transaction"),
        })
    }

    /// # Errors
    /// Only what ends the connection.
    async fn hear(&mut self, message: Frontend<'_>) -> Result<()> {
        match message {
            Frontend::Query(sql) => {
                self.skipping = false;
                let result = self.simple_query(sql).await;
                self.survive(result).await?;
                self.ready();
            }
            Frontend::Sync => {
                self.skipping = false;
                let result = self.end_together().await;
                self.survive(result).await?;
                self.ready();
            }
            Frontend::Flush => self.writer.flush().await?,
            // What is left of a COPY that has failed.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => {}
            Frontend::Password(_) => return Err(Failure::fatal("08P01", "a password that nobody asked for")),
            _ if self.skipping => {}
            message => {
                let result = self.extended(message).await;
                self.skipping = result.is_err();
                self.survive(result).await?;
            }
        }
        Ok(())
    }

    /// Tells of an error that the connection survives, and its transaction does not.
    async fn survive(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(failure) if !failure.is_fatal() => {
                self.tell(&failure);
                self.pipelining = false;
                // A statement that does not let go of the transaction yet: the next one finds what it left.
                let _ = tokio::time::timeout(STOP_PATIENCE, self.session.fail()).await;
                Ok(())
            }
            other => other,
        }
    }

    /// What runs next belongs with what follows it, or what was before: one transaction until the message or pipeline
    /// ends.
    async fn run_together(&mut self) -> Result<()> {
        self.pipelining = true;
        Ok(self.session.begin_message().await?)
    }

    /// Commits what belongs together.
    async fn end_together(&mut self) -> Result<()> {
        if std::mem::take(&mut self.pipelining) {
            self.end_message().await?;
        }
        Ok(())
    }

    fn tell(&mut self, failure: &Failure) {
        if failure.severity.is_error() {
            self.shared.metrics.error(failure.code);
        }
        self.log_failure(failure);
        backend::failure(&mut self.writer.buffer, failure);
    }

    /// Ends what ends with a transaction, if none is open.
    fn end_with(&mut self, status: TransactionStatus) {
        if status == TransactionStatus::Idle {
            self.portals.retain(|_, portal| portal.kept);
            self.savepoints.clear();
        }
    }

    /// Says that the next command may come.
    fn ready(&mut self) {
        let status = self.session.transaction_status();
        self.end_with(status);
        let letter = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.report();
        self.place.activity.rest(status, self.told.effective.track_activities);
        self.text = None;
        backend::ready(&mut self.writer.buffer, letter);
    }
}

impl Connection {
    /// Tells of parameters that have changed.
    fn report(&mut self) {
        let parameters = self.session.parameters();
        if parameters.ask_state(|state| Arc::ptr_eq(state, &self.told)) {
            return;
        }
        let state = parameters.state();
        for (name, value) in parameters.reported() {
            let own = name.to_lowercase();
            if state.setting(&own) != self.told.setting(&own) {
                backend::parameter_status(&mut self.writer.buffer, name, &value);
            }
        }
        self.place.activity.rename(state.setting("application_name").unwrap_or_default());
        self.told = state;
    }
}

/// Another session has ended the connection: `pg_terminate_backend`.
fn terminated() -> Failure {
    Failure::fatal("57P01", "terminating connection due to administrator command")
}

fn stopped() -> Failure {
    Failure::fatal("57P01", "terminating connection because the server stops")
}
