//! What a merge makes of a table's segments, in order, cut into new ones: the last step of two, which may be a thread's
//! of its own.

use saki_columns::{Segment, SegmentBuilder, SegmentsRoot};
use saki_vector::{Batch, Column};

use super::splice::key_of;
use crate::segments::builder_of;
use crate::writer::Trees;
use saki_catalog::{Result, SqlError, Table};

/// What follows in a table's new segments.
pub enum Piece {
    /// Rows that have yet to be cut into segments; none at all are nothing.
    Rows(Batch),
    /// A segment as it is.
    Kept(Segment),
    /// A segment, but for other values in some of its columns.
    KeptBut(Segment, Vec<(usize, Column)>),
}

/// Cuts pieces into segments, and encodes and writes those.
pub struct Cutter<'m, 'w> {
    table: &'m Table,
    builder: SegmentBuilder<'w>,
    /// Rows that have yet to be cut.
    held: Vec<Batch>,
    held_rows: usize,
    /// Of a segment.
    rows_max: usize,
}

impl<'m, 'w: 'm> Cutter<'m, 'w> {
    /// `threads`: that encode.
    pub fn new(trees: Trees<'w>, table: &'m Table, before: &SegmentsRoot, threads: usize) -> Self {
        let rows_max = trees.db.options.segment_rows as usize;
        Self { table, builder: builder_of(trees, table, before, threads), held: Vec::new(), held_rows: 0, rows_max }
    }

    /// Takes what follows.
    ///
    /// # Errors
    /// Of encoding and of writing; the build cannot go on.
    pub fn take(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Rows(batch) => self.hold(batch),
            Piece::Kept(segment) => {
                self.cut_evenly()?;
                self.builder.keep(segment).map_err(SqlError::from)
            }
            Piece::KeptBut(segment, columns) => {
                self.cut_evenly()?;
                self.builder.keep_with(segment, &columns).map_err(SqlError::from)
            }
        }
    }

    /// The builder with all pieces in it, written, and ready for another thread.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn finish(mut self) -> Result<SegmentBuilder<'w>> {
        // Rows are added at the table's end most: segments there are full.
        self.cut(self.rows_max, self.held_rows)?;
        self.builder.settle()?;
        Ok(self.builder)
    }

    /// Takes rows that follow those held. Full segments are cut off while what remains can be cut evenly later.
    fn hold(&mut self, batch: Batch) -> Result<()> {
        if batch.rows == 0 {
            return Ok(());
        }
        self.held_rows += batch.rows;
        self.held.push(batch);
        while self.held_rows >= 2 * self.rows_max {
            self.cut(self.rows_max, self.rows_max)?;
        }
        Ok(())
    }

    /// Cuts all rows held into segments of about the same size: none of them small, unless there is just one.
    fn cut_evenly(&mut self) -> Result<()> {
        let count = self.held_rows.div_ceil(self.rows_max).max(1);
        self.cut(self.held_rows.div_ceil(count), self.held_rows)
    }

    /// Makes segments of `each` rows of the first `rows` held.
    fn cut(&mut self, each: usize, mut rows: usize) -> Result<()> {
        self.builder.cut_at(each as u32)?;
        self.held_rows -= rows;
        let mut rest = Vec::new();
        for batch in std::mem::take(&mut self.held) {
            let take = rows.min(batch.rows);
            let taken = batch.slice(0, take);
            let mut key = |row| key_of(self.table, &taken, row);
            self.builder.push(&taken, &mut key)?;
            if take < batch.rows {
                rest.push(batch.slice(take, batch.rows - take));
            }
            rows -= take;
        }
        self.held = rest;
        self.builder.flush().map_err(SqlError::from)
    }
}
