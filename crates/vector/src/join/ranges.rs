//! Joins by ranges: of the build rows whose keys equal a probe row's, those whose value lies within its bounds.
//!
//! ```text
//!   groups by key:   a a a a │ b │ c c c        build rows lie in this order, so that a range is a run of rows
//!   values in each:  1 4 4 9 │ 2 │ 3 8 NULL     ascending; NULLs, which are in no range, last
//! ```
//!
//! A bound is looked up in its group by halving. Without equalities all rows are one group.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryViewArray, UInt32Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use saki_base::CompareOp;

use crate::key_index::code;
use crate::key_index::positions::{Groups, Matches, NOWHERE};
use crate::{Column, Result, VectorError, form};

/// What a build row's value has to do with the bounds of a probe row: `value op bound`, for each of `ops`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeKey {
    /// Logical type of the value and the bounds.
    pub data_type: DataType,
    /// Of [`CompareOp::Less`] and its like, no equality.
    pub ops: Vec<CompareOp>,
}

/// The values of build rows in the order of groups, sorted in each.
#[derive(Debug)]
pub(super) struct Ranges {
    ops: Vec<CompareOp>,
    data_type: DataType,
    values: Values,
    /// By the position at which a group starts: where its values that are not NULL end.
    ends: Vec<u32>,
}

impl Ranges {
    /// Memory that sorting takes for each row, beside what is kept: a value, and the row's number.
    pub const SORTING_BYTES: usize = size_of::<(i128, u32)>() + size_of::<i128>() + 3 * size_of::<u32>();

    /// Of the values of `rows` build rows, batch by batch; `groups`: the rows of each key, if any has several. Also the
    /// order that build rows are to be put in.
    pub fn build(key: &RangeKey, batches: &[Column], rows: usize, groups: Option<&Groups>) -> Result<(Self, Vec<u32>)> {
        if key.ops.iter().any(|op| matches!(op, CompareOp::Equal | CompareOp::NotEqual)) {
            return Err(VectorError::internal("a range is bounded by inequalities"));
        }
        let values = match batches.is_empty() {
            true => Values::none(&key.data_type),
            false => Values::of(&Column::concat(&batches.iter().collect::<Vec<_>>())?, &key.data_type)?,
        };
        let mut order = groups.map_or_else(|| (0..rows as u32).collect(), Groups::to_rows);
        let mut ends = vec![0; order.len()];
        match groups {
            None => {
                ends.iter_mut().zip(0..).for_each(|(end, row)| *end = row + u32::from(!values.is_null(row as usize)))
            }
            Some(groups) => {
                let mut numbers = Vec::new();
                for group in groups.spans() {
                    let start = group.start;
                    ends[start] = (start + values.sort(&mut order[group], &mut numbers)) as u32;
                }
            }
        }
        append_missing(&mut order, rows);
        let values = values.take(&order)?;
        Ok((Self { ops: key.ops.clone(), data_type: key.data_type.clone(), values, ends }, order))
    }

    pub fn bounds_each_row(&self) -> usize {
        self.ops.len()
    }

    /// The values of bounds in the form that [`Ranges::find`] wants.
    pub fn bounds(&self, columns: &[Column]) -> Result<Vec<Values>> {
        if columns.len() != self.ops.len() {
            return Err(VectorError::internal("a range with other bounds than the join has"));
        }
        columns.iter().map(|column| Values::of(column, &self.data_type)).collect()
    }

    /// The build rows within the bounds of probe row `row`, of the group at `position`.
    pub fn find(&self, position: u32, row: usize, bounds: &[Values]) -> Range<u32> {
        if position == NOWHERE || bounds.iter().any(|bound| bound.is_null(row)) {
            return 0..0;
        }
        let mut found = position as usize..self.ends[position as usize] as usize;
        for (op, bound) in self.ops.iter().zip(bounds) {
            // Up to here they are below: values that an upper bound holds for, or a lower one does not.
            let is_upper = matches!(op, CompareOp::Less | CompareOp::LessOrEqual);
            let end = self.values.below(found.clone(), bound, row, |ordering| op.holds(ordering) == is_upper);
            found = if is_upper { found.start..end } else { end..found.end };
        }
        found.start as u32..found.end as u32
    }

    pub fn memory_bytes(&self) -> usize {
        self.values.memory_bytes() + self.ends.capacity() * size_of::<u32>()
    }
}

/// Puts the rows that are in no group, as a key of theirs is NULL, after the others.
fn append_missing(order: &mut Vec<u32>, rows: usize) {
    if order.len() == rows {
        return;
    }
    let mut there = vec![false; rows];
    order.iter().for_each(|row| there[*row as usize] = true);
    order.extend((0..rows as u32).filter(|row| !there[*row as usize]));
}

/// Values in a form whose order is that of SQL: -0 equals 0, NaN is the greatest, text is compared byte by byte.
#[derive(Debug)]
pub(super) enum Values {
    Numbers(Vec<i128>, Option<NullBuffer>),
    Bytes(BinaryViewArray),
}

impl Values {
    fn none(logical: &DataType) -> Self {
        match logical {
            DataType::Utf8 | DataType::Utf8View | DataType::Binary | DataType::BinaryView => {
                Self::Bytes(BinaryViewArray::from_iter_values(std::iter::empty::<&[u8]>()))
            }
            _ => Self::Numbers(Vec::new(), None),
        }
    }

