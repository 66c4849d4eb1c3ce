//! Order-preserving key encoding (memcomparable): comparing the bytes of two
//! keys compares the typed values, column by column.
//!
//! | type | bytes |
//! |---|---|
//! | boolean | 0 or 1 |
//! | integers, date, time, timestamps | big-endian, sign bit flipped |
//! | numeric | the unscaled integer, 8 bytes up to 18 digits, else 16, as integers are |
//! | real, double | the bits, big-endian, complemented if negative, else the sign flipped; -0 is +0, NaN is last |
//! | text, bytea, arrays | the bytes, `00` written as `00 ff`, then the terminator `00 00` |
//! | character(n) | as text, without trailing blanks |
//! | interval | its length in microseconds, 16 bytes as integers are, then months and days, 4 bytes each |
//! | uuid | its 16 bytes |
//!
//! A nullable column is preceded by a marker, `01` before a value and `02` for
//! NULL (and nothing after it), so that NULLs sort last. In a descending column
//! every byte, marker and terminator included, is complemented.
//!
//! No column's encoding is a prefix of another encoding of the same column.
//! Hence the encoding of the first columns of a key is a prefix of exactly those
//! keys that have these values, and a key can be decoded from left to right.
//! Key columns are stored nowhere else: [`KeyLayout::decode`] gives back what
//! was encoded, except that -0.0 comes back as 0.0, every NaN as one NaN, and
//! text of `character(n)` without trailing blanks.
//!
//! Intervals are ordered by their length, and equal ones that are not the same (a month, 30 days) lie beside each
//! other under keys of their own. So they are no columns of a table's keys, where equal values have one key.
//!
//! Failure model: hostile bytes give a [`KeyError`] or a wrong value, never a panic.

use std::fmt;

use crate::interval::{INTERVAL_BYTES, Interval};
use crate::types::{DECIMAL64_PRECISION_MAX, DataType, ValueRef, decimal_limit};

const MARKER_VALUE: u8 = 0x01;
pub(crate) const MARKER_NULL: u8 = 0x02;
const ESCAPE: u8 = 0x00;
/// Of an interval: its length in front of its months and days.
const INTERVAL_KEY_BYTES: usize = size_of::<i128>() + INTERVAL_BYTES / 2;
/// After [`ESCAPE`]: a zero byte of the value.
const ESCAPED_ZERO: u8 = 0xff;
/// After [`ESCAPE`]: the end of the value. Below every other continuation, so
/// that a text sorts before the texts it is a prefix of.
const TERMINATOR: u8 = 0x00;

/// What ends a text.
const TEXT_END: [u8; 2] = [ESCAPE, TERMINATOR];

const _: () = assert!(MARKER_VALUE < MARKER_NULL && TERMINATOR < ESCAPED_ZERO);

/// One column of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyColumn {
    pub data_type: DataType,
    /// A nullable column is preceded by a marker byte; NULLs sort last.
    pub nullable: bool,
    /// Every byte complemented, so that the column sorts downwards (NULLs first).
    pub descending: bool,
}

/// The columns of a key, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyLayout {
    columns: Vec<KeyColumn>,
    fixed_offsets: Vec<Option<usize>>,
}

impl KeyLayout {
    /// The layout of keys with these columns.
    pub fn new(columns: impl IntoIterator<Item = KeyColumn>) -> Self {
        let columns: Vec<KeyColumn> = columns.into_iter().collect();
        let mut offset = Some(0);
        let mut fixed_offsets = Vec::with_capacity(columns.len());
        for column in &columns {
            fixed_offsets.push(offset);
            let width = if column.nullable { None } else { fixed_width(column.data_type) };
            offset = offset.zip(width).map(|(offset, width)| offset + width);
        }
        Self { columns, fixed_offsets }
    }

