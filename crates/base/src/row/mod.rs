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
//!   rows is one byte. All other bits are zero.
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
//! A row of no columns is no bytes. A row has one encoding only: equal values
//! give equal bytes, and [`RowLayout::verify`] refuses every other form.
//!
//! Failure model: bytes from a page are trusted only as far as the bounds of
//! the slice. Reading a malformed row gives an error or a wrong value, never a
//! panic. The length of `varchar(n)` and `character(n)` is checked where text
//! becomes a value ([`crate::Value::parse`]), not here.

mod cell;

use std::fmt;

use crate::bytes::{u16_at, u32_at};
use crate::types::{DataType, ValueRef, decimal_limit};

pub use cell::read_value;
use cell::{fits_fixed, variable_bytes, write_fixed};

/// Largest row, in bytes (1 GiB).
pub const ROW_BYTES_MAX: usize = 1 << 30;

const FLAGS_BYTES: usize = 1;
const OFFSET_WIDTH_MASK: u8 = 0b11;
/// In [`Place::null_bit`]: the column is NOT NULL.
const NOT_NULL: u32 = u32::MAX;

// Four-byte end offsets reach every byte of the largest row.
const _: () = assert!(ROW_BYTES_MAX <= u32::MAX as usize);

/// Where each column of a row lies. Computed once per table or index.
#[derive(Clone, Debug)]
pub struct RowLayout {
    columns: Vec<RowColumn>,
    places: Vec<Place>,
    /// Where the end offsets start: the bytes of flags, bitmap and fixed area.
    table_at: usize,
    variable_count: usize,
    /// Bytes of the null bitmap.
    bitmap_bytes: usize,
}

/// Type and nullability of one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowColumn {
    pub data_type: DataType,
    pub nullable: bool,
}

/// Where one column lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Fixed width: the first byte of the value in the row.
    /// Variable width: the column's index among the variable columns.
    position: u32,
    /// Bytes of a fixed-width value; 0 for a variable one.
    width: u32,
    /// Bit in the null bitmap, or [`NOT_NULL`].
    null_bit: u32,
}

impl RowLayout {
    /// The layout of rows with these columns.
    pub fn new(columns: impl IntoIterator<Item = RowColumn>) -> Self {
        let columns: Vec<RowColumn> = columns.into_iter().collect();
        let nullable_count = columns.iter().filter(|column| column.nullable).count();
        let bitmap_bytes = nullable_count.div_ceil(8);
        let mut table_at = if columns.is_empty() { 0 } else { FLAGS_BYTES + bitmap_bytes };
        let mut variable_count = 0;
        let mut null_bits = 0;
        let mut places = Vec::with_capacity(columns.len());
        for column in &columns {
            let (position, width) = match column.data_type.fixed_width() {
                Some(width) => {
                    table_at += width;
                    (table_at - width, width)
                }
                None => {
                    variable_count += 1;
                    (variable_count - 1, 0)
                }
            };
            let null_bit = if column.nullable {
                null_bits += 1;
                null_bits - 1
            } else {
                NOT_NULL
            };
            places.push(Place { position: position as u32, width: width as u32, null_bit });
        }
        Self { columns, places, table_at, variable_count, bitmap_bytes }
    }

    /// The columns, in schema order.
    pub fn columns(&self) -> &[RowColumn] {
        &self.columns
    }

