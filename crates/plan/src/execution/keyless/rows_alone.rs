//! Rows without columns, as one batch: whoever holds them holds nothing but their number.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use crate::node::{Passing, PassingExec, Plan, find};

const NAME: &str = "RowsAloneExec";

/// Passes rows without columns on, in one batch for each partition.
#[derive(Clone, Copy, Debug)]
struct Alone;

/// An input's rows; as they come, if they have columns.
pub fn rows_alone(input: &Plan) -> Plan {
    match input.schema().fields().is_empty() && find(input.as_ref()).is_none_or(|node| node.name() != NAME) {
        true => PassingExec::plan(Arc::clone(input), Alone),
        false => Arc::clone(input),
    }
}

impl Passing for Alone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pass(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> Result<SendableRecordBatchStream> {
        let schema = rows.schema();
        let of = Arc::clone(&schema);
        let together = async move {
            let rows = rows.try_fold(0_usize, async |rows, batch| Ok(rows.saturating_add(batch.num_rows()))).await?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            Ok(RecordBatch::try_new_with_options(of, Vec::new(), &options)?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(together))))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::fixture::{block_on, memory_plan, small_batch, small_schema, task_context};

    #[test]
    fn rows_without_columns_are_one_batch_and_others_stay_as_they_are() {
        let batch = |rows: i64| small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>());
        let rows = [batch(3), batch(0), batch(2)];
        let bare: Vec<RecordBatch> = rows.iter().map(|batch| batch.project(&[]).unwrap()).collect();
        let bare = memory_plan(&[bare], &Arc::new(arrow_schema::Schema::empty()));
        let plan = rows_alone(&bare);
        let given = block_on(plan.execute(0, task_context(8)).unwrap().collect::<Vec<_>>());
        let given: Vec<usize> = given.into_iter().map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(given, [5]);
        assert!(Arc::ptr_eq(&rows_alone(&plan), &plan), "once is enough");
        let with_columns = memory_plan(&[rows.to_vec()], &small_schema());
        assert!(Arc::ptr_eq(&rows_alone(&with_columns), &with_columns));
    }
}
