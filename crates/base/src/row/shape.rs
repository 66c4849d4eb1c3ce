//! Where columns lie in rows that all have the same ones, and how they are read there.

use super::cell::read_value;
use super::error::{ROW_BYTES_MAX, RowError, malformed};
use crate::bytes::{u16_at, u32_at};
use crate::types::{DataType, ValueRef, decimal_limit};

pub(super) const FLAGS_BYTES: usize = 1;
const OFFSET_WIDTH_MASK: u8 = 0b11;
/// The first bit of the era among the flags.
pub(super) const ERA_SHIFT: u32 = OFFSET_WIDTH_MASK.count_ones();
/// In [`Place::null_bit`]: the column is NOT NULL.
pub(super) const NOT_NULL: u32 = u32::MAX;
/// In [`Place::null_bit`]: rows of this shape do not have the column.
pub(super) const MISSING: u32 = NOT_NULL - 1;

/// Type and nullability of one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowColumn {
    pub data_type: DataType,
    pub nullable: bool,
}

/// Where columns lie in rows of one era.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub places: Vec<Place>,
    /// Where the end offsets start: the bytes of flags, bitmap and fixed area.
    pub table_at: usize,
    pub variable_count: usize,
    /// Bytes of the null bitmap.
    pub bitmap_bytes: usize,
}

/// Where one column lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Fixed width: the first byte of the value in the row.
    /// Variable width: the column's index among the variable columns.
    pub position: u32,
    /// Bytes of a fixed-width value; 0 for a variable one.
    pub width: u32,
    /// Bit in the null bitmap, or [`NOT_NULL`], or [`MISSING`].
    pub null_bit: u32,
}

impl Shape {
    /// Of rows with these columns.
    pub fn new(columns: &[RowColumn]) -> Self {
        let nullable_count = columns.iter().filter(|column| column.nullable).count();
        let bitmap_bytes = nullable_count.div_ceil(8);
        let mut table_at = if columns.is_empty() { 0 } else { FLAGS_BYTES + bitmap_bytes };
        let mut variable_count = 0;
        let mut null_bits = 0;
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
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
        Self { places, table_at, variable_count, bitmap_bytes }
    }

    /// What is at a place that rows of this shape have.
    #[inline]
    pub fn bytes_at<'a>(&self, place: Place, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, RowError> {
        if place.null_bit != NOT_NULL {
            match bytes.get(FLAGS_BYTES + place.null_bit as usize / 8) {
                Some(byte) if byte >> (place.null_bit % 8) & 1 != 0 => return Ok(None),
                Some(_) => {}
                None => return malformed("row ends inside its null bitmap"),
            }
        }
        if place.width != 0 {
            let at = place.position as usize;
            match bytes.get(at..at + place.width as usize) {
                Some(bytes) => Ok(Some(bytes)),
                None => malformed("row ends inside its fixed-width part"),
            }
        } else {
            self.variable(bytes, place.position as usize).map(Some)
        }
    }

    /// Content of the `index`th variable column.
    #[inline]
    fn variable<'a>(&self, bytes: &'a [u8], index: usize) -> Result<&'a [u8], RowError> {
        let Some(table) = bytes.get(self.table_at..) else {
            return malformed("row is shorter than its fixed-width part");
        };
        let width = stored_offset_width(bytes[0])?;
        let heap_at = width * self.variable_count;
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

    /// Checks that `bytes` is a well-formed row of an era in which rows have these columns, and this shape.
    pub fn verify(&self, columns: &[RowColumn], era: u8, bytes: &[u8]) -> Result<(), RowError> {
        let Self { table_at, variable_count, bitmap_bytes, .. } = *self;
        if columns.is_empty() {
            return if bytes.is_empty() { Ok(()) } else { malformed("a row of no columns has bytes") };
        }
        if bytes.len() > ROW_BYTES_MAX {
            return Err(RowError::TooLarge { bytes: bytes.len() });
        }
        if bytes.len() < table_at {
            return malformed("row is shorter than its fixed-width part");
        }
        if bytes[0] >> ERA_SHIFT != era {
            return malformed("unknown flags");
        }
        verify_bitmap(columns, &bytes[FLAGS_BYTES..][..bitmap_bytes])?;
        let width = stored_offset_width(bytes[0])?;
        let heap_at = table_at + width * variable_count;
        let Some(heap_bytes) = bytes.len().checked_sub(heap_at) else {
            return malformed("row is shorter than its end offsets");
        };
        if offset_width(heap_bytes).1 != width {
            return malformed("end offsets are not of the narrowest width");
        }
        let last_end = match variable_count {
            0 => 0,
            count => read_offset(&bytes[table_at..], width, count - 1).unwrap_or(0),
        };
        if last_end != heap_bytes {
            return malformed("row does not end where its last variable column ends");
        }
        for (index, column) in columns.iter().enumerate() {
            let place = self.places[index];
            let stored = match place.width {
                0 => self.variable(bytes, place.position as usize)?,
                width => &bytes[place.position as usize..][..width as usize],
            };
            let fault = |reason| Err(RowError::MalformedColumn { column: index, reason });
            let Some(value) = self.bytes_at(place, bytes)? else {
                if stored.iter().any(|byte| *byte != 0) || (place.width == 0 && !stored.is_empty()) {
                    return fault("NULL with a value");
                }
                continue;
            };
            let value = read_value(column.data_type, value);
            match (column.data_type, value.map_err(|reason| RowError::MalformedColumn { column: index, reason })?) {
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
}

fn verify_bitmap(columns: &[RowColumn], bitmap: &[u8]) -> Result<(), RowError> {
    let nullable_count = columns.iter().filter(|column| column.nullable).count();
    match bitmap.last() {
        Some(last) if nullable_count % 8 != 0 && last >> (nullable_count % 8) != 0 => {
            malformed("unused bits of the null bitmap are set")
        }
        _ => Ok(()),
    }
}

/// The flags and bytes of an end offset for a heap of so many bytes.
#[inline]
pub(super) const fn offset_width(heap_bytes: usize) -> (u8, usize) {
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
