//! What a session's queries may hold in memory, and what becomes of one that needs more.
//!
//! Operators count what they hold against `saki.query_memory`. Ours do not spill: a query that does not fit is made
//! again with operators that do (DataFusion's sorts and aggregates, joins by merging), which is possible because ours
//! take in all of their input before the first row leaves. What they spill goes to the system's directory for temporary
//! files (`TMPDIR`) and is gone with the query.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use super::tracked::Tracked;
use crate::node::{Plan, find};
use saki_catalog::Result;

/// Where operators with this limit register what they hold; `None` is no limit.
pub fn runtime(limit: Option<usize>) -> Result<Arc<RuntimeEnv>> {
    let builder = RuntimeEnvBuilder::new();
    Ok(match limit {
        None => builder.build_arc()?,
        Some(bytes) => builder.with_memory_pool(Arc::new(FairSpillPool::new(bytes))).build_arc()?,
    })
}

/// Whether a plan has nodes that hold rows and do not spill them.
pub fn cannot_spill(plan: &Tracked) -> bool {
    holds_rows(plan.plan())
}

fn holds_rows(plan: &Plan) -> bool {
    find(plan.as_ref()).is_some_and(|node| node.holds_rows()) || plan.children().into_iter().any(holds_rows)
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

#[cfg(test)]
mod tests {
    use arrow_schema::Schema;
    use datafusion::common::Result as PlannerResult;
    use datafusion::execution::memory_pool::MemoryConsumer;

    use super::*;
    use crate::fixture::{block_on, small_batch, small_schema, sorted_rows};

    fn stream(items: Vec<PlannerResult<arrow_array::RecordBatch>>) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(small_schema(), stream::iter(items)))
    }

    fn rows() -> arrow_array::RecordBatch {
        small_batch(&[(Some(1), None, Some("a"))])
    }

    fn exhausted() -> DataFusionError {
        DataFusionError::ResourcesExhausted("no more".into())
    }

    #[test]
    fn a_stream_that_has_begun_keeps_its_first_rows() {
        let whole = block_on(async {
            let begun = begun(stream(vec![Ok(rows()), Ok(rows())])).await.unwrap();
            datafusion::physical_plan::common::collect(begun).await.unwrap()
        });
        assert_eq!(sorted_rows(&whole), ["1|NULL|a", "1|NULL|a"]);
        let none = block_on(async {
            let begun = begun(stream(vec![])).await.unwrap();
            assert_ne!(begun.schema(), Arc::new(Schema::empty()));
            datafusion::physical_plan::common::collect(begun).await.unwrap()
        });
        assert!(none.is_empty());
    }

    #[test]
    fn only_want_of_memory_before_the_first_rows_is_another_chance() {
        let outcome = |items| block_on(async { begun(stream(items)).await.is_some() });
        assert!(!outcome(vec![Err(exhausted())]));
        assert!(!outcome(vec![Err(DataFusionError::Shared(Arc::new(exhausted().context("while joining"))))]));
        assert!(outcome(vec![Err(DataFusionError::Execution("divided by zero".into()))]));
        assert!(outcome(vec![Ok(rows()), Err(exhausted())]), "rows have gone out");
    }

    #[test]
    fn operators_register_what_they_hold_against_the_limit() {
        let reserve = |limit, bytes| {
            let runtime = runtime(limit).unwrap();
            MemoryConsumer::new("test").with_can_spill(false).register(&runtime.memory_pool).try_grow(bytes).is_ok()
        };
        assert!(reserve(Some(1 << 20), 1 << 19));
        assert!(!reserve(Some(1 << 20), 1 << 21));
        assert!(reserve(None, 1 << 40));
    }
}
