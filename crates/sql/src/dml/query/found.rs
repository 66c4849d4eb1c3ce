//! The rows that a change has found: their columns as they were, in the query that finds them.

use std::collections::HashSet;

use arrow::compute::take_record_batch;
use arrow_array::{RecordBatch, UInt32Array};
use datafusion::sql::sqlparser::ast::SelectItem;

use super::find::{Target, named, table_batch};
use saki_catalog::{ColumnReader, EntryEncoder, ROW_ID, Result, Table};

/// All columns of the target that statements see, and the hidden row id where there is one.
pub fn old_columns(table: &Table, target: &Target) -> Vec<SelectItem> {
    let columns = table.visible().iter().enumerate();
    let mut items: Vec<SelectItem> =
        columns.map(|(place, column)| named(target.column(&column.name), format!("old {place}"))).collect();
    if table.primary_key.is_empty() {
        items.push(named(target.column(ROW_ID), "old id".into()));
    }
    items
}

/// Readers of what [`old_columns`] gave: `before` its columns as the table's, with the hidden ones, `found` all of it.
pub fn old_readers<'b>(
    before: &'b RecordBatch,
    found: &'b RecordBatch,
    table: &Table,
) -> Result<Vec<ColumnReader<'b>>> {
    let mut readers = ColumnReader::of_batch(before, table, 0)?;
    if table.primary_key.is_empty() {
        readers.pop();
        readers.push(ColumnReader::new(found.column(table.width()), &table.row_id_column())?);
    }
    Ok(readers)
}

/// The keys of rows that [`old_columns`] gave.
///
/// # Errors
/// If they are not of the table.
pub fn keys_of(found: &RecordBatch, table: &Table) -> Result<Vec<Vec<u8>>> {
    // Only their keys are looked at.
    let before = table.with_hidden(&table_batch(found, table, 0)?, |_| Ok(None))?;
    let readers: Vec<ColumnReader<'_>> = old_readers(&before, found, table)?;
    let mut encoder = EntryEncoder::new(table.primary_layout());
    let mut scratch = Vec::new();
    let key = |row: usize| {
        encoder.encode_row(&mut scratch, &readers, row)?;
        Ok(encoder.key.clone())
    };
    (0..found.num_rows()).map(key).collect()
}

/// A join may find a row more than once: then one of its partners counts, as in PostgreSQL.
pub fn first_of_each(found: &RecordBatch, table: &Table) -> Result<RecordBatch> {
    let mut seen = HashSet::new();
    let keys = keys_of(found, table)?;
    let rows: Vec<u32> = (0..).zip(keys).filter_map(|(row, key)| seen.insert(key).then_some(row)).collect();
    if rows.len() == found.num_rows() {
        return Ok(found.clone());
    }
    Ok(take_record_batch(found, &UInt32Array::from(rows))?)
}
