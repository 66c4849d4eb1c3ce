//! Positions: what an index finds for a key.
//!
//! If no two build rows have one key, a key's position is its row. Otherwise rows lie grouped by key, ascending in each
//! group, the last one of a group flagged, and a key's position is where its group starts.

use std::ops::Range;

use arrow_array::UInt32Array;
use arrow_buffer::{BooleanBuffer, NullBuffer};

/// The position of a key that no build row has.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Flags the last row of a group.
const LAST: u32 = 1 << 31;

/// Build rows at most: their numbers leave room for the flag, and twice as many buckets can be numbered.
pub(crate) const MAX_ROWS: usize = 1 << 30;

/// Build rows grouped by key.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    rows: Vec<u32>,
}

impl Groups {
    pub fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>()
    }

    /// The first row of the group at `position`.
    pub fn first(&self, position: u32) -> u32 {
        self.rows[position as usize] & !LAST
    }

    /// The rows, group by group.
    pub fn to_rows(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row & !LAST).collect()
    }

    /// Where each group lies among the rows.
    pub fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        self.rows.split_inclusive(|row| row & LAST != 0).scan(0, |start, group| {
            let span = *start..*start + group.len();
            *start = span.end;
            Some(span)
        })
    }

    /// Appends the pairs of probe rows `start..` with the groups at `positions`, until there are `pairs_max`; those of
    /// the last row are complete. How many rows' pairs are there.
    pub fn pairs(&self, positions: &[u32], start: u32, outer: bool, pairs_max: usize, matches: &mut Matches) -> usize {
        for (done, (probe, position)) in (start..).zip(positions).enumerate() {
            if matches.build.len() >= pairs_max {
                return done;
            }
            if *position == NOWHERE {
                if outer {
                    matches.build.push(Matches::NO_ROW);
                    matches.probe.push(probe);
                }
                continue;
            }
            for row in &self.rows[*position as usize..] {
                matches.build.push(*row & !LAST);
                matches.probe.push(probe);
                if *row & LAST != 0 {
                    break;
                }
            }
        }
        positions.len()
    }
}

/// Rows being grouped: a share of the keys, and the part of the rows that they will fill.
///
/// First the rows of each key are counted ([`NOWHERE`]: none), then [`Grouping::close`] makes counts the ends of
/// groups, then the rows are placed, the last one first; after that, each position is the start of its group.
pub(crate) struct Grouping<'a> {
    /// Where the part starts among all rows.
    start: u32,
    rows: &'a mut [u32],
}

impl<'a> Grouping<'a> {
    /// Counts one row more.
    #[inline]
    pub fn count(position: &mut u32) {
        *position = if *position == NOWHERE { 1 } else { *position + 1 };
    }

    /// Makes the counts the ends of groups that lie one after the other, in the order of `positions`.
    pub fn close<'p>(start: u32, rows: &'a mut [u32], positions: impl Iterator<Item = &'p mut u32>) -> Self {
        rows.fill(0);
        let mut end = 0;
        for position in positions.filter(|position| **position != NOWHERE) {
            end += *position;
            rows[end as usize - 1] = LAST;
            *position = start + end;
        }
        Self { start, rows }
    }

    /// Puts a row before those of its key that have been placed.
    #[inline]
    pub fn place(&mut self, position: &mut u32, row: u32) {
        *position -= 1;
        self.rows[(*position - self.start) as usize] |= row;
    }
}

impl From<Vec<u32>> for Groups {
    fn from(rows: Vec<u32>) -> Self {
        Self { rows }
    }
}

/// Appends the pairs of probe rows `start..` with the rows at `positions`, of keys that have one row each.
#[inline]
pub(crate) fn unique_pairs(positions: &[u32], start: u32, outer: bool, matches: &mut Matches) {
    if outer {
        matches.build.extend_from_slice(positions);
        matches.probe.extend(start..start + positions.len() as u32);
        return;
    }
    let from = matches.build.len();
    matches.build.resize(from + positions.len(), 0);
    matches.probe.resize(from + positions.len(), 0);
    let (build, probe) = (&mut matches.build[from..], &mut matches.probe[from..]);
    // Without a branch: whether a row has a partner is anyone's guess.
    let mut found = 0;
    for (row, position) in (start..).zip(positions) {
        build[found] = *position;
        probe[found] = row;
        found += usize::from(*position != NOWHERE);
    }
    matches.build.truncate(from + found);
    matches.probe.truncate(from + found);
}

/// Pairs of matching rows. Kept between batches, so that probing allocates nothing.
#[derive(Default, Debug)]
pub struct Matches {
    pub build: Vec<u32>,
    pub probe: Vec<u32>,
}

impl Matches {
    /// In the place of a build row: the probe row has no partner.
    pub const NO_ROW: u32 = NOWHERE;

    pub fn clear(&mut self) {
        self.build.clear();
        self.probe.clear();
    }

    /// The build rows for [`JoinTable::gather`](crate::join::JoinTable::gather), NULL where there is none.
    pub fn build_rows(&self) -> UInt32Array {
        let rows = self.build.clone();
        let nulls = rows
            .contains(&Self::NO_ROW)
            .then(|| NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |row| rows[row] != Self::NO_ROW)));
        UInt32Array::new(rows.into(), nulls)
    }
}
