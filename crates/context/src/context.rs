//! What a statement works with: the database, its session's planner and transactions, and the settings as they were
//! when it began.

use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow_array::RecordBatch;
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;

use crate::database::{Behalf, Database, Files, Stoppable};
use crate::planner::{Planned, Planner, SessionSequences, logical_plan};
use crate::transaction::{ChangeEnv, SessionTransactions};
use saki_catalog::{Result, RoleId, SqlError, Table};
use saki_parameters::Parameters;
use saki_plan::{Asking, QueryEnv, QueryProgress, Settings, TrackReads, Tracked};
use saki_postgres::dialect;
use saki_store::{Concurrently, Generation, Snapshot};

/// Nobody answers for what is read: whoever reads keeps it from being changed.
struct Unanswered;

impl TrackReads for Unanswered {
    fn track(&mut self, _: &Snapshot) -> Result<()> {
        Ok(())
    }
}

/// The surroundings of one statement.
pub struct StatementContext<'s> {
    pub db: &'s Arc<Database>,
    pub settings: Settings,
    pub planner: &'s Planner,
    pub transactions: &'s SessionTransactions,
    pub sequences: &'s Arc<SessionSequences>,
    /// What the session has set; whom it acts for.
    pub parameters: &'s Parameters,
    pub progress: &'s QueryProgress,
    /// Which files it may name.
    pub files: Arc<Files>,
}

