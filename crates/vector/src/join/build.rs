//! Build rows on their way into a table.

use arrow_schema::DataType;

use super::payload::column_bytes;
use super::ranges::{RangeKey, Ranges};
use crate::key_index::code;
use crate::key_index::positions::MAX_ROWS;
use crate::{Batch, Bounds, Column, Result, VectorError};

/// Build rows of one thread, being gathered. Their columns stay as they came until the table is made.
#[derive(Debug)]
pub struct JoinBuild {
    pub(super) key_types: Vec<DataType>,
    pub(super) payload_types: Vec<DataType>,
    pub(super) nulls_equal: bool,
    pub(super) range: Option<RangeKey>,
    /// Of each batch, the values that bounds are for.
    pub(super) ranged: Vec<Column>,
    /// Key columns of each batch, and its rows.
    pub(super) keys: Vec<(Vec<Column>, usize)>,
    /// What the codes of each key column lie between; `None`: a key column has values without a code.
    pub(super) bounds: Option<Vec<Option<Bounds>>>,
    /// Of each payload column, that of each batch.
    pub(super) payload: Vec<Vec<Column>>,
    rows: usize,
    bytes: usize,
}

impl JoinBuild {
    /// `keys`: logical types of the key columns, equal on both sides; `payload`: of the other columns that are kept.
    pub fn new(keys: &[DataType], payload: &[DataType]) -> Self {
        Self {
            key_types: keys.to_vec(),
            payload_types: payload.to_vec(),
            nulls_equal: false,
            range: None,
            ranged: Vec::new(),
            keys: Vec::new(),
            bounds: keys.iter().all(code::has_codes).then(|| vec![None; keys.len()]),
            payload: vec![Vec::new(); payload.len()],
            rows: 0,
            bytes: 0,
        }
    }

    /// Keys match as by IS NOT DISTINCT FROM: NULL equals NULL. To be said of every part of a table.
    pub fn with_nulls_equal(mut self) -> Self {
        self.nulls_equal = true;
        self
    }

    /// Of the rows with equal keys, those match whose value lies within a probe row's bounds. To be said of every part
    /// of a table.
    pub fn with_range(mut self, range: Option<RangeKey>) -> Self {
        self.range = range;
        self
    }

    /// Adds rows. `keys` has, after the columns that are to be equal, that with the values for a range, if the join has
    /// one; `batch` has the payload columns. Rows with a NULL key stay as rows (outer joins want them) and match
    /// nothing.
    pub fn push(&mut self, keys: &[Column], batch: &Batch) -> Result<()> {
        let (ranged, keys) = match (&self.range, keys) {
            (Some(_), [keys @ .., ranged]) => (Some(ranged), keys),
            (_, keys) => (None, keys),
        };
        if ranged.is_some() != self.range.is_some()
            || keys.len() != self.key_types.len()
            || batch.columns.len() != self.payload.len()
        {
            return Err(VectorError::internal("a build batch with other columns than the join has"));
        }
        if batch.rows == 0 {
            return Ok(());
        }
        if self.rows + batch.rows > MAX_ROWS {
            return Err(VectorError::internal("more than a thousand million rows on a join's build side"));
        }
        if let Some(bounds) = &mut self.bounds {
            for (bounds, column) in bounds.iter_mut().zip(keys) {
                if widen(bounds, column)?.is_none() {
                    self.bounds = None;
                    break;
                }
            }
        }
        self.bytes += keys.iter().chain(ranged).chain(&batch.columns).map(column_bytes).sum::<usize>();
        self.rows += batch.rows;
        self.keys.push((keys.to_vec(), batch.rows));
        self.ranged.extend(ranged.cloned());
        for (columns, column) in self.payload.iter_mut().zip(&batch.columns) {
            columns.push(column.clone());
        }
        Ok(())
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory the rows take, in bytes; with what sorting them will take, if they are to be sorted.
    pub fn memory_bytes(&self) -> usize {
        let sorting = if self.range.is_some() { self.rows * Ranges::SORTING_BYTES } else { 0 };
        self.bytes + sorting
    }

    /// Puts batches in the order of their first keys, if there is one key column that has codes. Threads scan a table's
    /// segments in turn; after this, rows that were scanned in the order of their keys are in that order again, whoever
    /// scanned them.
    pub(super) fn sort_batches(&mut self) -> Result<()> {
        if self.bounds.is_none() || self.key_types.len() != 1 {
            return Ok(());
        }
        let first = |(columns, _): &(Vec<Column>, usize)| -> Result<i64> {
            let row = columns[0].slice(0, 1);
            let bounds = code::codable(row.array()).map(|array| code::code_bounds(array.as_ref())).transpose()?;
            Ok(bounds.flatten().map_or(i64::MIN, |bounds| bounds.min))
        };
        let first = self.keys.iter().map(first).collect::<Result<Vec<_>>>()?;
        if first.is_sorted() {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..first.len()).collect();
        order.sort_by_key(|batch| first[*batch]);
        self.keys = order.iter().map(|batch| self.keys[*batch].clone()).collect();
        if self.range.is_some() {
            self.ranged = order.iter().map(|batch| self.ranged[*batch].clone()).collect();
        }
        for columns in &mut self.payload {
            *columns = order.iter().map(|batch| columns[*batch].clone()).collect();
        }
        Ok(())
    }

    /// Puts the rows of `other` after these.
    pub(super) fn append(&mut self, other: Self) -> Result<()> {
        if (&self.key_types, &self.payload_types, self.nulls_equal, &self.range)
            != (&other.key_types, &other.payload_types, other.nulls_equal, &other.range)
        {
            return Err(VectorError::internal("parts of different joins"));
        }
        if self.rows + other.rows > MAX_ROWS {
            return Err(VectorError::internal("more than a thousand million rows on a join's build side"));
        }
        self.bounds = self.bounds.take().zip(other.bounds).map(|(bounds, others)| {
            let both = |a: Bounds, b: Bounds| Bounds { min: a.min.min(b.min), max: a.max.max(b.max) };
            let unite = |(a, b): (Option<Bounds>, Option<Bounds>)| a.zip(b).map(|(a, b)| both(a, b)).or(a).or(b);
            bounds.into_iter().zip(others).map(unite).collect()
        });
        self.keys.extend(other.keys);
        self.ranged.extend(other.ranged);
        for (columns, others) in self.payload.iter_mut().zip(other.payload) {
            columns.extend(others);
        }
        self.rows += other.rows;
        self.bytes += other.bytes;
        Ok(())
    }
}

/// Widens `bounds` by the codes of a column; `None`: it has values without a code.
fn widen(bounds: &mut Option<Bounds>, column: &Column) -> Result<Option<()>> {
    let Some(array) = code::codable(column.array()) else { return Ok(None) };
    if let Some(new) = code::code_bounds(array.as_ref())? {
        let old = bounds.unwrap_or(new);
        *bounds = Some(Bounds { min: old.min.min(new.min), max: old.max.max(new.max) });
    }
    Ok(Some(()))
}
