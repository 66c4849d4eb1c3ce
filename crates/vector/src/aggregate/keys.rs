//! Finding the group of each row.

use arrow_schema::DataType;

use super::packed::PackedKeys;
use super::rows::RowKeys;
use crate::{Column, Result};

/// Group keys in the narrowest form that they fit.
pub(super) enum Keys {
    /// There are none, and one group.
    Whole,
    Packed(Box<PackedKeys>),
    Rows(Box<RowKeys>),
}

impl Keys {
    pub(super) fn new(types: &[DataType]) -> Self {
        if types.is_empty() {
            return Self::Whole;
        }
        match PackedKeys::new(types) {
            Some(packed) => Self::Packed(Box::new(packed)),
            None => Self::Rows(Box::new(RowKeys::new(types))),
        }
    }

    pub(super) fn groups(&self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Packed(packed) => packed.groups(),
            Self::Rows(rows) => rows.groups(),
        }
    }

    /// The group of each row, into `groups`; new keys get the next numbers.
    pub(super) fn assign(
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

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Packed(packed) => packed.memory_bytes(),
            Self::Rows(rows) => rows.memory_bytes(),
        }
    }
}

/// The same groups, by the same numbers, as rows.
pub(super) fn unpacked(packed: &PackedKeys, types: &[DataType]) -> Result<RowKeys> {
    let mut rows = RowKeys::new(types);
    rows.assign(&packed.unpack(packed.keys())?, packed.groups(), &mut Vec::new())?;
    Ok(rows)
}