impl StatementContext<'_> {
    /// The newest generation, with what the open transaction has changed of the catalog.
    ///
    /// # Errors
    /// Of the engine.
    pub fn generation(&self) -> Result<Arc<Generation>> {
        self.transactions.newest()
    }

    /// Runs work that changes the catalog, on a thread that may wait: that of the open transaction, or, outside of one,
    /// what everybody sees.
    ///
    /// # Errors
    /// 25006 in a transaction that is read only; 55P03 after `lock_timeout`; those of the work.
    pub async fn change_catalog<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Stoppable<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let draft = self.transactions.begin_change().await?;
        let (owner, patience) = (Some(self.transactions.lock_owner()), self.transactions.patience());
        let behalf = Behalf { owner, draft, role: self.role(), patience };
        self.db.blocking_for(behalf, work).await
    }

    /// Runs work on indexes of tables whose rows are changed meanwhile, on a thread that may wait. `statement` is what
    /// an error calls it.
    ///
    /// # Errors
    /// 25001 in a transaction block, 25006 where nothing may be changed; those of the work.
    pub async fn concurrently<T: Send + 'static>(
        &self,
        statement: &str,
        work: impl FnOnce(&Concurrently) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.transactions.outside_of_block(statement)?;
        self.transactions.begin_change().await?;
        // Not the session's own, which may have begun something else by the time the work has noticed its end.
        let owner = self.transactions.lock_owner().beside();
        self.blocking(move |db| work(&Concurrently::new(db.store(), owner, db.stop()))).await
    }

    /// Runs work that waits for storage on a thread that may, for each of its turns no longer than `lock_timeout`.
    ///
    /// # Errors
    /// 55P03 after that; those of the work.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Stoppable<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.db.blocking_for(self.transactions.patient(), work).await
    }

    /// As [`Self::change_catalog`] for a statement that finds by names what it changes. `None` if it has found more
    /// than it has locked, and is to look again.
    ///
    /// # Errors
    /// As [`Self::change_catalog`].
    pub async fn try_change_catalog<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Stoppable<'_>) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        self.change_catalog(move |db| match work(db) {
            Err(_) if db.has_met_unlocked() => Ok(None),
            done => done.map(Some),
        })
        .await
    }

    /// What a query that begins now works with.
    pub async fn env(&self) -> Result<QueryEnv> {
        let snapshot = self.transactions.lock().await.snapshot(self.db).await?;
        self.env_of(snapshot)
    }

    /// The same for what a statement reads for itself.
    ///
    /// # Errors
    /// Of the engine.
    pub async fn own_env(&self) -> Result<QueryEnv> {
        let snapshot = self.transactions.lock().await.snapshot(self.db).await?;
        Ok(self.own_env_of(snapshot))
    }

    /// What a query works with that reads `snapshot`, on behalf of the session's role.
    ///
    /// # Errors
    /// Of the engine.
    pub fn env_of(&self, snapshot: Arc<Snapshot>) -> Result<QueryEnv> {
        Ok(self.own_env_of(snapshot).asked_by(self.asking()?))
    }

    /// The same for what a statement reads for itself: whether it may was asked of the statement as a whole.
    pub fn own_env_of(&self, snapshot: Arc<Snapshot>) -> QueryEnv {
        QueryEnv::new(self.db.store(), snapshot, self.settings.clone())
    }

    /// Whom the statement acts for.
    pub fn role(&self) -> RoleId {
        self.parameters.roles().current
    }

    /// The session's role and the newest catalog, which says what it may; `None` if it may do everything.
    ///
    /// # Errors
    /// Of the engine.
    pub fn asking(&self) -> Result<Option<Asking>> {
        let role = self.role();
        if role == RoleId::OWNER {
            return Ok(None);
        }
        let rights = self.generation()?;
        let is_superuser = rights.catalog.is_superuser(role);
        Ok((!is_superuser).then_some(Asking { role, rights }))
    }

    /// The plan of a query over what it sees now, and how to run it.
    pub async fn plan(&self, query: &ast::Statement) -> Result<Planned> {
        loop {
            let env = Arc::new(self.env().await?);
            let planned = self.planner.plan(query, &env).await?;
            let mut transactions = self.transactions.lock().await;
            let planned = planned.track(&mut *transactions)?;
            if !transactions.hold_for_reading(&planned.snapshot).await? {
                return Ok(planned);
            }
        }
    }

    /// The plan of a query over the newest rows, for a statement that keeps everybody else from changing them, and puts
    /// what it reads in their place. Within a transaction these are what the transaction sees.
    pub async fn plan_newest(&self, query: &ast::Statement) -> Result<Planned> {
        if self.transactions.outlives_statement() {
            let mut transactions = self.transactions.lock().await;
            let env = Arc::new(self.own_env_of(transactions.statement_snapshot(self.db).await?));
            return self.planner.plan(query, &env).await?.track(&mut *transactions);
        }
        let env = Arc::new(self.own_env_of(self.db.next_snapshot().await?));
        self.planner.plan(query, &env).await?.track(&mut Unanswered)
    }

    /// Starts a query whose rows are told, or change things: each comes once what it rests on is durable.
    pub fn start(&self, planned: Planned) -> Result<SendableRecordBatchStream> {
        let Planned { plan, context, snapshot, .. } = planned;
        Ok(self.transactions.once_durable(plan.stream(context)?, snapshot))
    }

    /// The same of what `logical` makes of names, over the statement's own `env`.
    pub async fn plan_with(
        &self,
        env: &Arc<QueryEnv>,
        logical: impl AsyncFnOnce(&SessionState) -> Result<LogicalPlan>,
    ) -> Result<(Tracked, Arc<TaskContext>)> {
        let (plan, context) = self.planner.plan_in(env, logical).await?;
        Ok((plan.track(&mut *self.transactions.lock().await)?, context))
    }

    /// What `work` makes of names as they are now.
    pub async fn analyze<T>(&self, work: impl AsyncFnOnce(&SessionState) -> Result<T>) -> Result<T> {
        let env = Arc::new(self.env().await?);
        self.planner.analyze_in(&env, work).await
    }

    /// The logical plan of a statement over what it sees now, and what that is.
    pub async fn logical_plan(&self, statement: Statement) -> Result<(LogicalPlan, Arc<Generation>)> {
        let env = Arc::new(self.env().await?);
        let plan = self.planner.analyze_in(&env, async |state| logical_plan(state, statement).await).await?;
        Ok((plan, Arc::clone(&env.generation)))
    }

    /// Runs a query of a statement that changes rows to its end; its rows in one batch.
    pub async fn rows_of(&self, env: &ChangeEnv<'_>, query: ast::Query) -> Result<RecordBatch> {
        let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        let (plan, context) = self.planner.plan_in(env, async |state| logical_plan(state, statement).await).await?;
        let mut stream = dialect::with_shown_names(env.join(plan).stream(context)?);
        let schema = stream.schema();
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            env.hold(&batch)?;
            batches.push(batch);
        }
        Ok(concat_batches(&schema, &batches)?)
    }

    /// A table of the newest generation.
    ///
    /// # Errors
    /// If there is none, or the session calls a file so.
    pub fn stored_table(&self, name: &str) -> Result<Arc<Table>> {
        if self.planner.names.is_external(name) {
            return Err(SqlError::invalid(format!("table {name:?} is external: its file is only read")));
        }
        Ok(Arc::clone(self.generation()?.catalog.table(name)?))
    }
}
