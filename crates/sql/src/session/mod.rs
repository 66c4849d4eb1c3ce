//! A session: the state of one user's conversation with a database, and where each statement goes.
//!
//! A statement that reads or changes rows begins with the newest generation and keeps it to its end. A query's result
//! is a stream that runs as it is polled and stops when it is dropped; every other statement has done its work when
//! `execute` returns.

mod at_commit;
mod deferred;
mod dispatch;
mod logged;
mod names;
mod parameters;
mod settings;
mod temporary;

pub use self::logged::logged_by;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::{Mutex, RwLock};

use crate::copy::{self, CopyTarget};
use crate::fast::{FastAnswer, FastPlan, RowSink, RulePlanner, Runner};
use crate::prepared::{self, Prepared, Resolved};
use saki_base::memory::Reservation;
use saki_base::stack::WithRoom;
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::database::{Database, FileAccess, Files, SessionDraft};
use saki_context::planner::{Planner, SessionSequences};
use saki_context::query;
use saki_context::statement::{Parsed, StatementResult};
use saki_context::transaction::{SessionTransactions, TransactionStatus};
use saki_parameters::{Parameters, State, read_only};
use saki_plan::{Progress, QueryProgress, Settings};
use saki_postgres::statement::{self, LiteralKind, Shape};
use saki_store::Generation;
use saki_system::{SessionFacts, SystemCatalog};

/// The type of a literal that is a parameter; that of a text is where it stands.
fn type_of(kind: &LiteralKind) -> Option<DataType> {
    match kind {
        LiteralKind::Integer => Some(DataType::Int32),
        LiteralKind::Bigint => Some(DataType::Int64),
        LiteralKind::Text => None,
    }
}

/// One user's conversation with a database.
pub struct Session {
    db: Arc<Database>,
    parameters: Arc<Parameters>,
    /// Our settings, and the state of the parameters that they were read from.
    settings: RwLock<(Arc<State>, Settings)>,
    planner: Planner,
    transactions: SessionTransactions,
    sequences: Arc<SessionSequences>,
    system: Arc<SystemCatalog>,
    progress: QueryProgress,
    files: RwLock<Arc<Files>>,
    /// What is done when a transaction commits.
    at_commit: Mutex<Vec<at_commit::AtCommit>>,
}

impl Session {
    /// Begins a session with default settings.
    pub fn new(db: &Arc<Database>) -> Self {
        saki_ddl::sweep_temporary(db);
        let parameters = Arc::new(Parameters::new(Some(Box::new(settings::OwnSettings))));
        let system = SystemCatalog::new(db.store(), db.system_views(), &parameters);
        let draft = Arc::<SessionDraft>::default();
        let sequences = SessionSequences::new(Arc::clone(db), Arc::clone(&draft), &parameters);
        let (own, store) = (Arc::clone(&draft), Arc::downgrade(db));
        system.describe(move || own.is_there().then(|| own.newest(&*store.upgrade()?).ok()).flatten());
        let (own, store) = (Arc::clone(&draft), Arc::downgrade(db));
        parameters.look_up_in(move |ask| {
            if let Some(db) = store.upgrade() {
                let newest = own.newest(&db).unwrap_or_else(|_| db.generation());
                ask(&newest.catalog);
            }
        });
        let planner = Planner::new(db, &system, &sequences);
        let transactions = SessionTransactions::new(Arc::clone(db), draft, &parameters);
        transactions.register(&planner.context);
        Self {
            db: Arc::clone(db),
            settings: RwLock::new((parameters.state(), Settings::default())),
            planner,
            transactions,
            parameters,
            sequences,
            system,
            progress: QueryProgress::default(),
            files: RwLock::new(Arc::new(Files::new(FileAccess::Anywhere, db.own_files()))),
            at_commit: Mutex::default(),
        }
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// What it has set.
    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    /// Our own settings of it.
    pub fn settings(&self) -> Settings {
        self.ask_settings(Settings::clone)
    }

    /// What `read` asks of them.
    fn ask_settings<T>(&self, read: impl FnOnce(&Settings) -> T) -> T {
        let known = self.settings.read();
        if self.parameters.ask_state(|state| Arc::ptr_eq(&known.0, state)) {
            return read(&known.1);
        }
        drop(known);
        let state = self.parameters.state();
        let settings = settings::settings_of(&state);
        let read = read(&settings);
        *self.settings.write() = (state, settings);
        read
    }

    /// What was set stays, if no transaction is open that could take it back.
    fn keep_parameters(&self) {
        if !self.transactions.outlives_statement() {
            self.parameters.commit();
        }
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

    /// How long the session's statements wait for locks, and for rows that others change: `lock_timeout`. Zero: as long
    /// as it takes.
    pub fn set_lock_timeout(&self, timeout: Duration) {
        self.parameters.state_value("lock_timeout", &timeout.as_millis().to_string());
    }

    /// Lets all advisory locks go that the session holds, as DISCARD ALL does.
    pub fn release_advisory_locks(&self) {
        self.transactions.release_advisory();
    }

    /// How far the session's last query has come.
    pub fn progress(&self) -> Progress {
        self.progress.now()
    }

    /// Sets one of our settings, named without the prefix `saki.`.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.parameters.set(&format!("saki.{name}"), Some(value), false)?;
        self.keep_parameters();
        Ok(())
    }

    /// The newest generation, as the session's transaction sees it.
    fn newest(&self) -> Arc<Generation> {
        let own = self.transactions.has_draft().then(|| self.transactions.newest().ok()).flatten();
        own.unwrap_or_else(|| self.db.generation())
    }

    /// What a statement works with that begins now.
    pub(crate) fn context(&self) -> StatementContext<'_> {
        StatementContext {
            db: &self.db,
            settings: self.settings(),
            planner: &self.planner,
            transactions: &self.transactions,
            sequences: &self.sequences,
            parameters: &self.parameters,
            progress: &self.progress,
            files: Arc::clone(&self.files.read()),
        }
    }

