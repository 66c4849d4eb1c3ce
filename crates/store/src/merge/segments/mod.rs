//! Changed rows into column segments: those they touch are spliced and encoded anew, the others stay.
//!
//! ```text
//!   segments   │ untouched │ touched │ touched │ updates only │ untouched │
//!                  kept      └─ rows flow ──┘     only columns     kept
//!                            together, cut evenly  that differ
//! ```
//!
//! Splicing and cutting (`cut`) are two steps: a merge that may use the whole machine has a thread for each, so that
//! one reads while the other writes. One of few changes, or that is to leave room, takes them in turn.
//!
//! A segment whose rows stay where they are, since rows were only replaced, keeps the runs of all columns in which they
//! agree with what they were. Tables whose key is a hidden row id have no key in their segments: theirs are built from
//! the primary tree ([`Touched`]).

mod cut;
mod read;
mod splice;
#[cfg(test)]
mod tests;
mod touched;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use arrow_array::UInt32Array;
use saki_base::{PageAddress, ValueRef};
use saki_columns::{Segment, SegmentBuilder, SegmentsRoot, read_directory};
use saki_tree::TreeReader;
use saki_vector::{Batch, Column};

use self::cut::{Cutter, Piece};
use self::read::RunReader;
use self::splice::{SegmentKeys, spliced};
use self::touched::Touched;
use super::chunk::{Chunk, RowChange};
use super::pace::Pacer;
use super::thread::{Totals, joined};
use crate::locks::Stop;
use crate::segments::{RowBatch, finish, free_directory};
use crate::writer::Trees;
use saki_catalog::{EntryDecoder, Result, SqlError, Table};

/// Bytes of changed rows of one segment that wait to be spliced, about.
const GATHERED_BYTES_MAX: usize = 32 << 20;
/// Pieces that wait to be cut: one is spliced and one is cut meanwhile.
const PIECES_WAITING: usize = 1;

/// A merge of changes into a table's segments, about to begin.
pub struct SegmentMerge<'m, 'w> {
    trees: Trees<'w>,
    table: &'m Table,
    pacer: &'m Pacer,
    before: SegmentsRoot,
    segments: Vec<Segment>,
    /// Pages of runs of columns that the table has lost: the new segments do without.
    dropped: Vec<PageAddress>,
}

/// Segments with all changes in them, but for the directory.
pub enum SegmentsMerged<'w> {
    Spliced {
        builder: Box<SegmentBuilder<'w>>,
        /// Runs of the old segments that the new ones do not use.
        freed: Vec<PageAddress>,
        before: SegmentsRoot,
        pages_read: u64,
    },
    /// To be built from the primary tree.
    Touched { touched: Touched, before: SegmentsRoot },
}

impl<'m, 'w> SegmentMerge<'m, 'w> {
    /// Reads the directory.
    pub fn begin(
        trees: Trees<'w>,
        table: &'m Table,
        before: &SegmentsRoot,
        reader: &mut TreeReader,
        pacer: &'m Pacer,
    ) -> Result<Self> {
        let mut segments = read_directory(reader, before, &table.segment_columns())?;
        let page_bytes = trees.db.page_size().bytes();
        let dropped = segments.iter_mut().flat_map(|segment| segment.take_dropped(page_bytes)).collect();
        Ok(Self { trees, table, pacer, before: *before, segments, dropped })
    }

