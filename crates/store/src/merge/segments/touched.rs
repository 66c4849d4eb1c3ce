//! Segments that changed keys have touched, built anew from the primary tree.

use std::ops::{Bound, Range};

use saki_base::PageAddress;
use saki_columns::{Segment, SegmentsRoot};

use super::super::thread::Totals;
use crate::segments::{add_rows, builder, finish, free_directory};
use crate::writer::Trees;
use saki_catalog::{Result, Table};

/// Which segments of a table hold changed keys.
pub struct Touched {
    segments: Vec<Segment>,
    /// Rows added to each; `None`: not touched. A table without segments has one place here, for its first ones.
    added: Vec<Option<u64>>,
    /// Pages that the new segments do without, whichever these are.
    freed: Vec<PageAddress>,
}

impl Touched {
    /// None yet, of a table's present segments. `freed`: pages that go when any of them is touched.
    pub fn none(segments: Vec<Segment>, freed: Vec<PageAddress>) -> Self {
        let added = vec![None; segments.len().max(1)];
        Self { segments, added, freed }
    }

    /// Notes a key that was added, or whose row was replaced or removed. Keys below the first segment's belong to it.
    pub fn note(&mut self, key: &[u8], is_new: bool) {
        let up_to = self.segments.partition_point(|segment| segment.first_key.as_slice() <= key);
        *self.added[up_to.saturating_sub(1)].get_or_insert(0) += u64::from(is_new);
    }

    /// Builds the touched segments anew from the table's new primary tree, and keeps the others.
    pub fn rebuild(mut self, trees: Trees<'_>, table: &Table, before: &SegmentsRoot) -> Result<(SegmentsRoot, Totals)> {
        if self.added.iter().all(Option::is_none) {
            return Ok((*before, Totals::default()));
        }
        let mut builder = builder(trees, table, before, 1);
        let page_bytes = trees.db.page_size().bytes();
        for neighbours in self.neighbours() {
            if self.added[neighbours.start].is_some() {
                builder.cut_at(self.rows_each(&neighbours, trees.db.options.segment_rows))?;
                add_rows(trees, table, self.keys(&neighbours), &mut builder)?;
                let replaced = self.segments.get(neighbours).unwrap_or_default();
                self.freed.extend(replaced.iter().flat_map(|segment| segment.pages(page_bytes)));
            } else {
                let kept = &self.segments[neighbours];
                kept.iter().try_for_each(|segment| builder.keep(segment.clone()))?;
            }
        }
        builder.flush()?;
        let runs = builder.pages();
        let root = finish(trees, builder)?;
        free_directory(trees, before)?;
        trees.free(&self.freed);
        Ok((root, Totals { pages_written: runs + root.directory.pages(), ..Totals::default() }))
    }

    /// Stretches of segments that are all touched or all not.
    fn neighbours(&self) -> Vec<Range<usize>> {
        let mut stretches = Vec::new();
        let mut start = 0;
        for stretch in self.added.chunk_by(|a, b| a.is_some() == b.is_some()) {
            stretches.push(start..start + stretch.len());
            start += stretch.len();
        }
        stretches
    }

    /// The keys that segments cover; the first and the last one reach to the ends.
    fn keys(&self, segments: &Range<usize>) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let first_key = |segment: usize| self.segments.get(segment).map(|segment| segment.first_key.as_slice());
        let low = if segments.start == 0 { None } else { first_key(segments.start) };
        (
            low.map_or(Bound::Unbounded, Bound::Included),
            first_key(segments.end).map_or(Bound::Unbounded, Bound::Excluded),
        )
    }

    /// Rows of each new segment, at most `rows_max`: full ones at the table's end, where rows are added most; elsewhere
    /// even ones, so that no small remainder stays between others.
    fn rows_each(&self, segments: &Range<usize>, rows_max: u32) -> u32 {
        if segments.end >= self.segments.len() {
            return rows_max;
        }
        let old: u64 = self.segments[segments.clone()].iter().map(|segment| u64::from(segment.rows)).sum();
        let rows = old + self.added[segments.clone()].iter().flatten().sum::<u64>();
        let count = rows.div_ceil(rows_max.into()).max(1);
        rows.div_ceil(count) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Bench, Shape};

    #[test]
    fn a_first_key_is_of_the_segment_that_it_begins() {
        let bench = Bench::new(Shape::default());
        bench.load((0..2_800).map(|id| (id, id))).expect("loaded");
        let root = bench.db().generation().segments(&bench.table()).expect("readable").expect("columns are on");
        let segments = &root.segments;
        let touched_by = |key: &[u8]| {
            let mut touched = Touched::none(segments.to_vec(), Vec::new());
            touched.note(key, false);
            touched.added.iter().position(Option::is_some)
        };
        assert_eq!(segments.len(), 4);
        for (number, segment) in segments.iter().enumerate() {
            assert_eq!(touched_by(&segment.first_key), Some(number));
            let before = &segment.first_key[..segment.first_key.len() - 1];
            assert_eq!(touched_by(before), Some(number.saturating_sub(1)));
            assert_eq!(touched_by(&[&segment.first_key[..], &[0]].concat()), Some(number));
        }
    }
}
