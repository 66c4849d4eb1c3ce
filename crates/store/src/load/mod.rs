//! Filling an empty table at device speed: one thread per tree, each fed with every batch.
//!
//! ```text
//!             ┌► primary: encode ─► in key order? ─► BulkLoader
//!             │                       └ no: Sorter, merged with what came in order
//!  batches ───┼► index 1: encode ─► Sorter ─► BulkLoader
//!             ├► index …
//!             ├► segments: a batch as columns ─► SegmentBuilder
//!             │              └ not in key order: thrown away, built from the primary tree
//!             └► statistics
//! ```
//!
//! Memory is bounded: few batches wait before each thread, the sorters share one budget, and one segment's columns are
//! gathered.

mod append;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use arrow_array::RecordBatch;
use saki_columns::{SegmentBuilder, SegmentsRoot};
use saki_tree::{BulkLoader, Sorter, TreeError, TreeRoot};

pub use self::append::append;
use crate::delta::RowIds;
pub use crate::merge::{duplicate, not_unique, unique_prefix};
use crate::segments;
use crate::segments::NativeBatches;
use crate::writer::{Trees, Writer, finish_tree};
use saki_catalog::columns::check_batch;
use saki_catalog::entries::has_null;
use saki_catalog::{Collector, ColumnReader, EntryEncoder, EntryLayout, Result, SqlError, Table, TableStatistics};

/// Batches that wait before each thread.
const QUEUE: usize = 4;
/// Rows of a batch at most: larger ones are cut, so that the queues' memory is bounded.
const BATCH_ROWS_MAX: usize = 16 << 10;

/// How far a load has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadProgress {
    /// So many rows have been read.
    Rows(u64),
    /// All rows have been read; the indexes are being sorted and written.
    Finishing,
    /// Rows did not come in the order of the primary key: they are read again, in order, for the column segments.
    Columns,
}

/// A batch, and the hidden row id of its first row where rows have one.
#[derive(Clone)]
struct Piece {
    batch: RecordBatch,
    first_id: i64,
}

