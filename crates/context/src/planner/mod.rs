//! A session's planner: what names and functions stand for, and plans made of queries over a given snapshot.
//!
//! It knows nothing of transactions: whoever asks says what is read ([`QueryEnv`]), and answers for it.

mod alternatives;
mod apart;
mod bounded;
mod described;
mod hidden;
mod interrupt;
mod long;
mod names;
mod rules;
mod sequence;
mod sleep;
pub(crate) mod state;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use arrow_schema::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::context::{SessionContext, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use hashbrown::HashMap;
use parking_lot::Mutex;

use self::apart::apart;
pub use self::described::Described;
pub use self::interrupt::stoppable;
pub use self::names::PublicSchema;
use self::names::SakiCatalog;
pub use self::sequence::SessionSequences;
use crate::database::Database;
use crate::demands::Demands;
use saki_base::memory::Pool;
use saki_catalog::{Result, SqlError};
use saki_parameters::Parameters;
use saki_plan::execution::memory;
use saki_plan::nested_loops::{nested_loops, physical_plan};
use saki_plan::once;
use saki_plan::{PlanCache, QueryEnv, Settings, Sighting, TrackReads, Tracked, Untracked, plan_cache};
use saki_postgres::dialect::{self, TimeOption};
use saki_store::{Generation, Snapshot};
use saki_system::{SYSTEM_SCHEMAS, SystemCatalog};

/// A query that can run, once its reads are tracked.
pub struct Planned<P = Tracked> {
    pub plan: P,
    pub context: Arc<TaskContext>,
    /// What it reads.
    pub snapshot: Arc<Snapshot>,
    /// Its columns as clients are told of them.
    pub schema: SchemaRef,
}

impl Planned<Untracked> {
    /// The query, ready to run.
    ///
    /// # Errors
    /// As [`TrackReads::track`].
    pub fn track(self, reads: &mut impl TrackReads) -> Result<Planned> {
        let Self { plan, context, snapshot, schema } = self;
        Ok(Planned { plan: plan.track(reads)?, context, snapshot, schema })
    }
}

/// Statements whose demands a session remembers at most.
const DEMANDS_MAX: usize = 256;
/// Ways to run plans that a session keeps: batches of wide tables' rows are of few sizes.
const CONTEXTS_MAX: usize = 4;

type KnownDemands = HashMap<ast::Statement, (Weak<Generation>, Arc<Demands>)>;

/// What there is for a query before it is planned.
enum Known {
    Plan(Planned<Untracked>),
    Sighted(Sighting),
}

/// Plans queries with a session's names, functions and settings.
pub struct Planner {
    pub names: Arc<PublicSchema>,
    /// Functions, and files that the session gave names to.
    pub context: SessionContext,
    parameters: Arc<Parameters>,
    plans: Arc<PlanCache>,
    memory: Arc<Pool>,
    /// What plans are made with, and the settings it belongs to. Held while a statement is planned: names mean the
    /// tables of its snapshot then.
    planning: tokio::sync::Mutex<Option<(Settings, SessionState)>>,
    /// What statements with kept plans ask for, each with the generation whose names it was found out with: for roles
    /// that are not allowed everything.
    demands: Mutex<KnownDemands>,
    /// How plans run, by settings; the last ones that were asked for.
    contexts: Mutex<VecDeque<(Settings, Arc<TaskContext>)>>,
}

impl Planner {
    pub fn new(db: &Database, system: &Arc<SystemCatalog>, sequences: &Arc<SessionSequences>) -> Self {
        let names = Arc::new(PublicSchema::default());
        let context = SessionContext::new_with_state(state::new_state(&db.memory));
        system.register(&context);
        let catalog = SakiCatalog { public: Arc::clone(&names), system: Arc::clone(system) };
        context.register_catalog("saki", Arc::new(catalog));
        sequence::register(&context, sequences);
        sleep::register(&context);
        names.plan_views_by(context.state_weak_ref());
        names.read_sequences_of(db.store());
        let (plans, memory) = (Arc::clone(&db.plans), Arc::clone(&db.memory));
        let (planning, demands, contexts) = Default::default();
        let parameters = Arc::clone(system.parameters());
        Self { names, context, parameters, plans, memory, planning, demands, contexts }
    }

