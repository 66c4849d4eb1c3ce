//! What a join's build side tells the scan of its probe side: which key values have a partner.

use arrow_array::BooleanArray;

use crate::{Bounds, Column, Result};

/// The values one key column of a build side has. Exact, or one that lets some values through that it does not have.
#[derive(Debug)]
pub struct KeyFilter;

impl KeyFilter {
    /// Of all values of `columns`, one after the other. `None` where the type has no such filter.
    pub fn of(columns: &[&Column]) -> Option<Self> {
        let _ = columns;
        todo!()
    }

    /// Least and greatest value of integers, dates and narrow decimals; `None` for other types. An empty filter has `min > max`.
    pub fn bounds(&self) -> Option<Bounds> {
        todo!()
    }

    /// No value passes.
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// The distinct values, if they are integers and at most `limit`, in ascending order.
    pub fn values(&self, limit: usize) -> Option<Vec<i64>> {
        let _ = limit;
        todo!()
    }

    /// Distinct values, exact or estimated.
    pub fn distinct(&self) -> usize {
        todo!()
    }

    /// Rows whose value may have a partner; NULL has none.
    pub fn select(&self, column: &Column) -> Result<BooleanArray> {
        let _ = column;
        todo!()
    }
}
