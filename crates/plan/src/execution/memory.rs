//! What a session's queries may hold in memory, and what becomes of one that needs more.
//!
//! Operators count what they hold against `saki.query_memory`. Ours do not spill: a query that does not fit is made
//! again with operators that do (DataFusion's sorts and aggregates, joins by merging), which is possible because ours
//! take in all of their input before the first row leaves. What they spill goes to the system's directory for temporary
//! files (`TMPDIR`) and is gone with the query.

use std::fmt;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use super::tracked::Tracked;
use crate::node::{Plan, find};
use saki_base::memory::{Exhausted, Pool};
use saki_catalog::Result;

/// Where operators with this limit register what they hold, which is part of what the `server` has; `None` is no limit
/// of their own.
pub fn runtime(limit: Option<usize>, server: &Arc<Pool>) -> Result<Arc<RuntimeEnv>> {
    let own: Arc<dyn MemoryPool> = match limit {
        None => Arc::new(UnboundedMemoryPool::default()),
        Some(bytes) => Arc::new(FairSpillPool::new(bytes)),
    };
    let share = Share { own, server: Arc::clone(server) };
    Ok(RuntimeEnvBuilder::new().with_memory_pool(Arc::new(share)).build_arc()?)
}

/// A session's part of the server's memory.
#[derive(Debug)]
struct Share {
    own: Arc<dyn MemoryPool>,
    server: Arc<Pool>,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the server's memory", self.own)
    }
}

impl MemoryPool for Share {
    fn name(&self) -> &str {
        "share"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.server.take_anyway(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.server.give_back(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::common::Result<()> {
        self.own.try_grow(reservation, additional)?;
        self.server.take(additional).map_err(|error| {
            self.own.shrink(reservation, additional);
            exhausted(error)
        })
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

/// What the planner is told when the server's memory is used up: 53200.
pub fn exhausted(error: Exhausted) -> DataFusionError {
    DataFusionError::ResourcesExhausted(error.to_string())
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
            let runtime = runtime(limit, &Arc::default()).unwrap();
            MemoryConsumer::new("test").with_can_spill(false).register(&runtime.memory_pool).try_grow(bytes).is_ok()
        };
        assert!(reserve(Some(1 << 20), 1 << 19));
        assert!(!reserve(Some(1 << 20), 1 << 21));
        assert!(reserve(None, 1 << 40));
    }

    #[test]
    fn sessions_share_what_the_server_has() {
        let server = Arc::new(Pool::new(100));
        let consumer = |limit| {
            let runtime = runtime(limit, &server).unwrap();
            MemoryConsumer::new("test").with_can_spill(false).register(&runtime.memory_pool)
        };
        let (one, other) = (consumer(Some(80)), consumer(None));
        one.try_grow(60).unwrap();
        assert!(one.try_grow(30).is_err(), "more than the session may have");
        let error = other.try_grow(50).unwrap_err();
        assert_eq!(saki_catalog::SqlError::from(error).sqlstate(), "53200");
        assert_eq!(server.used(), 60);
        drop(one);
        other.try_grow(50).unwrap();
        drop(other);
        assert_eq!(server.used(), 0);
    }
}
