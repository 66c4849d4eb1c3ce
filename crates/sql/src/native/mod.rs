//! Plan nodes whose rows stay in native form between them.
//!
//! DataFusion plans; where our operators apply, `NativeRule` puts a node of this module in the place of its own. Between two such
//! nodes flow [`Batch`]es, without a change of form; a node of DataFusion above one sees record batches of exactly
//! the schema that it was planned with.
//!
//! ```text
//!   SortExec                      DataFusion's: record batches
//!     └ NativeAggregateExec       execute(): surface            native(): batches
//!         └ NativeHashJoinExec       ▲ to_surface                  ▲
//!             ├ ColumnScanExec       └──────────── native() ───────┘
//!             └ FilterExec        anything else: from_surface of its batches
//! ```

mod aggregate;
mod columns;
mod foreign;
mod join;
mod keys;
mod node;
mod offer;
mod project;
mod rule;
mod shared;
mod stream;
mod translate;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

use crate::column_scan::ColumnScanExec;

pub use aggregate::NativeAggregateExec;
pub use join::NativeHashJoinExec;
pub use keys::DynamicKeys;
pub use project::NativeProjectExec;
pub use rule::{NativeOptions, NativeRule};
pub use stream::{NativeStream, from_surface, surface_stream};
pub use translate::translate;

/// A plan node that can yield its rows in native form.
pub trait Native: ExecutionPlan {
    /// The rows of one partition: columns in the order and of the logical types of the node's schema. Like `execute`,
    /// at most once for each partition.
    fn native(&self, partition: usize, context: Arc<TaskContext>) -> Result<NativeStream>;
}

/// The node as one of ours, if it is.
pub fn as_native(plan: &dyn ExecutionPlan) -> Option<&dyn Native> {
    if let Some(wrapper) = plan.downcast_ref::<CooperativeExec>() {
        return as_native(wrapper.input().as_ref());
    }
    let project = plan.downcast_ref::<NativeProjectExec>().map(|node| node as &dyn Native);
    let aggregate = || plan.downcast_ref::<NativeAggregateExec>().map(|node| node as &dyn Native);
    let join = || plan.downcast_ref::<NativeHashJoinExec>().map(|node| node as &dyn Native);
    let scan = || plan.downcast_ref::<ColumnScanExec>().map(|node| node as &dyn Native);
    project.or_else(aggregate).or_else(join).or_else(scan)
}

/// The rows of one partition of any node, in native form.
pub fn native_input(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<NativeStream> {
    match as_native(plan.as_ref()) {
        Some(native) => native.native(partition, context),
        None => Ok(stream::from_surface(plan.execute(partition, context)?)),
    }
}
