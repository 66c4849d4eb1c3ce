//! A session: the state of one user's conversation with a database, and where each statement goes.
//!
//! A statement that reads or changes rows begins with the newest snapshot and keeps it to its end. A query's result is
//! a stream that runs as it is polled and stops when it is dropped; every other statement has done its work when
//! `execute` returns.

mod dispatch;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::RwLock;

use crate::copy::{self, CopyTarget};
use crate::fast::{FastAnswer, FastPlan, RowSink, Runner};
use crate::prepared::{self, Prepared};
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::database::{Database, FileAccess, Files};
use saki_context::planner::{Planner, SessionSequences};
use saki_context::query;
use saki_context::statement::{Parsed, StatementResult};
use saki_context::transaction::{SessionTransactions, TransactionStatus};
use saki_plan::{Progress, QueryProgress, Settings};
use saki_postgres::{SessionFacts, SessionRoles, SystemCatalog, statement};

/// One user's conversation with a database.
pub struct Session {
    db: Arc<Database>,
    settings: RwLock<Settings>,
    planner: Planner,
    transactions: SessionTransactions,
    sequences: Arc<SessionSequences>,
    system: Arc<SystemCatalog>,
    progress: QueryProgress,
    files: RwLock<Arc<Files>>,
}

impl Session {
    /// Begins a session with default settings.
    pub fn new(db: &Arc<Database>) -> Self {
        let system = SystemCatalog::new(db.store(), db.system_views());
        let sequences = SessionSequences::new(Arc::clone(db), &system);
        Self {
            db: Arc::clone(db),
            settings: RwLock::default(),
            planner: Planner::new(db, &system, &sequences),
            transactions: SessionTransactions::new(Arc::clone(db)),
            sequences,
            system,
            progress: QueryProgress::default(),
            files: RwLock::new(Arc::new(Files::new(FileAccess::Anywhere, db.own_files()))),
        }
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    pub fn settings(&self) -> Settings {
        self.settings.read().clone()
    }

    /// States who the session is: what `current_user`, `current_setting()` and their like answer.
    pub fn state_facts(&self, change: impl FnOnce(&mut SessionFacts)) {
        self.system.state_session(change);
        self.transactions.set_process(self.system.session().backend_pid);
    }

    /// Says which files of the machine its statements may read and write; those of the database are closed to all, and
    /// so is what `closed` names.
    pub fn confine_files(&self, access: FileAccess, closed: &[PathBuf]) {
        let closed = self.db.own_files().into_iter().chain(closed.iter().cloned()).collect();
        *self.files.write() = Arc::new(Files::new(access, closed));
    }

    /// Whom the session acts for.
    pub fn roles(&self) -> SessionRoles {
        self.system.roles()
    }

    /// Ends what SET LOCAL ROLE has said, if no transaction is open.
    pub fn end_local_role(&self) {
        if self.system.roles().until_end.is_none() || self.transaction_status() != TransactionStatus::Idle {
            return;
        }
        self.system.state_session(|facts| {
            if let Some((session, current)) = facts.roles.until_end.take() {
                (facts.roles.session, facts.roles.current) = (session, current);
            }
        });
    }

    /// How long the session's statements wait for locks, and for rows that others change: `lock_timeout`. Zero: as long
    /// as it takes.
    pub fn set_lock_timeout(&self, timeout: Duration) {
        self.transactions.set_lock_timeout(timeout);
    }

    /// How far the session's last query has come.
    pub fn progress(&self) -> Progress {
        self.progress.now()
    }

    /// Sets one setting, without the prefix `saki.`.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.settings.write().set(name, Some(value))
    }

