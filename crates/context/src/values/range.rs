//! Which keys of a tree a statement is about.

use std::ops::Bound;

use datafusion::common::ScalarValue;
use saki_base::key::{encode_beginning, encode_column, prefix_successor};
use saki_base::{KeyColumn, Pattern, ValueRef};

use super::condition::Values;
use super::expr::{Expr, Inputs, Misfit};
use saki_catalog::SqlError;

/// Ranges of a statement at most. More are planned.
const RANGES_MAX: usize = 1 << 17;

/// Keys that begin with given values.
#[derive(Default, Debug)]
pub struct Range {
    /// Values of the leading key columns: every combination of them.
    pub prefix: Vec<Values>,
    /// Of the key column behind the prefix; `true`: the value itself is in the range. No NULL is then.
    pub low: Option<(Expr, bool)>,
    pub high: Option<(Expr, bool)>,
    /// The pattern that texts of that column are like, in place of bounds.
    pub like: Option<Expr>,
    /// Whether NULLs of that column are left out without a bound as well.
    pub is_not_null: bool,
}

/// Encoded bounds: from the first key on to before the second; `None`: to the end.
pub type Bounds = (Vec<u8>, Option<Vec<u8>>);

/// Bounds as trees and deltas take them.
pub fn borrowed((low, high): &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(low), high.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
}

/// A key that a range ends at, and whether it is in it; `None`: the range is open there.
type End = Option<(Vec<u8>, bool)>;

/// The bounds of all ranges of a tree whose key has these `columns`: in order, apart from each other.
pub fn bounds(ranges: &[Range], columns: &[KeyColumn], inputs: &Inputs<'_>) -> Result<Vec<Bounds>, Misfit> {
    let mut all = Vec::new();
    for range in ranges {
        range.bounds(columns, inputs, &mut all)?;
    }
    Ok(if all.len() > 1 { merged(all) } else { all })
}

/// The keys that begin with the prefixes of all ranges; of whole keys, the keys. In order, each once.
pub fn keys(ranges: &[Range], columns: &[KeyColumn], inputs: &Inputs<'_>) -> Result<Vec<Vec<u8>>, Misfit> {
    let mut all = Vec::new();
    for range in ranges {
        all.append(&mut range.prefixes(columns, inputs)?);
        if all.len() > RANGES_MAX {
            return Err(Misfit::Ordinary);
        }
    }
    if all.len() > 1 {
        all.sort_unstable();
        all.dedup();
    }
    Ok(all)
}

/// In order; what overlaps becomes one.
fn merged(mut all: Vec<Bounds>) -> Vec<Bounds> {
    all.sort_unstable();
    let mut merged: Vec<Bounds> = Vec::with_capacity(all.len());
    for (low, high) in all {
        match merged.last_mut() {
            Some((_, None)) => break,
            Some((_, Some(last))) if low <= *last => match high {
                Some(high) => *last = high.max(std::mem::take(last)),
                None => merged.last_mut().expect("there is one").1 = None,
            },
            _ => merged.push((low, high)),
        }
    }
    merged
}

impl Range {
    /// How much it says: key columns with values twice, bounds once each.
    pub fn width(&self) -> usize {
        let bounds = [self.low.is_some(), self.high.is_some(), self.like.is_some(), self.like.is_some()];
        2 * self.prefix.len() + bounds.into_iter().filter(|is_there| *is_there).count()
    }

    /// How many prefixes its values make, of parameters with these values.
    pub fn count(&self, parameters: &[ScalarValue]) -> usize {
        self.prefix.iter().map(|values| values.count(parameters)).fold(1, usize::saturating_mul)
    }

    /// Whether it is less than the whole tree.
    pub fn is_bounded(&self) -> bool {
        self.width() > 0
    }

    /// Whether it is less than what lies on one side of a value.
    pub fn is_narrow(&self) -> bool {
        !self.prefix.is_empty() || self.low.is_some() && self.high.is_some() || self.like.is_some()
    }

    /// Whether its prefix is one.
    pub fn is_single(&self) -> bool {
        self.prefix.iter().all(Values::is_single)
    }

    /// NULLs are the greatest, and on no side of a bound.
    fn leaves_nulls_out(&self) -> bool {
        self.is_not_null || self.low.is_some() || self.high.is_some()
    }

