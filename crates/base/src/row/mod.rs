//! The row format: one compact byte layout of a row, the same in memory, in
//! the log, on pages and between nodes.
//!
//! ```text
//! +-------+-------------+------------------+-----------------+------------------+
//! | flags | null bitmap | fixed-width area | end offsets     | variable bytes   |
//! | 1     | ceil(n / 8) | static           | width x columns | as long as it is |
//! +-------+-------------+------------------+-----------------+------------------+
//! 0       1             ^ first fixed      ^ `heap table`    ^ heap
//! ```
//!
//! - *flags*: bits 0-1 give the width of an end offset: 0 is one byte, 1 two, 2
//!   four; always the narrowest that can hold the heap's length, which for most
//!   rows is one byte. Bits 2-7 are the row's *era*: which of the layouts that the
//!   table's rows have had it is of ([`RowLayout::after`]); 0 where there was
//!   but one.
//! - *null bitmap*: one bit per **nullable** column in schema order, 1 is NULL;
//!   absent if no column is nullable, unused bits zero.
//! - *fixed-width area*: the columns of fixed width in schema order, unaligned
//!   and little-endian ([`DataType::fixed_width`]). A NULL keeps its place, all
//!   zeroes, so that the offset of every fixed column is a constant of the
//!   layout: this is what makes [`RowRef::bytes_of`] a few instructions.
//! - *end offsets*: for each variable column, where its bytes end, counted from
//!   the start of the heap. It begins where the one before ends.
//! - *variable bytes* (the heap): text as UTF-8, `character(n)` without its
//!   trailing blanks, bytea as it is. A NULL is empty.
//!
//! A row of no columns is no bytes. In an era a row has one encoding only: equal
//! values give equal bytes, and [`RowLayout::verify`] refuses every other form.
//!
//! Failure model: bytes from a page are trusted only as far as the bounds of
//! the slice. Reading a malformed row gives an error or a wrong value, never a
//! panic. The length of `varchar(n)` and `character(n)` is checked where text
//! becomes a value ([`crate::Value::parse`]), not here.

mod cell;
mod earlier;
mod error;
mod shape;

use std::sync::Arc;

use crate::types::{DataType, ValueRef, decimal_limit};

pub use cell::read_value;
use cell::{fits_fixed, variable_bytes, write_fixed};
use earlier::Earlier;
pub use earlier::{ERA_MAX, EarlierColumn};
use error::malformed;
pub use error::{ROW_BYTES_MAX, RowError};
pub use shape::RowColumn;
use shape::{ERA_SHIFT, FLAGS_BYTES, MISSING, NOT_NULL, Shape, offset_width};

/// Where each column of a row lies. Computed once per table or index.
#[derive(Clone, Debug)]
pub struct RowLayout {
    columns: Vec<RowColumn>,
    shape: Shape,
    /// The layouts of rows that were written before; they are views of the same columns.
    earlier: Option<Arc<Earlier>>,
}

impl RowLayout {
    /// The layout of rows with these columns.
    pub fn new(columns: impl IntoIterator<Item = RowColumn>) -> Self {
        let columns: Vec<RowColumn> = columns.into_iter().collect();
        Self { shape: Shape::new(&columns), columns, earlier: None }
    }

