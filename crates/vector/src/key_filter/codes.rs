//! Filters on integers, dates, decimals, floats and booleans, by their codes.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use hashbrown::HashSet;

use super::bitmap::Bitmap;
use super::bits;
use super::bloom::{self, Bloom};
use crate::key_index::Index;
use crate::key_index::code::{self, Code, Visitor};
use crate::key_index::positions::NOWHERE;
use crate::{Bounds, Column, Result};

/// A bitmap may have so many bits whatever it holds (2 MiB), …
const SMALL_BITMAP: u64 = 16 << 20;

/// … or so many for each row.
const BITMAP_BITS_PER_ROW: u64 = 64;

/// Values that are listed at most.
const MAX_LISTED: usize = 64 << 10;

/// In a range of so many codes each one is looked up.
const NARROW_RANGE: u64 = 16;

#[derive(Debug)]
pub(super) struct CodeFilter {
    bounds: Bounds,
    /// Codes are ordered as the values are.
    ordered: bool,
    set: Set,
}

#[derive(Debug)]
enum Set {
    Bitmap { bitmap: Bitmap, distinct: usize },
    Listed { sorted: Vec<i64>, index: Index },
    Bloom(Bloom),
}

impl CodeFilter {
    /// `None`: the columns have no value. Arrays are [`code::codable`]'s.
    pub fn of(arrays: &[ArrayRef]) -> Result<Option<Self>> {
        let Some(first) = arrays.first() else { return Ok(None) };
        let mut bounds: Option<Bounds> = None;
        for array in arrays {
            if let Some(new) = code::code_bounds(array.as_ref())? {
                let old = bounds.unwrap_or(new);
                bounds = Some(Bounds { min: old.min.min(new.min), max: old.max.max(new.max) });
            }
        }
        let Some(bounds) = bounds else { return Ok(None) };
        let rows: usize = arrays.iter().map(|array| array.len() - array.null_count()).sum();
        let limit = SMALL_BITMAP.max(rows as u64 * BITMAP_BITS_PER_ROW);
        let set = match Bitmap::bits(bounds).filter(|bits| *bits <= limit) {
            Some(bits) => {
                let mut bitmap = Bitmap::new(bounds, bits);
                insert(arrays, |code| bitmap.insert(code))?;
                let distinct = bitmap.len();
                Set::Bitmap { bitmap, distinct }
            }
            None => match list(arrays)? {
                Some(sorted) => {
                    let column = Column::new(Arc::new(Int64Array::from(sorted.clone())));
                    let types = [column.array().data_type().clone()];
                    let index = Index::build(&types, &[(vec![column], sorted.len())], Some(&[Some(bounds)]), false, 1)?;
                    Set::Listed { sorted, index }
                }
                None => {
                    let mut filter = Bloom::new(rows);
                    insert(arrays, |code| filter.insert(bloom::hash(code)))?;
                    Set::Bloom(filter)
                }
            },
        };
        Ok(Some(Self { bounds, ordered: code::codes_are_ordered(first.data_type()), set }))
    }

    pub fn is_exact(&self) -> bool {
        !matches!(self.set, Set::Bloom(_))
    }

    pub fn bounds(&self) -> Option<Bounds> {
        self.ordered.then_some(self.bounds)
    }

    pub fn values(&self, limit: usize) -> Option<Vec<i64>> {
        match &self.set {
            _ if !self.ordered || self.distinct() > limit => None,
            Set::Bitmap { bitmap, .. } => Some(bitmap.codes().collect()),
            Set::Listed { sorted, .. } => Some(sorted.clone()),
            Set::Bloom(_) => None,
        }
    }

    pub fn distinct(&self) -> usize {
        match &self.set {
            Set::Bitmap { distinct, .. } => *distinct,
            Set::Listed { sorted, .. } => sorted.len(),
            Set::Bloom(filter) => filter.len(),
        }
    }

    pub fn may_contain_range(&self, min: i64, max: i64) -> bool {
        if !self.ordered {
            return true;
        }
        let (min, max) = (min.max(self.bounds.min), max.min(self.bounds.max));
        if min > max {
            return false;
        }
        match &self.set {
            Set::Bitmap { bitmap, .. } => bitmap.intersects(min, max),
            Set::Listed { sorted, .. } => {
                sorted.get(sorted.partition_point(|value| *value < min)).is_some_and(|value| *value <= max)
            }
            Set::Bloom(filter) => {
                (max.wrapping_sub(min) as u64) >= NARROW_RANGE
                    || (min..=max).any(|code| filter.contains(bloom::hash(code)))
            }
        }
    }