    fn of(column: &Column, logical: &DataType) -> Result<Self> {
        let nulls = column.array().logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let numbers = match logical {
            DataType::Utf8 | DataType::Utf8View => {
                return Ok(Self::Bytes(form::text_views(column)?.as_string_view().clone().to_binary_view()));
            }
            DataType::Binary | DataType::BinaryView => {
                return Ok(Self::Bytes(column.array().as_binary_view().clone()));
            }
            DataType::FixedSizeBinary(16) => {
                let array = column.array().as_fixed_size_binary();
                let number = |row| <[u8; 16]>::try_from(array.value(row)).map_or(0, u128::from_be_bytes);
                (0..array.len()).map(|row| (number(row) ^ 1 << 127) as i128).collect()
            }
            _ => {
                let mut numbers = code::wide_codes(column, logical)?;
                match logical {
                    DataType::Float64 => {
                        numbers.iter_mut().for_each(|number| *number = i128::from(ordered(*number as i64)))
                    }
                    // As in eight bytes, with the sign where that has it.
                    DataType::Float32 => {
                        numbers.iter_mut().for_each(|number| *number = i128::from(ordered((*number as i64) << 32)));
                    }
                    _ => {}
                }
                numbers
            }
        };
        Ok(Self::Numbers(numbers, nulls))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Numbers(_, nulls) => nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)),
            Self::Bytes(bytes) => bytes.is_null(row),
        }
    }

    /// Sorts rows by their values, NULLs last: how many have one. `numbers` is room to work in.
    fn sort(&self, rows: &mut [u32], numbers: &mut Vec<(i128, u32)>) -> usize {
        let valid = move_nulls_last(rows, |row| self.is_null(row as usize));
        let rows = &mut rows[..valid];
        match self {
            Self::Numbers(values, _) => {
                numbers.clear();
                numbers.extend(rows.iter().map(|row| (values[*row as usize], *row)));
                numbers.sort_unstable();
                rows.iter_mut().zip(numbers).for_each(|(row, (_, sorted))| *row = *sorted);
            }
            Self::Bytes(bytes) => rows
                .sort_unstable_by(|a, b| bytes.value(*a as usize).cmp(bytes.value(*b as usize)).then_with(|| a.cmp(b))),
        }
        valid
    }

    /// The values of `rows`; which of them are NULL is no longer asked.
    fn take(self, rows: &[u32]) -> Result<Self> {
        Ok(match self {
            Self::Numbers(values, _) => Self::Numbers(rows.iter().map(|row| values[*row as usize]).collect(), None),
            Self::Bytes(bytes) => {
                let rows = UInt32Array::from_iter_values(rows.iter().copied());
                Self::Bytes(arrow_select::take::take(&bytes, &rows, None)?.as_binary_view().clone())
            }
        })
    }

    /// Where those of the values in `range` end whose order beside a bound `is_below`; they come before all others.
    fn below(
        &self,
        range: Range<usize>,
        bound: &Self,
        row: usize,
        is_below: impl Fn(std::cmp::Ordering) -> bool,
    ) -> usize {
        match (self, bound) {
            (Self::Numbers(values, _), Self::Numbers(bounds, _)) => {
                let bound = bounds[row];
                range.start + values[range].partition_point(|value| is_below(value.cmp(&bound)))
            }
            (Self::Bytes(values), Self::Bytes(bounds)) => {
                let (bound, Range { mut start, mut end }) = (bounds.value(row), range);
                while start < end {
                    let middle = start + (end - start) / 2;
                    if is_below(values.value(middle).cmp(bound)) { start = middle + 1 } else { end = middle }
                }
                start
            }
            // Both are of one logical type.
            _ => range.start,
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Numbers(values, _) => values.capacity() * size_of::<i128>(),
            Self::Bytes(bytes) => bytes.len() * size_of::<u128>() + bytes.total_buffer_bytes_used(),
        }
    }
}

/// Bits of a float, of which zero and NaN have one form each and no sign, as a number that is ordered as floats are.
fn ordered(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Puts the rows that are NULL after the others, which keep their order: how many are not.
fn move_nulls_last(rows: &mut [u32], is_null: impl Fn(u32) -> bool) -> usize {
    if !rows.iter().any(|row| is_null(*row)) {
        return rows.len();
    }
    let nulls: Vec<u32> = rows.iter().copied().filter(|row| is_null(*row)).collect();
    let mut valid = 0;
    for at in 0..rows.len() {
        if !is_null(rows[at]) {
            rows[valid] = rows[at];
            valid += 1;
        }
    }
    rows[valid..].copy_from_slice(&nulls);
    valid
}

/// The partners of the rows of a probe batch, as runs of build rows that become pairs little by little.
#[derive(Debug)]
pub struct Runs {
    /// Of each probe row.
    runs: Vec<Range<u32>>,
    /// The probe row whose run is the next to become pairs.
    next: usize,
}

impl Runs {
    pub(super) fn new(runs: Vec<Range<u32>>) -> Self {
        Self { runs, next: 0 }
    }

    /// Whether each probe row has a partner.
    pub fn found(&self) -> BooleanBuffer {
        BooleanBuffer::collect_bool(self.runs.len(), |row| !self.runs[row].is_empty())
    }

    /// The next pairs, in the order of the probe rows, appended to `matches` until there are `pairs_max`; none of rows
    /// that `skips`. Whether there may be more.
    pub fn pairs(&mut self, pairs_max: usize, skips: impl Fn(usize) -> bool, matches: &mut Matches) -> bool {
        while let Some(run) = self.runs.get_mut(self.next) {
            let room = pairs_max.saturating_sub(matches.build.len());
            if room == 0 {
                return true;
            }
            if !skips(self.next) {
                let end = run.end.min(run.start.saturating_add(u32::try_from(room).unwrap_or(u32::MAX)));
                matches.build.extend(run.start..end);
                matches.probe.resize(matches.build.len(), self.next as u32);
                run.start = end;
                if run.start < run.end {
                    continue;
                }
            }
            self.next += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests;
