//! Adding rows to a table that has some: sorted by primary key, they are changes, which are merged in one publication.

use arrow_array::RecordBatch;
use saki_tree::Sorted;

use crate::catalog::{EntryLayout, Table};
use crate::columns::{ColumnReader, check_batch};
use crate::database::volume_error;
use crate::entries::{EntryEncoder, describe_key};
use crate::error::{Result, SqlError};
use crate::load::duplicate;
use crate::merge::{ChangeSource, KeyChange, Pace, Rules, merge_by};
use crate::statement::insert::OnConflict;
use crate::writer::Writer;

/// Adds `batches` to a table of the writer's catalog. Returns how many rows were added or replaced.
pub fn append(
    writer: &mut Writer<'_>,
    name: &str,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    on_conflict: OnConflict,
) -> Result<u64> {
    let mut table = Table::clone(writer.catalog.table(name)?);
    let layout = table.primary_layout();
    let mut encoder = EntryEncoder::new(layout.clone());
    let mut sorter = writer.trees().sorter(writer.db.options.load_memory_bytes / 2);
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        check_batch(&batch, &table, rows + 1)?;
        let readers = ColumnReader::of_batch(&batch, &table, table.next_row_id)?;
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            encoder.encode_row(&mut scratch, &readers, row)?;
            sorter.push(&encoder.key, &encoder.row).map_err(volume_error)?;
        }
        rows += batch.num_rows() as u64;
        table.next_row_id += batch.num_rows() as i64;
    }
    let sorted = sorter.finish().map_err(volume_error)?;
    writer.catalog.put(table.clone());
    let mut added = AddedRows { table: &table, layout, sorted, on_conflict, key: None, row: Vec::new() };
    let merged = merge_by(writer, name, &mut added, &Pace::full(), Rules { on_conflict, check_unique: true })?;
    Ok(match on_conflict {
        OnConflict::Refuse | OnConflict::Replace => merged.rows,
    })
}

/// A statement's rows as changes: each key once.
struct AddedRows<'t> {
    table: &'t Table,
    layout: EntryLayout,
    sorted: Sorted,
    on_conflict: OnConflict,
    /// The last key, once there is one, and its row.
    key: Option<Vec<u8>>,
    row: Vec<u8>,
}

impl ChangeSource for AddedRows<'_> {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        while let Some((key, row)) = self.sorted.next().map_err(volume_error)? {
            if self.key.as_deref() == Some(key) {
                repeated(self.table, &self.layout, key, self.on_conflict)?;
                continue;
            }
            let last = self.key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            self.row.clear();
            self.row.extend_from_slice(row);
            return Ok(Some((last, Some(&self.row))));
        }
        Ok(None)
    }
}

/// A key that comes again: which rows may.
fn repeated(table: &Table, layout: &EntryLayout, key: &[u8], on_conflict: OnConflict) -> Result<()> {
    match on_conflict {
        OnConflict::Refuse => Err(duplicate(table, layout, key)),
        OnConflict::Replace => Err(SqlError::constraint(format!(
            "ON CONFLICT DO UPDATE would change a row twice: {}",
            describe_key(table, layout, key, layout.key_columns.len())
        ))
        .hint("give each key once")),
    }
}