    /// The columns, in key order.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Appends a key, or the prefix of one when fewer values than columns are
    /// given; on an error `out` is as before.
    ///
    /// Errors: more values than columns, a value of another type, a NULL in a
    /// NOT NULL column, a decimal with more digits than declared.
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<(), KeyError> {
        if values.len() > self.columns.len() {
            return Err(KeyError::ColumnCount { expected: self.columns.len(), found: values.len() });
        }
        let start = out.len();
        for (index, (column, value)) in self.columns.iter().zip(values).enumerate() {
            if let Err(error) = encode_column(*column, *value, out) {
                out.truncate(start);
                return Err(error.at(index));
            }
        }
        Ok(())
    }

    /// The byte offset of each column when it can be known without looking at a key (all
    /// columns before it are fixed-width and NOT NULL), else `None`. Computed once by callers.
    #[inline]
    pub fn fixed_offset(&self, column: usize) -> Option<usize> {
        self.fixed_offsets.get(column).copied().flatten()
    }

    /// Decodes column `column` of an encoded key. Text is unescaped into `scratch` when it must be.
    pub fn decode<'a>(&self, key: &'a [u8], column: usize, scratch: &'a mut Vec<u8>) -> Result<ValueRef<'a>, KeyError> {
        let Some(definition) = self.columns.get(column) else {
            return Err(KeyError::NoColumn { column, count: self.columns.len() });
        };
        let offset = self.offset(key, column)?;
        let bytes = key.get(offset..).ok_or(KeyError::malformed(column, "key ends before the column"))?;
        decode_column(*definition, bytes, scratch).map(|(value, _)| value).map_err(|error| error.at(column))
    }

    /// The byte of `key` at which column `column` starts; the length of the key
    /// for the column after the last.
    pub fn offset(&self, key: &[u8], column: usize) -> Result<usize, KeyError> {
        if let Some(offset) = self.fixed_offset(column) {
            return Ok(offset);
        }
        if column > self.columns.len() {
            return Err(KeyError::NoColumn { column, count: self.columns.len() });
        }
        let mut offset = 0;
        for earlier in 0..column {
            // Never beyond the key's end: each width was found inside it.
            offset += self.column_width(earlier, &key[offset..])?;
        }
        Ok(offset)
    }

    /// Bytes that column `column`'s encoding takes, starting at `key[0]`.
    pub fn column_width(&self, column: usize, key: &[u8]) -> Result<usize, KeyError> {
        let Some(definition) = self.columns.get(column) else {
            return Err(KeyError::NoColumn { column, count: self.columns.len() });
        };
        encoded_width(*definition, key).map_err(|error| error.at(column))
    }
}

