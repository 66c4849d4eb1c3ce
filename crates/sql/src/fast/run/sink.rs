//! Where the rows of an answer go.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use saki_base::{DataType, Value, ValueRef};

use super::super::plan::FastPlan;
use saki_catalog::Result;
use saki_catalog::convert::array_of;
use saki_context::statement::StatementResult;

/// Takes the rows of an answer.
pub trait RowSink {
    /// A row: the values of `FastPlan::output`, in order.
    fn row(&mut self, values: &[ValueRef<'_>]);
}

/// Rows kept as values.
#[derive(Default)]
pub struct Kept(Vec<Vec<Value>>);

impl RowSink for Kept {
    fn row(&mut self, values: &[ValueRef<'_>]) {
        self.0.push(values.iter().map(|value| Value::from(*value)).collect());
    }
}

impl Kept {
    /// The rows as a result.
    pub fn result(self, plan: &FastPlan, schema: SchemaRef) -> Result<StatementResult> {
        let column = |(place, (_, data_type)): (usize, &(String, DataType))| {
            array_of(*data_type, &self.0.iter().map(|row| row[place].clone()).collect::<Vec<_>>())
        };
        let arrays = plan.output.iter().enumerate().map(column).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Ok(StatementResult::of_batch(schema, batch))
    }
}
