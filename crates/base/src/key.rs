//! Order-preserving key encoding (memcomparable): comparing the bytes of two
//! keys compares the typed values, column by column.
//! (Bodies are filled in by the owner of this module.)

use crate::types::{DataType, ValueRef};

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
}

impl KeyLayout {
    pub fn new(columns: impl IntoIterator<Item = KeyColumn>) -> Self {
        Self { columns: columns.into_iter().collect() }
    }
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }
    /// Appends a key, or the prefix of one when fewer values than columns are given.
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<(), KeyError> {
        for (column, value) in self.columns.iter().zip(values) {
            encode_column(*column, *value, out)?;
        }
        Ok(())
    }
    /// The byte offset of each column when it can be known without looking at a key (all
    /// columns before it are fixed-width and NOT NULL), else `None`. Computed once by callers.
    pub fn fixed_offset(&self, _column: usize) -> Option<usize> {
        todo!()
    }
    /// Decodes column `column` of an encoded key. Text is unescaped into `scratch` when it must be.
    pub fn decode<'a>(&self, _key: &'a [u8], _column: usize, _scratch: &'a mut Vec<u8>) -> Result<ValueRef<'a>, KeyError> {
        todo!()
    }
    /// Bytes that column `column`'s encoding takes, starting at `key[0]`.
    pub fn column_width(&self, _column: usize, _key: &[u8]) -> Result<usize, KeyError> {
        todo!()
    }
}

/// Appends one column's encoding.
pub fn encode_column(_column: KeyColumn, _value: ValueRef<'_>, _out: &mut Vec<u8>) -> Result<(), KeyError> {
    todo!()
}

/// The smallest key greater than every key that starts with `prefix`, in place;
/// `false` if there is none (all bytes 0xff).
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyError {
    Malformed { reason: &'static str },
    WrongType { column: usize },
    // ... the owner completes it
}
