//! Merging changes into a table's base: its primary tree, its indexes and its column segments, side by side.
//!
//! ```text
//!   changes ─► chunks ─► primary tree: each leaf visited once, and the old rows taken out of the same visit
//!   (ascending)              │
//!                            ├─ old and new row ─► index: entries sorted, then applied      one thread each
//!                            ├─ old and new row ─► index …
//!                            └─ key and new row ─► segments: touched ones spliced and encoded anew
//! ```
//!
//! All of it goes into the writer's publication: if any of it fails, nothing of it counts. Memory: a few chunks, the
//! sorters' share, and four segments' columns. Whoever adds rows by statement (`append`) comes this way too.

mod chunk;
mod index;
mod pace;
mod primary;
mod rules;
mod segments;
mod thread;
mod unique;

#[cfg(test)]
mod eras;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use saki_columns::SegmentsRoot;
use saki_page::IoShare;
use saki_tree::TreeReader;

use self::chunk::Chunk;
pub use self::chunk::{ChangeSource, KeyChange};
pub(crate) use self::chunk::{Changes, RowChange};
use self::index::IndexMerged;
pub(crate) use self::index::{Entries, IndexMerge};
pub use self::pace::Pace;
pub(crate) use self::pace::Pacer;
use self::primary::{Primary, merge_primary};
pub use self::rules::{OnDuplicate, Rules};
use self::segments::{SegmentMerge, SegmentsMerged};
use self::thread::{Totals, joined};
pub use self::unique::{duplicate, not_unique, unique_prefix};
use crate::database::Database;
use crate::writer::{Trees, Writer};
use saki_catalog::{Result, Table};

/// Chunks that wait before each thread.
const QUEUE: usize = 1;
/// Up to so many changes one thread does the work: starting others would take longer.
const CHANGES_FEW: usize = 2_000;

/// What a merge did.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MergeReport {
    /// Changes.
    pub rows: u64,
    /// Keys that were not there.
    pub inserted: u64,
    /// Rows that are others now. One that stays as it was counts nowhere.
    pub updated: u64,
    pub deleted: u64,
    /// Pages whose content others hold now, and runs that were decoded: read, if they were not in memory.
    pub pages_read: u64,
    pub pages_written: u64,
    /// Of the pages written.
    pub bytes_written: u64,
    pub duration: Duration,
}

impl Database {
    /// Merges changes into a table, in one publication: all or nothing. Waits, and uses threads of its own.
    pub fn merge(&self, table: &str, changes: &mut dyn ChangeSource, pace: &Pace) -> Result<MergeReport> {
        self.write(|writer| merge(writer, table, changes, pace))
    }
}

/// Moves changes that have been decided into the base of a table of the writer's catalog.
///
/// Uniqueness is not checked: whoever made the changes has done so. The hidden row id is the caller's to count on.
///
/// # Errors
/// Of the source, of storage, and of rows that are not of the table. The publication is to be dropped then.
pub fn merge(writer: &mut Writer<'_>, table: &str, changes: &mut dyn ChangeSource, pace: &Pace) -> Result<MergeReport> {
    merge_by(writer, table, changes, pace, Rules { on_duplicate: OnDuplicate::Replace, check_unique: false })
}

/// [`merge`] by other rules.
pub fn merge_by(
    writer: &mut Writer<'_>,
    name: &str,
    changes: &mut dyn ChangeSource,
    pace: &Pace,
    rules: Rules,
) -> Result<MergeReport> {
    let began = Instant::now();
    let table = Arc::clone(writer.catalog.table(name)?);
    let job = Job { table: &table, rules, pace: *pace, share: IoShare::new(pace.reads_in_flight_max) };
    let mut first = Changes::default();
    while first.len() < CHANGES_FEW
        && let Some(change) = changes.next()?
    {
        first.push(change);
    }
    let merged = if first.len() < CHANGES_FEW {
        let (trees, reader) = writer.parts();
        job.alone(trees, reader, first)?
    } else {
        job.side_by_side(writer.trees(), first, changes)?
    };
    let mut table = Table::clone(&table);
    let mut totals = merged.primary.totals;
    let mut add = |other: Totals| {
        totals.pages_read += other.pages_read;
        totals.pages_written += other.pages_written;
    };
    table.root = merged.primary.root;
    for (index, merged) in table.indexes.iter_mut().zip(merged.indexes) {
        index.root = merged.root;
        add(merged.totals);
    }
    if let Some((root, totals)) = merged.segments {
        table.segments = Some(root);
        add(totals);
    }
    if let Some(statistics) = &mut table.statistics {
        statistics.rows = table.root.entries;
    }
    writer.catalog.put(table);
    let Totals { rows, inserted, updated, deleted, pages_read, pages_written } = totals;
    let bytes_written = pages_written * writer.db.page_size().bytes() as u64;
    let duration = began.elapsed();
    Ok(MergeReport { rows, inserted, updated, deleted, pages_read, pages_written, bytes_written, duration })
}

/// What all threads of a merge know.
struct Job<'t> {
    table: &'t Table,
    rules: Rules,
    pace: Pace,
    share: Arc<IoShare>,
}