/// Appends one column's encoding; on an error `out` is as before. Errors name
/// column 0: a single column does not know its place in a key.
pub fn encode_column(column: KeyColumn, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let start = out.len();
    if let ValueRef::Null = value {
        if !column.nullable {
            return Err(KeyError::NullInNotNull { column: 0 });
        }
        out.push(MARKER_NULL);
    } else {
        if column.nullable {
            out.push(MARKER_VALUE);
        }
        if let Err(error) = encode_value(column.data_type, value, out) {
            out.truncate(start);
            return Err(error);
        }
    }
    if column.descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

/// Appends what the encodings of all texts begin with that begin with `text`; not of type char(n), whose blanks at the
/// end do not count.
///
/// # Errors
/// As [`encode_column`].
pub fn encode_beginning(column: KeyColumn, text: &str, out: &mut Vec<u8>) -> Result<(), KeyError> {
    encode_column(column, ValueRef::Text(text), out)?;
    out.truncate(out.len() - TEXT_END.len());
    Ok(())
}

fn encode_value(data_type: DataType, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    match (data_type, value) {
        (DataType::Bool, ValueRef::Bool(value)) => out.push(value as u8),
        (DataType::Int2, ValueRef::Int2(value)) => out.extend_from_slice(&(value ^ i16::MIN).to_be_bytes()),
        (DataType::Int4, ValueRef::Int4(value)) | (DataType::Date, ValueRef::Date(value)) => {
            out.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
        }
        (DataType::Int8 | DataType::Enum(_), ValueRef::Int8(value))
        | (DataType::Timestamp, ValueRef::Timestamp(value))
        | (DataType::Timestamptz, ValueRef::Timestamptz(value))
        | (DataType::Time, ValueRef::Time(value)) => {
            out.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
        }
        (DataType::Float4, ValueRef::Float4(value)) => {
            // Adding zero turns -0 into +0; a NaN's sign and payload are dropped.
            let bits = if value.is_nan() { f32::NAN.to_bits() & !(1 << 31) } else { (value + 0.0).to_bits() };
            let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
            out.extend_from_slice(&(bits ^ flip).to_be_bytes());
        }
        (DataType::Float8, ValueRef::Float8(value)) => {
            let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { (value + 0.0).to_bits() };
            let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
            out.extend_from_slice(&(bits ^ flip).to_be_bytes());
        }
        (DataType::Decimal { precision, .. }, ValueRef::Decimal(unscaled)) => {
            if unscaled.unsigned_abs() >= decimal_limit(precision) as u128 {
                return Err(KeyError::DecimalOverflow { column: 0, precision });
            }
            if precision <= DECIMAL64_PRECISION_MAX {
                out.extend_from_slice(&(unscaled as i64 ^ i64::MIN).to_be_bytes());
            } else {
                out.extend_from_slice(&(unscaled ^ i128::MIN).to_be_bytes());
            }
        }
        (DataType::Text | DataType::Varchar(_) | DataType::Json | DataType::Jsonb, ValueRef::Text(text)) => {
            encode_bytes(text.as_bytes(), out);
        }
        (DataType::Char(_), ValueRef::Text(text)) => encode_bytes(text.trim_end_matches(' ').as_bytes(), out),
        (DataType::Bytea | DataType::Array(_), ValueRef::Bytea(bytes)) => encode_bytes(bytes, out),
        (DataType::Uuid, ValueRef::Uuid(bytes)) => out.extend_from_slice(&bytes),
        (DataType::Interval, ValueRef::Interval(value)) => {
            out.extend_from_slice(&(value.length() ^ i128::MIN).to_be_bytes());
            out.extend_from_slice(&(value.months ^ i32::MIN).to_be_bytes());
            out.extend_from_slice(&(value.days ^ i32::MIN).to_be_bytes());
        }
        (expected, found) => return Err(KeyError::WrongType { column: 0, expected, found: found.kind() }),
    }
    Ok(())
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    let mut pieces = bytes.split(|byte| *byte == ESCAPE);
    out.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&TEXT_END);
}

/// Bytes of an encoded value, without a marker; `None`: they depend on the value.
const fn fixed_width(data_type: DataType) -> Option<usize> {
    match data_type {
        DataType::Interval => Some(INTERVAL_KEY_BYTES),
        other => other.fixed_width(),
    }
}

/// An interval by its length, months and days; the time is what they leave.
fn decode_interval(encoded: [u8; INTERVAL_KEY_BYTES]) -> Result<Interval, KeyError> {
    let (length, rest) = encoded.split_at(size_of::<i128>());
    let length = i128::from_be_bytes(length.try_into().expect("cut to its width")) ^ i128::MIN;
    let (months, days) = rest.split_at(size_of::<i32>());
    let part = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("cut to its width")) ^ i32::MIN;
    let whole = Interval { months: part(months), days: part(days), micros: 0 };
    let micros = length.checked_sub(whole.length()).and_then(|micros| i64::try_from(micros).ok());
    micros
        .map(|micros| Interval { micros, ..whole })
        .ok_or(KeyError::malformed(0, "an interval whose length is not that of its parts"))
}

