//! Finding the group of each row.

mod byte_table;
mod hash;
pub(super) mod index;
mod key_table;
pub(super) mod packed;
pub(super) mod rows;
mod words;

use arrow_schema::DataType;

use self::packed::PackedKeys;
use self::rows::RowKeys;
use crate::{Column, Result};

/// Group keys in the narrowest form that they fit.
pub(crate) enum Keys {
    /// There are none, and one group.
    Whole,
    Packed(Box<PackedKeys>),
    Rows(Box<RowKeys>),
}

impl Keys {
    pub(crate) fn new(types: &[DataType]) -> Self {
        if types.is_empty() {
            return Self::Whole;
        }
        match PackedKeys::new(types) {
            Some(packed) => Self::Packed(Box::new(packed)),
            None => Self::Rows(Box::new(RowKeys::new(types))),
        }
    }

    pub(crate) fn groups(&self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Packed(packed) => packed.groups(),
            Self::Rows(rows) => rows.groups(),
        }
    }

    /// The group of each row, into `groups`; new keys get the next numbers.
    pub(crate) fn assign(
        &mut self,
        types: &[DataType],
        columns: &[Column],
        rows: usize,
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        if let Self::Packed(packed) = self
            && !packed.assign(columns, rows, groups)
        {
            *self = Self::Rows(Box::new(unpacked(packed, types)?));
        }
        match self {
            Self::Rows(keys) => keys.assign(columns, rows, groups),
            Self::Whole | Self::Packed(_) => Ok(()),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Packed(packed) => packed.memory_bytes(),
            Self::Rows(rows) => rows.memory_bytes(),
        }
    }
}

/// The same groups, by the same numbers, as rows.
pub(crate) fn unpacked(packed: &PackedKeys, types: &[DataType]) -> Result<RowKeys> {
    let mut rows = RowKeys::new(types);
    rows.assign(&packed.unpack(packed.keys())?, packed.groups(), &mut Vec::new())?;
    Ok(rows)
}