    pub fn select(&self, column: &Column) -> Result<BooleanBuffer> {
        struct InBitmap<'a>(&'a Bitmap);
        impl Visitor for InBitmap<'_> {
            type Output = BooleanBuffer;
            fn visit<T: Code>(self, values: &[T]) -> BooleanBuffer {
                bits::of_each(values, |value| self.0.contains(value))
            }
        }
        struct InBloom<'a>(&'a Bloom);
        impl Visitor for InBloom<'_> {
            type Output = BooleanBuffer;
            fn visit<T: Code>(self, values: &[T]) -> BooleanBuffer {
                bits::of_each(values, |value| self.0.contains(bloom::hash(value.code())))
            }
        }
        if column.known_bounds().is_some_and(|known| known.max < self.bounds.min || known.min > self.bounds.max) {
            return Ok(BooleanBuffer::new_unset(column.len()));
        }
        // Out of bounds, unless all of `i64` is within: then a decimal that does not fit may pass.
        let outside = if self.bounds.min > i64::MIN { i64::MIN } else { i64::MAX };
        let array = code::codable_or(column.array(), outside);
        let found = match &self.set {
            Set::Bitmap { bitmap, .. } => code::visit(array.as_ref(), 0, array.len(), InBitmap(bitmap))?,
            Set::Bloom(filter) => code::visit(array.as_ref(), 0, array.len(), InBloom(filter))?,
            Set::Listed { index, .. } => {
                let mut found = BooleanBufferBuilder::new(array.len());
                let column = Column::new(Arc::clone(&array));
                index.find(&[column], array.len(), |_, positions| {
                    found.append_buffer(&bits::of_each(positions, |position| position != NOWHERE));
                })?;
                found.finish()
            }
        };
        Ok(without_nulls(found, array.nulls()))
    }
}

/// The bits of values that are not NULL.
pub(super) fn without_nulls(bits: BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanBuffer {
    match nulls {
        Some(nulls) => &bits & nulls.inner(),
        None => bits,
    }
}

/// Shows `each` the codes of values that are not NULL, until it says stop (`false`).
fn each_code(arrays: &[ArrayRef], mut each: impl FnMut(i64) -> bool) -> Result<()> {
    struct Each<'a, F>(&'a mut F, Option<&'a NullBuffer>);
    impl<F: FnMut(i64) -> bool> Visitor for Each<'_, F> {
        type Output = bool;
        fn visit<T: Code>(self, values: &[T]) -> bool {
            match self.1 {
                None => values.iter().all(|value| (self.0)(value.code())),
                Some(nulls) => nulls.valid_indices().all(|row| (self.0)(values[row].code())),
            }
        }
    }
    for array in arrays {
        let nulls = code::nulls_of(array.as_ref(), 0, array.len());
        if !code::visit(array.as_ref(), 0, array.len(), Each(&mut each, nulls.as_ref()))? {
            break;
        }
    }
    Ok(())
}

fn insert(arrays: &[ArrayRef], mut insert: impl FnMut(i64)) -> Result<()> {
    each_code(arrays, |code| {
        insert(code);
        true
    })
}

/// The distinct codes, ascending, if they are few.
fn list(arrays: &[ArrayRef]) -> Result<Option<Vec<i64>>> {
    let mut codes = HashSet::new();
    each_code(arrays, |code| {
        codes.insert(code);
        codes.len() <= MAX_LISTED
    })?;
    if codes.len() > MAX_LISTED {
        return Ok(None);
    }
    let mut sorted: Vec<i64> = codes.into_iter().collect();
    sorted.sort_unstable();
    Ok(Some(sorted))
}

/// The arrays of columns in a form that has codes; `None`: not all of them have.
pub(super) fn codable(columns: &[&Column]) -> Option<Vec<ArrayRef>> {
    let codable =
        |column: &&Column| code::has_codes(column.array().data_type()).then(|| code::codable(column.array())).flatten();
    columns.iter().map(codable).collect()
}
