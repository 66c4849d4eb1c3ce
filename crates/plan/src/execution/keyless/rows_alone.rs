//! Rows without columns, as one batch: whoever holds them holds nothing but their number.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use crate::node::{Plan, SakiNode, find, passed_on, statistics_of};

const NAME: &str = "RowsAloneExec";

/// Its input's rows, which have no columns, in one batch for each partition.
#[derive(Debug)]
pub struct RowsAloneExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl RowsAloneExec {
    /// An input's rows; as they come, if they have columns.
    pub fn of(input: &Plan) -> Plan {
        match input.schema().fields().is_empty() && find(input.as_ref()).is_none_or(|node| node.name() != NAME) {
            true => Self { properties: passed_on(input), input: Arc::clone(input) }.into_plan(),
            false => Arc::clone(input),
        }
    }
}

impl SakiNode for RowsAloneExec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        Ok(Self::of(children.first().unwrap_or(&self.input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, schema) = (self.input.execute(partition, context)?, self.schema());
        let together = async move {
            let rows = input.try_fold(0_usize, async |rows, batch| Ok(rows.saturating_add(batch.num_rows()))).await?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            Ok(RecordBatch::try_new_with_options(schema, Vec::new(), &options)?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(together))))
    }

    /// As many rows as its input has.
    fn statistics(&self, _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        statistics_of(self.input.as_ref())
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
        let plan = RowsAloneExec::of(&bare);
        let given = block_on(plan.execute(0, task_context(8)).unwrap().collect::<Vec<_>>());
        let given: Vec<usize> = given.into_iter().map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(given, [5]);
        assert!(Arc::ptr_eq(&RowsAloneExec::of(&plan), &plan), "once is enough");
        let with_columns = memory_plan(&[rows.to_vec()], &small_schema());
        assert!(Arc::ptr_eq(&RowsAloneExec::of(&with_columns), &with_columns));
    }
}
