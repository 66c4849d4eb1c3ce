//! Short ranges: the rows whose keys in the primary tree or in an index begin with given values, in the order of the
//! keys.

use std::ops::Bound;

use saki_base::key::{encode_column, prefix_successor};
use saki_base::{KeyColumn, ValueRef};

use super::expr::{Expr, Inputs};
use saki_catalog::{Result, SqlError};

/// Which keys of a tree.
#[derive(Debug)]
pub struct Range {
    /// `None`: the primary tree.
    pub index: Option<usize>,
    /// Values of the leading key columns.
    pub prefix: Vec<Expr>,
    /// Of the key column behind the prefix, which has no NULLs; `true`: the value itself is in the range.
    pub low: Option<(Expr, bool)>,
    pub high: Option<(Expr, bool)>,
    pub is_reverse: bool,
    pub limit: Option<Expr>,
}

/// Encoded bounds.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A key that a range ends at, and whether it is in it; `None`: the range is open there.
type End = Option<(Vec<u8>, bool)>;

impl Range {
    /// The bounds of its keys, whose `columns` are those of its tree; `None` if a value is NULL, which equals nothing
    /// and is on no side of anything.
    pub fn bounds(&self, columns: &[KeyColumn], inputs: &Inputs<'_>) -> Result<Option<Bounds>> {
        let mut prefix = Vec::with_capacity(16);
        for (expr, column) in self.prefix.iter().zip(columns) {
            if !append(expr, *column, inputs, &mut prefix)? {
                return Ok(None);
            }
        }
        let end = |bound: &Option<(Expr, bool)>| -> Result<Option<End>> {
            let (Some((expr, is_inclusive)), Some(column)) = (bound, columns.get(self.prefix.len())) else {
                return Ok(Some(None));
            };
            let mut key = prefix.clone();
            Ok(append(expr, *column, inputs, &mut key)?.then_some(Some((key, *is_inclusive))))
        };
        let (Some(mut low), Some(mut high)) = (end(&self.low)?, end(&self.high)?) else { return Ok(None) };
        if columns.get(self.prefix.len()).is_some_and(|column| column.descending) {
            std::mem::swap(&mut low, &mut high);
        }
        let low = match low {
            None => Bound::Included(prefix.clone()),
            Some((key, true)) => Bound::Included(key),
            Some((key, false)) => match after(key) {
                Some(key) => Bound::Included(key),
                None => return Ok(None),
            },
        };
        let high = match high {
            None => after(prefix).map_or(Bound::Unbounded, Bound::Excluded),
            Some((key, false)) => Bound::Excluded(key),
            Some((key, true)) => after(key).map_or(Bound::Unbounded, Bound::Excluded),
        };
        Ok(Some((low, high)))
    }
}

/// Appends a value of a key column; `false` if it is NULL.
fn append(expr: &Expr, column: KeyColumn, inputs: &Inputs<'_>, key: &mut Vec<u8>) -> Result<bool> {
    match expr.value(column.data_type, inputs)? {
        ValueRef::Null => Ok(false),
        value => encode_column(column, value, key).map(|()| true).map_err(SqlError::from),
    }
}

/// The first key behind all that begin with `key`; `None` if there is none.
fn after(mut key: Vec<u8>) -> Option<Vec<u8>> {
    prefix_successor(&mut key).then_some(key)
}