    /// What a statement works with that begins now.
    pub(crate) fn context(&self) -> StatementContext<'_> {
        StatementContext {
            db: &self.db,
            settings: self.settings(),
            planner: &self.planner,
            transactions: &self.transactions,
            sequences: &self.sequences,
            system: &self.system,
            progress: &self.progress,
            files: Arc::clone(&self.files.read()),
        }
    }

    /// What a compiled statement works with.
    fn runner(&self) -> Runner<'_> {
        Runner { db: &self.db, transactions: &self.transactions, role: self.system.roles().current }
    }

    /// Runs the statements of `sql` one after another. The first error ends it; what the statements
    /// before it did stays done.
    ///
    /// Boxed, as [`Self::explain`] is: the code of a named future is generated again in every program that awaits
    /// it, and this one holds the planner's.
    pub fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Vec<StatementResult>>> {
        Box::pin(async move {
            let mut results = Vec::new();
            for parsed in statement::parse(sql)? {
                results.push(self.execute_statement(parsed).await?);
            }
            Ok(results)
        })
    }

    /// Runs one statement.
    pub fn run(&self, parsed: Parsed) -> BoxFuture<'_, Result<StatementResult>> {
        Box::pin(self.execute_statement(parsed.0))
    }

    /// The plan of a query, as text.
    pub fn explain<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let [Statement::Statement(query)] = &statement::parse(sql)?[..] else {
                return Err(SqlError::invalid("EXPLAIN takes one query"));
            };
            query::explained(&self.context(), query).await
        })
    }

    /// Reads one statement. `declared` are the types that the client states, by number; fewer than there are, or
    /// `None`, leaves them to be found.
    ///
    /// # Errors
    /// `Syntax`, and what planning a query can say.
    pub fn prepare<'a>(&'a self, sql: &'a str, declared: &'a [Option<DataType>]) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move {
            match prepared::single(sql)? {
                Some(parsed) => prepared::prepare(&self.context(), parsed, declared).await,
                None => Ok(Prepared::empty()),
            }
        })
    }

    /// As [`Self::prepare`], of a statement that was read already.
    pub fn prepare_parsed<'a>(
        &'a self,
        parsed: Parsed,
        declared: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move { prepared::prepare(&self.context(), parsed, declared).await })
    }

    /// The same without a query planner, at once; `None` if it takes one.
    pub fn prepare_fast(&self, sql: &str, declared: &[Option<DataType>]) -> Option<Prepared> {
        Prepared::compiled(sql, declared, &self.db.snapshot().catalog)
    }

    /// Runs a prepared statement with one value per parameter.
    pub fn execute_prepared<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<StatementResult>> {
        Box::pin(async move {
            prepared.expect_values(values.len())?;
            let Some(parsed) = &prepared.statement else { return Ok(StatementResult::done("", 0)) };
            if let Some(done) = self.execute_open(prepared, values).await? {
                return Ok(done);
            }
            self.run(prepared::bind(parsed, values)?).await
        })
    }

    /// Runs a compiled statement. Rows go to `sink` before it is known that they may be shown: the caller keeps them
    /// until this returns.
    ///
    /// # Errors
    /// Those of the statement; the transaction, if one is open, has failed then.
    pub async fn execute_fast(
        &self,
        plan: &FastPlan,
        values: &[ScalarValue],
        sink: &mut (dyn RowSink + Send),
    ) -> Result<FastAnswer> {
        self.runner().execute(plan, values, sink).await
    }

    /// The columns that `COPY table (columns)` fills; all of the table's if none are named.
    ///
    /// # Errors
    /// If the table, or a column, is not there.
    pub fn copy_target(&self, table: &str, columns: &[String]) -> Result<CopyTarget> {
        CopyTarget::new(&self.context(), table, columns)
    }

    /// Adds `batches`, of the schema of [`Self::copy_target`], to a table: all of them or, if the stream ends with an
    /// error or is dropped, none. The number of rows.
    pub fn copy_in<'a>(
        &'a self,
        table: &'a str,
        columns: &'a [String],
        batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move { copy::from_client(&self.context(), table, columns, batches).await })
    }

    /// From now on statements are one transaction, until [`Self::end_message`]; inside of BEGIN and COMMIT they are
    /// already.
    ///
    /// # Errors
    /// What kept a statement from being undone that was dropped before its end.
    pub async fn begin_message(&self) -> Result<()> {
        self.transactions.begin_message().await
    }

    /// Commits the transaction of a message, and waits until it is durable. One that BEGIN has opened goes on.
    ///
    /// # Errors
    /// 40001, and what storage says; nothing has been changed then.
    pub async fn end_message(&self) -> Result<()> {
        self.transactions.end_message().await
    }

    /// Something has gone wrong: the transaction of a message is undone, one that BEGIN has opened fails.
    pub async fn fail(&self) {
        self.transactions.fail().await;
    }

    /// What a statement about transactions is warned of before it runs, as PostgreSQL warns.
    pub fn warning(&self, parsed: &Parsed) -> Option<SqlError> {
        self.transactions.warning(parsed)
    }

    /// Where the session is between two statements.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.transactions.status()
    }

    /// The isolation level of the open transaction, or of the next, as SQL names it. `None` while a statement runs.
    pub fn isolation(&self) -> Option<&'static str> {
        self.transactions.isolation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_work_can_move_between_threads() {
        fn spawnable<T: Send + 'static>(_: impl FnOnce(Arc<Session>) -> T) {}
        spawnable(|session| async move { session.execute("SELECT 1").await.map(|_| ()) });
    }
}