/// Bytes that an encoded column at the start of `bytes` takes.
fn encoded_width(column: KeyColumn, bytes: &[u8]) -> Result<usize, KeyError> {
    let marker = match read_marker(column, bytes)? {
        Marker::Null => return Ok(1),
        Marker::Value => 1,
        Marker::Absent => 0,
    };
    let width = match fixed_width(column.data_type) {
        Some(width) => width,
        None => find_terminator(&bytes[marker..], complement(column))? + 2,
    };
    if marker + width > bytes.len() {
        Err(KeyError::malformed(0, "key ends inside a value"))
    } else {
        Ok(marker + width)
    }
}

enum Marker {
    /// The column is NOT NULL.
    Absent,
    Value,
    Null,
}

fn read_marker(column: KeyColumn, bytes: &[u8]) -> Result<Marker, KeyError> {
    if !column.nullable {
        return Ok(Marker::Absent);
    }
    match bytes.first().map(|byte| byte ^ complement(column)) {
        Some(MARKER_VALUE) => Ok(Marker::Value),
        Some(MARKER_NULL) => Ok(Marker::Null),
        Some(_) => Err(KeyError::malformed(0, "marker is neither value nor NULL")),
        None => Err(KeyError::malformed(0, "key ends before a marker")),
    }
}

/// What every byte of the column was combined with (exclusive or).
const fn complement(column: KeyColumn) -> u8 {
    if column.descending { 0xff } else { 0x00 }
}

/// Bytes before the terminator, checking that every escape is a known one.
fn find_terminator(bytes: &[u8], complement: u8) -> Result<usize, KeyError> {
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == ESCAPE ^ complement) {
        at += found;
        match bytes.get(at + 1).map(|byte| byte ^ complement) {
            Some(TERMINATOR) => return Ok(at),
            Some(ESCAPED_ZERO) => at += 2,
            Some(_) => return Err(KeyError::malformed(0, "unknown escape")),
            None => break,
        }
    }
    Err(KeyError::malformed(0, "value without a terminator"))
}

/// Decodes the column at the start of `bytes`; the value, and the bytes its
/// encoding takes. Text is unescaped into `scratch` when it must be. Errors name
/// column 0: a single column does not know its place in a key.
pub fn decode_column<'a>(
    column: KeyColumn,
    bytes: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<(ValueRef<'a>, usize), KeyError> {
    let width = encoded_width(column, bytes)?;
    let marker = match read_marker(column, bytes)? {
        Marker::Null => return Ok((ValueRef::Null, width)),
        Marker::Value => 1,
        Marker::Absent => 0,
    };
    let encoded = &bytes[marker..width];
    let value = match column.data_type {
        DataType::Bool => match fixed::<1>(column, encoded)[0] {
            0 => ValueRef::Bool(false),
            1 => ValueRef::Bool(true),
            _ => return Err(KeyError::malformed(0, "boolean is neither 0 nor 1")),
        },
        DataType::Int2 => ValueRef::Int2(i16::from_be_bytes(fixed(column, encoded)) ^ i16::MIN),
        DataType::Int4 => ValueRef::Int4(i32::from_be_bytes(fixed(column, encoded)) ^ i32::MIN),
        DataType::Date => ValueRef::Date(i32::from_be_bytes(fixed(column, encoded)) ^ i32::MIN),
        DataType::Int8 | DataType::Enum(_) => ValueRef::Int8(i64::from_be_bytes(fixed(column, encoded)) ^ i64::MIN),
        DataType::Timestamp => ValueRef::Timestamp(i64::from_be_bytes(fixed(column, encoded)) ^ i64::MIN),
        DataType::Timestamptz => ValueRef::Timestamptz(i64::from_be_bytes(fixed(column, encoded)) ^ i64::MIN),
        DataType::Time => ValueRef::Time(i64::from_be_bytes(fixed(column, encoded)) ^ i64::MIN),
        DataType::Interval => ValueRef::Interval(decode_interval(fixed(column, encoded))?),
        DataType::Float4 => {
            let bits = u32::from_be_bytes(fixed(column, encoded));
            let flip = if bits >> 31 == 1 { 1 << 31 } else { u32::MAX };
            ValueRef::Float4(f32::from_bits(bits ^ flip))
        }
        DataType::Float8 => {
            let bits = u64::from_be_bytes(fixed(column, encoded));
            let flip = if bits >> 63 == 1 { 1 << 63 } else { u64::MAX };
            ValueRef::Float8(f64::from_bits(bits ^ flip))
        }
        DataType::Decimal { .. } if encoded.len() == 8 => {
            ValueRef::Decimal((i64::from_be_bytes(fixed(column, encoded)) ^ i64::MIN).into())
        }
        DataType::Decimal { .. } => ValueRef::Decimal(i128::from_be_bytes(fixed(column, encoded)) ^ i128::MIN),
        DataType::Uuid => ValueRef::Uuid(fixed(column, encoded)),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            match std::str::from_utf8(decode_bytes(column, encoded, scratch)) {
                Ok(text) => ValueRef::Text(text),
                Err(_) => return Err(KeyError::malformed(0, "text is not UTF-8")),
            }
        }
        DataType::Bytea | DataType::Array(_) => ValueRef::Bytea(decode_bytes(column, encoded, scratch)),
    };
    Ok((value, width))
}

