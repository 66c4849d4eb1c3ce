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

use crate::database::{Database, Files, Stoppable};
use crate::planner::{Planned, Planner, SessionSequences};
use crate::transaction::{ChangeEnv, SessionTransactions};
use saki_catalog::{Result, RoleId, SqlError, Table};
use saki_plan::{QueryEnv, QueryProgress, Settings, TrackReads, Tracked};
use saki_postgres::{SystemCatalog, dialect};
use saki_store::ReadView;

/// Nobody answers for what is read: whoever reads keeps it from being changed.
struct Unanswered;

impl TrackReads for Unanswered {
    fn track(&mut self, _: &ReadView) -> Result<()> {
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
    /// Who the session is.
    pub system: &'s Arc<SystemCatalog>,
    pub progress: &'s QueryProgress,
    /// Which files it may name.
    pub files: Arc<Files>,
}

impl StatementContext<'_> {
    /// What a query that begins now works with.
    pub async fn env(&self) -> Result<QueryEnv> {
        let view = self.transactions.lock().await.read_view(self.db)?;
        Ok(self.env_of(view))
    }

    /// What a query works with that reads `view`, on behalf of the session's role.
    pub fn env_of(&self, view: Arc<ReadView>) -> QueryEnv {
        self.own_env_of(view).read_by(self.system.roles().current)
    }

    /// The same for what a statement reads for itself: whether it may was asked of the statement as a whole.
    pub fn own_env_of(&self, view: Arc<ReadView>) -> QueryEnv {
        QueryEnv::new(self.db.store(), view, self.settings.clone()).read_by(RoleId::OWNER)
    }

    /// Runs work that waits for storage; what it makes belongs to the session's role.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Stoppable<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.db.blocking_as(self.system.roles().current, work).await
    }

    /// The plan of a query over what it sees now, and how to run it.
    pub async fn plan(&self, query: &ast::Statement) -> Result<Planned> {
        loop {
            let env = Arc::new(self.env().await?);
            let planned = self.planner.plan(query, &env).await?;
            let mut transactions = self.transactions.lock().await;
            let planned = planned.track(&mut *transactions)?;
            if !transactions.hold_for_reading(&planned.view).await? {
                return Ok(planned);
            }
        }
    }

    /// The plan of a query over the newest rows, whatever the transaction sees: for a statement that keeps everybody
    /// else from changing them, and puts what it reads in their place.
    pub async fn plan_newest(&self, query: &ast::Statement) -> Result<Planned> {
        let snapshot = self.db.snapshot();
        let moment = self.db.engine.get().map(|engine| engine.database.moment()).transpose()?;
        let env = Arc::new(self.own_env_of(ReadView::new(snapshot, moment)));
        self.planner.plan(query, &env).await?.track(&mut Unanswered)
    }

    /// Starts a query whose rows are told, or change things: each comes once what it rests on is durable.
    pub fn start(&self, planned: Planned) -> Result<SendableRecordBatchStream> {
        let Planned { plan, context, view, .. } = planned;
        Ok(self.transactions.once_durable(plan.stream(context)?, view))
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

    /// The logical plan of a statement over what it sees now.
    pub async fn logical_plan(&self, statement: Statement) -> Result<LogicalPlan> {
        self.analyze(async |state| dialect::plan(state, statement).await).await
    }

    /// Runs a query of a statement that changes rows to its end; its rows in one batch.
    pub async fn rows_of(&self, env: &ChangeEnv<'_>, query: ast::Query) -> Result<RecordBatch> {
        let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        let (plan, context) = self.planner.plan_in(env, async |state| dialect::plan(state, statement).await).await?;
        let mut stream = dialect::with_shown_names(env.join(plan).stream(context)?);
        let schema = stream.schema();
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch?);
        }
        Ok(concat_batches(&schema, &batches)?)
    }

    /// A table of the newest snapshot.
    ///
    /// # Errors
    /// If there is none, or the session calls a file so.
    pub fn stored_table(&self, name: &str) -> Result<Arc<Table>> {
        if self.planner.names.is_external(name) {
            return Err(SqlError::invalid(format!("table {name:?} is external: its file is only read")));
        }
        Ok(Arc::clone(self.db.snapshot().catalog.table(name)?))
    }
}
