//! Plans that are kept for statements that come again.
//!
//! ```text
//!   statement ─► find ──hit──► renew: the same nodes, over the statement's own snapshot ─► run
//!                  └──miss──► plan ─► run
//!                               └─ when it has come before: renewed over nothing but the base, and kept
//! ```
//!
//! A statement is known by its syntax tree with all its values, so a plan is used again only where it would be made
//! again. A prepared query may leave parameters *open* that it only compares with columns for equality: the planner
//! sees them as parameters, and their values where a scan or lookup tests for them, so that [`renew`] can put others in
//! their places.
//!
//! # Invariants
//! - A plan belongs to one generation and is dropped as soon as there is a newer one: none lives longer for its
//!   sake.
//! - What a plan takes for granted besides is asked again each time: the settings, and which of its tables have
//!   anything in their deltas.
//! - A kept plan reads no delta and holds no moment: every run renews it over its own snapshot.
//! - An open parameter is in no other place of a plan than such tests: elsewhere the planner refuses a parameter.
//!   Values that are much
//!   more or less common than those a plan was made for get another.
//! - Only statements whose every function gives the same for the same values are kept, over tables of ours alone.

#[cfg(test)]
mod again;
mod kept;
mod open;
mod renew;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::Result;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use saki_base::TableId;

pub use self::kept::is_repeatable;
use self::open::OpenTest;
use self::renew::{is_renewable, renew};
use crate::execution::tracked::Untracked;
use crate::node::{Plan, QueryEnv};
use saki_catalog::Table;
use saki_settings::Settings;
use saki_store::Snapshot;

/// Plans that are kept at most.
const PLANS_MAX: usize = 256;
/// Bytes of a statement beyond which its plan is not kept.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Statements that are remembered for having come once, or for having no plan to keep.
const RECENT_MAX: usize = 4096;
/// A plan is made anew where newer rows have become so many times as many, and are more than a few.
const NEWER_GROWTH: u64 = 16;
const FEW_NEWER: u64 = 1_000;

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
    snapshot: Arc<Snapshot>,
    /// The tables that were asked for a delta, and how many newer rows there were.
    deltas: Vec<(Arc<Table>, u64)>,
    plan: Plan,
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
    pub fn find(&self, statement: &ast::Statement, env: &Arc<QueryEnv>) -> Result<Option<(Untracked, SchemaRef)>> {
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
        kept.map(|(plan, schema)| Ok((Untracked::new(renew(&plan, env)?, env), schema))).transpose()
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
        plan: &Untracked,
        schema: &SchemaRef,
    ) -> Result<bool> {
        let plan = plan.plan();
        if !is_renewable(plan) || statement.to_string().len() > TEXT_BYTES_MAX {
            return Ok(false);
        }
        let deltas = env
            .snapshot
            .asked_for()
            .into_iter()
            .map(|id| table_of(&env.snapshot, id))
            .map(|table| table.map(|table| (Arc::clone(&table), env.snapshot.newer_rows(&table))));
        let Some(deltas) = deltas.collect::<Option<Vec<_>>>() else { return Ok(false) };
        let idle = env.over_base();
        let plan = renew(plan, &idle)?;
        let (settings, snapshot, schema) = (env.settings.clone(), Arc::clone(&idle.snapshot), Arc::clone(schema));
        let open = OpenTest::all(&plan);
        let entry = Entry { statement, settings, snapshot, deltas, plan, open, schema, used: 0 };
        let mut inner = self.0.lock();
        // Looked at under the lock: `clear` comes after the newer generation.
        if Arc::ptr_eq(&env.database()?.generation(), &env.generation) {
            inner.put(entry);
        }
        Ok(true)
    }

    /// Drops all plans: there is a newer generation.
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
        Arc::ptr_eq(&self.snapshot.generation, &env.generation)
            && self.settings == env.settings
            && self.statement == *statement
            && self.deltas.iter().all(|(table, rows)| is_alike(*rows, env.snapshot.newer_rows(table)))
            && self.open.iter().all(|test| test.serves(&env.parameters))
    }
}

/// Whether a plan made for so many newer rows of a table is as good for so many now. A few never matter, but for
/// whether there are any.
fn is_alike(then: u64, now: u64) -> bool {
    let (less, more) = (then.min(now), then.max(now));
    (less > 0 || more == 0) && (more < FEW_NEWER || more < less.saturating_mul(NEWER_GROWTH))
}

fn hash_of(statement: &ast::Statement) -> u64 {
    let mut hasher = DefaultHasher::new();
    statement.hash(&mut hasher);
    hasher.finish()
}

