//! A column of a batch: an array in a native form, and what is known of its values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_schema::DataType;
use arrow_select::filter::{FilterBuilder, FilterPredicate};

use crate::Result;

/// Integers lie between `min` and `max`, both included. Of decimals, the unscaled values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub min: i64,
    pub max: i64,
}

impl Bounds {
    /// Bounds of what either bounds.
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// An array in a native form ([`crate::form`]). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Column {
    array: ArrayRef,
    bounds: Option<Bounds>,
}

impl Column {
    pub fn new(array: ArrayRef) -> Self {
        Self { array, bounds: None }
    }

    /// `bounds` must hold for every value that is not NULL, and for what lies in the place of NULLs only if stated by
    /// the array's maker: arithmetic takes NULL places to be anything and ignores them.
    pub fn with_bounds(array: ArrayRef, bounds: Bounds) -> Self {
        Self { array, bounds: Some(bounds) }
    }

    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    pub fn len(&self) -> usize {
        self.array.len()
    }

    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    /// Bounds that came with the column.
    pub fn known_bounds(&self) -> Option<Bounds> {
        self.bounds
    }

    /// Bounds that came with the column, or those of its values if they are integers of up to 8 bytes; `None` for other
    /// types. A column without a value has bounds 0 to 0.
    pub fn bounds(&self) -> Option<Bounds> {
        fn of<T: Copy + Into<i64>>(values: &[T]) -> Bounds {
            let first = values.first().map_or(0, |value| (*value).into());
            values.iter().fold(Bounds { min: first, max: first }, |bounds, value| {
                let value: i64 = (*value).into();
                Bounds { min: bounds.min.min(value), max: bounds.max.max(value) }
            })
        }
        // What lies under a NULL counts too: wider bounds are still bounds.
        self.bounds.or_else(|| match self.array.data_type() {
            DataType::Int16 => Some(of(self.array.as_primitive::<Int16Type>().values())),
            DataType::Int32 => Some(of(self.array.as_primitive::<Int32Type>().values())),
            DataType::Date32 => Some(of(self.array.as_primitive::<Date32Type>().values())),
            DataType::Int64 => Some(of(self.array.as_primitive::<Int64Type>().values())),
            _ => None,
        })
    }

    /// `rows` rows from `start`, without copying.
    pub fn slice(&self, start: usize, rows: usize) -> Self {
        Self { array: self.array.slice(start, rows), bounds: self.bounds }
    }

    /// The rows for which `keep` is true.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Self> {
        self.keep(&Keep::of(keep, 1))
    }

    pub(crate) fn keep(&self, keep: &Keep) -> Result<Self> {
        Ok(Self { array: keep.0.filter(&self.array)?, bounds: self.bounds })
    }

    /// The rows at `rows`; a NULL position gives a NULL.
    pub fn take(&self, rows: &UInt32Array) -> Result<Self> {
        Ok(Self { array: arrow_select::take::take(&self.array, rows, None)?, bounds: self.bounds })
    }
}

/// Rows to keep, prepared for several columns.
pub(crate) struct Keep(FilterPredicate);

impl Keep {
    pub fn of(keep: &BooleanArray, columns: usize) -> Self {
        let builder = FilterBuilder::new(keep);
        // The positions of the rows, or runs of them, are found once for all columns.
        Self(if columns > 1 { builder.optimize().build() } else { builder.build() })
    }
}