    fn bounds(&self, columns: &[KeyColumn], inputs: &Inputs<'_>, all: &mut Vec<Bounds>) -> Result<(), Misfit> {
        let behind = columns.get(self.prefix.len());
        for prefix in self.prefixes(columns, inputs)? {
            if let (Some(pattern), Some(column)) = (&self.like, behind) {
                all.extend(texts_like(pattern, *column, prefix, inputs)?);
                continue;
            }
            let end = |bound: &Option<(Expr, bool)>| end(bound, behind, &prefix, inputs);
            let (Some(mut low), Some(mut high)) = (end(&self.low)?, end(&self.high)?) else { return Ok(()) };
            if high.is_none()
                && let Some(column) = behind.filter(|column| column.nullable && self.leaves_nulls_out())
            {
                let mut nulls = prefix.clone();
                encode(*column, ValueRef::Null, &mut nulls)?;
                high = Some((nulls, false));
            }
            if behind.is_some_and(|column| column.descending) {
                std::mem::swap(&mut low, &mut high);
            }
            let low = match low {
                None => Some(prefix.clone()),
                Some((key, true)) => Some(key),
                Some((key, false)) => after(key),
            };
            let high = match high {
                None => after(prefix),
                Some((key, false)) => Some(key),
                Some((key, true)) => after(key),
            };
            // Nothing is behind the last key, and nothing between bounds that cross.
            if let Some(low) = low
                && high.as_ref().is_none_or(|high| low < *high)
            {
                all.push((low, high));
            }
        }
        if all.len() <= RANGES_MAX { Ok(()) } else { Err(Misfit::Ordinary) }
    }

    /// Every combination of the prefix's values, encoded; NULL equals nothing.
    fn prefixes(&self, columns: &[KeyColumn], inputs: &Inputs<'_>) -> Result<Vec<Vec<u8>>, Misfit> {
        let mut prefixes = vec![Vec::with_capacity(16)];
        for (values, column) in self.prefix.iter().zip(columns) {
            if values.is_single() && prefixes.len() == 1 {
                let mut is_null = false;
                values.visit(inputs, |value| {
                    match value.exactly(column.data_type) {
                        None | Some(ValueRef::Null) => is_null = true,
                        Some(value) => encode(*column, value, &mut prefixes[0])?,
                    }
                    Ok(())
                })?;
                if is_null {
                    return Ok(Vec::new());
                }
                continue;
            }
            let mut longer = Vec::new();
            for prefix in &prefixes {
                values.visit(inputs, |value| {
                    if let Some(value) = value.exactly(column.data_type).filter(|value| *value != ValueRef::Null) {
                        let mut key = prefix.clone();
                        encode(*column, value, &mut key)?;
                        longer.push(key);
                    }
                    if longer.len() <= RANGES_MAX { Ok(()) } else { Err(Misfit::Ordinary) }
                })?;
            }
            prefixes = longer;
        }
        Ok(prefixes)
    }
}

/// The texts of a column behind a prefix that are like a pattern; `None` if that is NULL.
fn texts_like(
    pattern: &Expr,
    column: KeyColumn,
    mut key: Vec<u8>,
    inputs: &Inputs<'_>,
) -> Result<Option<Bounds>, Misfit> {
    let ValueRef::Text(pattern) = pattern.value(inputs)?.value else { return Ok(None) };
    match Pattern::read(pattern).ok_or(Misfit::Ordinary)? {
        Pattern::Text(text) => encode(column, ValueRef::Text(text), &mut key)?,
        Pattern::Beginning(text) => encode_beginning(column, text, &mut key).map_err(SqlError::from)?,
    }
    Ok(Some((key.clone(), after(key))))
}

/// Where a range ends on one side; `None` if that is NULL, which is on no side of anything.
fn end(
    bound: &Option<(Expr, bool)>,
    column: Option<&KeyColumn>,
    prefix: &[u8],
    inputs: &Inputs<'_>,
) -> Result<Option<End>, Misfit> {
    let (Some((expr, is_inclusive)), Some(column)) = (bound, column) else { return Ok(Some(None)) };
    match expr.value(inputs)?.exactly(column.data_type) {
        // Between two values of the type, or beyond all of them.
        None => Err(Misfit::Ordinary),
        Some(ValueRef::Null) => Ok(None),
        Some(value) => {
            let mut key = prefix.to_vec();
            encode(*column, value, &mut key)?;
            Ok(Some(Some((key, *is_inclusive))))
        }
    }
}

fn encode(column: KeyColumn, value: ValueRef<'_>, key: &mut Vec<u8>) -> Result<(), Misfit> {
    encode_column(column, value, key).map_err(|error| SqlError::from(error).into())
}

/// The first key behind all that begin with `key`; `None` if there is none.
fn after(mut key: Vec<u8>) -> Option<Vec<u8>> {
    prefix_successor(&mut key).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(low: &str, high: &str) -> Bounds {
        (low.into(), (!high.is_empty()).then(|| high.into()))
    }

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let all = vec![bounds("m", "n"), bounds("a", "c"), bounds("b", "d"), bounds("d", "e"), bounds("b", "bb")];
        assert_eq!(merged(all), [bounds("a", "e"), bounds("m", "n")]);
        let open = vec![bounds("c", ""), bounds("a", "b"), bounds("d", "e"), bounds("c", "d")];
        assert_eq!(merged(open), [bounds("a", "b"), bounds("c", "")]);
    }
}