    /// Takes all changes, which ascend by key: splices and cuts on the calling thread.
    pub fn run(self, input: impl IntoIterator<Item = Arc<Chunk>>) -> Result<SegmentsMerged<'w>> {
        if self.table.primary_key.is_empty() {
            return Ok(self.touch(input));
        }
        let before = self.before;
        let mut cutter = Cutter::new(self.trees, self.table, &before, self.pacer.threads());
        let spliced = Splicer::new(self, &mut |piece| cutter.take(piece)).run(input)?;
        Ok(spliced.with(cutter.finish()?, before))
    }

    /// As [`run`](Self::run), and cuts on another thread.
    pub fn run_side_by_side(self, input: impl IntoIterator<Item = Arc<Chunk>>) -> Result<SegmentsMerged<'w>> {
        if self.table.primary_key.is_empty() {
            return Ok(self.touch(input));
        }
        let (trees, table, threads, before) = (self.trees, self.table, self.pacer.threads(), self.before);
        thread::scope(|scope| {
            let (sender, pieces) = sync_channel(PIECES_WAITING);
            let cutting = scope.spawn(move || {
                let mut cutter = Cutter::new(trees, table, &before, threads);
                pieces.into_iter().try_for_each(|piece| cutter.take(piece))?;
                cutter.finish()
            });
            let gone = |_| SqlError::internal("the thread that cuts segments has gone");
            let spliced = Splicer::new(self, &mut |piece| sender.send(piece).map_err(gone)).run(input);
            drop(sender);
            // If it has gone, it says why.
            let builder = joined(cutting)?;
            Ok(spliced?.with(builder, before))
        })
    }

    fn touch(self, input: impl IntoIterator<Item = Arc<Chunk>>) -> SegmentsMerged<'w> {
        let mut touched = Touched::none(self.segments, self.dropped);
        for chunk in input {
            chunk.changes().for_each(|change| touched.note(change.key, change.old.is_none()));
        }
        SegmentsMerged::Touched { touched, before: self.before }
    }
}

impl SegmentsMerged<'_> {
    /// Writes the directory; `table` has its new primary tree.
    pub fn finish(self, trees: Trees<'_>, table: &Table) -> Result<(SegmentsRoot, Totals)> {
        match self {
            Self::Touched { touched, before } => touched.rebuild(trees, table, &before),
            Self::Spliced { freed, before, pages_read, builder } if freed.is_empty() && builder.pages() == 0 => {
                drop(builder);
                Ok((before, Totals { pages_read, ..Totals::default() }))
            }
            Self::Spliced { freed, before, pages_read, mut builder } => {
                builder.flush()?;
                let runs = builder.pages();
                let root = finish(trees, *builder)?;
                free_directory(trees, &before)?;
                trees.free(&freed);
                Ok((root, Totals { pages_read, pages_written: runs + root.directory.pages(), ..Totals::default() }))
            }
        }
    }
}

/// Goes through a table's segments as changes come.
struct Splicer<'m, 'p> {
    table: &'m Table,
    stop: &'m Stop,
    pacer: &'m Pacer,
    /// Takes what new segments are made of.
    pass: &'p mut dyn FnMut(Piece) -> Result<()>,
    runs: RunReader<'m>,
    segments: Vec<Segment>,
    /// The segment that changes are gathered for; the first one takes all keys below it too.
    current: usize,
    /// The next one that has changes.
    next: Option<usize>,
    gathered: Vec<(Arc<Chunk>, usize)>,
    gathered_bytes: usize,
    /// The current segment, if part of it has passed on already.
    open: Option<Open<'m>>,
    /// Changes of one segment that wait to be spliced, at most.
    gathered_max: usize,
    freed: Vec<PageAddress>,
    page_bytes: usize,
}

/// What splicing all segments came to.
struct Spliced {
    /// Runs of the old segments that the new ones do not use.
    freed: Vec<PageAddress>,
    pages_read: u64,
}

impl Spliced {
    /// With what was cut of it.
    fn with(self, builder: SegmentBuilder<'_>, before: SegmentsRoot) -> SegmentsMerged<'_> {
        let Self { freed, pages_read } = self;
        SegmentsMerged::Spliced { builder: Box::new(builder), freed, before, pages_read }
    }
}

/// A segment being spliced.
struct Open<'m> {
    keys: SegmentKeys<'m>,
    columns: Vec<Column>,
    /// Rows that have passed on.
    passed: usize,
}

