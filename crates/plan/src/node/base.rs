//! What all native nodes have in common.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::Statistics;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{Partitioning, PlanProperties};

/// The part of a node that the planner looks at. Native nodes promise no order of rows, and no distribution of them.
#[derive(Debug)]
pub struct NodeBase {
    pub properties: Arc<PlanProperties>,
    /// Those of the node that was replaced: nothing is known better here.
    pub statistics: Arc<Statistics>,
    pub metrics: ExecutionPlanMetricsSet,
}

/// What is known of columns that are read as `sources` says, where they are not computed: those that are read alike are
/// equal in every row. The planner sorts by one of them alone, and has to find both in order.
pub fn read_alike<T: PartialEq>(schema: &SchemaRef, sources: &[Option<T>]) -> EquivalenceProperties {
    let mut known = EquivalenceProperties::new(Arc::clone(schema));
    let column = |at: usize| Arc::new(Column::new(schema.field(at).name(), at)) as _;
    for (at, source) in sources.iter().enumerate().filter(|(_, source)| source.is_some()) {
        if let Some(first) = sources[..at].iter().position(|before| before == source)
            && known.add_equal_conditions(column(first), column(at)).is_err()
        {
            return EquivalenceProperties::new(Arc::clone(schema));
        }
    }
    known
}

impl NodeBase {
    /// The same of a node whose columns are read as `sources` says.
    pub fn with_alike<T: PartialEq>(mut self, sources: &[Option<T>]) -> Self {
        let known = read_alike(self.schema(), sources);
        self.properties = Arc::new(PlanProperties::clone(&self.properties).with_eq_properties(known));
        self
    }

    pub fn new(schema: SchemaRef, partitions: usize, emission: EmissionType, statistics: Arc<Statistics>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            emission,
            Boundedness::Bounded,
        );
        Self { properties: Arc::new(properties), statistics, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Of the same node, run again.
    pub fn renewed(&self) -> Self {
        Self {
            properties: Arc::clone(&self.properties),
            statistics: Arc::clone(&self.statistics),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub fn schema(&self) -> &SchemaRef {
        self.properties.equivalence_properties().schema()
    }

    pub fn partitions(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    /// Of the whole node; of one partition nothing is known.
    pub fn statistics(&self, args: &StatisticsArgs) -> Arc<Statistics> {
        match args.partition() {
            None => Arc::clone(&self.statistics),
            Some(_) => Arc::new(Statistics::new_unknown(self.schema())),
        }
    }
}
