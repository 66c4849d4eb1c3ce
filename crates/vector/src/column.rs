//! A column of a batch: an array in a native form, and what is known of its values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_schema::DataType;

use crate::{Result, VectorError, form};

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
        Ok(Self { array: arrow_select::filter::filter(&self.array, keep)?, bounds: self.bounds })
    }

    /// The rows at `rows`; a NULL position gives a NULL.
    pub fn take(&self, rows: &UInt32Array) -> Result<Self> {
        Ok(Self { array: arrow_select::take::take(&self.array, rows, None)?, bounds: self.bounds })
    }

    /// One column of several of the same logical type, whatever their forms.
    pub fn concat(columns: &[&Self]) -> Result<Self> {
        let [first, rest @ ..] = columns else { return Err(VectorError::internal("no columns to put together")) };
        if rest.is_empty() {
            return Ok((*first).clone());
        }
        let all = |wanted: fn(&DataType) -> bool| columns.iter().all(|column| wanted(column.array.data_type()));
        let same = rest.iter().all(|column| column.array.data_type() == first.array.data_type());
        let arrays: Vec<ArrayRef> = if same && !all(|t| matches!(t, DataType::Dictionary(..))) {
            columns.iter().map(|column| Arc::clone(&column.array)).collect()
        } else if all(|t| matches!(t, DataType::Dictionary(..) | DataType::Utf8View)) {
            columns.iter().map(|column| form::text_views(column)).collect::<Result<_>>()?
        } else {
            columns
                .iter()
                .map(|column| Ok(Arc::new(form::wide_decimals(column)?) as ArrayRef))
                .collect::<Result<_>>()?
        };
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let bounds = columns.iter().map(|column| column.bounds).reduce(|a, b| Some(a?.union(b?)));
        Ok(Self { array: arrow_select::concat::concat(&arrays)?, bounds: bounds.flatten() })
    }
}
