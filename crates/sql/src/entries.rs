//! Rows as entries of trees: encoding from Arrow batches or from other entries, and back.

use std::sync::Arc;

use saki_base::{KeyError, RowError, ValueRef};

use crate::catalog::{EntryLayout, Table};
use crate::columns::ColumnReader;
use crate::constraint::shown;
use crate::error::{Result, SqlError};

/// Encodes the entries of one tree.
pub struct EntryEncoder {
    pub layout: Arc<EntryLayout>,
    pub key: Vec<u8>,
    pub row: Vec<u8>,
}

impl EntryEncoder {
    pub fn new(layout: impl Into<Arc<EntryLayout>>) -> Self {
        Self { layout: layout.into(), key: Vec::new(), row: Vec::new() }
    }

    /// Encodes an entry into `key` and `row`, from the value of each table column.
    #[inline]
    pub fn encode<'v>(&mut self, scratch: &mut Vec<ValueRef<'v>>, value: impl Fn(usize) -> ValueRef<'v>) -> Result<()> {
        self.key.clear();
        self.row.clear();
        scratch.clear();
        scratch.extend(self.layout.key_columns.iter().map(|column| value(*column)));
        self.layout.key.encode(scratch, &mut self.key).map_err(key_error)?;
        scratch.clear();
        scratch.extend(self.layout.row_columns.iter().map(|column| value(*column)));
        self.layout.row.encode(scratch, &mut self.row).map_err(row_error)
    }

    /// Encodes row `row` of a batch.
    #[inline]
    pub fn encode_row<'v>(
        &mut self,
        scratch: &mut Vec<ValueRef<'v>>,
        readers: &'v [ColumnReader<'_>],
        row: usize,
    ) -> Result<()> {
        self.encode(scratch, |column| readers[column].value(row))
    }
}

/// Decodes primary entries into values by table column.
pub struct EntryDecoder {
    layout: Arc<EntryLayout>,
    /// Unescaped text of each key column.
    scratch: Vec<Vec<u8>>,
}

impl EntryDecoder {
    pub fn new(layout: impl Into<Arc<EntryLayout>>) -> Self {
        let layout = layout.into();
        let scratch = vec![Vec::new(); layout.key_columns.len()];
        Self { layout, scratch }
    }

    /// Calls `look` with the values of all table columns, the hidden row id last where there is one.
    pub fn decode<R>(
        &mut self,
        table: &Table,
        key: &[u8],
        row: &[u8],
        look: impl FnOnce(&[ValueRef<'_>]) -> R,
    ) -> Result<R> {
        let mut values = vec![ValueRef::Null; table.columns.len() + usize::from(table.primary_key.is_empty())];
        let view = self.layout.row.view(row);
        for (position, column) in self.layout.row_columns.iter().enumerate() {
            values[*column] = view.value(position).map_err(row_error)?;
        }
        for ((position, column), scratch) in self.layout.key_columns.iter().enumerate().zip(&mut self.scratch) {
            values[*column] = self.layout.key.decode(key, position, scratch).map_err(key_error)?;
        }
        Ok(look(&values))
    }
}

impl EntryDecoder {
    /// Encodes the entry of another tree for the same row.
    pub fn encode(&mut self, table: &Table, key: &[u8], row: &[u8], into: &mut EntryEncoder) -> Result<()> {
        self.decode(table, key, row, |values| into.encode(&mut Vec::new(), |column| values[column]))?
    }
}

/// A key in words: `(l_orderkey, l_linenumber)=(7, 1)`; `width` columns of it.
pub fn describe_key(table: &Table, layout: &EntryLayout, key: &[u8], width: usize) -> String {
    let mut values = Vec::with_capacity(width);
    for (position, column) in layout.key_columns.iter().take(width).enumerate() {
        let mut scratch = Vec::new();
        let (_, data_type, _) = table.column_type(*column);
        values.push(match layout.key.decode(key, position, &mut scratch) {
            Ok(value) => shown(value, data_type),
            Err(_) => "?".into(),
        });
    }
    format!("({})=({})", table.names(&layout.key_columns[..width]), values.join(", "))
}

/// Whether any of the first `width` key columns is NULL: such keys are never equal.
pub fn has_null(layout: &EntryLayout, key: &[u8], width: usize) -> bool {
    (0..width).any(|position| {
        let mut scratch = Vec::new();
        layout.key.columns()[position].nullable
            && matches!(layout.key.decode(key, position, &mut scratch), Ok(ValueRef::Null))
    })
}

pub(crate) fn key_error(error: KeyError) -> SqlError {
    SqlError::data(format!("key: {error}"))
}

pub(crate) fn row_error(error: RowError) -> SqlError {
    SqlError::data(format!("row: {error}"))
}