/// The bytes of a fixed-width value, not complemented any more.
#[inline]
fn fixed<const N: usize>(column: KeyColumn, encoded: &[u8]) -> [u8; N] {
    let bytes: [u8; N] = encoded.try_into().expect("encoded_width cut the slice to the width of the type");
    bytes.map(|byte| byte ^ complement(column))
}

/// The content of an encoded text, terminator included in `encoded`. Borrowed
/// from the key itself in the common case: ascending and without zero bytes.
fn decode_bytes<'a>(column: KeyColumn, encoded: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let content = &encoded[..encoded.len() - 2];
    let complement = complement(column);
    if complement == 0 && !content.contains(&ESCAPE) {
        return content;
    }
    scratch.clear();
    let mut bytes = content.iter().map(|byte| byte ^ complement);
    while let Some(byte) = bytes.next() {
        scratch.push(byte);
        if byte == ESCAPE {
            // Its continuation, which find_terminator has checked.
            bytes.next();
        }
    }
    scratch
}

/// The smallest key greater than every key that starts with `prefix`, in place;
/// `false` if there is none (all bytes 0xff), and then `prefix` is empty.
pub fn prefix_successor(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.last_mut() {
        if *last < 0xff {
            *last += 1;
            return true;
        }
        prefix.pop();
    }
    false
}

/// A key that cannot be written or read. Columns count from 0 in key order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// The key's bytes are not of its layout.
    Malformed {
        column: usize,
        reason: &'static str,
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
    /// More values than columns.
    ColumnCount {
        expected: usize,
        found: usize,
    },
    /// The layout has no such column.
    NoColumn {
        column: usize,
        count: usize,
    },
}

impl KeyError {
    const fn malformed(column: usize, reason: &'static str) -> Self {
        Self::Malformed { column, reason }
    }

    /// The same error, of column `index` of the key.
    fn at(mut self, index: usize) -> Self {
        match &mut self {
            Self::Malformed { column, .. }
            | Self::WrongType { column, .. }
            | Self::NullInNotNull { column }
            | Self::DecimalOverflow { column, .. } => *column = index,
            Self::ColumnCount { .. } | Self::NoColumn { .. } => {}
        }
        self
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { column, reason } => write!(f, "malformed key: column {column}: {reason}"),
            Self::WrongType { column, expected, found } => {
                write!(f, "key column {column} is of type {expected}, found a value of type {found}")
            }
            Self::NullInNotNull { column } => write!(f, "key column {column} is NOT NULL, found NULL"),
            Self::DecimalOverflow { column, precision } => {
                write!(f, "key column {column} holds {precision} digits, found a numeric with more")
            }
            Self::ColumnCount { expected, found } => write!(f, "key has {expected} columns, found {found} values"),
            Self::NoColumn { column, count } => write!(f, "key has {count} columns, none with index {column}"),
        }
    }
}

impl std::error::Error for KeyError {}