    /// The same columns, where rows of earlier eras may be met. `earlier`: what the rows of each have, in order.
    /// `missing`: for each column the value of rows that lack it.
    ///
    /// # Errors
    /// A missing value of another type than its column's.
    pub fn after(self, earlier: &[Vec<EarlierColumn>], missing: &[ValueRef<'_>]) -> Result<Self, RowError> {
        let earlier = Earlier::new(&self.columns, earlier, missing)?;
        Ok(Self { earlier: Some(Arc::new(earlier)), ..self })
    }

    /// The columns, in schema order.
    pub fn columns(&self) -> &[RowColumn] {
        &self.columns
    }

    /// The era of rows that it writes.
    fn era(&self) -> u8 {
        self.earlier.as_ref().map_or(0, |earlier| earlier.era())
    }

    /// The byte of every row at which column `column` lies, if it is of fixed
    /// width and NOT NULL, and lies there in rows of all eras: such a column may
    /// be read without a view.
    #[inline]
    pub fn fixed_offset(&self, column: usize) -> Option<usize> {
        let place = self.shape.places.get(column)?;
        if self.earlier.as_ref().is_some_and(|earlier| !earlier.always_has(column, *place)) {
            return None;
        }
        (place.width != 0 && place.null_bit == NOT_NULL).then_some(place.position as usize)
    }

    /// Appends the row of `values` to `out`; on an error `out` is as before.
    ///
    /// Errors: another number of values than of columns, a value of another type
    /// than its column's, a NULL in a NOT NULL column, a decimal with more digits
    /// than declared, a row above [`ROW_BYTES_MAX`].
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<(), RowError> {
        if values.len() != self.columns.len() {
            return Err(RowError::ColumnCount { expected: self.columns.len(), found: values.len() });
        }
        let heap_bytes = self.check(values)?;
        if values.is_empty() {
            return Ok(());
        }
        let (width_code, width) = offset_width(heap_bytes);
        let Shape { places, table_at, variable_count, .. } = &self.shape;
        let heap_at = table_at + width * variable_count;
        let row_bytes = heap_at.saturating_add(heap_bytes);
        if row_bytes > ROW_BYTES_MAX {
            return Err(RowError::TooLarge { bytes: row_bytes });
        }

        let start = out.len();
        out.reserve(row_bytes);
        out.resize(start + heap_at, 0);
        out[start] = width_code | self.era() << ERA_SHIFT;
        for (index, (value, place)) in values.iter().zip(places).enumerate() {
            if let ValueRef::Null = value {
                out[start + FLAGS_BYTES + place.null_bit as usize / 8] |= 1 << (place.null_bit % 8);
            }
            if place.width != 0 {
                let at = start + place.position as usize;
                write_fixed(self.columns[index].data_type, *value, &mut out[at..at + place.width as usize]);
            } else {
                out.extend_from_slice(variable_bytes(self.columns[index].data_type, *value).unwrap_or_default());
                let end = (out.len() - start - heap_at) as u32;
                let at = start + table_at + width * place.position as usize;
                out[at..at + width].copy_from_slice(&end.to_le_bytes()[..width]);
            }
        }
        debug_assert_eq!(out.len() - start, row_bytes);
        Ok(())
    }

    /// Checks every value against its column; the bytes of the variable ones.
    fn check(&self, values: &[ValueRef<'_>]) -> Result<usize, RowError> {
        let mut heap_bytes = 0_usize;
        for (index, (value, column)) in values.iter().zip(&self.columns).enumerate() {
            if let ValueRef::Null = value {
                if !column.nullable {
                    return Err(RowError::NullInNotNull { column: index });
                }
            } else if let Some(bytes) = variable_bytes(column.data_type, *value) {
                heap_bytes = heap_bytes.saturating_add(bytes.len());
            } else if !fits_fixed(column.data_type, *value) {
                return Err(RowError::WrongType { column: index, expected: column.data_type, found: value.kind() });
            } else if let (DataType::Decimal { precision, .. }, ValueRef::Decimal(unscaled)) =
                (column.data_type, *value)
                && unscaled.unsigned_abs() >= decimal_limit(precision) as u128
            {
                return Err(RowError::DecimalOverflow { column: index, precision });
            }
        }
        Ok(heap_bytes)
    }

    /// Checks that `bytes` is a well-formed row of this layout: lengths, offsets,
    /// UTF-8, the range of values, and that it is the one encoding of its values.
    /// `saki check` calls it for every row.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), RowError> {
        let now = (&self.shape, &self.columns[..]);
        match &self.earlier {
            Some(earlier) => earlier.verify(now, bytes),
            None => now.0.verify(now.1, 0, bytes),
        }
    }

    /// A row of an earlier era as one of the present; `None`: it is one already.
    ///
    /// # Errors
    /// For bytes that are no row.
    pub fn renewed(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, RowError> {
        let is_present = self.earlier.as_ref().is_none_or(|earlier| earlier.shape(bytes).is_none());
        if is_present {
            return Ok(None);
        }
        let view = self.view(bytes);
        let values = (0..self.columns.len()).map(|column| view.value(column)).collect::<Result<Vec<_>, _>>()?;
        let mut row = Vec::new();
        self.encode(&values, &mut row)?;
        Ok(Some(row))
    }

    /// A view for reading columns; cheap, no validation beyond bounds.
    #[inline]
    pub fn view<'a>(&'a self, bytes: &'a [u8]) -> RowRef<'a> {
        let shape = match &self.earlier {
            None => &self.shape,
            Some(earlier) => earlier.shape(bytes).unwrap_or(&self.shape),
        };
        RowRef { layout: self, shape, bytes }
    }
}

/// A row's bytes, read by its layout.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    layout: &'a RowLayout,
    shape: &'a Shape,
    bytes: &'a [u8],
}

impl<'a> RowRef<'a> {
    /// The row's bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Raw little-endian bytes of a fixed-width column or the content of a variable one; `None` if
    /// NULL, `Err` if the row is malformed. The hot accessor of `exec`.
    #[inline]
    pub fn bytes_of(&self, column: usize) -> Result<Option<&'a [u8]>, RowError> {
        let Some(place) = self.shape.places.get(column) else { return self.nowhere(column) };
        if place.null_bit == MISSING {
            return Ok(self.layout.earlier.as_ref().and_then(|earlier| earlier.missing(column)));
        }
        self.shape.bytes_at(*place, self.bytes)
    }

    #[cold]
    fn nowhere<T>(&self, column: usize) -> Result<T, RowError> {
        match self.layout.columns.len() {
            count if column >= count => Err(RowError::NoColumn { column, count }),
            _ => malformed("row of an era that its table has not had"),
        }
    }

    /// The typed value of a column.
    #[inline]
    pub fn value(&self, column: usize) -> Result<ValueRef<'a>, RowError> {
        match self.bytes_of(column)? {
            None => Ok(ValueRef::Null),
            Some(bytes) => read_value(self.layout.columns[column].data_type, bytes)
                .map_err(|reason| RowError::MalformedColumn { column, reason }),
        }
    }
}