    /// The byte of every row at which column `column` lies, if it is of fixed
    /// width and NOT NULL: such a column may be read without a view.
    #[inline]
    pub fn fixed_offset(&self, column: usize) -> Option<usize> {
        let place = self.places.get(column)?;
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
        let heap_at = self.table_at + width * self.variable_count;
        let row_bytes = heap_at.saturating_add(heap_bytes);
        if row_bytes > ROW_BYTES_MAX {
            return Err(RowError::TooLarge { bytes: row_bytes });
        }

        let start = out.len();
        out.reserve(row_bytes);
        out.resize(start + heap_at, 0);
        out[start] = width_code;
        for (index, (value, place)) in values.iter().zip(&self.places).enumerate() {
            if let ValueRef::Null = value {
                out[start + FLAGS_BYTES + place.null_bit as usize / 8] |= 1 << (place.null_bit % 8);
            }
            if place.width != 0 {
                let at = start + place.position as usize;
                write_fixed(self.columns[index].data_type, *value, &mut out[at..at + place.width as usize]);
            } else {
                out.extend_from_slice(variable_bytes(self.columns[index].data_type, *value).unwrap_or_default());
                let end = (out.len() - start - heap_at) as u32;
                let at = start + self.table_at + width * place.position as usize;
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
        if self.columns.is_empty() {
            return if bytes.is_empty() { Ok(()) } else { malformed("a row of no columns has bytes") };
        }
        if bytes.len() > ROW_BYTES_MAX {
            return Err(RowError::TooLarge { bytes: bytes.len() });
        }
        if bytes.len() < self.table_at {
            return malformed("row is shorter than its fixed-width part");
        }
        if bytes[0] & !OFFSET_WIDTH_MASK != 0 {
            return malformed("unknown flags");
        }
        self.verify_bitmap(&bytes[FLAGS_BYTES..][..self.bitmap_bytes])?;
        let width = stored_offset_width(bytes[0])?;
        let heap_at = self.table_at + width * self.variable_count;
        let Some(heap_bytes) = bytes.len().checked_sub(heap_at) else {
            return malformed("row is shorter than its end offsets");
        };
        if offset_width(heap_bytes).1 != width {
            return malformed("end offsets are not of the narrowest width");
        }
        let last_end = match self.variable_count {
            0 => 0,
            count => read_offset(&bytes[self.table_at..], width, count - 1).unwrap_or(0),
        };
        if last_end != heap_bytes {
            return malformed("row does not end where its last variable column ends");
        }
        let view = self.view(bytes);
        for (index, column) in self.columns.iter().enumerate() {
            let place = self.places[index];
            let stored = match place.width {
                0 => view.variable(place.position as usize)?,
                width => &bytes[place.position as usize..][..width as usize],
            };
            let fault = |reason| Err(RowError::MalformedColumn { column: index, reason });
            if view.bytes_of(index)?.is_none() {
                if stored.iter().any(|byte| *byte != 0) || (place.width == 0 && !stored.is_empty()) {
                    return fault("NULL with a value");
                }
                continue;
            }
            match (column.data_type, view.value(index)?) {
                (DataType::Decimal { precision, .. }, ValueRef::Decimal(unscaled))
                    if unscaled.unsigned_abs() >= decimal_limit(precision) as u128 =>
                {
                    return fault("decimal has more digits than declared");
                }
                (DataType::Char(_), ValueRef::Text(text)) if text.ends_with(' ') => {
                    return fault("character(n) with trailing blanks");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn verify_bitmap(&self, bitmap: &[u8]) -> Result<(), RowError> {
        let nullable_count = self.columns.iter().filter(|column| column.nullable).count();
        match bitmap.last() {
            Some(last) if nullable_count % 8 != 0 && last >> (nullable_count % 8) != 0 => {
                malformed("unused bits of the null bitmap are set")
            }
            _ => Ok(()),
        }
    }

    /// A view for reading columns; cheap, no validation beyond bounds.
    #[inline]
    pub fn view<'a>(&'a self, bytes: &'a [u8]) -> RowRef<'a> {
        RowRef { layout: self, bytes }
    }
}

/// A row's bytes, read by its layout.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    layout: &'a RowLayout,
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
        let Some(place) = self.layout.places.get(column) else {
            return Err(RowError::NoColumn { column, count: self.layout.columns.len() });
        };
        if place.null_bit != NOT_NULL {
            match self.bytes.get(FLAGS_BYTES + place.null_bit as usize / 8) {
                Some(byte) if byte >> (place.null_bit % 8) & 1 != 0 => return Ok(None),
                Some(_) => {}
                None => return malformed("row ends inside its null bitmap"),
            }
        }
        if place.width != 0 {
            let at = place.position as usize;
            match self.bytes.get(at..at + place.width as usize) {
                Some(bytes) => Ok(Some(bytes)),
                None => malformed("row ends inside its fixed-width part"),
            }
        } else {
            self.variable(place.position as usize).map(Some)
        }
    }

    /// Content of the `index`th variable column.
    #[inline]
    fn variable(&self, index: usize) -> Result<&'a [u8], RowError> {
        let Some(table) = self.bytes.get(self.layout.table_at..) else {
            return malformed("row is shorter than its fixed-width part");
        };
        let width = stored_offset_width(self.bytes[0])?;
        let heap_at = width * self.layout.variable_count;
        let start = if index == 0 { Some(0) } else { read_offset(table, width, index - 1) };
        let end = read_offset(table, width, index);
        match (start, end) {
            (Some(start), Some(end)) => match table.get(heap_at + start..heap_at + end) {
                Some(bytes) => Ok(bytes),
                None => malformed("end offset outside the row or out of order"),
            },
            _ => malformed("row is shorter than its end offsets"),
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

/// The flags and bytes of an end offset for a heap of so many bytes.
#[inline]
const fn offset_width(heap_bytes: usize) -> (u8, usize) {
    if heap_bytes <= u8::MAX as usize {
        (0, 1)
    } else if heap_bytes <= u16::MAX as usize {
        (1, 2)
    } else {
        (2, 4)
    }
}

/// Bytes of an end offset in a row with these flags.
#[inline]
const fn stored_offset_width(flags: u8) -> Result<usize, RowError> {
    match flags & OFFSET_WIDTH_MASK {
        0 => Ok(1),
        1 => Ok(2),
        2 => Ok(4),
        _ => malformed("unknown width of end offsets"),
    }
}

#[inline]
fn read_offset(table: &[u8], width: usize, index: usize) -> Option<usize> {
    let at = index * width;
    match width {
        1 => table.get(at).map(|byte| *byte as usize),
        2 => u16_at(table, at).map(usize::from),
        _ => u32_at(table, at).map(|offset| offset as usize),
    }
}

/// A row that cannot be written or read. Columns count from 0 in schema order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowError {
    /// The row's bytes are not of its layout.
    Malformed {
        reason: &'static str,
    },
    /// The bytes of one column are not of its type.
    MalformedColumn {
        column: usize,
        reason: &'static str,
    },
    /// The layout has no such column.
    NoColumn {
        column: usize,
        count: usize,
    },
    /// Another number of values than of columns.
    ColumnCount {
        expected: usize,
        found: usize,
    },
    WrongType {
        column: usize,
        expected: DataType,
        found: &'static str,
    },
    NullInNotNull {
        column: usize,
    },
    /// More digits than the declared precision.
    DecimalOverflow {
        column: usize,
        precision: u8,
    },
    /// The row would be larger than [`ROW_BYTES_MAX`].
    TooLarge {
        bytes: usize,
    },
}

#[inline]
const fn malformed<T>(reason: &'static str) -> Result<T, RowError> {
    Err(RowError::Malformed { reason })
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { reason } => write!(f, "malformed row: {reason}"),
            Self::MalformedColumn { column, reason } => write!(f, "malformed row: column {column}: {reason}"),
            Self::NoColumn { column, count } => write!(f, "row has {count} columns, none with index {column}"),
            Self::ColumnCount { expected, found } => write!(f, "row has {expected} columns, found {found} values"),
            Self::WrongType { column, expected, found } => {
                write!(f, "column {column} is of type {expected}, found a value of type {found}")
            }
            Self::NullInNotNull { column } => write!(f, "column {column} is NOT NULL, found NULL"),
            Self::DecimalOverflow { column, precision } => {
                write!(f, "column {column} holds {precision} digits, found a numeric with more")
            }
            Self::TooLarge { bytes } => write!(f, "row of {bytes} bytes, at most {ROW_BYTES_MAX} are possible"),
        }
    }
}

impl std::error::Error for RowError {}
