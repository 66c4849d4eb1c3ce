//! A session: settings, external tables, and the execution of statements.
//!
//! Each statement begins with the newest snapshot and keeps it to its end. A query's result is a
//! stream that runs as it is polled and stops when it is dropped; every other statement has done its work
//! when `execute` returns.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::config::Dialect;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::context::{SessionContext, SessionState};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::{PhysicalOptimizer, PhysicalOptimizerRule};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Set};
use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};

use crate::database::Database;
use crate::delta::ReadView;
use crate::described::Described;
use crate::dialect::{self, Operators};
use crate::error::{ErrorKind, Result, SqlError};
use crate::explain::plan_text;
use crate::implied::ImpliedConditions;
use crate::index_join::IndexJoinRule;
use crate::join_order::OrderedPlanner;
use crate::merge::Pace;
use crate::native::NativeRule;
use crate::pg_catalog::{self, SessionFacts, SystemCatalog};
use crate::plan_cache::{self, Sighting};
use crate::progress::{Progress, QueryProgress};
use crate::provider::{PublicSchema, SakiCatalog};
use crate::query_env::QueryEnv;
use crate::query_memory;
use crate::sequence::{self, SessionSequences};
use crate::settings::Settings;
use crate::statement::{self, object_name, setting_text};
use crate::transaction::Transactions;
use crate::yielding::YieldingJoins;

/// What a sort keeps back at most, to merge what it has spilled.
const SORT_RESERVATION_BYTES: usize = 10 << 20;

/// What a statement gave.
pub enum StatementResult {
    /// A query's rows, produced as the stream is polled.
    Rows { schema: SchemaRef, stream: SendableRecordBatchStream },
    /// The command's name, and how many rows it concerned.
    Done { tag: String, rows: u64 },
    /// A command that was asked to say something of the rows it concerned.
    Returning { tag: String, rows: u64, batch: RecordBatch },
}

impl StatementResult {
    pub(crate) fn done(tag: impl Into<String>, rows: u64) -> Self {
        Self::Done { tag: tag.into(), rows }
    }

    pub(crate) fn returning(tag: impl Into<String>, rows: u64, batch: RecordBatch) -> Self {
        Self::Returning { tag: tag.into(), rows, batch }
    }

    /// All rows at once; none for commands.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        let mut stream = match self {
            Self::Rows { stream, .. } => stream,
            Self::Returning { batch, .. } => return Ok(vec![batch]),
            Self::Done { .. } => return Ok(Vec::new()),
        };
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

/// Where a session is between two statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransactionStatus {
    /// No transaction is open: each statement is one.
    #[default]
    Idle,
    /// Between BEGIN and COMMIT.
    Open,
    /// A statement has failed: only ROLLBACK, or going back to a savepoint, is heard.
    Failed,
}

/// A statement that was read and not run yet.
#[derive(Clone, Debug)]
pub struct Parsed(pub(crate) Statement);

/// Cuts a text into statements.
///
/// # Errors
/// `Syntax`, with the position.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    Ok(statement::parse(sql)?.into_iter().map(Parsed).collect())
}

/// A query that can run.
pub(crate) struct Planned {
    pub plan: Arc<dyn ExecutionPlan>,
    pub context: Arc<TaskContext>,
    /// Its columns as clients are told of them.
    schema: SchemaRef,
}

/// What a session has for a query before it plans.
enum Known {
    Plan(Planned),
    Sighted(Sighting),
}

/// One user's conversation with a database.
pub struct Session {
    pub(crate) db: Arc<Database>,
    settings: RwLock<Settings>,
    pub(crate) public: Arc<PublicSchema>,
    pub(crate) context: SessionContext,
    pub(crate) system: Arc<SystemCatalog>,
    pub(crate) sequences: Arc<SessionSequences>,
    /// What plans are made with, and the settings it belongs to. Held while a statement is planned: names mean the tables of its
    /// snapshot then.
    planning: tokio::sync::Mutex<Option<(Settings, SessionState)>>,
    /// How plans run that are not made anew, and the settings it belongs to.
    context_of: Mutex<Option<(Settings, Arc<TaskContext>)>>,
    pub(crate) transactions: Arc<tokio::sync::Mutex<Transactions>>,
    progress: QueryProgress,
}

