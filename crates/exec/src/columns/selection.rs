//! Which rows of a segment are left.

use arrow_array::BooleanArray;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use saki_vector::BATCH_ROWS;

/// Rows of one slice: those of a segment that are filtered together.
#[derive(Clone, Debug)]
pub(super) enum Slice {
    All,
    None,
    /// Neither all nor none: the bits, and how many are set.
    Some(BooleanBuffer, usize),
}

impl Slice {
    /// Of the rows for which `bits` is true.
    pub fn of(bits: BooleanBuffer) -> Self {
        match bits.count_set_bits() {
            0 => Self::None,
            count if count == bits.len() => Self::All,
            count => Self::Some(bits, count),
        }
    }

    /// How many of `rows` rows are left.
    pub fn count(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::None => 0,
            Self::Some(_, count) => *count,
        }
    }

    /// The rows left here and there.
    pub fn and(&self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, other) => other,
            (some, Self::All) => some.clone(),
            (Self::Some(bits, _), Self::Some(other, _)) => Self::of(bits & &other),
        }
    }

    /// Of the rows left, in their order, those for which `kept` is true.
    pub fn refine(&self, kept: Self) -> Self {
        match (self, kept) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (some, Self::All) => some.clone(),
            (Self::All, kept) => kept,
            (Self::Some(bits, _), Self::Some(kept, count)) => {
                let mut refined = BooleanBufferBuilder::new(bits.len());
                refined.append_n(bits.len(), false);
                for (position, row) in bits.set_indices().enumerate() {
                    if kept.value(position) {
                        refined.set_bit(row, true);
                    }
                }
                Self::Some(refined.finish(), count)
            }
        }
    }
}

/// Rows of a segment.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    rows: usize,
    /// Of [`BATCH_ROWS`] rows each, the last of fewer.
    slices: Vec<Slice>,
}

/// A part of a selection that makes a batch: rows `start` to `end` of the segment, and which of them.
pub(super) struct Part {
    pub start: usize,
    pub rows: usize,
    /// `None`: all.
    pub kept: Option<BooleanArray>,
}

impl Selection {
    /// Every row.
    pub fn all(rows: usize) -> Self {
        Self { rows, slices: vec![Slice::All; rows.div_ceil(BATCH_ROWS)] }
    }

    /// Rows of the segment.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.slices.iter().all(|slice| matches!(slice, Slice::None))
    }

    pub fn slices(&self) -> usize {
        self.slices.len()
    }

    /// First row of a slice, and its rows.
    pub fn range(&self, slice: usize) -> (usize, usize) {
        let start = slice * BATCH_ROWS;
        (start, BATCH_ROWS.min(self.rows - start))
    }

    pub fn slice(&self, slice: usize) -> &Slice {
        &self.slices[slice]
    }

    pub fn set(&mut self, slice: usize, rows: Slice) {
        self.slices[slice] = rows;
    }

    /// Leaves only rows for which `kept`, of all rows of the segment, is true.
    pub fn and(&mut self, kept: &BooleanBuffer) {
        for index in 0..self.slices.len() {
            let (start, rows) = self.range(index);
            self.slices[index] = self.slices[index].and(Slice::of(kept.slice(start, rows)));
        }
    }

    /// Leaves the rows at `positions`, which ascend, out.
    pub fn leave_out(&mut self, positions: &[u32]) {
        let mut left = positions;
        while let Some(&first) = left.first()
            && (first as usize) < self.rows
        {
            let index = first as usize / BATCH_ROWS;
            let (start, rows) = self.range(index);
            let here = left.partition_point(|position| (*position as usize) < start + rows);
            let mut bits = BooleanBufferBuilder::new(rows);
            bits.append_n(rows, true);
            left[..here].iter().for_each(|position| bits.set_bit(*position as usize - start, false));
            self.slices[index] = self.slices[index].and(Slice::of(bits.finish()));
            left = &left[here..];
        }
    }

    /// The next slices from `*slice` on that make a batch of at least `wanted` rows, if there are so many, and at most
    /// [`BATCH_ROWS`].
    pub fn next_part(&self, slice: &mut usize, wanted: usize) -> Option<Part> {
        while matches!(self.slices.get(*slice)?, Slice::None) {
            *slice += 1;
        }
        let first = *slice;
        let mut count = 0;
        while count < wanted && *slice < self.slices.len() {
            let more = self.slices[*slice].count(self.range(*slice).1);
            if count > 0 && count + more > BATCH_ROWS {
                break;
            }
            count += more;
            *slice += 1;
        }
        let start = self.range(first).0;
        let (last_start, last_rows) = self.range(*slice - 1);
        let rows = last_start + last_rows - start;
        let kept = (count < rows).then(|| BooleanArray::new(self.bits(first..*slice, rows), None));
        Some(Part { start, rows, kept })
    }

    fn bits(&self, slices: std::ops::Range<usize>, rows: usize) -> BooleanBuffer {
        if let (1, Slice::Some(bits, _)) = (slices.len(), &self.slices[slices.start]) {
            return bits.clone();
        }
        let mut builder = BooleanBufferBuilder::new(rows);
        for slice in slices {
            match &self.slices[slice] {
                Slice::All => builder.append_n(self.range(slice).1, true),
                Slice::None => builder.append_n(self.range(slice).1, false),
                Slice::Some(bits, _) => builder.append_buffer(bits),
            }
        }
        builder.finish()
    }
}
