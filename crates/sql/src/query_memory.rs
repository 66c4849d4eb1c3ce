//! What a session's queries may hold in memory, and what becomes of one that needs more.
//!
//! Operators count what they hold against `saki.query_memory`. Ours do not spill: a query that does not fit is made again with
//! operators that do (DataFusion's sorts and aggregates, joins by merging), which is possible because ours take in all of their input
//! before the first row leaves. What they spill goes to the system's directory for temporary files (`TMPDIR`) and is gone with the query.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::error::Result;
use crate::native::{NativeAggregateExec, NativeHashJoinExec};

/// Where operators with this limit register what they hold; `None` is no limit.
pub fn runtime(limit: Option<usize>) -> Result<Arc<RuntimeEnv>> {
    let builder = RuntimeEnvBuilder::new();
    Ok(match limit {
        None => builder.build_arc()?,
        Some(bytes) => builder.with_memory_pool(Arc::new(FairSpillPool::new(bytes))).build_arc()?,
    })
}

/// Whether a plan has nodes that hold rows and do not spill them.
pub fn cannot_spill(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<NativeAggregateExec>() || plan.is::<NativeHashJoinExec>() || plan.children().into_iter().any(cannot_spill)
}

/// The stream, run up to its first rows; `None` if it ended there for want of memory.
pub async fn begun(mut stream: SendableRecordBatchStream) -> Option<SendableRecordBatchStream> {
    let first = stream.next().await;
    if let Some(Err(error)) = &first
        && matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
    {
        return None;
    }
    let schema = stream.schema();
    let whole = stream::iter(first).chain(stream);
    Some(Box::pin(RecordBatchStreamAdapter::new(schema, whole)))
}