impl Database {
    /// Begins a session with default settings.
    pub fn session(self: &Arc<Self>) -> Session {
        let public = Arc::new(PublicSchema::default());
        let context = SessionContext::new_with_state(session_state());
        let system = SystemCatalog::new(self);
        system.register(&context);
        let catalog = SakiCatalog { public: Arc::clone(&public), system: Arc::clone(&system) };
        context.register_catalog("saki", Arc::new(catalog));
        let sequences = SessionSequences::new(Arc::clone(self));
        sequence::register(&context, &sequences);
        public.plan_views_by(context.state_weak_ref());
        Session {
            db: Arc::clone(self),
            settings: RwLock::default(),
            public,
            context,
            system,
            sequences,
            planning: tokio::sync::Mutex::default(),
            context_of: Mutex::default(),
            transactions: Arc::default(),
            progress: QueryProgress::default(),
        }
    }
}

fn session_state() -> SessionState {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema("saki", "public")
        .with_create_default_catalog_and_schema(false)
        // Ours has what PostgreSQL's has.
        .with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    // 0.06 + 0.01 is 0.07 in SQL.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.execution.parquet.schema_force_view_types = false;
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = PhysicalOptimizer::new().rules;
    let after = rules.iter().position(|rule| rule.name() == "join_selection").map_or(0, |position| position + 1);
    rules.insert(after, Arc::new(IndexJoinRule));
    let mut logical_rules = Optimizer::new().rules;
    logical_rules.insert(0, Arc::new(ImpliedConditions));
    // It takes the groups of a join for determined by one table's key, and sorts them by that alone.
    logical_rules.retain(|rule| rule.name() != "eliminate_duplicated_expr");
    // Before rows are distributed over partitions for operators that need it.
    let before = rules.iter().position(|rule| rule.name() == "EnsureRequirements").unwrap_or(rules.len());
    rules.insert(before, Arc::new(NativeRule));
    rules.push(Arc::new(YieldingJoins));
    let mut planners = SessionStateDefaults::default_expr_planners();
    planners.insert(0, Arc::new(Operators));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_expr_planners(planners)
        .with_type_planner(Arc::new(pg_catalog::TypeNames))
        .with_optimizer_rules(logical_rules)
        .with_physical_optimizer_rules(rules)
        .with_query_planner(Arc::new(OrderedPlanner))
        .build();
    dialect::register(&mut state);
    state
}

impl Session {
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    pub fn settings(&self) -> Settings {
        self.settings.read().clone()
    }

    /// States who the session is: what `current_user`, `current_setting()` and their like answer.
    pub fn state_facts(&self, change: impl FnOnce(&mut SessionFacts)) {
        self.system.state_session(change);
    }

    /// How far the session's last query has come.
    pub fn progress(&self) -> Progress {
        self.progress.now()
    }

