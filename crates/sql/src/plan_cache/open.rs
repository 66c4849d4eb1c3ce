//! Plans of statements that leave parameters open: what each was made for, and which other values it serves.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_plan::ExecutionPlan;

use crate::catalog::Table;
use crate::column_scan::ColumnScanExec;
use crate::column_test::ColumnTest;
use crate::pipeline_exec::PipelineExec;

/// A value serves where it is at most so many times as common as the one that a plan was made for, and at least such a part of it.
const SHARES_DIFFER_MAX: f64 = 4.0;

/// A test by a parameter, somewhere in a plan.
pub struct OpenTest {
    table: Arc<Table>,
    test: ColumnTest,
    /// Of the table's rows, with the value the plan was made for; `None` where that is not known of any value.
    share: Option<f64>,
}

impl OpenTest {
    /// Those of a plan.
    pub fn all(plan: &Arc<dyn ExecutionPlan>) -> Vec<Self> {
        let mut found = Vec::new();
        collect(plan, &mut found);
        found
    }

    /// Whether the plan is worth using for these values of the parameters, and right.
    pub fn serves(&self, values: &[ScalarValue]) -> bool {
        let Some(test) = self.test.rebound(&self.table, values) else { return false };
        match (self.share, share(&self.table, &test)) {
            (Some(then), Some(now)) => now <= then * SHARES_DIFFER_MAX && then <= now * SHARES_DIFFER_MAX,
            (then, now) => then.is_none() && now.is_none(),
        }
    }
}

fn collect(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<OpenTest>) {
    let mut add = |(table, test): (&Arc<Table>, &ColumnTest)| {
        found.push(OpenTest { table: Arc::clone(table), test: test.clone(), share: share(table, test) });
    };
    if let Some(pipeline) = plan.downcast_ref::<PipelineExec>() {
        pipeline.chain.open_tests().for_each(&mut add);
    }
    if let Some(scan) = plan.downcast_ref::<ColumnScanExec>() {
        scan.open_tests().for_each(&mut add);
    }
    for child in plan.children() {
        collect(child, found);
    }
}

fn share(table: &Table, test: &ColumnTest) -> Option<f64> {
    let [value] = test.points()? else { return None };
    table.likely_share(test.column, value)
}
