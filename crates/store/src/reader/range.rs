//! Ranges of keys, in their order: both sides side by side.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use saki_mvcc::{Direction, KeyRange};
use saki_tree::Wanted;

use super::memory::{Entry, Missed};
use super::{BaseReader, Eyes, NewerRows, TableReader};
use saki_catalog::Result;

/// How far a short range is read.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// Rows that are wanted, the first ones in the order of reading.
    pub rows: usize,
    /// Entries that are read on either side at most. A long row counts as one more for each KiB: what is read is kept.
    pub entries: usize,
    pub direction: Direction,
}

/// What a short range comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shortly<T> {
    Rows(T),
    /// It takes more entries than it may.
    Long,
    /// It takes these first, which are not in memory.
    Away(Vec<Wanted>),
}

/// A row on its way out: where it is in the order of reading, and itself.
pub(super) struct Met {
    pub place: Vec<u8>,
    pub entry: Entry,
}

/// How many entries a row counts as.
pub(super) fn weight(row: &[u8]) -> usize {
    1 + row.len() / 1024
}

impl<E: Eyes> TableReader<'_, E> {
    /// The rows of a short range of keys, in the order of reading.
    ///
    /// # Errors
    /// Those of the base's pages.
    pub fn range_cached(
        &self,
        base: &BaseReader<'_>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        short: Short,
    ) -> Result<Shortly<Vec<Entry>>> {
        let mut read = 0;
        let mut rows: Vec<Entry> = Vec::new();
        let is_there = base.range_cached(&self.table.root, bounds, short.is_reverse(), |key, row| {
            read += weight(row);
            if !self.hides(key) {
                rows.push((key.to_vec(), row.to_vec()));
            }
            short.go_on(rows.len(), read)
        })?;
        if !is_there {
            return Ok(Shortly::Away(vec![Wanted::range(&self.table.root, bounds, short.is_reverse())]));
        }
        if read > short.entries {
            return Ok(Shortly::Long);
        }
        let (of_base, mut read) = (rows.len(), 0);
        self.eyes.scan(self.newer, &KeyRange::between(bounds.0, bounds.1), short.direction, |key, body| {
            read += body.map_or(1, weight);
            rows.extend(body.map(|body| (key.to_vec(), body.to_vec())));
            short.go_on(rows.len() - of_base, read)
        });
        if read > short.entries {
            return Ok(Shortly::Long);
        }
        short.order(&mut rows, |(key, _)| key);
        Ok(Shortly::Rows(rows))
    }

    /// Visits the rows of a range of keys in their order until `visit` breaks. Waits for storage.
    ///
    /// # Errors
    /// Those of storage, and those of `visit`.
    pub fn range(
        &self,
        base: &mut BaseReader<'_>,
        range: &KeyRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let (low, high) = range.bounds();
        let mut newer = NewerRows::new(self.eyes, self.newer, (low, high));
        let missed = base.missed();
        let mut older = base.range(&self.table.root, low, high)?;
        let mut of_base = older.next()?;
        loop {
            missed.map_or(Ok(()), Missed::count)?;
            let (of_delta, order) = match (newer.peek(), of_base) {
                (None, None) => return Ok(()),
                (None, Some(_)) => (None, Ordering::Greater),
                (Some(change), None) => (Some(change), Ordering::Less),
                (Some(change), Some((key, _))) => (Some(change), change.0.cmp(key)),
            };
            let row = match order {
                Ordering::Greater => of_base,
                _ => of_delta.and_then(|(key, row)| Some((key, row?))),
            };
            if let Some((key, row)) = row
                && visit(key, row)?.is_break()
            {
                return Ok(());
            }
            if order.is_le() {
                newer.advance();
            }
            if order.is_ge() {
                of_base = older.next()?;
            }
        }
    }
}

impl Short {
    pub(super) fn is_reverse(self) -> bool {
        self.direction == Direction::Reverse
    }

    pub(super) fn go_on(self, rows: usize, read: usize) -> ControlFlow<()> {
        if rows < self.rows && read <= self.entries { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Puts both sides, each in its order, into one, and leaves those rows that are wanted. Places differ.
    pub(super) fn order<T>(self, rows: &mut Vec<T>, place: impl Fn(&T) -> &Vec<u8>) {
        // Two sorted runs: the sort finds them.
        rows.sort_by(|a, b| match self.direction {
            Direction::Forward => place(a).cmp(place(b)),
            Direction::Reverse => place(b).cmp(place(a)),
        });
        rows.truncate(self.rows);
    }
}