/// Loads `batches` into an empty table of the writer's catalog. Returns the number of rows.
pub fn load(
    writer: &mut Writer<'_>,
    name: &str,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<u64> {
    let mut table = Table::clone(writer.catalog.table(name)?);
    let sorters = table.indexes.len() + 1;
    let memory = writer.db.options.load_memory_bytes / sorters;
    let row_ids = writer.db.of_table.row_ids.of(&table);
    let disordered = AtomicBool::new(false);
    let (rows, primary, indexes, segments, statistics) = {
        let (trees, table, disordered) = (writer.trees(), &table, &disordered);
        thread::scope(|scope| {
            let mut queues: Vec<SyncSender<Piece>> = Vec::new();
            let mut queue = || {
                let (sender, receiver) = sync_channel(QUEUE);
                queues.push(sender);
                receiver
            };
            let input = queue();
            let primary = scope.spawn(move || load_primary(trees, table, memory, disordered, &input));
            let indexes: Vec<_> = (0..table.indexes.len())
                .map(|index| {
                    let input = queue();
                    scope.spawn(move || load_index(trees, table, index, memory, &input))
                })
                .collect();
            let segments = table.segments.map(|before| {
                let input = queue();
                scope.spawn(move || load_segments(trees, table, &before, disordered, &input))
            });
            let input = queue();
            let statistics = scope.spawn(move || collect(table, &input));
            let fed = feed(table, batches, &row_ids, &queues, progress);
            drop(queues);
            progress(LoadProgress::Finishing);
            let panicked = |_| SqlError::internal("a loading thread panicked");
            // Every thread is joined before any error is reported, so none is left behind.
            let primary = primary.join().map_err(panicked).flatten();
            let indexes: Vec<Result<TreeRoot>> =
                indexes.into_iter().map(|t| t.join().map_err(panicked).flatten()).collect();
            let segments = segments.map(|thread| thread.join().map_err(panicked).flatten()).transpose();
            let statistics = statistics.join().map_err(panicked).flatten();
            let primary = primary?;
            let indexes = indexes.into_iter().collect::<Result<Vec<_>>>()?;
            Ok::<_, SqlError>((fed?, primary, indexes, segments?.flatten(), statistics?))
        })?
    };
    table.root = primary.root;
    if let Some(before) = table.segments {
        table.segments = Some(match segments {
            Some(builder) if primary.replaced.is_none() => segments::finish(writer.trees(), builder)?,
            other => {
                drop(other);
                progress(LoadProgress::Columns);
                segments::build(writer.trees(), &table, &before)?
            }
        });
    }
    if let Some(unused) = primary.replaced {
        writer.discard_tree(&unused)?;
    }
    for (index, root) in table.indexes.iter_mut().zip(indexes) {
        index.root = root;
    }
    table.statistics = Some(statistics);
    writer.catalog.put(table);
    Ok(rows)
}

/// Hands every batch to every thread. Stops quietly when a thread has gone: its error says why.
fn feed(
    table: &Table,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    row_ids: &RowIds,
    queues: &[SyncSender<Piece>],
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<u64> {
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        check_batch(&batch, table, rows + 1)?;
        let mut start = 0;
        while start < batch.num_rows() {
            let length = BATCH_ROWS_MAX.min(batch.num_rows() - start);
            let piece = Piece { batch: batch.slice(start, length), first_id: row_ids.take(length) };
            for queue in queues {
                if queue.send(piece.clone()).is_err() {
                    return Ok(rows);
                }
            }
            start += length;
            rows += length as u64;
        }
        progress(LoadProgress::Rows(rows));
    }
    Ok(rows)
}

struct Primary {
    root: TreeRoot,
    /// A tree that was begun and is not needed.
    replaced: Option<TreeRoot>,
}

fn load_primary(
    trees: Trees<'_>,
    table: &Table,
    memory: usize,
    disordered: &AtomicBool,
    input: &Receiver<Piece>,
) -> Result<Primary> {
    let mut encoder = EntryEncoder::new(table.primary_layout());
    let mut loader = trees.loader(table.root.id);
    let mut sorter: Option<Sorter> = None;
    for Piece { batch, first_id } in input {
        trees.stop.check()?;
        let readers = ColumnReader::of_batch(&batch, table, first_id)?;
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            encoder.encode_row(&mut scratch, &readers, row)?;
            match &mut sorter {
                Some(sorter) => sorter.push(&encoder.key, &encoder.row)?,
                None => match loader.push(&encoder.key, &encoder.row) {
                    Ok(()) => {}
                    Err(TreeError::OutOfOrder { .. }) => {
                        disordered.store(true, Ordering::Relaxed);
                        let mut rest = trees.sorter(memory);
                        rest.push(&encoder.key, &encoder.row)?;
                        sorter = Some(rest);
                    }
                    Err(TreeError::DuplicateKey { key, .. }) => return Err(duplicate(table, &encoder.layout, &key)),
                    Err(other) => return Err(other.into()),
                },
            }
        }
    }
    let ordered = finish_tree(loader)?;
    match sorter {
        None => Ok(Primary { root: ordered, replaced: None }),
        Some(sorter) => {
            let root = merge(trees, table, &encoder.layout, &ordered, sorter)?;
            Ok(Primary { root, replaced: Some(ordered) })
        }
    }
}

/// One tree of what came in key order and what did not.
fn merge(trees: Trees<'_>, table: &Table, layout: &EntryLayout, ordered: &TreeRoot, rest: Sorter) -> Result<TreeRoot> {
    let mut rest = rest.finish()?;
    let mut reader = trees.db.tree_reader()?;
    let mut ordered = reader.scan(ordered);
    let mut loader = trees.loader(table.root.id);
    let push = |loader: &mut BulkLoader, key: &[u8], row: &[u8]| {
        trees.stop.check()?;
        match loader.push(key, row) {
            Err(TreeError::DuplicateKey { key, .. }) => Err(duplicate(table, layout, &key)),
            other => other.map_err(SqlError::from),
        }
    };
    let mut left = ordered.next()?;
    let mut right = rest.next()?;
    loop {
        match (left, right) {
            (Some((key, row)), Some((other, _))) if key <= other => {
                push(&mut loader, key, row)?;
                left = ordered.next()?;
            }
            (_, Some((key, row))) => {
                push(&mut loader, key, row)?;
                right = rest.next()?;
            }
            (Some((key, row)), None) => {
                push(&mut loader, key, row)?;
                left = ordered.next()?;
            }
            (None, None) => return finish_tree(loader),
        }
    }
}

