//! Plans that are kept for statements that come again.
//!
//! ```text
//!   statement ─► find ──hit──► renew: the same nodes, over the statement's own view ─► run
//!                  └──miss──► plan ─► run
//!                               └─ when it has come before: renewed over nothing but the base, and kept
//! ```
//!
//! A statement is known by its syntax tree with all its values, so a plan is used again only where it would be made again. A prepared
//! query may leave parameters *open* that it only compares with columns for equality: the planner sees them as parameters, and their
//! values where a scan or lookup tests for them, so that [`renew`] can put others in their places.
//!
//! # Invariants
//! - A plan belongs to one snapshot and is dropped as soon as there is a newer one: no generation lives longer for its sake.
//! - What a plan takes for granted besides is asked again each time: the settings, and which of its tables have anything in their deltas.
//! - A kept plan reads no delta and holds no moment: every run renews it over its own view.
//! - An open parameter is in no other place of a plan than such tests: elsewhere the planner refuses a parameter. Values that are much
//!   more or less common than those a plan was made for get another.
//! - Only statements whose every function gives the same for the same values are kept, over tables of ours alone.

mod kept;
mod open;
mod renew;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use saki_base::TableId;

pub use self::kept::is_repeatable;
use self::open::OpenTest;
use self::renew::{is_renewable, renew};
use crate::catalog::Table;
use crate::delta::ReadView;
use crate::query_env::QueryEnv;
use crate::settings::Settings;

/// Plans that are kept at most.
const PLANS_MAX: usize = 256;
/// Bytes of a statement beyond which its plan is not kept.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Statements that are remembered for having come once, or for having no plan to keep.
const RECENT_MAX: usize = 4096;

/// The plans of a database, for all its sessions.
#[derive(Default)]
pub struct PlanCache(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    plans: HashMap<u64, Entry>,
    once: Recent,
    /// What leaves parameters open that a plan needs the values of.
    refused: Recent,
    /// Counts searches.
    clock: u64,
    reused: u64,
}

struct Entry {
    statement: ast::Statement,
    settings: Settings,
    view: Arc<ReadView>,
    /// The tables that were asked for a delta, and whether there was one.
    deltas: Vec<(Arc<Table>, bool)>,
    plan: Arc<dyn ExecutionPlan>,
    open: Vec<OpenTest>,
    /// The result's columns as clients are told of them.
    schema: SchemaRef,
    used: u64,
}

/// What is known of a statement that has no plan yet.
pub enum Sighting {
    First,
    /// Its plan is worth keeping, under this statement.
    Again(Box<ast::Statement>),
    /// No plan serves it for all values.
    Refused,
}

/// Hashes of what has come, the oldest first.
#[derive(Default)]
struct Recent(VecDeque<u64>);

impl Recent {
    fn contains(&self, hash: u64) -> bool {
        self.0.contains(&hash)
    }

    fn push(&mut self, hash: u64) {
        if self.0.len() == RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(hash);
    }
}

impl PlanCache {
    /// A plan for a statement, ready to run once in `env`, and its columns as clients are told of them.
    ///
    /// # Errors
    /// As making a plan node can fail.
    pub fn find(
        &self,
        statement: &ast::Statement,
        env: &Arc<QueryEnv>,
    ) -> Result<Option<(Arc<dyn ExecutionPlan>, SchemaRef)>> {
        let kept = {
            let mut inner = self.0.lock();
            inner.clock += 1;
            let now = inner.clock;
            let entry = inner.plans.get_mut(&hash_of(statement)).filter(|entry| entry.serves(statement, env));
            let plan = entry.map(|entry| {
                entry.used = now;
                (Arc::clone(&entry.plan), Arc::clone(&entry.schema))
            });
            inner.reused += u64::from(plan.is_some());
            plan
        };
        kept.map(|(plan, schema)| Ok((renew(&plan, env)?, schema))).transpose()
    }

    /// How often a plan was found.
    pub fn reused(&self) -> u64 {
        self.0.lock().reused
    }

    /// Notes that a statement without a plan has come.
    pub fn sight(&self, statement: &ast::Statement) -> Sighting {
        let hash = hash_of(statement);
        let mut inner = self.0.lock();
        if inner.refused.contains(hash) {
            return Sighting::Refused;
        }
        if inner.once.contains(hash) || inner.plans.contains_key(&hash) {
            return Sighting::Again(Box::new(statement.clone()));
        }
        inner.once.push(hash);
        Sighting::First
    }

    /// Notes that no plan can be kept for a statement, so that none is made in vain.
    pub fn refuse(&self, statement: &ast::Statement) {
        self.0.lock().refused.push(hash_of(statement));
    }

    /// Keeps a plan that has not begun to run, if it can be run again: whether it can.
    ///
    /// # Errors
    /// As making a plan node can fail.
    pub fn keep(
        &self,
        statement: ast::Statement,
        env: &Arc<QueryEnv>,
        plan: &Arc<dyn ExecutionPlan>,
        schema: &SchemaRef,
    ) -> Result<bool> {
        if !is_renewable(plan) || statement.to_string().len() > TEXT_BYTES_MAX {
            return Ok(false);
        }
        let deltas =
            env.view.asked_for().into_iter().map(|id| Some((table_of(&env.view, id)?, env.view.has_delta(id))));
        let Some(deltas) = deltas.collect::<Option<Vec<_>>>() else { return Ok(false) };
        let idle = env.over_base();
        let plan = renew(plan, &idle)?;
        let (settings, view, schema) = (env.settings.clone(), Arc::clone(&idle.view), Arc::clone(schema));
        let open = OpenTest::all(&plan);
        let entry = Entry { statement, settings, view, deltas, plan, open, schema, used: 0 };
        let mut inner = self.0.lock();
        // Looked at under the lock: `clear` comes after the newer snapshot.
        if Arc::ptr_eq(&env.database()?.snapshot(), &env.snapshot) {
            inner.put(entry);
        }
        Ok(true)
    }

    /// Drops all plans: there is a newer snapshot.
    pub fn clear(&self) {
        let mut inner = self.0.lock();
        inner.refused = Recent::default();
        let dropped = std::mem::take(&mut inner.plans);
        drop(inner);
        drop(dropped);
    }
}

impl Inner {
    fn put(&mut self, mut entry: Entry) {
        entry.used = self.clock;
        if self.plans.len() >= PLANS_MAX
            && let Some(oldest) = self.plans.iter().min_by_key(|(_, entry)| entry.used).map(|(hash, _)| *hash)
        {
            self.plans.remove(&oldest);
        }
        self.plans.insert(hash_of(&entry.statement), entry);
    }
}

impl Entry {
    fn serves(&self, statement: &ast::Statement, env: &QueryEnv) -> bool {
        Arc::ptr_eq(&self.view.snapshot, &env.snapshot)
            && self.settings == env.settings
            && self.statement == *statement
            && self.deltas.iter().all(|(table, had_one)| env.view.delta(table).is_some() == *had_one)
            && self.open.iter().all(|test| test.serves(&env.parameters))
    }
}

fn hash_of(statement: &ast::Statement) -> u64 {
    let mut hasher = DefaultHasher::new();
    statement.hash(&mut hasher);
    hasher.finish()
}

fn table_of(view: &ReadView, delta: TableId) -> Option<Arc<Table>> {
    view.snapshot.catalog.tables().find(|table| table.delta == delta).map(Arc::clone)
}