impl<'m, 'p> Splicer<'m, 'p> {
    fn new<'w: 'm>(merge: SegmentMerge<'m, 'w>, pass: &'p mut dyn FnMut(Piece) -> Result<()>) -> Self {
        let SegmentMerge { trees, table, pacer, segments, dropped, .. } = merge;
        Self {
            table,
            stop: trees.stop,
            pacer,
            pass,
            runs: RunReader::new(trees.db, &table.name, table.column_types(), &pacer.share, pacer.threads()),
            segments,
            current: 0,
            next: None,
            gathered: Vec::new(),
            gathered_bytes: 0,
            open: None,
            gathered_max: 2 * trees.db.options.segment_rows as usize,
            freed: dropped,
            page_bytes: trees.db.page_size().bytes(),
        }
    }

    fn run(mut self, input: impl IntoIterator<Item = Arc<Chunk>>) -> Result<Spliced> {
        for chunk in input {
            self.pacer.begin();
            for index in 0..chunk.len() {
                if let Some(change) = chunk.get(index) {
                    self.reach(change.key)?;
                    self.gather(&chunk, index, &change)?;
                }
            }
        }
        while self.current < self.segments.len() || !self.gathered.is_empty() {
            self.complete()?;
        }
        Ok(Spliced { freed: self.freed, pages_read: self.runs.pages_read })
    }

    /// Goes on to the segment that a key belongs to.
    fn reach(&mut self, key: &[u8]) -> Result<()> {
        let is_reached = |next: &Segment| next.first_key.as_slice() <= key;
        if self.segments.get(self.current + 1).is_some_and(is_reached) {
            let next = self.current + 1 + self.segments[self.current + 2..].partition_point(is_reached);
            self.next = Some(next);
            while self.current < next {
                self.complete()?;
            }
            self.next = None;
        }
        Ok(())
    }

    fn gather(&mut self, chunk: &Arc<Chunk>, index: usize, change: &RowChange<'_>) -> Result<()> {
        if self.gathered_bytes >= GATHERED_BYTES_MAX || self.gathered.len() >= self.gathered_max {
            self.splice(false)?;
        }
        self.gathered_bytes += change.key.len() + change.new.map_or(0, <[u8]>::len);
        self.gathered.push((Arc::clone(chunk), index));
        Ok(())
    }

    /// Ends the current segment.
    fn complete(&mut self) -> Result<()> {
        let untouched = self.gathered.is_empty() && self.open.is_none();
        let rows_stay = || {
            self.gathered
                .iter()
                .all(|(chunk, index)| chunk.get(*index).is_some_and(|c| c.old.is_some() && c.new.is_some()))
        };
        if let Some(segment) = self.segments.get(self.current)
            && (untouched || self.open.is_none() && rows_stay())
        {
            let segment = segment.clone();
            self.keep(segment)?;
        } else {
            self.splice(true)?;
            self.open = None;
        }
        self.current += 1;
        self.stop.check()?;
        self.pacer.step();
        Ok(())
    }