fn table_of(snapshot: &Snapshot, delta: TableId) -> Option<Arc<Table>> {
    snapshot.generation.catalog.with_delta(delta).next().map(Arc::clone)
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::{Fixture, NoTransaction, TableBuilder};

    fn statement(sql: &str) -> ast::Statement {
        Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().swap_remove(0)
    }

    fn row(id: i64, part: i64) -> Vec<Value> {
        vec![Value::Int8(id), Value::Int8(part)]
    }

    fn fixture() -> Fixture {
        let fixture = Fixture::new();
        let rows: Vec<Vec<Value>> = (0..200).map(|id| row(id, id % 10)).collect();
        let table = |name: &str| {
            TableBuilder::new(name).column("id", DataType::Int8).column("part", DataType::Int8).key(&["id"])
        };
        fixture.load(table("t").index("t_part", &["part"]), &rows).load(table("c").with_segments(), &rows);
        fixture
    }

    fn keep(cache: &PlanCache, fixture: &Fixture, env: &Arc<QueryEnv>, sql: &str) -> bool {
        let plan = fixture.plan(env, sql);
        cache.keep(statement(sql), env, &plan, &plan.schema()).unwrap()
    }

    fn found(cache: &PlanCache, fixture: &Fixture, env: &Arc<QueryEnv>, sql: &str) -> Option<Vec<String>> {
        let (plan, _) = cache.find(&statement(sql), env).unwrap()?;
        Some(fixture.run(env, &plan.track(&mut NoTransaction).unwrap()))
    }

    const QUERIES: [&str; 9] = [
        "SELECT part FROM t WHERE id = 7",
        "SELECT id FROM t WHERE part = 3 AND id < 50",
        "SELECT part, count(*), sum(id) FROM c WHERE id % 3 = 1 GROUP BY part ORDER BY part",
        "SELECT c.id, t.part FROM c JOIN t ON c.part = t.id WHERE c.id < 40",
        "SELECT c.id FROM c LEFT JOIN t ON c.id = t.part AND t.id > 100",
        "SELECT id FROM c WHERE part = (SELECT max(part) FROM t WHERE id < 5)",
        "SELECT id FROM c WHERE part IN (SELECT part FROM t WHERE id < 3) LIMIT 1000",
        "SELECT a.id, b.id FROM t a CROSS JOIN t b WHERE a.id < 3 AND b.id < 2",
        "SELECT id, rank() OVER (PARTITION BY part ORDER BY id) FROM t WHERE id < 30",
    ];

    #[test]
    fn a_kept_plan_runs_any_number_of_times_with_the_same_rows() {
        let fixture = fixture();
        for operators in ["native", "datafusion"] {
            let cache = PlanCache::default();
            let mut settings = Settings { partitions: 2, ..Settings::default() };
            settings.set("operators", Some(operators)).unwrap();
            for sql in QUERIES {
                let env = fixture.env(settings.clone());
                // Filters that change while a query runs are not renewed.
                let is_kept = keep(&cache, &fixture, &env, sql);
                assert!(is_kept || operators == "datafusion", "{sql}");
                for _ in 0..2 {
                    let env = fixture.env(settings.clone());
                    let found = found(&cache, &fixture, &env, sql);
                    assert_eq!(found.is_some(), is_kept, "{sql}");
                    if let Some(rows) = found {
                        assert_eq!(rows, fixture.expected(sql), "{sql}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_plan_serves_only_the_settings_it_was_made_with() {
        let (fixture, cache, sql) = (fixture(), PlanCache::default(), QUERIES[0]);
        let env = fixture.default_env();
        assert!(keep(&cache, &fixture, &env, sql));
        assert!(cache.find(&statement(sql), &env).unwrap().is_some());
        assert!(cache.find(&statement("SELECT part FROM t WHERE id = 8"), &env).unwrap().is_none());
        let mut settings = env.settings.clone();
        settings.set("access_path", Some("scan")).unwrap();
        assert!(cache.find(&statement(sql), &fixture.env(settings)).unwrap().is_none());
        assert_eq!(cache.reused(), 1);
    }

    #[test]
    fn a_delta_that_a_plan_did_not_know_of_asks_for_another_plan() {
        let (fixture, cache, sql) = (fixture(), PlanCache::default(), "SELECT count(*), sum(part) FROM c");
        let before: Vec<Vec<Value>> = (0..200).map(|id| row(id, id % 10)).collect();
        // The first change makes a generation of its own; afterwards they go to the delta alone.
        fixture.change("t", &[row(1, 5)], &[]);
        let env = fixture.default_env();
        assert!(keep(&cache, &fixture, &env, sql));
        assert_eq!(found(&cache, &fixture, &fixture.default_env(), sql).unwrap(), ["200|900"]);
        let mut after = before;
        after[3] = row(3, 103);
        fixture.change("c", &[row(3, 103)], &after);
        let env = fixture.default_env();
        assert!(found(&cache, &fixture, &env, sql).is_none());
        assert!(keep(&cache, &fixture, &env, sql));
        assert_eq!(found(&cache, &fixture, &env, sql).unwrap(), ["200|1000"]);
        fixture.change("c", &[row(4, 104)], &[]);
        assert_eq!(found(&cache, &fixture, &fixture.default_env(), sql).unwrap(), ["200|1100"], "its own view");
    }

    #[test]
    fn a_plan_serves_about_as_many_newer_rows_as_it_was_made_for() {
        for (then, now, expected) in [
            (0, 0, true),
            (0, 1, false),
            (1, 0, false),
            (1, 999, true),
            (1, 1_000, false),
            (1_000, 15_999, true),
            (1_000, 16_000, false),
            (200_000, 12_000, false),
        ] {
            assert_eq!(is_alike(then, now), expected, "{then} {now}");
        }
    }

    #[test]
    fn a_newer_generation_drops_all_plans() {
        let (fixture, cache, sql) = (fixture(), PlanCache::default(), QUERIES[0]);
        let old = fixture.default_env();
        assert!(keep(&cache, &fixture, &old, sql));
        fixture.load(TableBuilder::new("other").column("id", DataType::Int8).key(&["id"]), &[]);
        assert!(cache.find(&statement(sql), &fixture.default_env()).unwrap().is_none());
        cache.clear();
        assert!(cache.find(&statement(sql), &old).unwrap().is_none());
        let plan = fixture.plan(&old, sql);
        assert!(cache.keep(statement(sql), &old, &plan, &plan.schema()).unwrap());
        assert!(cache.find(&statement(sql), &old).unwrap().is_none(), "a plan of an old generation is not put");
    }

    #[test]
    fn a_statement_is_worth_a_plan_when_it_has_come_before() {
        let cache = PlanCache::default();
        let sql = statement("SELECT 1");
        assert!(matches!(cache.sight(&sql), Sighting::First));
        assert!(matches!(cache.sight(&sql), Sighting::Again(again) if *again == sql));
        assert!(matches!(cache.sight(&statement("SELECT 2")), Sighting::First));
        cache.refuse(&sql);
        assert!(matches!(cache.sight(&sql), Sighting::Refused));
        cache.clear();
        assert!(matches!(cache.sight(&sql), Sighting::Again(_)), "another generation may have one");
    }

    #[test]
    fn the_plan_that_was_used_least_lately_makes_room() {
        let (fixture, cache) = (fixture(), PlanCache::default());
        let env = fixture.default_env();
        let plan = fixture.plan(&env, QUERIES[0]);
        let sql = |n: usize| statement(&format!("SELECT part FROM t WHERE id = {n}"));
        let is_there = |n| cache.find(&sql(n), &env).unwrap().is_some();
        for n in 0..PLANS_MAX {
            assert!(cache.keep(sql(n), &env, &plan, &plan.schema()).unwrap());
            assert!(is_there(0));
        }
        assert!(cache.keep(sql(PLANS_MAX), &env, &plan, &plan.schema()).unwrap());
        assert!(is_there(0) && is_there(PLANS_MAX) && is_there(2));
        assert!(!is_there(1));
        let long = statement(&format!("SELECT '{}' FROM t", "x".repeat(TEXT_BYTES_MAX)));
        assert!(!cache.keep(long, &env, &plan, &plan.schema()).unwrap());
    }

    #[test]
    fn an_open_parameter_takes_another_value() {
        let (fixture, cache) = (fixture(), PlanCache::default());
        for sql in ["SELECT part FROM t WHERE id = $1", "SELECT id FROM c WHERE part = $1 AND id < 40"] {
            let env = |value: i64| {
                let env = QueryEnv::new(&fixture.db, Snapshot::new(fixture.db.generation(), None), Settings::default());
                Arc::new(env.with_parameters([ScalarValue::Int64(Some(value))].into()))
            };
            let plan = fixture.try_plan(&env(7), sql).unwrap();
            assert!(cache.keep(statement(sql), &env(7), &plan, &plan.schema()).unwrap(), "{sql}");
            for value in [7, 8, 3] {
                let rows = found(&cache, &fixture, &env(value), sql).unwrap();
                assert_eq!(rows, fixture.expected(&sql.replace("$1", &value.to_string())), "{sql}: {value}");
            }
            let null = Arc::new(
                QueryEnv::new(&fixture.db, Snapshot::new(fixture.db.generation(), None), Settings::default())
                    .with_parameters([ScalarValue::Int64(None)].into()),
            );
            assert!(cache.find(&statement(sql), &null).unwrap().is_none(), "{sql}");
        }
    }
}
