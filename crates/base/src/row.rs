//! The row format: one compact byte layout of a row, the same in memory, in
//! the log, on pages and between nodes.
//! (Bodies and the layout drawing are filled in by the owner of this module.)

use crate::types::{DataType, ValueRef};

/// Where each column of a row lies. Computed once per table or index.
#[derive(Clone, Debug)]
pub struct RowLayout {
    columns: Vec<RowColumn>,
}

#[derive(Clone, Copy, Debug)]
pub struct RowColumn {
    pub data_type: DataType,
    pub nullable: bool,
}

impl RowLayout {
    pub fn new(columns: impl IntoIterator<Item = RowColumn>) -> Self {
        Self { columns: columns.into_iter().collect() }
    }
    pub fn columns(&self) -> &[RowColumn] {
        &self.columns
    }
    /// Appends the row of `values` to `out`. Errors: wrong count/type, NULL in NOT NULL, too large.
    pub fn encode(&self, _values: &[ValueRef<'_>], _out: &mut Vec<u8>) -> Result<(), RowError> {
        todo!()
    }
    /// Checks that `bytes` is a well-formed row of this layout (lengths, offsets, UTF-8), so that a
    /// hostile page can never make a reader panic. `saki check` calls it for every row.
    pub fn verify(&self, _bytes: &[u8]) -> Result<(), RowError> {
        todo!()
    }
    /// A view for reading columns; cheap, no validation beyond bounds.
    #[inline]
    pub fn view<'a>(&'a self, bytes: &'a [u8]) -> RowView<'a> {
        RowView { layout: self, bytes }
    }
}

#[derive(Clone, Copy)]
pub struct RowView<'a> {
    layout: &'a RowLayout,
    bytes: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Raw little-endian bytes of a fixed-width column or the content of a variable one; `None` if
    /// NULL, `Err` if the row is malformed. The hot accessor of `exec`.
    #[inline]
    pub fn bytes_of(&self, _column: usize) -> Result<Option<&'a [u8]>, RowError> {
        let _ = (self.layout, self.bytes);
        todo!()
    }
    pub fn value(&self, _column: usize) -> Result<ValueRef<'a>, RowError> {
        todo!()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowError {
    Malformed { reason: &'static str },
    // ... the owner completes it
}
