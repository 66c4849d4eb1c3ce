//! Group keys of any type, as rows of bytes.
//!
//! ```text
//!   ┌ column 0 │ column 1 │ …
//!   integers, floats   0, or 1 and 8 bytes       (0: NULL)
//!   decimals           0, or 1 and 16 bytes
//!   strings            length + 1 in 4 bytes, bytes      (0: NULL)
//! ```
//! Equal keys have equal bytes: floats are taken to [`ordered`] integers, decimals are always wide.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::byte_table::ByteTable;
use super::hash;
use super::key_table::TOUCH_ROWS;
use crate::aggregate::string_array::string_array;
use crate::aggregate::values::{
    self, Integers, Strings, decimals, float_array, integer_array, ordered, unfit, unordered,
};
use crate::{Column, Result, VectorError, form};

pub(crate) struct RowKeys {
    types: Vec<DataType>,
    groups: ByteTable,
    batch: EncodedRows,
    /// Of some rows of the batch.
    hashes: Vec<u32>,
}

/// How a type is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Float,
    Decimal,
    String,
}

fn kind(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32 | DataType::Boolean => Kind::Integer,
        DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Second, _) => Kind::Integer,
        DataType::Time64(TimeUnit::Microsecond) => Kind::Integer,
        DataType::Float32 | DataType::Float64 => Kind::Float,
        DataType::Decimal128(..) => Kind::Decimal,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Kind::String,
        _ => return None,
    })
}

/// Whether columns of this type can be grouped by.
pub(crate) fn is_key(data_type: &DataType) -> bool {
    kind(data_type).is_some()
}

/// Rows of a batch. Kept, so that batches allocate nothing.
#[derive(Default)]
struct EncodedRows {
    bytes: Vec<u8>,
    /// Where each row ends; while it is being written: where its next column goes.
    ends: Vec<usize>,
}

impl EncodedRows {
    fn row(&self, row: usize) -> &[u8] {
        &self.bytes[row.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[row]]
    }

    fn encode(&mut self, types: &[DataType], columns: &[Column], rows: usize) -> Result<()> {
        self.ends.clear();
        self.ends.resize(rows, 0);
        for (data_type, column) in types.iter().zip(columns) {
            add_widths(data_type, column, &mut self.ends)?;
        }
        let mut start = 0;
        for end in &mut self.ends {
            start += std::mem::replace(end, start);
        }
        self.bytes.clear();
        self.bytes.resize(start, 0);
        for (data_type, column) in types.iter().zip(columns) {
            self.write(data_type, column)?;
        }
        Ok(())
    }

    fn write(&mut self, data_type: &DataType, column: &Column) -> Result<()> {
        match kind(data_type) {
            Some(Kind::Integer) => {
                let values = Integers::of(column).ok_or_else(|| unfit_column(column, data_type))?.widen(None, 0);
                self.write_fixed(column, |row| values[row].to_le_bytes());
            }
            Some(Kind::Float) => {
                let values = values::floats(column).ok_or_else(|| unfit_column(column, data_type))?;
                self.write_fixed(column, |row| ordered(values[row]).to_le_bytes());
            }
            Some(Kind::Decimal) => {
                let values = form::wide_decimals(column)?;
                self.write_fixed(column, |row| values.value(row).to_le_bytes());
            }
            Some(Kind::String) => {
                let strings = Strings::of(column).ok_or_else(|| unfit_column(column, data_type))?;
                for row in 0..self.ends.len() {
                    let at = self.ends[row];
                    let string = if column.array().is_valid(row) { strings.get(row) } else { &[] };
                    let head = if column.array().is_valid(row) { string.len() as u32 + 1 } else { 0 };
                    self.bytes[at..at + 4].copy_from_slice(&head.to_le_bytes());
                    self.bytes[at + 4..at + 4 + string.len()].copy_from_slice(string);
                    self.ends[row] = at + 4 + string.len();
                }
            }
            None => return Err(unfit_column(column, data_type)),
        }
        Ok(())
    }

    fn write_fixed<const N: usize>(&mut self, column: &Column, value: impl Fn(usize) -> [u8; N]) {
        let nulls = column.array().nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, end) in self.ends.iter_mut().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                *end += 1;
                continue;
            }
            self.bytes[*end] = 1;
            self.bytes[*end + 1..*end + 1 + N].copy_from_slice(&value(row));
            *end += 1 + N;
        }
    }
}

/// Adds to each row's width what the column takes.
fn add_widths(data_type: &DataType, column: &Column, widths: &mut [usize]) -> Result<()> {
    let array = column.array();
    let fixed = match kind(data_type) {
        Some(Kind::Integer | Kind::Float) => 9,
        Some(Kind::Decimal) => 17,
        Some(Kind::String) => {
            let strings = Strings::of(column).ok_or_else(|| unfit_column(column, data_type))?;
            for (row, width) in widths.iter_mut().enumerate() {
                let bytes = if array.is_valid(row) { strings.get(row).len() } else { 0 };
                if bytes >= u32::MAX as usize {
                    return Err(VectorError::OutOfRange("length of text".to_owned()));
                }
                *width += 4 + bytes;
            }
            return Ok(());
        }
        None => return Err(unfit_column(column, data_type)),
    };
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => widths.iter_mut().for_each(|width| *width += fixed),
        Some(nulls) => widths.iter_mut().zip(nulls).for_each(|(width, valid)| *width += if valid { fixed } else { 1 }),
    }
    Ok(())
}

