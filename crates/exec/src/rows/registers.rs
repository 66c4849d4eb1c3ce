//! Rows between stages: columns of registers, and where the source is Arrow
//! batches, references to the outer rows they came from.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use saki_base::DataType;

use crate::error::ExecError;
use crate::plan::{BatchFilter, JoinKind, Pipeline, Source, TreeAccess};
use saki_vector::surface::{ColumnBuffer, arrow_type};

/// Variable-length content above this many bytes ends a batch. A batch is made before anybody can count it, and several
/// wait between a scan and its consumer: this is what one of wide rows takes beside the memory that is accounted for.
/// Rows of up to 2 KiB never reach it.
const CONTENT_BYTES_MAX: usize = 16 << 20;

/// A register's name, type and nullability.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
}

/// The registers after stage `step` (0: after the source).
pub(crate) fn registers_at(pipeline: &Pipeline, step: usize) -> Vec<Register> {
    let mut registers = match &pipeline.source {
        Source::Ranges { access, fetch, .. } => fetched(access, fetch, false),
        Source::Rows { .. } => Vec::new(),
    };
    for stage in &pipeline.stages[..step] {
        let mut next: Vec<Register> = stage.keep.iter().map(|&register| registers[register].clone()).collect();
        next.extend(fetched(&stage.access, &stage.fetch, stage.kind == JoinKind::Left));
        registers = next;
    }
    registers
}

fn fetched(access: &TreeAccess, fetch: &[usize], optional: bool) -> Vec<Register> {
    let register = |&index: &usize| {
        let column = &access.columns[index];
        Register { name: column.name.clone(), data_type: column.data_type, nullable: column.nullable || optional }
    };
    fetch.iter().map(register).collect()
}

impl Pipeline {
    /// Arrow schema of the registers after stage `step` (0: the source's own).
    pub fn register_schema(&self, step: usize) -> SchemaRef {
        let field = |register: Register| Field::new(register.name, arrow_type(register.data_type), register.nullable);
        Arc::new(Schema::new(registers_at(self, step).into_iter().map(field).collect::<Vec<_>>()))
    }
}

/// References to rows of Arrow batches, one per register row.
#[derive(Default)]
pub(crate) struct OuterRefs {
    pub batches: Vec<Arc<RecordBatch>>,
    pub rows: Vec<(u32, u32)>,
    /// The last batch referred to: consecutive rows mostly come from one.
    last: usize,
}

impl OuterRefs {
    pub(crate) fn push(&mut self, batch: &Arc<RecordBatch>, row: u32) {
        let same = self.batches.get(self.last).is_some_and(|last| Arc::ptr_eq(last, batch));
        if !same {
            self.last = match self.batches.iter().position(|other| Arc::ptr_eq(other, batch)) {
                Some(index) => index,
                None => {
                    self.batches.push(Arc::clone(batch));
                    self.batches.len() - 1
                }
            };
        }
        self.rows.push((self.last as u32, row));
    }

    fn retain(&mut self, keep: &[bool]) {
        let mut decisions = keep.iter();
        self.rows.retain(|_| *decisions.next().expect("a decision for every row"));
    }
}

/// Rows being gathered for the next stage, or for the output.
pub(crate) struct RegisterBatch {
    pub columns: Vec<ColumnBuffer>,
    pub outer: Option<OuterRefs>,
    pub rows: usize,
}

impl RegisterBatch {
    pub(crate) fn new(registers: &[Register], outer: bool) -> Self {
        Self {
            columns: registers.iter().map(|register| ColumnBuffer::new(register.data_type)).collect(),
            outer: outer.then(OuterRefs::default),
            rows: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of memory the rows take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(ColumnBuffer::memory_bytes).sum();
        columns + self.outer.as_ref().map_or(0, |outer| outer.rows.len() * 8)
    }

    /// Whether another row should go into another batch.
    pub(crate) fn is_full(&self, rows_max: usize) -> bool {
        self.rows >= rows_max || self.columns.iter().map(ColumnBuffer::content_bytes).sum::<usize>() > CONTENT_BYTES_MAX
    }

    /// Empties the batch; its memory is kept.
    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(ColumnBuffer::clear);
        if let Some(outer) = &mut self.outer {
            *outer = OuterRefs::default();
        }
        self.rows = 0;
    }

    /// Drops the rows that `filter` does not select.
    pub(crate) fn apply(&mut self, filter: &dyn BatchFilter, schema: &SchemaRef) -> Result<(), ExecError> {
        let arrays: Result<Vec<ArrayRef>, String> = self.columns.iter().map(ColumnBuffer::to_array).collect();
        let batch = record_batch(schema, arrays.map_err(ExecError::Internal)?, self.rows)?;
        let selected = filter.select(&batch).map_err(ExecError::Filter)?;
        if selected.len() != self.rows {
            return Err(ExecError::Internal(format!("filter decided {} of {} rows", selected.len(), self.rows)));
        }
        let keep: Vec<bool> = selected.iter().map(|decision| decision == Some(true)).collect();
        self.columns.iter_mut().for_each(|column| column.retain(&keep));
        if let Some(outer) = &mut self.outer {
            outer.retain(&keep);
        }
        self.rows = keep.iter().filter(|keep| **keep).count();
        Ok(())
    }

    /// Cuts the batch to its first `rows` rows.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows < self.rows {
            let keep: Vec<bool> = (0..self.rows).map(|row| row < rows).collect();
            self.columns.iter_mut().for_each(|column| column.retain(&keep));
            if let Some(outer) = &mut self.outer {
                outer.retain(&keep);
            }
            self.rows = rows;
        }
    }

    /// Moves the rows out as Arrow arrays; the batch is empty afterwards.
    pub(crate) fn take_output(&mut self, schema: &SchemaRef) -> Result<OutputBatch, ExecError> {
        let arrays: Result<Vec<ArrayRef>, String> = self.columns.iter_mut().map(ColumnBuffer::take_array).collect();
        let registers = record_batch(schema, arrays.map_err(ExecError::Internal)?, self.rows)?;
        let outer = self.outer.as_mut().map(|outer| {
            let taken = std::mem::take(outer);
            let batches = taken.batches.iter().map(|batch| RecordBatch::clone(batch)).collect();
            OuterRows { batches, indices: taken.rows }
        });
        self.rows = 0;
        Ok(OutputBatch { registers, outer })
    }
}

/// Rows that left a pipeline.
#[derive(Debug)]
pub struct OutputBatch {
    /// The registers after the last stage.
    pub registers: RecordBatch,
    /// With a `Rows` source: the outer row of each row of `registers`.
    pub outer: Option<OuterRows>,
}

/// Rows of outer batches, in the form that Arrow's `interleave` takes.
#[derive(Debug)]
pub struct OuterRows {
    pub batches: Vec<RecordBatch>,
    /// (batch, row), one per output row.
    pub indices: Vec<(u32, u32)>,
}

fn record_batch(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ExecError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        .map_err(|error| ExecError::Internal(error.to_string()))
}
