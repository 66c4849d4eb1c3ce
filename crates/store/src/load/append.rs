//! Adding rows to a table that has some: sorted by primary key, they are changes, which are merged in one publication.

use std::sync::Arc;

use arrow_array::RecordBatch;
use saki_tree::Sorted;

use crate::merge::{ChangeSource, KeyChange, OnDuplicate, Pace, Rules, duplicate, merge_by};
use crate::writer::Writer;
use saki_catalog::columns::check_batch;
use saki_catalog::entries::describe_key;
use saki_catalog::{ColumnReader, EntryEncoder, EntryLayout, Result, SqlError, Table};

/// Adds `batches` to a table of the writer's catalog. Returns how many rows were added or replaced.
pub fn append(
    writer: &mut Writer<'_>,
    name: &str,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    on_duplicate: OnDuplicate,
) -> Result<u64> {
    let table = Arc::clone(writer.catalog.table(name)?);
    let row_ids = writer.db.of_table.row_ids.of(&table);
    let layout = table.primary_layout();
    let mut encoder = EntryEncoder::new(layout.clone());
    let mut sorter = writer.trees().sorter(writer.db.options.load_memory_bytes / 2);
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        check_batch(&batch, &table, rows + 1)?;
        let readers = ColumnReader::of_batch(&batch, &table, row_ids.take(batch.num_rows()))?;
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            encoder.encode_row(&mut scratch, &readers, row)?;
            sorter.push(&encoder.key, &encoder.row)?;
        }
        rows += batch.num_rows() as u64;
    }
    let sorted = sorter.finish()?;
    let mut added = AddedRows { table: &table, layout, sorted, on_duplicate, key: None, row: Vec::new() };
    let merged = merge_by(writer, name, &mut added, &Pace::full(), Rules { on_duplicate, check_unique: true })?;
    Ok(match on_duplicate {
        OnDuplicate::Refuse | OnDuplicate::Replace => merged.rows,
    })
}

/// A statement's rows as changes: each key once.
struct AddedRows<'t> {
    table: &'t Table,
    layout: EntryLayout,
    sorted: Sorted,
    on_duplicate: OnDuplicate,
    /// The last key, once there is one, and its row.
    key: Option<Vec<u8>>,
    row: Vec<u8>,
}

impl ChangeSource for AddedRows<'_> {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        while let Some((key, row)) = self.sorted.next()? {
            if self.key.as_deref() == Some(key) {
                repeated(self.table, &self.layout, key, self.on_duplicate)?;
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
fn repeated(table: &Table, layout: &EntryLayout, key: &[u8], on_duplicate: OnDuplicate) -> Result<()> {
    match on_duplicate {
        OnDuplicate::Refuse => Err(duplicate(table, layout, key)),
        OnDuplicate::Replace => Err(SqlError::constraint(format!(
            "ON CONFLICT DO UPDATE would change a row twice: {}",
            describe_key(table, layout, key, layout.key_columns.len())
        ))
        .hint("give each key once")),
    }
}
