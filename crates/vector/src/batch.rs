//! Rows between operators.

use arrow_array::{BooleanArray, UInt32Array};

use crate::Result;
use crate::column::{Column, Keep};

/// Columns of equal length. `rows` stands on its own: a batch may have no column.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub columns: Vec<Column>,
    pub rows: usize,
}

impl Batch {
    pub fn new(columns: Vec<Column>, rows: usize) -> Self {
        debug_assert!(columns.iter().all(|column| column.len() == rows));
        Self { columns, rows }
    }

    pub fn slice(&self, start: usize, rows: usize) -> Self {
        Self { columns: self.columns.iter().map(|column| column.slice(start, rows)).collect(), rows }
    }

    /// The rows for which `keep` is true.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Self> {
        let rows = keep.true_count();
        if rows == self.rows {
            return Ok(self.clone());
        }
        let keep = Keep::of(keep, self.columns.len());
        let columns = self.columns.iter().map(|column| column.keep(&keep)).collect::<Result<_>>()?;
        Ok(Self { columns, rows })
    }

    /// The rows at `rows`; a NULL position gives NULLs.
    pub fn take(&self, rows: &UInt32Array) -> Result<Self> {
        let columns = self.columns.iter().map(|column| column.take(rows)).collect::<Result<_>>()?;
        Ok(Self { columns, rows: rows.len() })
    }

    /// The columns at `positions`.
    pub fn project(&self, positions: &[usize]) -> Self {
        Self { columns: positions.iter().map(|position| self.columns[*position].clone()).collect(), rows: self.rows }
    }
}
