//! Where the rows of an answer go.

use std::sync::Arc;

use arrow_array::RecordBatch;
use saki_base::{DataType, Value, ValueRef};

use super::super::plan::FastPlan;
use super::rows::Running;
use super::stopped::{Entry, Stopped};
use saki_catalog::Result;
use saki_catalog::convert::array_of;
use saki_context::statement::StatementResult;

/// Takes the rows of an answer.
pub trait RowSink {
    /// The statement begins, perhaps anew: the rows so far are void.
    fn clear(&mut self);

    /// A row: the values of `FastPlan::output`, in order.
    fn row(&mut self, values: &[ValueRef<'_>]);
}

/// Rows kept as values.
#[derive(Default)]
pub struct Kept(Vec<Vec<Value>>);

impl RowSink for Kept {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn row(&mut self, values: &[ValueRef<'_>]) {
        self.0.push(values.iter().map(|value| Value::from(*value)).collect());
    }
}

impl Kept {
    /// What a statement answers that gave or changed so many rows.
    pub fn result(self, plan: &FastPlan, rows: u64) -> Result<StatementResult> {
        let Some(schema) = plan.schema() else { return Ok(StatementResult::done(plan.verb(), rows)) };
        let column = |(place, (_, data_type)): (usize, &(String, DataType))| {
            array_of(*data_type, &self.0.iter().map(|row| row[place].clone()).collect::<Vec<_>>())
        };
        let arrays = plan.output.iter().enumerate().map(column).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Ok(match plan.is_change() {
            true => StatementResult::returning(plan.verb(), rows, batch),
            false => StatementResult::of_batch(schema, batch),
        })
    }
}

/// What a change says of its rows.
pub struct Returned<'r> {
    pub columns: Option<&'r [usize]>,
    pub sink: &'r mut dyn RowSink,
}

impl Returned<'_> {
    /// Says it of rows of a statement's table.
    pub fn all(&mut self, running: &Running<'_>, rows: &[Entry]) -> Result<(), Stopped> {
        let Some(columns) = self.columns else { return Ok(()) };
        running.each(rows, |values| show(columns, values, self.sink))
    }
}

/// Gives columns of a row to `sink`.
pub fn show(columns: &[usize], values: &[ValueRef<'_>], sink: &mut dyn RowSink) {
    let out: Vec<ValueRef<'_>> = columns.iter().map(|column| values[*column]).collect();
    sink.row(&out);
}