    /// What expressions are planned with, by the session's time as it is now.
    pub fn state(&self) -> SessionState {
        let mut state = self.context.state();
        state.config_mut().options_mut().extensions.insert(TimeOption(self.parameters.time()));
        // Functions of an expression that is planned alone ask these.
        let options = Arc::clone(state.config_options());
        state.execution_props_mut().config_options = Some(options);
        state
    }

    /// How a plan runs.
    fn task_context(&self, plan: &Untracked, env: &QueryEnv) -> Result<Arc<TaskContext>> {
        let batch_rows = saki_plan::batch_rows(plan, env);
        let settings = match batch_rows == env.settings.batch_rows {
            true => Cow::Borrowed(&env.settings),
            false => Cow::Owned(Settings { batch_rows, ..env.settings.clone() }),
        };
        let mut known = self.contexts.lock();
        if let Some((_, context)) = known.iter().find(|(of, _)| *of == *settings) {
            return Ok(Arc::clone(context));
        }
        let runtime = memory::runtime(settings.query_memory, &self.memory)?;
        let state = state::with_settings(self.state(), &settings);
        let context = Arc::new(TaskContext::from(&state).with_runtime(runtime));
        known.truncate(CONTEXTS_MAX - 1);
        known.push_front((settings.into_owned(), Arc::clone(&context)));
        Ok(context)
    }

    /// The plan of a query, one that is kept if there is one.
    pub async fn plan(&self, query: &ast::Statement, env: &Arc<QueryEnv>) -> Result<Planned<Untracked>> {
        match self.known(query, env)? {
            Known::Plan(planned) => Ok(planned),
            Known::Sighted(sighting) => Ok(self.plan_anew(query, env, sighting).await?.0),
        }
    }

    /// The same for a query that leaves parameters open; `None` if it has to be planned with their values in its text.
    pub async fn plan_open(&self, query: &ast::Statement, env: &Arc<QueryEnv>) -> Result<Option<Planned<Untracked>>> {
        match self.known(query, env)? {
            Known::Plan(planned) => Ok(Some(planned)),
            Known::Sighted(Sighting::First | Sighting::Refused) => Ok(None),
            Known::Sighted(again) => match self.plan_anew(query, env, again).await {
                Ok((planned, true)) => Ok(Some(planned)),
                Err(error) if error.sqlstate() == "42501" => Err(error),
                // What is wrong with the statement, if anything is, its planning with the values will say.
                Ok((_, false)) | Err(_) => {
                    self.plans.refuse(query);
                    Ok(None)
                }
            },
        }
    }

    /// The plan that is kept for a query, or how it has been seen before. Without a cache of plans it never has.
    fn known(&self, query: &ast::Statement, env: &Arc<QueryEnv>) -> Result<Known> {
        if !env.settings.plan_cache {
            return Ok(Known::Sighted(Sighting::First));
        }
        if let Some(asking) = &env.asking {
            let demands = self.demands.lock().get(query).cloned();
            match demands.filter(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(&env.generation))) {
                Some((_, demands)) => demands.check(asking)?,
                None => return Ok(Known::Sighted(self.plans.sight(query))),
            }
        }
        Ok(match self.plans.find(query, env)? {
            Some((plan, schema)) => {
                let (context, snapshot) = (self.task_context(&plan, env)?, Arc::clone(&env.snapshot));
                Known::Plan(Planned { plan, context, snapshot, schema })
            }
            None => Known::Sighted(self.plans.sight(query)),
        })
    }

