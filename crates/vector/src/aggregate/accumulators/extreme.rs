//! Least and greatest values.

use std::ops::Range;

use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;

use super::assignment::Assignment;
use super::pairs::Pairs;
use super::seen::Seen;
use crate::aggregate::string_array::string_array;
use crate::aggregate::values::{
    self, Integers, Strings, decimals, float_array, integer_array, ordered, unfit, unordered,
};
use crate::{Column, Result};

#[derive(Clone)]
pub(crate) struct Extreme {
    data_type: DataType,
    /// -1 for the greatest: it is the least with all bits flipped.
    flip: i64,
    best: Best,
    pub(crate) seen: Seen,
}

#[derive(Clone)]
enum Best {
    /// Of integers, and of floats as [`ordered`] ones; flipped.
    Narrow(Vec<i64>),
    /// Of decimals that do not fit; flipped.
    Wide(Vec<i128>),
    Strings {
        strings: Vec<Vec<u8>>,
        bytes: usize,
    },
}

impl Extreme {
    pub(crate) fn new(data_type: &DataType, greatest: bool) -> Self {
        let best = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::FixedSizeBinary(_) => {
                Best::no_strings()
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Best::no_strings(),
            _ => Best::Narrow(Vec::new()),
        };
        Self { data_type: data_type.clone(), flip: -i64::from(greatest), best, seen: Seen::default() }
    }

    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.data_type, self.flip) == (&other.data_type, other.flip)
    }

    pub(crate) fn resize(&mut self, groups: usize) {
        self.seen.resize(groups);
        match &mut self.best {
            Best::Narrow(best) => best.resize(groups, i64::MAX),
            Best::Wide(best) => best.resize(groups, i128::MAX),
            Best::Strings { strings, .. } => strings.resize(groups, Vec::new()),
        }
    }

    /// Takes the rows of a batch that `valid` includes; `known`: groups there were before it.
    pub(crate) fn update(
        &mut self,
        assignment: Assignment<'_>,
        column: &Column,
        valid: Option<&NullBuffer>,
        known: usize,
    ) -> Result<()> {
        let rows = column.len();
        if let Best::Strings { strings, bytes } = &mut self.best {
            let values = Strings::of(column).ok_or_else(|| unfit("other values", &self.data_type))?;
            // An empty string may be a group's least or no value yet.
            self.seen.track(known);
            assignment.for_each(0..rows, |group, row| {
                if valid.is_some_and(|valid| valid.is_null(row)) {
                    return;
                }
                let (value, best) = (values.get(row), &mut strings[group]);
                let better = if self.flip == 0 { value < best.as_slice() } else { value > best.as_slice() };
                if better || !self.seen.has(group) {
                    *bytes = *bytes + value.len() - best.len();
                    best.clear();
                    best.extend_from_slice(value);
                    self.seen.set(group);
                }
            });
            return Ok(());
        }
        if let Some(floats) = values::floats(column) {
            let values = floats.iter().map(|value| ordered(*value));
            self.best.take(assignment, values, valid, self.flip);
        } else if let Some(integers) = Integers::of(column) {
            let values = integers.widen(None, 0);
            self.best.take(assignment, values.iter().copied(), valid, self.flip);
        } else {
            let values = values::wide(column, None, 0)?;
            self.widen(known);
            if let Best::Wide(best) = &mut self.best {
                take(assignment, values, valid, i128::from(self.flip), best);
            }
        }
        self.seen.note(assignment, rows, valid, known);
        Ok(())
    }

    /// Makes room for wide decimals; `known`: groups that may have a value.
    fn widen(&mut self, known: usize) {
        if let Best::Narrow(best) = &self.best {
            let has = |group: usize| group < known && self.seen.has(group);
            let wide = |(group, value): (usize, &i64)| if has(group) { i128::from(*value) } else { i128::MAX };
            self.best = Best::Wide(best.iter().enumerate().map(wide).collect());
        }
    }

    /// Of no group yet, to absorb `others`.
    pub(crate) fn of_others(&self, others: &[&Self]) -> Self {
        let mut empty = Self::new(&self.data_type, self.flip != 0);
        if others.iter().any(|other| matches!(other.best, Best::Wide(_))) {
            empty.best = Best::Wide(Vec::new());
        }
        empty.seen = Seen::of_others(others.iter().map(|other| &other.seen));
        empty
    }

    pub(crate) fn absorb(&mut self, other: &Self, pairs: &Pairs) {
        match (&mut self.best, &other.best) {
            (Best::Strings { strings, bytes }, Best::Strings { strings: more, .. }) => {
                pairs.for_each(|source, target| {
                    let (best, value) = (&mut strings[target], &more[source]);
                    let better = if self.flip == 0 { value < best } else { value > best };
                    if other.seen.has(source) && (better || !self.seen.has(target)) {
                        *bytes = *bytes + value.len() - best.len();
                        best.clone_from(value);
                        self.seen.set(target);
                    }
                })
            }
            (Best::Narrow(best), Best::Narrow(more)) => {
                pairs.for_each(|source, target| best[target] = best[target].min(more[source]));
            }
            (Best::Wide(best), Best::Narrow(more)) => pairs.for_each(|source, target| {
                if other.seen.has(source) {
                    best[target] = best[target].min(i128::from(more[source]));
                }
            }),
            (Best::Wide(best), Best::Wide(more)) => {
                pairs.for_each(|source, target| best[target] = best[target].min(more[source]));
            }
            _ => {}
        }
        self.seen.absorb(&other.seen, pairs);
    }

    pub(crate) fn finish(&self, groups: Range<usize>) -> Result<Column> {
        let nulls = self.seen.nulls(groups.clone());
        match &self.best {
            Best::Narrow(best) => {
                let values = best[groups].iter().map(|value| value ^ self.flip);
                match self.data_type {
                    DataType::Float32 | DataType::Float64 => {
                        Ok(Column::new(float_array(values.map(unordered).collect(), nulls, &self.data_type)?))
                    }
                    _ => Ok(Column::new(integer_array(values.collect(), nulls, &self.data_type)?)),
                }
            }
            Best::Wide(best) => {
                let values = best[groups.clone()].iter().zip(groups);
                let value = |(value, group)| if self.seen.has(group) { value ^ i128::from(self.flip) } else { 0 };
                decimals(values.map(value).collect(), nulls, &self.data_type)
            }
            Best::Strings { strings, .. } => {
                let bytes = Buffer::from_vec(strings[groups.clone()].concat());
                let places = strings[groups].iter().scan(0, |end, string| {
                    *end += string.len();
                    Some(*end - string.len()..*end)
                });
                let places: Vec<_> = places.collect();
                Ok(Column::new(string_array(&bytes, places.into_iter(), nulls, &self.data_type)?))
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let best = match &self.best {
            Best::Narrow(best) => best.capacity() * size_of::<i64>(),
            Best::Wide(best) => best.capacity() * size_of::<i128>(),
            Best::Strings { strings, bytes } => strings.capacity() * size_of::<Vec<u8>>() + bytes,
        };
        best + self.seen.memory_bytes()
    }
}

impl Best {
    fn no_strings() -> Self {
        Self::Strings { strings: Vec::new(), bytes: 0 }
    }

    fn take(
        &mut self,
        assignment: Assignment<'_>,
        values: impl Iterator<Item = i64>,
        valid: Option<&NullBuffer>,
        flip: i64,
    ) {
        match self {
            Self::Narrow(best) => take(assignment, values, valid, flip, best),
            Self::Wide(best) => take(assignment, values.map(i128::from), valid, i128::from(flip), best),
            Self::Strings { .. } => {}
        }
    }
}

/// Keeps the least of each group.
fn take<T>(
    assignment: Assignment<'_>,
    values: impl IntoIterator<Item = T>,
    valid: Option<&NullBuffer>,
    flip: T,
    best: &mut [T],
) where
    T: Copy + Ord + std::ops::BitXor<Output = T>,
{
    let mut keep = |group: usize, value: T| best[group] = best[group].min(value ^ flip);
    match valid {
        None => assignment.for_each(values, keep),
        Some(valid) => assignment.for_each(values.into_iter().zip(valid), |group, (value, valid)| {
            if valid {
                keep(group, value);
            }
        }),
    }
}
