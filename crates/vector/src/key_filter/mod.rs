//! What a join's build side tells the scan of its probe side: which key values have a partner.
//!
//! | values | filter | exact |
//! |---|---|---|
//! | integers, dates, decimals close together | a bit for each value there may be (`bitmap`) | yes |
//! | few of them | a list, and a hash table of it | yes |
//! | many, far apart | least and greatest, and a Bloom filter (`bloom`) | no |
//! | text, binary, uuid | a Bloom filter of hashes (`text`) | no |

mod bitmap;
mod bits;
mod bloom;
mod codes;
#[cfg(test)]
mod tests;
mod text;

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBuffer;
use codes::CodeFilter;
use text::TextFilter;

use crate::{Bounds, Column, Result};

/// The values one key column of a build side has. Exact, or one that lets some values through that it does not have.
#[derive(Debug)]
pub struct KeyFilter {
    values: Values,
}

#[derive(Debug)]
enum Values {
    None,
    Codes(CodeFilter),
    Text(TextFilter),
}

impl KeyFilter {
    /// Of all values of `columns`, one after the other. `None` where the type has no such filter, or a decimal takes
    /// more than 8 bytes.
    pub fn of(columns: &[&Column]) -> Option<Self> {
        let values = if let Some(arrays) = codes::codable(columns) {
            CodeFilter::of(&arrays).ok()?.map(Values::Codes)
        } else if columns.iter().all(|column| TextFilter::knows(column)) {
            TextFilter::of(columns).ok()?.map(Values::Text)
        } else {
            return None;
        };
        Some(Self { values: values.unwrap_or(Values::None) })
    }

    /// Least and greatest value of integers, dates, timestamps and narrow decimals; `None` for other types. An empty
    /// filter has `min > max`.
    pub fn bounds(&self) -> Option<Bounds> {
        match &self.values {
            Values::None => Some(Bounds { min: i64::MAX, max: i64::MIN }),
            Values::Codes(filter) => filter.bounds(),
            Values::Text(_) => None,
        }
    }

    /// No value passes.
    pub fn is_empty(&self) -> bool {
        matches!(self.values, Values::None)
    }

    /// Only values that a build row has pass.
    pub fn is_exact(&self) -> bool {
        match &self.values {
            Values::None => true,
            Values::Codes(filter) => filter.is_exact(),
            Values::Text(_) => false,
        }
    }

    /// The distinct values, if they are integers and at most `limit`, in ascending order.
    pub fn values(&self, limit: usize) -> Option<Vec<i64>> {
        match &self.values {
            Values::None => Some(Vec::new()),
            Values::Codes(filter) => filter.values(limit),
            Values::Text(_) => None,
        }
    }

    /// Distinct values, exact or estimated.
    pub fn distinct(&self) -> usize {
        match &self.values {
            Values::None => 0,
            Values::Codes(filter) => filter.distinct(),
            Values::Text(filter) => filter.distinct(),
        }
    }

    /// Whether a value from `min` to `max`, both included, may have a partner: what zone maps are asked. True for types
    /// without bounds.
    pub fn may_contain_range(&self, min: i64, max: i64) -> bool {
        match &self.values {
            Values::None => false,
            Values::Codes(filter) => filter.may_contain_range(min, max),
            Values::Text(_) => true,
        }
    }

    /// Rows whose value may have a partner; NULL has none.
    pub fn select(&self, column: &Column) -> Result<BooleanArray> {
        let bits = match &self.values {
            Values::None => BooleanBuffer::new_unset(column.len()),
            Values::Codes(filter) => filter.select(column)?,
            Values::Text(filter) => filter.select(column)?,
        };
        Ok(BooleanArray::new(bits, None))
    }
}