    /// A plan, and whether it is kept.
    async fn plan_anew(
        &self,
        query: &ast::Statement,
        env: &Arc<QueryEnv>,
        sighting: Sighting,
    ) -> Result<(Planned<Untracked>, bool)> {
        let statement = Statement::Statement(Box::new(query.clone()));
        let mut known = None;
        let logical = async |state: &SessionState| {
            let logical = logical_plan(state, statement).await?;
            let is_repeatable = plan_cache::is_repeatable(&logical) && !dialect::is_relative(&logical);
            known = Some((is_repeatable, Described::of(&logical)));
            Ok(logical)
        };
        let (plan, context) = self.plan_noting(env, logical, |demands| self.note(query, env, demands)).await?;
        let shown = dialect::shown(&plan.schema());
        let (is_repeatable, schema) = match known {
            Some((is_repeatable, described)) => (is_repeatable, described.apply(&shown)),
            None => (false, shown),
        };
        let is_kept = match sighting {
            Sighting::Again(statement) if is_repeatable => self.plans.keep(*statement, env, &plan, &schema)?,
            _ => false,
        };
        Ok((Planned { plan, context, snapshot: Arc::clone(&env.snapshot), schema }, is_kept))
    }

    /// Notes what a statement asks for, for when its plan is kept.
    fn note(&self, query: &ast::Statement, env: &QueryEnv, demands: Arc<Demands>) {
        let mut noted = self.demands.lock();
        if noted.len() >= DEMANDS_MAX {
            noted.clear();
        }
        noted.insert(query.clone(), (Arc::downgrade(&env.generation), demands));
    }

    /// Plans what `logical` makes of names as they are in `env`.
    pub async fn plan_in(
        &self,
        env: &Arc<QueryEnv>,
        logical: impl AsyncFnOnce(&SessionState) -> Result<LogicalPlan>,
    ) -> Result<(Untracked, Arc<TaskContext>)> {
        self.plan_noting(env, logical, |_| ()).await
    }

    /// The same; `note` is shown what the query asks for, if its role is not allowed everything.
    async fn plan_noting(
        &self,
        env: &Arc<QueryEnv>,
        logical: impl AsyncFnOnce(&SessionState) -> Result<LogicalPlan>,
        note: impl FnOnce(Arc<Demands>),
    ) -> Result<(Untracked, Arc<TaskContext>)> {
        self.analyze_in(env, async |state| {
            let logical = logical(state).await?;
            let plan = apart(dialect::is_large(&logical), async {
                if let Some(asking) = &env.asking {
                    let demands = Arc::new(Demands::of(&logical, &env.generation.catalog, None));
                    note(Arc::clone(&demands));
                    demands.check(asking)?;
                }
                let logical = nested_loops(logical, state, &SYSTEM_SCHEMAS)?;
                refuse_changes(&logical)?;
                physical_plan(state, &logical, env).await
            });
            let plan = plan.await?;
            let context = self.task_context(&plan, env)?;
            Ok((plan, context))
        })
        .await
    }

    /// What `work` makes of names as they are in `env`.
    pub async fn analyze_in<T>(
        &self,
        env: &Arc<QueryEnv>,
        work: impl AsyncFnOnce(&SessionState) -> Result<T>,
    ) -> Result<T> {
        let mut planning = self.planning.lock().await;
        let known = planning.take().filter(|(settings, _)| *settings == env.settings);
        let anew = || (env.settings.clone(), state::with_settings(self.state(), &env.settings));
        let (_, state) = planning.insert(known.unwrap_or_else(anew));
        // Random numbers and the like begin anew.
        state.mark_start_execution();
        self.names.enter(env);
        let made = work(state).await;
        self.names.leave();
        made
    }
}

/// The logical plan of a statement with names as `state` has them.
///
/// # Errors
/// As [`dialect::plan`].
pub async fn logical_plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    let texts = long::Texts::take_out(&mut statement);
    let plan = apart(dialect::is_long(&statement), dialect::plan(state, statement)).await?;
    match state.config().get_extension::<Pool>() {
        Some(memory) => Ok(once::shared(texts.put_back(plan, &memory)?, dialect::mark)?),
        None => Err(SqlError::internal("a planner without a pool of memory")),
    }
}

/// Changes never go through the query planner.
fn refuse_changes(plan: &LogicalPlan) -> Result<()> {
    match plan {
        LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Copy(_) => {
            Err(SqlError::unsupported("this statement cannot be part of a query"))
        }
        _ => Ok(()),
    }
}
