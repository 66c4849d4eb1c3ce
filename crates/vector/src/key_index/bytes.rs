//! Keys of any types as strings of bytes: equal strings, equal keys.
//!
//! A single column of text or binary is its own string. Several columns, or those of other types, are put one after the
//! other:
//!
//! | type | bytes |
//! |---|---|
//! | text, binary | length (4), the bytes |
//! | decimals | unscaled value (16) |
//! | others that have a code | code (8) |
//! | anything else | length (4), the bytes of Arrow's row format |
//!
//! Where NULLs are equal, each column has a byte before it: 0 for NULL, with nothing after it, else 1.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use std::hash::BuildHasher;
use std::mem;

use super::code;
use super::packing::NO_KEY;
use crate::form::TextDictionary;
use crate::{Column, Result, VectorError};

/// Makes strings of keys of these types.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    types: Vec<DataType>,
    nulls_equal: bool,
    hasher: hashbrown::DefaultHashBuilder,
}

/// Strings of consecutive rows, and their hashes; [`NO_KEY`] for a row that has no key.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    /// Where each row's string ends; it starts where the one before ends.
    ends: Vec<usize>,
    hashes: Vec<u64>,
}

impl Strings {
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }

    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The hashes, which the strings are then without.
    pub fn take_hashes(&mut self) -> Vec<u64> {
        mem::take(&mut self.hashes)
    }

    /// Makes room for more rows, with strings of `bytes` in all.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.bytes.reserve_exact(bytes);
        self.ends.reserve_exact(rows);
        self.hashes.reserve_exact(rows);
    }

    /// Adds the rows of another after these.
    pub fn append(&mut self, other: &Self) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| base + end));
        self.hashes.extend_from_slice(&other.hashes);
    }

    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() + self.hashes.capacity() * size_of::<u64>()
    }
}

/// The values of a key column, one by one.
enum Values<'a> {
    Text(&'a StringViewArray),
    Binary(&'a BinaryViewArray),
    Dictionary(&'a TextDictionary, &'a StringViewArray),
    Codes(Vec<i128>),
    Decimals(Vec<i128>),
    Rows(Rows),
}

impl<'a> Values<'a> {
    fn of(column: &'a Column, logical: &DataType) -> Result<Self> {
        Ok(match column.array().data_type() {
            DataType::Utf8View => Self::Text(column.array().as_string_view()),
            DataType::BinaryView => Self::Binary(column.array().as_binary_view()),
            DataType::Dictionary(..) => {
                let dictionary = column
                    .array()
                    .as_dictionary_opt::<UInt16Type>()
                    .ok_or_else(|| VectorError::internal("a dictionary of another form as a join key"))?;
                Self::Dictionary(dictionary, dictionary.values().as_string_view())
            }
            _ if matches!(logical, DataType::Decimal128(..)) => Self::Decimals(code::wide_codes(column, logical)?),
            _ if code::has_codes(logical) => Self::Codes(code::wide_codes(column, logical)?),
            other => {
                let converter = RowConverter::new(vec![SortField::new(other.clone())])?;
                Self::Rows(converter.convert_columns(&[ArrayRef::clone(column.array())])?)
            }
        })
    }

    /// The bytes of a value that has any length.
    #[inline]
    fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Text(array) => Some(array.value(row).as_bytes()),
            Self::Binary(array) => Some(array.value(row)),
            // What lies under a NULL may be out of range; its row has been left out.
            Self::Dictionary(dictionary, values) => {
                Some(values.value(dictionary.keys().value(row) as usize).as_bytes())
            }
            Self::Rows(rows) => Some(rows.row(row).data()),
            Self::Codes(_) | Self::Decimals(_) => None,
        }
    }
}

impl Encoder {
    pub fn new(types: &[DataType], nulls_equal: bool) -> Self {
        Self { types: types.to_vec(), nulls_equal, hasher: hashbrown::DefaultHashBuilder::default() }
    }

    pub fn nulls_equal(&self) -> bool {
        self.nulls_equal
    }

    /// Whether the string of a key is the value itself.
    fn is_plain(&self) -> bool {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        !self.nulls_equal
            && matches!(self.types.as_slice(), [Utf8 | Utf8View | LargeUtf8 | Binary | BinaryView | LargeBinary])
    }

    /// Adds the strings of `rows` rows from `start` on.
    pub fn encode(&self, keys: &[Column], start: usize, rows: usize, strings: &mut Strings) -> Result<()> {
        let keys: Vec<Column> = keys.iter().map(|column| column.slice(start, rows)).collect();
        let values: Vec<Values> =
            keys.iter().zip(&self.types).map(|(column, logical)| Values::of(column, logical)).collect::<Result<_>>()?;
        let nulls: Vec<_> = keys.iter().map(|column| column.array().logical_nulls()).collect();
        let is_null = |column: usize, row: usize| nulls[column].as_ref().is_some_and(|nulls| nulls.is_null(row));
        for row in 0..rows {
            let start = strings.bytes.len();
            let keyless = !self.nulls_equal && (0..keys.len()).any(|column| is_null(column, row));
            if !keyless {
                for (column, values) in values.iter().enumerate() {
                    self.encode_value(values, row, is_null(column, row), &mut strings.bytes)?;
                }
            }
            let hash = if keyless { NO_KEY } else { self.hash(&strings.bytes[start..]) };
            strings.ends.push(strings.bytes.len());
            strings.hashes.push(hash);
        }
        Ok(())
    }

    #[inline]
    fn encode_value(&self, values: &Values<'_>, row: usize, null: bool, bytes: &mut Vec<u8>) -> Result<()> {
        if self.nulls_equal {
            bytes.push(u8::from(!null));
            if null {
                return Ok(());
            }
        }
        match values {
            Values::Decimals(values) => bytes.extend_from_slice(&values[row].to_le_bytes()),
            Values::Codes(values) => bytes.extend_from_slice(&(values[row] as i64).to_le_bytes()),
            values => {
                let value = values.bytes(row).unwrap_or_default();
                if !self.is_plain() {
                    let length = u32::try_from(value.len())
                        .map_err(|_| VectorError::internal("a join key of more than 4 GiB"))?;
                    bytes.extend_from_slice(&length.to_le_bytes());
                }
                bytes.extend_from_slice(value);
            }
        }
        Ok(())
    }

    #[inline]
    fn hash(&self, string: &[u8]) -> u64 {
        self.hasher.hash_one(string).min(NO_KEY - 1)
    }
}
