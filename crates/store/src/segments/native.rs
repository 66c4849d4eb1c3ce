//! Batches on their way into a table, as the native columns that segments are made of: the values that the table's
//! trees will give back, not merely those that came.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use saki_base::{Column, DataType};
use saki_columns::ColumnsError;
use saki_vector::{Batch, form};

use saki_catalog::{ColumnReader, EntryEncoder, Result, SqlError, Table};

/// Turns a table's batches into native ones, and their rows into primary keys.
pub struct NativeBatches<'t> {
    table: &'t Table,
    key_columns: Vec<usize>,
    encoder: EntryEncoder,
}

impl<'t> NativeBatches<'t> {
    pub fn new(table: &'t Table) -> Self {
        Self { table, key_columns: table.key_columns(), encoder: EntryEncoder::new(table.primary_layout()) }
    }

    pub fn batch(&self, batch: &RecordBatch) -> Result<Batch> {
        let column = |(position, (array, column)): (usize, (&ArrayRef, &Column))| {
            native(array, column, self.key_columns.contains(&position))
        };
        let columns = batch.columns().iter().zip(&self.table.columns).enumerate().map(column);
        Ok(Batch::new(columns.collect::<Result<_>>()?, batch.num_rows()))
    }

    /// The encoded primary key of a row; `first_id`: the hidden row id of the batch's first one.
    pub fn key(&mut self, batch: &RecordBatch, row: usize, first_id: i64) -> Result<Vec<u8>, ColumnsError> {
        let readers = ColumnReader::of_batch(batch, self.table, first_id);
        let encoded = readers.and_then(|readers| self.encoder.encode_row(&mut Vec::new(), &readers, row));
        // What cannot be encoded fails in the primary tree's thread too, and is reported there.
        encoded.map_err(|error| ColumnsError::Unsupported(error.message))?;
        Ok(self.encoder.key.clone())
    }
}

fn native(array: &ArrayRef, column: &Column, in_key: bool) -> Result<saki_vector::Column> {
    let native = form::from_surface(array).map_err(|error| SqlError::internal(error.to_string()))?;
    let array = native.array();
    Ok(match column.data_type {
        DataType::Decimal { .. } => match form::narrow_decimals(array.as_primitive()) {
            Some(narrow) => saki_vector::Column::new(Arc::new(narrow)),
            None => native,
        },
        DataType::Char(_) => trimmed(array.as_string_view()).map_or(native, saki_vector::Column::new),
        // Keys have one zero and one NaN.
        DataType::Float4 if in_key => {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            saki_vector::Column::new(Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(one)))
        }
        DataType::Float8 if in_key => {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            saki_vector::Column::new(Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one)))
        }
        _ => native,
    })
}

/// Text without trailing blanks, if any has some: rows store `character(n)` without.
fn trimmed(texts: &StringViewArray) -> Option<ArrayRef> {
    texts.iter().flatten().any(|text| text.ends_with(' ')).then(|| {
        let texts = texts.iter().map(|text| text.map(|text| text.trim_end_matches(' ')));
        Arc::new(texts.collect::<StringViewArray>()) as ArrayRef
    })
}