/// All parts of a table after their changes.
struct Merged {
    primary: Primary,
    indexes: Vec<IndexMerged>,
    segments: Option<(SegmentsRoot, Totals)>,
}

impl Job<'_> {
    fn pacer(&self) -> Pacer {
        Pacer::new(self.pace, &self.share)
    }

    fn index<'m>(&'m self, trees: Trees<'m>, index: usize) -> IndexMerge<'m> {
        // The other half is whoever makes the changes'.
        let memory_bytes = trees.db.options.load_memory_bytes / 2 / self.table.indexes.len().max(1);
        IndexMerge { trees, table: self.table, index, rules: self.rules, memory_bytes }
    }

    /// One part after the other, on the calling thread.
    fn alone(&self, trees: Trees<'_>, reader: &mut TreeReader, changes: Changes) -> Result<Merged> {
        let pacer = self.pacer();
        let mut chunks = Vec::new();
        let primary = merge_primary(trees, self.table, self.rules, &pacer, reader, [changes], &mut |chunk| {
            chunks.push(chunk);
            true
        })?;
        let indexes = (0..self.table.indexes.len())
            .map(|index| self.index(trees, index).run(&pacer, reader, chunks.iter().cloned()))
            .collect::<Result<_>>()?;
        let segments = match &self.table.segments {
            Some(root) => Some(SegmentMerge::begin(trees, self.table, root, reader, &pacer)?.run(chunks)?),
            None => None,
        };
        let segments = self.finish_segments(trees, &primary, segments)?;
        Ok(Merged { primary, indexes, segments })
    }

    /// Every part on a thread of its own; the source is read on the calling one.
    fn side_by_side(&self, trees: Trees<'_>, first: Changes, changes: &mut dyn ChangeSource) -> Result<Merged> {
        scope(|scope| {
            let mut outputs: Vec<SyncSender<Arc<Chunk>>> = Vec::new();
            let mut output = || {
                let (sender, receiver) = sync_channel(QUEUE);
                outputs.push(sender);
                receiver
            };
            let indexes: Vec<_> = (0..self.table.indexes.len())
                .map(|index| {
                    let input = output();
                    scope.spawn(move || {
                        let (pacer, mut reader) = self.settle_in(trees)?;
                        self.index(trees, index).run(&pacer, &mut reader, input)
                    })
                })
                .collect();
            let segments = self.table.segments.as_ref().map(|root| {
                let input: Receiver<Arc<Chunk>> = output();
                scope.spawn(move || {
                    let (pacer, mut reader) = self.settle_in(trees)?;
                    let merge = SegmentMerge::begin(trees, self.table, root, &mut reader, &pacer)?;
                    if self.pace.has_threads_to_spare() { merge.run_side_by_side(input) } else { merge.run(input) }
                })
            });
            let (sender, input) = sync_channel(QUEUE);
            let primary = scope.spawn(move || {
                let (pacer, mut reader) = self.settle_in(trees)?;
                // Whoever has gone has failed, and says why.
                let mut pass = |chunk: Arc<Chunk>| outputs.iter().all(|output| output.send(Arc::clone(&chunk)).is_ok());
                merge_primary(trees, self.table, self.rules, &pacer, &mut reader, input, &mut pass)
            });
            let fed = feed(first, changes, &sender);
            drop(sender);
            // Every thread is joined before any error is reported, so none is left behind.
            let primary = joined(primary);
            let indexes: Vec<Result<IndexMerged>> = indexes.into_iter().map(joined).collect();
            let segments = segments.map(joined).transpose();
            let primary = primary?;
            let indexes = indexes.into_iter().collect::<Result<_>>()?;
            let segments = segments?;
            fed?;
            let segments = self.finish_segments(trees, &primary, segments)?;
            Ok(Merged { primary, indexes, segments })
        })
    }

    /// Writes the directory of segments, once there is a primary tree for them to agree with.
    fn finish_segments(
        &self,
        trees: Trees<'_>,
        primary: &Primary,
        merged: Option<SegmentsMerged<'_>>,
    ) -> Result<Option<(SegmentsRoot, Totals)>> {
        let Some(merged) = merged else { return Ok(None) };
        let mut table = Table::clone(self.table);
        table.root = primary.root;
        merged.finish(trees, &table).map(Some)
    }

    fn settle_in(&self, trees: Trees<'_>) -> Result<(Pacer, TreeReader)> {
        let pacer = self.pacer();
        pacer.settle_in();
        let reader = TreeReader::background(&trees.db.cache, &trees.db.store, &self.share)?;
        Ok((pacer, reader))
    }
}

/// Cuts changes into chunks. Stops quietly when nobody takes them: the thread that has gone says why.
fn feed(first: Changes, changes: &mut dyn ChangeSource, output: &SyncSender<Changes>) -> Result<()> {
    let mut chunk = first;
    while let Some(change) = changes.next()? {
        if chunk.is_full() && output.send(std::mem::take(&mut chunk)).is_err() {
            return Ok(());
        }
        chunk.push(change);
    }
    // Nobody there: as above.
    let _ = output.send(chunk);
    Ok(())
}