fn unfit_column(column: &Column, data_type: &DataType) -> VectorError {
    unfit(&column.array().data_type().to_string(), data_type)
}

impl RowKeys {
    pub(crate) fn new(types: &[DataType]) -> Self {
        Self { types: types.to_vec(), groups: ByteTable::default(), batch: EncodedRows::default(), hashes: Vec::new() }
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The group of each row, into `groups`.
    pub(crate) fn assign(&mut self, columns: &[Column], rows: usize, groups: &mut Vec<u32>) -> Result<()> {
        self.batch.encode(&self.types, columns, rows)?;
        groups.clear();
        for start in (0..rows).step_by(TOUCH_ROWS) {
            let rows = start..rows.min(start + TOUCH_ROWS);
            self.hashes.clear();
            self.hashes.extend(rows.clone().map(|row| hash::of_bytes(self.batch.row(row))));
            self.groups.touch(&self.hashes);
            let find = |(row, hash): (usize, &u32)| self.groups.find_or_insert(*hash, self.batch.row(row));
            groups.extend(rows.zip(&self.hashes).map(find));
        }
        Ok(())
    }

    /// Adds groups of another: the number here of each of `numbers` there.
    pub(crate) fn adopt(&mut self, other: &Self, numbers: &[u32]) -> Vec<u32> {
        let hashes = other.groups.hashes();
        let mut adopted = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(TOUCH_ROWS) {
            self.hashes.clear();
            self.hashes.extend(numbers.iter().map(|number| hashes[*number as usize]));
            self.groups.touch(&self.hashes);
            let find =
                |(number, hash): (&u32, &u32)| self.groups.find_or_insert(*hash, other.groups.get(*number as usize));
            adopted.extend(numbers.iter().zip(&self.hashes).map(find));
        }
        adopted
    }

    /// Hashes by group.
    pub(crate) fn hashes(&self) -> &[u32] {
        self.groups.hashes()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.groups.memory_bytes() + self.batch.bytes.capacity() + self.batch.ends.capacity() * size_of::<usize>()
    }

    /// The key columns of `groups`.
    pub(crate) fn columns(&self, groups: Range<usize>) -> Result<Vec<Column>> {
        let end = groups.end.checked_sub(1).map_or(0, |last| self.groups.start(last) + self.groups.get(last).len());
        let first = if groups.is_empty() { end } else { self.groups.start(groups.start) };
        let bytes = Buffer::from(&self.groups.bytes()[first..end]);
        let mut cursors: Vec<usize> = groups.map(|group| self.groups.start(group) - first).collect();
        self.types.iter().map(|data_type| read(data_type, &bytes, &mut cursors)).collect()
    }
}

/// Reads a column, and moves each group's cursor to the next.
fn read(data_type: &DataType, bytes: &Buffer, cursors: &mut [usize]) -> Result<Column> {
    let array: ArrayRef = match kind(data_type) {
        Some(Kind::Integer) => {
            let (values, nulls) = read_fixed(bytes, cursors, i64::from_le_bytes);
            integer_array(values, nulls, data_type)?
        }
        Some(Kind::Float) => {
            let (values, nulls) = read_fixed(bytes, cursors, |bytes| unordered(i64::from_le_bytes(bytes)));
            float_array(values, nulls, data_type)?
        }
        Some(Kind::Decimal) => {
            let (values, nulls) = read_fixed(bytes, cursors, i128::from_le_bytes);
            return decimals(values, nulls, data_type);
        }
        Some(Kind::String) => {
            let places: Vec<(Range<usize>, bool)> =
                cursors.iter_mut().map(|cursor| read_string(bytes, cursor)).collect();
            let valid: NullBuffer = places.iter().map(|(_, valid)| *valid).collect();
            let nulls = Some(valid).filter(|valid| valid.null_count() > 0);
            string_array(bytes, places.into_iter().map(|(place, _)| place), nulls, data_type)?
        }
        None => return Err(unfit("keys", data_type)),
    };
    Ok(Column::new(array))
}

fn read_string(bytes: &[u8], cursor: &mut usize) -> (Range<usize>, bool) {
    let (head, start) = (&bytes[*cursor..*cursor + 4], *cursor + 4);
    let head = head.first_chunk::<4>().map_or(0, |head| u32::from_le_bytes(*head));
    *cursor = start + head.saturating_sub(1) as usize;
    (start..*cursor, head > 0)
}

fn read_fixed<const N: usize, T: Default>(
    bytes: &[u8],
    cursors: &mut [usize],
    value: impl Fn([u8; N]) -> T,
) -> (Vec<T>, Option<NullBuffer>) {
    let valid: NullBuffer = cursors.iter().map(|cursor| bytes[*cursor] != 0).collect();
    let values = cursors.iter_mut().map(|cursor| {
        let place = *cursor + 1;
        *cursor = place;
        if bytes[place - 1] == 0 {
            return T::default();
        }
        *cursor = place + N;
        bytes[place..].first_chunk::<N>().map_or_else(T::default, |bytes| value(*bytes))
    });
    (values.collect(), Some(valid).filter(|valid| valid.null_count() > 0))
}