    /// Keeps a segment, but for the columns in which gathered rows differ from what they were.
    fn keep(&mut self, segment: Segment) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        let changed = changed_columns(self.table, &gathered)?;
        if changed.is_empty() {
            return (self.pass)(Piece::Kept(segment));
        }
        let rows = segment.rows as usize;
        let key_columns = self.runs.read(&segment, &self.table.primary_key, None)?;
        let (places, _) = SegmentKeys::new(self.table, &key_columns, rows)?.places(0, changes_of(&gathered), true)?;
        let places = UInt32Array::from(places);
        let new = new_rows(self.table, &gathered)?;
        let old = self.runs.read(&segment, &changed, None)?;
        let pairs: Vec<(&Column, &Column)> =
            old.iter().zip(changed.iter().map(|column| &new.columns[*column])).collect();
        let columns = spliced(&pairs, &places, self.pacer.threads())?;
        self.freed.extend(changed.iter().flat_map(|column| segment.columns[*column].pages(self.page_bytes)));
        (self.pass)(Piece::KeptBut(segment, changed.into_iter().zip(columns).collect()))
    }

    /// Passes the current segment's rows on, with the gathered changes made: up to the last change, or `up_to_end`.
    fn splice(&mut self, up_to_end: bool) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        let new = new_rows(self.table, &gathered)?;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open(&new)?,
        };
        let (places, passed) = open.keys.places(open.passed, changes_of(&gathered), up_to_end)?;
        open.passed = passed;
        let rows = places.len();
        let places = UInt32Array::from(places);
        let pairs: Vec<(&Column, &Column)> = open.columns.iter().zip(&new.columns).collect();
        let batch = Batch::new(spliced(&pairs, &places, self.pacer.threads())?, rows);
        self.open = Some(open);
        (self.pass)(Piece::Rows(batch))
    }

    /// Reads the current segment; one without rows, in the form of `like`, where the table has none yet.
    fn open(&mut self, like: &Batch) -> Result<Open<'m>> {
        let Some(segment) = self.segments.get(self.current) else {
            let columns: Vec<Column> = like.columns.iter().map(|column| column.slice(0, 0)).collect();
            return Ok(Open { keys: self.keys(&columns, 0)?, columns, passed: 0 });
        };
        let all: Vec<usize> = (0..self.table.columns.len()).collect();
        let next = self.next.and_then(|next| self.segments.get(next));
        let columns = self.runs.read(segment, &all, next)?;
        self.freed.extend(segment.pages(self.page_bytes));
        Ok(Open { keys: self.keys(&columns, segment.rows as usize)?, columns, passed: 0 })
    }

    fn keys(&self, columns: &[Column], rows: usize) -> Result<SegmentKeys<'m>> {
        let key: Vec<Column> = self.table.primary_key.iter().map(|column| columns[*column].clone()).collect();
        SegmentKeys::new(self.table, &key, rows)
    }
}

fn changes_of(gathered: &[(Arc<Chunk>, usize)]) -> impl Iterator<Item = RowChange<'_>> {
    gathered.iter().filter_map(|(chunk, index)| chunk.get(*index))
}

/// The rows that changes bring, as columns.
fn new_rows(table: &Table, gathered: &[(Arc<Chunk>, usize)]) -> Result<Batch> {
    let mut rows = RowBatch::new(table);
    for change in changes_of(gathered) {
        if let Some(row) = change.new {
            rows.push(change.key, row)?;
        }
    }
    rows.take()
}

/// The columns in which replaced rows differ.
fn changed_columns(table: &Table, gathered: &[(Arc<Chunk>, usize)]) -> Result<Vec<usize>> {
    let mut changed = vec![false; table.columns.len()];
    let (mut old_row, mut new_row) =
        (EntryDecoder::new(table.primary_layout()), EntryDecoder::new(table.primary_layout()));
    for RowChange { key, old, new } in changes_of(gathered) {
        let (Some(old), Some(new)) = (old, new) else {
            return Err(SqlError::internal("a row that came or went, where rows stay"));
        };
        old_row.decode(table, key, old, |old| {
            new_row.decode(table, key, new, |new| {
                changed
                    .iter_mut()
                    .zip(old.iter().zip(new))
                    .for_each(|(changed, (old, new))| *changed |= !is_same(old, new));
            })
        })??;
    }
    Ok((0..changed.len()).filter(|column| changed[*column]).collect())
}

/// Whether a value stays as it is: floats to the bit, since `-0` is shown otherwise than `0`.
fn is_same(old: &ValueRef<'_>, new: &ValueRef<'_>) -> bool {
    match (old, new) {
        (ValueRef::Float4(old), ValueRef::Float4(new)) => old.to_bits() == new.to_bits(),
        (ValueRef::Float8(old), ValueRef::Float8(new)) => old.to_bits() == new.to_bits(),
        _ => old == new,
    }
}