/// Builds segments as long as rows come in the order of the primary key; none once the primary tree's thread has found
/// that they do not.
fn load_segments<'w>(
    trees: Trees<'w>,
    table: &Table,
    before: &SegmentsRoot,
    disordered: &AtomicBool,
    input: &Receiver<Piece>,
) -> Result<Option<SegmentBuilder<'w>>> {
    // Half of the cores encode: the other trees are built meanwhile.
    let mut builder = Some(segments::builder(trees, table, before, 2));
    let mut native = NativeBatches::new(table);
    for Piece { batch, first_id } in input {
        if disordered.load(Ordering::Relaxed) {
            builder = None;
        }
        if let Some(builder) = &mut builder {
            let columns = native.batch(&batch)?;
            let mut key = |row| native.key(&batch, row, first_id);
            builder.push(&columns, &mut key)?;
        }
    }
    if let Some(builder) = &mut builder {
        builder.settle()?;
    }
    Ok(builder)
}

fn load_index(
    trees: Trees<'_>,
    table: &Table,
    index: usize,
    memory: usize,
    input: &Receiver<Piece>,
) -> Result<TreeRoot> {
    let mut encoder = EntryEncoder::new(table.index_layout(&table.indexes[index]));
    let mut sorter = trees.sorter(memory);
    for Piece { batch, first_id } in input {
        let readers = ColumnReader::of_batch(&batch, table, first_id)?;
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            encoder.encode_row(&mut scratch, &readers, row)?;
            sorter.push(&encoder.key, &encoder.row)?;
        }
    }
    build_index(trees, table, index, sorter)
}

/// Writes an index's tree from its sorted entries, checking uniqueness on the way.
pub fn build_index(trees: Trees<'_>, table: &Table, index: usize, sorter: Sorter) -> Result<TreeRoot> {
    let layout = table.index_layout(&table.indexes[index]);
    let mut loader = trees.loader(table.indexes[index].root.id);
    let mut uniqueness = Uniqueness::new(table, index);
    let mut entries = sorter.finish()?;
    while let Some((key, row)) = entries.next()? {
        trees.stop.check()?;
        uniqueness.check(table, &layout, key)?;
        match loader.push(key, row) {
            Ok(()) => {}
            // The primary key is part of every index key.
            Err(TreeError::DuplicateKey { key, .. }) => {
                return Err(duplicate(table, &layout, &key));
            }
            Err(other) => return Err(other.into()),
        }
    }
    finish_tree(loader)
}

/// Watches ascending keys of a unique index for two that agree in the index columns.
pub(crate) struct Uniqueness {
    index: usize,
    /// Index columns; `None`: nothing to watch.
    width: Option<usize>,
    previous: Vec<u8>,
}

impl Uniqueness {
    pub fn new(table: &Table, index: usize) -> Self {
        let definition = &table.indexes[index];
        Self { index, width: definition.unique.then_some(definition.columns.len()), previous: Vec::new() }
    }

    /// # Errors
    /// 23505 for a key that agrees with the one before.
    pub fn check(&mut self, table: &Table, layout: &EntryLayout, key: &[u8]) -> Result<()> {
        let Some(width) = self.width else { return Ok(()) };
        let prefix = unique_prefix(layout, key, width)?;
        if !self.previous.is_empty() && prefix == self.previous && !has_null(layout, key, width) {
            return Err(not_unique(table, self.index, layout, key));
        }
        self.previous.clear();
        self.previous.extend_from_slice(prefix);
        Ok(())
    }
}

fn collect(table: &Table, input: &Receiver<Piece>) -> Result<TableStatistics> {
    let mut collector = Collector::new(table);
    for Piece { batch, .. } in input {
        let readers = ColumnReader::of_batch(&batch, table, 0)?;
        collector.add(&readers, batch.num_rows());
    }
    Ok(collector.finish())
}
