//! Nodes that pass the rows of their one input on, and change nothing but how these come: in what batches, counted as
//! what, in whose turn.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::statistics::StatisticsArgs;

use super::plan::{Plan, passed_on, statistics_of};
use super::saki_node::SakiNode;

/// How rows are passed on.
pub trait Passing: Clone + fmt::Debug + Send + Sync + 'static {
    /// The node's name in EXPLAIN.
    fn name(&self) -> &'static str;

    /// The rows of one partition, on their way.
    ///
    /// # Errors
    /// If there is no memory for them.
    fn pass(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> Result<SendableRecordBatchStream>;

    /// Its line of EXPLAIN.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }

    /// What the planner may rely on; by itself what it may rely on of the input.
    fn properties(&self, input: &Plan) -> Arc<PlanProperties> {
        passed_on(input)
    }

    /// As [`SakiNode::maintains_input_order`].
    fn maintains_input_order(&self) -> bool {
        true
    }

    /// As [`SakiNode::benefits_from_input_partitioning`].
    fn benefits_from_input_partitioning(&self) -> bool {
        false
    }

    /// As [`SakiNode::yields`].
    fn yields(&self) -> bool {
        false
    }
}

/// An input, passed on.
#[derive(Debug)]
pub struct PassingExec<P> {
    input: Plan,
    properties: Arc<PlanProperties>,
    how: P,
}

impl<P: Passing> PassingExec<P> {
    /// Passes an input's rows on.
    pub fn plan(input: Plan, how: P) -> Plan {
        Self { properties: how.properties(&input), input, how }.into_plan()
    }
}

impl<P: Passing> SakiNode for PassingExec<P> {
    fn name(&self) -> &'static str {
        self.how.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Self::plan(input, self.how.clone()))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.how.describe(f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.how.pass(self.input.execute(partition, Arc::clone(&context))?, &context)
    }

    /// As many rows as its input has.
    fn statistics(&self, _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        statistics_of(self.input.as_ref())
    }

    fn maintains_input_order(&self) -> bool {
        self.how.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> bool {
        self.how.benefits_from_input_partitioning()
    }

    fn yields(&self) -> bool {
        self.how.yields()
    }
}
