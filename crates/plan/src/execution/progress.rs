//! How far a query has come, for those who watch.

use std::sync::{Arc, Weak};

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use super::tracked::Tracked;
use crate::node::{Plan, Progress, find};

/// The last query of a session, for as long as it runs.
#[derive(Default)]
pub struct QueryProgress(Mutex<Option<Weak<dyn ExecutionPlan>>>);

impl QueryProgress {
    /// A query begins.
    pub fn begin(&self, plan: &Tracked) {
        *self.0.lock() = Some(Arc::downgrade(plan.plan()));
    }

    /// Nothing, once it has ended.
    pub fn now(&self) -> Progress {
        let plan = self.0.lock().as_ref().and_then(Weak::upgrade);
        plan.as_ref().map(of_plan).unwrap_or_default()
    }
}

fn of_plan(plan: &Plan) -> Progress {
    let own = find(plan.as_ref()).and_then(|node| node.progress()).unwrap_or_default();
    plan.children().into_iter().map(of_plan).fold(own, |sum, child| Progress {
        visits_done: sum.visits_done + child.visits_done,
        visits_estimated: sum.visits_estimated + child.visits_estimated,
    })
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::{Fixture, NoTransaction, TableBuilder};

    #[test]
    fn a_query_has_progress_as_long_as_somebody_holds_it() {
        let fixture = Fixture::new();
        let table = TableBuilder::new("t").column("id", DataType::Int8).key(&["id"]);
        fixture.load(table, &(0..900).map(|id| vec![Value::Int8(id)]).collect::<Vec<_>>());
        let env = fixture.default_env();
        let progress = QueryProgress::default();
        assert_eq!(progress.now(), Progress::default());
        let plan = fixture.plan(&env, "SELECT id FROM t").track(&mut NoTransaction).unwrap();
        progress.begin(&plan);
        assert_eq!(progress.now(), Progress::default(), "nothing has begun");
        assert_eq!(fixture.run(&env, &plan).len(), 900);
        let done = progress.now();
        assert!(done.visits_done > 0 && done.visits_estimated >= 900, "{done:?}");
        drop(plan);
        assert_eq!(progress.now(), Progress::default());
    }
}
