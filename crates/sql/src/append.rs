//! Adding rows to a table that has some: changes to the primary tree, to every index and to the column segments, in one publication.
//!
//! Rows are sorted by primary key and worked off in chunks of bounded size. Whether a key is
//! there already is found by the change itself where duplicates are an error, and by lookup
//! where the statement says what to do with them.

use std::ops::Bound;

use arrow_array::RecordBatch;
use saki_base::key::prefix_successor;
use saki_tree::{Change, TreeRoot};

use crate::catalog::{EntryLayout, Table};
use crate::columns::{ColumnReader, check_batch};
use crate::database::{tree_error, volume_error};
use crate::entries::{EntryDecoder, EntryEncoder, has_null};
use crate::error::{Result, SqlError};
use crate::load::{duplicate, not_unique, unique_prefix};
use crate::segments::Touched;
use crate::statement::insert::OnConflict;
use crate::writer::Writer;

/// Bytes of entries worked off at once.
const CHUNK_BYTES: usize = 32 << 20;

type Entry = (Vec<u8>, Vec<u8>);

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
    let segments = table.segments;
    let mut touched = segments.map(|root| Touched::none(writer, &table, &root)).transpose()?;
    let mut entries = sorter.finish().map_err(volume_error)?;
    let mut chunk: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    let mut affected = 0;
    while let Some((key, row)) = entries.next().map_err(volume_error)? {
        if let Some((last, _)) = chunk.last()
            && last == key
        {
            match on_conflict {
                OnConflict::Keep => continue,
                OnConflict::Refuse => return Err(duplicate(&table, &layout, key)),
                OnConflict::Replace => {
                    return Err(SqlError::constraint(format!(
                        "ON CONFLICT DO UPDATE would change a row twice: {}",
                        crate::entries::describe_key(&table, &layout, key, layout.key_columns.len())
                    ))
                    .hint("give each key once"));
                }
            }
        }
        // Cut before a new key, so that equal keys meet in one chunk.
        if bytes > CHUNK_BYTES {
            affected += append_chunk(writer, &mut table, &layout, &chunk, on_conflict, touched.as_mut())?;
            chunk.clear();
            bytes = 0;
        }
        bytes += key.len() + row.len() + size_of::<Entry>();
        chunk.push((key.to_vec(), row.to_vec()));
    }
    affected += append_chunk(writer, &mut table, &layout, &chunk, on_conflict, touched.as_mut())?;
    if let (Some(root), Some(touched)) = (segments, touched) {
        table.segments = Some(touched.rebuild(writer, &table, &root)?);
    }
    writer.catalog.put(table);
    Ok(affected)
}

fn append_chunk(
    writer: &mut Writer<'_>,
    table: &mut Table,
    layout: &EntryLayout,
    chunk: &[Entry],
    on_conflict: OnConflict,
    touched: Option<&mut Touched>,
) -> Result<u64> {
    let before = table.root;
    // Rows that go in, and the old row of each where there is one.
    let mut incoming: Vec<&Entry> = Vec::with_capacity(chunk.len());
    let mut old_rows: Vec<Option<Vec<u8>>> = Vec::with_capacity(chunk.len());
    for entry in chunk {
        let old = match on_conflict {
            OnConflict::Refuse => None,
            _ => writer.reader().get(&before, &entry.0).map_err(tree_error)?,
        };
        if old.is_some() && on_conflict == OnConflict::Keep {
            continue;
        }
        incoming.push(entry);
        old_rows.push(old);
    }
    let changes: Vec<Change<'_>> = incoming.iter().map(|(key, row)| Change { key, value: Some(row) }).collect();
    let applied = writer.apply(&before, &changes)?;
    if applied.replaced > 0 && on_conflict == OnConflict::Refuse {
        for (key, _) in chunk {
            if writer.reader().get(&before, key).map_err(tree_error)?.is_some() {
                return Err(duplicate(table, layout, key));
            }
        }
        return Err(SqlError::internal("a key was replaced that is not in the table"));
    }
    table.root = applied.root;
    if let Some(touched) = touched {
        incoming.iter().zip(&old_rows).for_each(|((key, _), old)| touched.note(key, old.is_none()));
    }
    for index in 0..table.indexes.len() {
        table.indexes[index].root = append_to_index(writer, table, index, layout, &incoming, &old_rows)?;
    }
    Ok(incoming.len() as u64)
}

fn append_to_index(
    writer: &mut Writer<'_>,
    table: &Table,
    index: usize,
    layout: &EntryLayout,
    incoming: &[&Entry],
    old_rows: &[Option<Vec<u8>>],
) -> Result<TreeRoot> {
    let definition = &table.indexes[index];
    let mut encoder = EntryEncoder::new(table.index_layout(definition));
    let mut decoder = EntryDecoder::new(layout.clone());
    // Key, and the new row or none to remove the entry. A later change of a key supersedes an earlier one.
    let mut changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::with_capacity(incoming.len());
    for ((key, row), old) in incoming.iter().zip(old_rows) {
        if let Some(old) = old {
            decoder.decode(table, key, old, |values| encoder.encode(&mut Vec::new(), |column| values[column]))??;
            changes.push((encoder.key.clone(), None));
        }
        decoder.decode(table, key, row, |values| encoder.encode(&mut Vec::new(), |column| values[column]))??;
        changes.push((encoder.key.clone(), Some(encoder.row.clone())));
    }
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    changes.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            // Whatever came last counts; `dedup_by` keeps the earlier of the two.
            std::mem::swap(&mut later.1, &mut earlier.1);
        }
        same
    });
    let changed: Vec<Change<'_>> = changes.iter().map(|(key, value)| Change { key, value: value.as_deref() }).collect();
    let applied = writer.apply(&definition.root, &changed)?;
    if definition.unique {
        check_unique(writer, table, index, &encoder.layout, &applied.root, &changes)?;
    }
    Ok(applied.root)
}

/// Looks at the neighbours of every entry put in: no other may agree in the index columns.
fn check_unique(
    writer: &mut Writer<'_>,
    table: &Table,
    index: usize,
    layout: &EntryLayout,
    root: &TreeRoot,
    changes: &[(Vec<u8>, Option<Vec<u8>>)],
) -> Result<()> {
    let width = table.indexes[index].columns.len();
    for (key, _) in changes.iter().filter(|(_, value)| value.is_some()) {
        if has_null(layout, key, width) {
            continue;
        }
        let low = unique_prefix(layout, key, width)?.to_vec();
        let mut high = low.clone();
        let high = if prefix_successor(&mut high) { Bound::Excluded(high.as_slice()) } else { Bound::Unbounded };
        let mut same = writer.reader().range(root, Bound::Included(&low), high);
        same.next().map_err(tree_error)?;
        if same.next().map_err(tree_error)?.is_some() {
            return Err(not_unique(table, index, layout, key));
        }
    }
    Ok(())
}