    /// Sets one setting, without the prefix `saki.`.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.settings.write().set(name, Some(value))
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
            let Planned { plan, .. } = self.plan(query).await?;
            Ok(plan_text(&plan, false))
        })
    }

    async fn execute_statement(&self, parsed: Statement) -> Result<StatementResult> {
        match &parsed {
            Statement::Statement(statement) => {
                if let Some(done) = self.control(statement).await? {
                    return Ok(done);
                }
                if let Some(done) = self.execute_compiled(statement).await? {
                    return Ok(done);
                }
            }
            _ => self.transactions.lock().await.make_ready()?,
        }
        let outcome = match parsed {
            Statement::Statement(parsed) => self.execute_sql(*parsed).await,
            Statement::CreateExternalTable(create) => self.create_external_table(create).await,
            other => Err(SqlError::unsupported(format!("{other} is not supported"))),
        };
        if outcome.is_err() {
            self.transactions.lock().await.fail();
        }
        outcome
    }

    async fn execute_sql(&self, parsed: ast::Statement) -> Result<StatementResult> {
        use ast::Statement as Sql;
        match parsed {
            Sql::Query(mut query) => {
                self.hold_rows(&mut query).await?;
                self.query(Sql::Query(query)).await
            }
            Sql::ShowTables { .. } | Sql::ShowColumns { .. } => self.query(parsed).await,
            Sql::Explain { .. } | Sql::ExplainTable { .. } => self.execute_explain(parsed).await,
            Sql::CreateTable(create) => self.create_table(&create).await,
            Sql::AlterTable(alter) => self.alter_table(&alter).await,
            Sql::CreateIndex(create) => self.create_index(create).await,
            Sql::Drop { object_type, if_exists, names, cascade, .. } => {
                self.drop_objects(object_type, if_exists, cascade, &names).await
            }
            Sql::AlterIndex { name, operation: ast::AlterIndexOperation::RenameIndex { index_name } } => {
                self.alter_index_name(&name, &index_name).await
            }
            Sql::CreateView(create) => self.create_view(&create).await,
            Sql::CreateSequence { .. } => self.create_sequence(parsed).await,
            Sql::CreateSchema { schema_name, if_not_exists, .. } => {
                self.create_schema(&schema_name, if_not_exists).await
            }
            Sql::Truncate(truncate) => self.truncate(&truncate).await,
            Sql::Comment { object_type, object_name, comment, .. } => {
                self.comment(object_type, object_name, comment).await
            }
            Sql::Vacuum(vacuum) => self.vacuum(&vacuum).await,
            Sql::Insert(insert) => self.insert(insert).await,
            Sql::Copy { .. } => self.copy(parsed).await,
            Sql::Analyze(analyze) => {
                let table = analyze.table_name.as_ref().map(object_name).transpose()?;
                self.analyze(table.map(|(name, _)| name)).await
            }
            Sql::Set(set) => self.execute_set(&set),
            Sql::Reset(reset) => self.execute_reset(&reset.reset),
            Sql::ShowVariable { variable } => {
                let name = variable.iter().map(statement::name_of).collect::<Vec<_>>().join(".");
                self.show(&name)
            }
            Sql::Call(call) if call.name.to_string().eq_ignore_ascii_case(statement::CHECKPOINT) => {
                self.blocking(|db| {
                    db.checkpoint(&Pace::full())?;
                    db.release_merged()
                })
                .await?;
                Ok(StatementResult::done("CHECKPOINT", 0))
            }
            Sql::Update(update) => self.update(update).await,
            Sql::Delete(delete) => self.delete(delete).await,
            Sql::Merge(_) => Err(SqlError::unsupported("MERGE is not supported")
                .hint("INSERT … ON CONFLICT DO UPDATE, UPDATE and DELETE are")),
            other => {
                let text = other.to_string();
                let verb = text.split(' ').take(2).collect::<Vec<_>>().join(" ");
                Err(SqlError::unsupported(format!("{verb} is not supported")))
            }
        }
    }

    /// What a query that begins now works with.
    pub(crate) async fn env(&self) -> Result<Arc<QueryEnv>> {
        Ok(Arc::new(self.new_env().await?))
    }

    async fn new_env(&self) -> Result<QueryEnv> {
        let view = self.transactions.lock().await.read_view(&self.db)?;
        Ok(self.env_of(view))
    }

    /// What a statement works with that reads `view`.
    pub(crate) fn env_of(&self, view: Arc<ReadView>) -> QueryEnv {
        QueryEnv::new(&self.db, view, self.settings())
    }

    /// How plans run under `settings`.
    fn task_context(&self, settings: &Settings) -> Result<Arc<TaskContext>> {
        let mut known = self.context_of.lock();
        match &*known {
            Some((of, context)) if of == settings => Ok(Arc::clone(context)),
            _ => {
                let runtime = query_memory::runtime(settings.query_memory)?;
                let context = Arc::new(TaskContext::from(&self.state(settings)).with_runtime(runtime));
                *known = Some((settings.clone(), Arc::clone(&context)));
                Ok(context)
            }
        }
    }

    fn state(&self, settings: &Settings) -> SessionState {
        let mut state = self.context.state();
        let config = state.config().clone().with_target_partitions(settings.partitions);
        *state.config_mut() = config.with_batch_size(settings.batch_rows);
        let options = state.config_mut().options_mut();
        options.optimizer.prefer_hash_join = settings.operators != crate::settings::Operators::Spilling;
        if let Some(bytes) = settings.query_memory {
            // What a sort keeps back for merging has to fit beside what it sorts.
            options.execution.sort_spill_reservation_bytes = SORT_RESERVATION_BYTES.min(bytes / 64);
        }
        options.optimizer.enable_dynamic_filter_pushdown = settings.dynamic_filters;
        options.extensions.insert(settings.native());
        state
    }

    /// The plan of a query over the newest snapshot, and how to run it.
    pub(crate) async fn plan(&self, query: &ast::Statement) -> Result<Planned> {
        let env = self.env().await?;
        let planned = match self.known(query, &env)? {
            Known::Plan(planned) => planned,
            Known::Sighted(sighting) => self.plan_anew(query, &env, sighting).await?.0,
        };
        self.transactions.lock().await.track(&env.view)?;
        Ok(planned)
    }

    /// The same for a query that leaves parameters open; `None` if it has to be planned with their values in its text.
    async fn plan_open(&self, query: &ast::Statement, values: &Arc<[ScalarValue]>) -> Result<Option<Planned>> {
        let env = Arc::new(self.new_env().await?.with_parameters(Arc::clone(values)));
        let planned = match self.known(query, &env)? {
            Known::Plan(planned) => planned,
            Known::Sighted(Sighting::First | Sighting::Refused) => return Ok(None),
            Known::Sighted(again) => match self.plan_anew(query, &env, again).await {
                Ok((planned, true)) => planned,
                // What is wrong with the statement, if anything is, its planning with the values will say.
                Ok((_, false)) | Err(_) => {
                    self.db.plans.refuse(query);
                    return Ok(None);
                }
            },
        };
        self.transactions.lock().await.track(&env.view)?;
        Ok(Some(planned))
    }

    /// The plan that is kept for a query, or how it has been seen before. Without a cache of plans it never has.
    fn known(&self, query: &ast::Statement, env: &Arc<QueryEnv>) -> Result<Known> {
        if !env.settings.plan_cache {
            return Ok(Known::Sighted(Sighting::First));
        }
        Ok(match self.db.plans.find(query, env)? {
            Some((plan, schema)) => Known::Plan(Planned { plan, context: self.task_context(&env.settings)?, schema }),
            None => Known::Sighted(self.db.plans.sight(query)),
        })
    }

    /// A plan, and whether it is kept.
    async fn plan_anew(
        &self,
        query: &ast::Statement,
        env: &Arc<QueryEnv>,
        sighting: Sighting,
    ) -> Result<(Planned, bool)> {
        let statement = Statement::Statement(Box::new(query.clone()));
        let mut known = None;
        let planned = self.plan_in(env, async |state| {
            let logical = dialect::plan(state, statement).await?;
            known = Some((plan_cache::is_repeatable(&logical), Described::of(&logical)));
            Ok(logical)
        });
        let (plan, context) = planned.await?;
        let shown = dialect::shown(&plan.schema());
        let (is_repeatable, schema) = match known {
            Some((is_repeatable, described)) => (is_repeatable, described.apply(&shown)),
            None => (false, shown),
        };
        let is_kept = match sighting {
            Sighting::Again(statement) if is_repeatable => self.db.plans.keep(*statement, env, &plan, &schema)?,
            _ => false,
        };
        Ok((Planned { plan, context, schema }, is_kept))
    }

    /// The logical plan of a statement over the newest snapshot.
    pub(crate) async fn logical_plan(&self, statement: Statement) -> Result<LogicalPlan> {
        self.analyze_with(async |state| dialect::plan(state, statement).await).await
    }

    /// Plans what `logical` makes of names in the newest snapshot.
    pub(crate) async fn plan_with(
        &self,
        logical: impl AsyncFnOnce(&SessionState) -> Result<LogicalPlan>,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let env = self.env().await?;
        let planned = self.plan_in(&env, logical).await?;
        self.transactions.lock().await.track(&env.view)?;
        Ok(planned)
    }

    /// The same with names as they are in `env`.
    pub(crate) async fn plan_in(
        &self,
        env: &Arc<QueryEnv>,
        logical: impl AsyncFnOnce(&SessionState) -> Result<LogicalPlan>,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        self.analyze_in(env, async |state| {
            let logical = pg_catalog::nested_loops(logical(state).await?, state)?;
            refuse_changes(&logical)?;
            Ok((dialect::physical_plan(state, &logical).await?, self.task_context(&env.settings)?))
        })
        .await
    }

    /// What `work` makes of names in the newest snapshot.
    pub(crate) async fn analyze_with<T>(&self, work: impl AsyncFnOnce(&SessionState) -> Result<T>) -> Result<T> {
        let env = self.env().await?;
        self.analyze_in(&env, work).await
    }

    async fn analyze_in<T>(
        &self,
        env: &Arc<QueryEnv>,
        work: impl AsyncFnOnce(&SessionState) -> Result<T>,
    ) -> Result<T> {
        let mut planning = self.planning.lock().await;
        let known = planning.take().filter(|(settings, _)| *settings == env.settings);
        let (_, state) = planning.insert(known.unwrap_or_else(|| (env.settings.clone(), self.state(&env.settings))));
        // What `now()` is.
        state.mark_start_execution();
        self.public.enter(env);
        let made = work(state).await;
        self.public.leave();
        made
    }

    async fn query(&self, query: ast::Statement) -> Result<StatementResult> {
        let planned = self.plan(&query).await?;
        self.start(planned, || Ok(query)).await
    }

    /// Runs a query that leaves parameters open, if a plan serves it for other values too; `bound` has the values in its text.
    pub(crate) async fn query_open(
        &self,
        query: &ast::Statement,
        values: &Arc<[ScalarValue]>,
        bound: impl FnOnce() -> Result<ast::Statement>,
    ) -> Result<Option<StatementResult>> {
        let started = async {
            match self.plan_open(query, values).await? {
                Some(planned) => self.start(planned, bound).await.map(Some),
                None => Ok(None),
            }
        };
        let outcome = match self.control(query).await? {
            Some(done) => return Ok(Some(done)),
            None => started.await,
        };
        if outcome.is_err() {
            self.transactions.lock().await.fail();
        }
        outcome
    }

    /// Starts a plan; `query` is what to plan again if the plan needs more memory than there is.
    async fn start(&self, planned: Planned, query: impl FnOnce() -> Result<ast::Statement>) -> Result<StatementResult> {
        let Planned { plan, context, schema } = planned;
        self.progress.begin(&plan);
        let can_outgrow = self.settings.read().query_memory.is_some() && query_memory::cannot_spill(&plan);
        let mut stream = execute_stream(plan, context)?;
        if can_outgrow {
            stream = match query_memory::begun(stream).await {
                Some(stream) => stream,
                None => self.query_spilling(query()?).await?,
            };
        }
        Ok(StatementResult::Rows { schema, stream: dialect::with_shown_names(stream) })
    }

    /// Runs a query with operators that spill.
    async fn query_spilling(&self, query: ast::Statement) -> Result<SendableRecordBatchStream> {
        let statement = Statement::Statement(Box::new(query));
        let env = self.env().await?.with_operators(crate::settings::Operators::Spilling)?;
        let planned = self.plan_in(&env, async |state| dialect::plan(state, statement).await).await?;
        self.transactions.lock().await.track(&env.view)?;
        Ok(execute_stream(planned.0, planned.1)?)
    }

    async fn execute_explain(&self, parsed: ast::Statement) -> Result<StatementResult> {
        let ast::Statement::Explain { analyze, statement, format, options, .. } = parsed else {
            return Err(SqlError::unsupported("DESCRIBE is not supported").hint("SHOW COLUMNS FROM t"));
        };
        if format.is_some() || options.is_some() {
            return Err(SqlError::unsupported("EXPLAIN options are not supported").hint("EXPLAIN or EXPLAIN ANALYZE"));
        }
        if !matches!(*statement, ast::Statement::Query(_)) {
            return Err(SqlError::unsupported("EXPLAIN takes a query"));
        }
        let Planned { plan, context, .. } = self.plan(&statement).await?;
        if analyze {
            let began = std::time::Instant::now();
            let mut stream = execute_stream(Arc::clone(&plan), context)?;
            let mut rows = 0;
            while let Some(batch) = stream.next().await {
                rows += batch?.num_rows();
            }
            let elapsed = crate::explain::seconds(began.elapsed().as_secs_f64());
            return text_rows(
                "plan",
                plan_text(&plan, true).lines().chain([format!("{rows} rows in {elapsed}").as_str()]),
            );
        }
        text_rows("plan", plan_text(&plan, false).lines())
    }

    fn execute_set(&self, set: &Set) -> Result<StatementResult> {
        let Set::SingleAssignment { variable, values, .. } = set else {
            return Err(SqlError::unsupported(format!("{set} is not supported")).hint("SET saki.<name> = <value>"));
        };
        let name = variable.to_string().to_lowercase();
        let Some(name) = name.strip_prefix("saki.") else { return Err(unknown_setting(&name)) };
        let [value] = &values[..] else {
            return Err(SqlError::invalid(format!("saki.{name} takes one value")));
        };
        self.settings.write().set(name, setting_text(value).as_deref())?;
        Ok(StatementResult::done("SET", 0))
    }

    fn execute_reset(&self, reset: &ast::Reset) -> Result<StatementResult> {
        match reset {
            ast::Reset::ALL => *self.settings.write() = Settings::default(),
            ast::Reset::ConfigurationParameter(name) => {
                let name = name.to_string().to_lowercase();
                let Some(name) = name.strip_prefix("saki.") else { return Err(unknown_setting(&name)) };
                self.settings.write().set(name, None)?;
            }
        }
        Ok(StatementResult::done("RESET", 0))
    }

    fn show(&self, name: &str) -> Result<StatementResult> {
        let settings = self.settings();
        if name == "all" || name == "saki" {
            let names: Vec<String> = Settings::names().map(|name| format!("saki.{name}")).collect();
            let values = Settings::names().map(|name| settings.show(name)).collect::<Result<Vec<_>>>()?;
            return rows(&[("name", names), ("setting", values)]);
        }
        let Some(setting) = name.strip_prefix("saki.") else { return Err(unknown_setting(name)) };
        rows(&[(name, vec![settings.show(setting)?])])
    }

    /// Runs work that waits for storage on a thread that may.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = Arc::clone(&self.db);
        let joined = tokio::task::spawn_blocking(move || work(&db)).await;
        joined.map_err(|error| SqlError::internal(format!("a statement's thread: {error}")))?
    }
}

fn unknown_setting(name: &str) -> SqlError {
    let names = Settings::names().map(|name| format!("saki.{name}")).collect::<Vec<_>>().join(", ");
    SqlError::invalid(format!("there is no setting {name:?}")).hint(format!("settings are: {names}"))
}

/// Changes never go through the query planner.
fn refuse_changes(plan: &LogicalPlan) -> Result<()> {
    match plan {
        LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Copy(_) => {
            Err(SqlError::new(ErrorKind::Unsupported, "this statement cannot be part of a query"))
        }
        _ => Ok(()),
    }
}

fn text_rows<'l>(name: &str, lines: impl Iterator<Item = &'l str>) -> Result<StatementResult> {
    rows(&[(name, lines.map(str::to_owned).collect())])
}

/// A result made of text.
fn rows(columns: &[(&str, Vec<String>)]) -> Result<StatementResult> {
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.iter().map(|(_, values)| Arc::new(StringArray::from_iter_values(values)) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect())?;
    let stream = RecordBatchStreamAdapter::new(Arc::clone(&schema), futures::stream::iter([Ok(batch)]));
    Ok(StatementResult::Rows { schema, stream: Box::pin(stream) })
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