    /// What a compiled statement works with.
    fn runner(&self) -> Runner<'_> {
        let role = self.parameters.roles().current;
        let rules = RulePlanner { planner: &self.planner, parameters: &self.parameters };
        Runner { db: &self.db, transactions: &self.transactions, sequences: &self.sequences, rules, role }
    }

    /// Memory for reading and planning a text, and what it holds then; nothing is counted of a short one.
    ///
    /// # Errors
    /// 53200 if the server has not so much.
    pub fn room_for(&self, sql: &str) -> Result<Option<Reservation>> {
        Ok(match statement::weight(sql) {
            0 => None,
            bytes => Some(self.db.memory.reserve(bytes)?),
        })
    }

    /// Cuts a text into statements; one that comes again is not read again.
    ///
    /// # Errors
    /// `Syntax`, with the position.
    pub fn parse(&self, sql: &str) -> Result<Vec<Parsed>> {
        self.db.texts.parse(sql)
    }

    /// Runs the statements of `sql` one after another. The first error ends it; what the statements
    /// before it did stays done.
    ///
    /// Boxed, as [`Self::explain`] is: the code of a named future is generated again in every program that awaits
    /// it, and this one holds the planner's.
    pub fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Vec<StatementResult>>> {
        Box::pin(async move {
            let mut results = Vec::new();
            for parsed in self.parse(sql)? {
                results.push(self.execute_statement(parsed, self.settings().compiles()).await?);
            }
            Ok(results)
        })
    }

    /// Runs one statement.
    pub fn run(&self, parsed: Parsed) -> BoxFuture<'_, Result<StatementResult>> {
        Box::pin(self.execute_statement(parsed, self.settings().compiles()))
    }

    /// Runs one statement with a plan: who asks has tried it compiled.
    pub fn run_planned(&self, parsed: Parsed) -> BoxFuture<'_, Result<StatementResult>> {
        Box::pin(self.execute_statement(parsed, false))
    }

    /// The plan of a query, as text.
    pub fn explain<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let [Parsed(Statement::Statement(query), _)] = &self.parse(sql)?[..] else {
                return Err(SqlError::invalid("EXPLAIN takes one query"));
            };
            WithRoom::new(query::explained(&self.context(), query)).await
        })
    }

    /// Reads one statement. `declared` are the types that the client states, by number; fewer than there are, or
    /// `None`, leaves them to be found.
    ///
    /// # Errors
    /// `Syntax`, and what planning a query can say.
    pub fn prepare<'a>(&'a self, sql: &'a str, declared: &'a [Option<DataType>]) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move {
            match prepared::single(self.parse(sql)?)? {
                Some(parsed) => self.prepare_parsed(parsed, declared).await,
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
        Box::pin(async move { WithRoom::new(self.prepare_resolved(parsed, declared)).await })
    }

    /// Analyzes a statement as its names are now; kept is what was written.
    async fn prepare_resolved(&self, parsed: Parsed, declared: &[Option<DataType>]) -> Result<Prepared> {
        let mut resolved = parsed.clone();
        let names = self.resolve(&mut resolved)?;
        let mut prepared = prepared::prepare(&self.context(), resolved, declared).await?;
        (prepared.statement, prepared.names) = (Some(parsed), names);
        Ok(prepared.with_types())
    }

    /// The same without a query planner, at once; `None` if it takes one.
    pub fn prepare_fast(&self, sql: &str, declared: &[Option<DataType>]) -> Option<Prepared> {
        if !self.compiles() {
            return None;
        }
        let parsed = prepared::single(self.parse(sql).ok()?).ok()??;
        let (plan, names) = self.compile_resolved(&parsed, declared)?;
        Some(Prepared::compiled(parsed, plan, names))
    }

    /// A text whose literals are parameters, compiled; `None` if it takes a query planner, or would not mean the same.
    pub fn prepare_shape(&self, sql: &str, shape: &Shape) -> Option<Prepared> {
        let declared: Vec<_> = shape.kinds.iter().map(type_of).collect();
        let prepared = self.prepare_fast(&shape.text, &declared)?;
        self.is_said(sql, shape, &prepared).then_some(prepared)
    }

    /// The same, planned, if one plan serves many of its values.
    pub async fn prepare_keys(&self, sql: &str, shape: &Shape) -> Option<Prepared> {
        let declared: Vec<_> = shape.kinds.iter().map(type_of).collect();
        let prepared = self.prepare(&shape.text, &declared).await.ok()?;
        (prepared.serves_many() && self.is_said(sql, shape, &prepared)).then_some(prepared)
    }

    /// Whether a prepared shape says with its literals what the text says.
    fn is_said(&self, sql: &str, shape: &Shape, prepared: &Prepared) -> bool {
        let whole = self.parse(sql).and_then(prepared::single);
        let (Ok(Some(whole)), Some(Parsed(shaped, _))) = (whole, &prepared.statement) else { return false };
        prepared.parameters.len() == shape.kinds.len() && shape.says(shaped, &whole.0)
    }

    /// Whether it is compiled yet: nothing has been set that says otherwise.
    pub fn still_compiles(&self, prepared: &Prepared) -> bool {
        self.compiles() && self.is_current(prepared)
    }

    /// A statement that was read already, compiled; `None` if it takes a query planner.
    pub fn compile(&self, parsed: &Parsed) -> Option<FastPlan> {
        if !self.compiles() {
            return None;
        }
        self.compile_resolved(parsed, &[]).map(|(plan, _)| plan)
    }

    /// Compiles a statement as its names are now.
    fn compile_resolved(&self, parsed: &Parsed, declared: &[Option<DataType>]) -> Option<(FastPlan, Resolved)> {
        let generation = self.newest();
        let mut resolved = parsed.clone();
        let names = self.resolve(&mut resolved).ok()?;
        let Statement::Statement(statement) = &resolved.0 else { return None };
        Some((FastPlan::compile(statement, &generation.catalog, (declared, self.runner().evaluator()))?, names))
    }

    /// How a statement runs that is compiled, for EXPLAIN.
    fn compiled_text(&self, statement: &ast::Statement) -> Option<String> {
        let catalog = &self.compiles().then(|| self.newest())?.catalog;
        Some(FastPlan::compile(statement, catalog, (&[], self.runner().evaluator()))?.text(catalog))
    }

    /// Whether statements are compiled now: they have no end of their own.
    fn compiles(&self) -> bool {
        self.at_commit.lock().is_empty() && self.ask_settings(Settings::compiles)
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
            if let Some(plan) = &prepared.fast
                && plan.is_long(values)
                && self.settings().compiles()
                && self.is_current(prepared)
                && let Some(done) = self.runner().execute_kept(plan, values).await?
            {
                return Ok(done);
            }
            if let Some(done) = self.execute_open(prepared, values).await? {
                return Ok(done);
            }
            self.run(prepared::bind(parsed, values)?).await
        })
    }

    /// Runs a compiled statement, unless it takes long: that goes the ordinary way, which is not taken on a thread that
    /// others wait for. Rows go to `sink` before it is known that they may be shown: the caller keeps them until this
    /// returns.
    ///
    /// # Errors
    /// Those of the statement; the transaction, if one is open, has failed then.
    pub async fn execute_fast(
        &self,
        plan: &FastPlan,
        values: &[ScalarValue],
        sink: &mut (dyn RowSink + Send),
    ) -> Result<FastAnswer> {
        match self.ask_settings(Settings::compiles) && !plan.is_long(values) {
            true => self.runner().execute(plan, values, sink).await,
            false => Ok(FastAnswer::Ordinary),
        }
    }

    /// The columns that `COPY table (columns)` fills; all of the table's if none are named.
    ///
    /// # Errors
    /// If the table, or a column, is not there.
    pub fn copy_target(&self, table: &str, columns: &[String]) -> Result<CopyTarget> {
        if self.parameters.is_read_only() {
            return Err(read_only("COPY FROM"));
        }
        CopyTarget::new(&self.context(), table, columns)
    }

    /// Refuses COPY … FREEZE (55000) of a table that the transaction has not made or emptied since its savepoint.
    pub fn expect_fresh<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { copy::expect_fresh(&self.context(), table).await })
    }

    /// Adds `batches`, of the schema of [`Self::copy_target`], to a table: all of them or, if the stream ends with an
    /// error or is dropped, none. The number of rows.
    pub fn copy_in<'a>(
        &'a self,
        table: &'a str,
        columns: &'a [String],
        batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            self.transactions.lock().await.refuse_read_only("COPY FROM")?;
            copy::from_client(&self.context(), table, columns, batches).await
        })
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
        // What BEGIN has opened is not at its end.
        if self.transactions.status() == TransactionStatus::Idle {
            self.before_end().await?;
        }
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
