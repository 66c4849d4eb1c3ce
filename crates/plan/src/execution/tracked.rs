//! Plans that say what they read before they run.
//!
//! A serializable transaction answers at COMMIT for all that it has read. What a plan reads is known once it has been
//! made: the deltas that its snapshot was asked for. So a plan comes as [`Untracked`], which cannot run. Whoever wants
//! rows says who takes note of the reads, and gets a [`Tracked`] for it; a reader that forgets them does not compile.
//!
//! ```text
//!   planner, plan cache ─► Untracked ──track──────────► Tracked ─► stream
//!                              └─ Reads::join ──────────┘
//!                                 Reads::track ─► TrackedSnapshot: what the statement may change things by
//! ```

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execute_stream;
use saki_catalog::Result;
use saki_store::Snapshot;

use super::forecast::{announced, forecast_of};
use crate::node::explain::plan_text;
use crate::node::{Forecast, Plan, QueryEnv};

/// Who takes note of what is read: a transaction, or nobody where none answers for it.
pub trait TrackReads {
    /// Takes note of all that was asked of `snapshot`.
    ///
    /// # Errors
    /// When the transaction has ended.
    fn track(&mut self, snapshot: &Snapshot) -> Result<()>;
}

/// A plan that cannot run yet: nobody has taken note of what it reads.
#[must_use = "a plan that is not tracked cannot run"]
pub struct Untracked {
    plan: Plan,
    snapshot: Arc<Snapshot>,
}

impl Untracked {
    /// A plan over what `env` sees.
    pub(crate) fn new(plan: Plan, env: &QueryEnv) -> Self {
        Self { plan, snapshot: Arc::clone(&env.snapshot) }
    }

    /// The plan's columns.
    pub fn schema(&self) -> SchemaRef {
        self.plan.schema()
    }

    /// The plan, ready to run.
    ///
    /// # Errors
    /// As [`TrackReads::track`].
    pub fn track(self, reads: &mut impl TrackReads) -> Result<Tracked> {
        reads.track(&self.snapshot)?;
        Ok(Tracked(self.plan))
    }

    /// The plan, to be looked at.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// A plan whose reads somebody answers for.
pub struct Tracked(Plan);

impl Tracked {
    /// The plan's columns.
    pub fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    /// Its rows, produced as the stream is polled; at most once.
    ///
    /// # Errors
    /// As a node can fail to begin.
    pub fn stream(&self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let expected = forecast_of(&self.0).announce();
        Ok(announced(execute_stream(Arc::clone(&self.0), context)?, expected))
    }

    /// EXPLAIN's text; with measurements if it has run and `analyzed`.
    pub fn text(&self, analyzed: bool) -> String {
        plan_text(&self.0, analyzed)
    }

    /// What it is about to read.
    pub fn forecast(&self) -> Forecast {
        forecast_of(&self.0)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.0
    }
}

/// Reads of one snapshot by all the plans by which a statement finds what it changes. They are tracked together, when
/// the last of them has run, for a [`TrackedSnapshot`] without which nothing can be changed.
#[must_use = "reads that are not tracked are forgotten"]
pub struct Reads(Arc<Snapshot>);

impl Reads {
    /// What plans over `env`'s snapshot will read.
    pub fn of(env: &QueryEnv) -> Self {
        Self(Arc::clone(&env.snapshot))
    }

    /// One of these plans, ready to run.
    pub fn join(&self, plan: Untracked) -> Tracked {
        assert!(Arc::ptr_eq(&self.0, &plan.snapshot), "a statement reads one view");
        Tracked(plan.plan)
    }

    /// The snapshot, once what was read of it has been taken note of.
    ///
    /// # Errors
    /// As [`TrackReads::track`].
    pub fn track(self, reads: &mut impl TrackReads) -> Result<TrackedSnapshot> {
        reads.track(&self.0)?;
        Ok(TrackedSnapshot(self.0))
    }
}

/// A snapshot whose reads somebody answers for.
pub struct TrackedSnapshot(Arc<Snapshot>);

impl TrackedSnapshot {
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;
    use saki_base::TableId;
    use saki_base::value::Value;
    use saki_catalog::SqlError;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder};

    /// What was asked for, call by call.
    #[derive(Default)]
    struct Noted(Vec<Vec<TableId>>);

    impl TrackReads for Noted {
        fn track(&mut self, snapshot: &Snapshot) -> Result<()> {
            let mut tables = snapshot.asked_for();
            tables.sort_unstable();
            self.0.push(tables);
            Ok(())
        }
    }

    struct Ended;

    impl TrackReads for Ended {
        fn track(&mut self, _: &Snapshot) -> Result<()> {
            Err(SqlError::internal("the transaction has ended"))
        }
    }

    fn fixture() -> Fixture {
        let fixture = Fixture::new();
        for name in ["a", "b"] {
            let table = TableBuilder::new(name).column("id", DataType::Int8).key(&["id"]);
            fixture.load(table, &[vec![Value::Int8(1)], vec![Value::Int8(2)]]);
        }
        // Deltas are asked for where there is an engine.
        fixture.change("a", &[vec![Value::Int8(3)]], &[1, 2, 3].map(|id| vec![Value::Int8(id)]));
        fixture
    }

    #[test]
    fn a_plan_runs_once_its_tables_are_noted() {
        let fixture = fixture();
        let env = fixture.default_env();
        let plan = fixture.plan(&env, "SELECT a.id FROM a WHERE a.id > 1");
        assert_eq!(plan.schema().field(0).name(), "id");
        let mut noted = Noted::default();
        let tracked = plan.track(&mut noted).unwrap();
        assert_eq!(noted.0, [[fixture.table("a").delta]], "table b was not read");
        assert_eq!(fixture.run(&env, &tracked), ["2", "3"]);
    }

    #[test]
    fn a_transaction_that_has_ended_lets_nothing_run() {
        let fixture = fixture();
        let plan = fixture.plan(&fixture.default_env(), "SELECT id FROM a");
        assert!(plan.track(&mut Ended).err().unwrap().message.contains("the transaction has ended"));
    }

    #[test]
    fn reads_of_several_plans_are_noted_together() {
        let fixture = fixture();
        let env = fixture.default_env();
        let reads = Reads::of(&env);
        let first = reads.join(fixture.plan(&env, "SELECT id FROM a"));
        assert_eq!(fixture.run(&env, &first), ["1", "2", "3"]);
        let second = reads.join(fixture.plan(&env, "SELECT id FROM b"));
        assert_eq!(fixture.run(&env, &second), ["1", "2"]);
        let mut noted = Noted::default();
        let snapshot = reads.track(&mut noted).unwrap();
        assert!(Arc::ptr_eq(snapshot.snapshot(), &env.snapshot));
        let mut both = vec![fixture.table("a").delta, fixture.table("b").delta];
        both.sort_unstable();
        assert_eq!(noted.0, [both]);
    }

    #[test]
    #[should_panic(expected = "a statement reads one view")]
    fn a_plan_over_another_view_does_not_join() {
        let fixture = fixture();
        let plan = fixture.plan(&fixture.default_env(), "SELECT id FROM a");
        let _ = Reads::of(&fixture.default_env()).join(plan);
    }
}
