//! Sums, and averages as sums divided.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use super::assignment::Assignment;
use super::pairs::Pairs;
use super::seen::Seen;
use crate::aggregate::values::{self, Integers, decimals, float_array, integer_array, unfit};
use crate::expr::Number;
use crate::{Column, FloatRange, Result, VectorError};

/// Exact sums of integers and decimals, whatever the order of rows; sums of floats in the order of rows.
#[derive(Clone)]
pub(crate) struct Sum {
    argument: DataType,
    totals: Totals,
    pub(crate) seen: Seen,
    /// Whether a sum of finite floats is not.
    overflows: bool,
}

#[derive(Clone)]
enum Totals {
    /// No total is further from 0 than `reach`.
    Narrow {
        sums: Vec<i64>,
        reach: u64,
    },
    /// 32 bytes hold any number of values of 16.
    Wide(Vec<i256>),
    Floats(Vec<f64>),
}

const LARGEST: u64 = i64::MAX as u64;

/// The greatest distance from 0 of any sum of these values.
fn reach(values: &[i64]) -> u64 {
    let (min, max) = values.iter().fold((0, 0), |(min, max): (i64, i64), value| (min.min(*value), max.max(*value)));
    min.unsigned_abs().max(max.unsigned_abs()).saturating_mul(values.len() as u64)
}

impl Sum {
    pub(crate) fn new(argument: &DataType) -> Self {
        let totals = match argument {
            DataType::Float32 | DataType::Float64 => Totals::Floats(Vec::new()),
            _ => Totals::Narrow { sums: Vec::new(), reach: 0 },
        };
        Self { argument: argument.clone(), totals, seen: Seen::default(), overflows: false }
    }

    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.argument == other.argument
    }

    /// Of no group yet, to absorb others that have `seen` values.
    pub(crate) fn of_others<'a>(&self, seen: impl Iterator<Item = &'a Seen>) -> Self {
        Self { seen: Seen::of_others(seen), ..Self::new(&self.argument) }
    }

    pub(crate) fn resize(&mut self, groups: usize) {
        self.seen.resize(groups);
        match &mut self.totals {
            Totals::Narrow { sums, .. } => sums.resize(groups, 0),
            Totals::Wide(sums) => sums.resize(groups, i256::ZERO),
            Totals::Floats(sums) => sums.resize(groups, 0.0),
        }
    }

    /// Adds the rows of a batch that `valid` includes.
    pub(crate) fn update(
        &mut self,
        assignment: Assignment<'_>,
        column: &Column,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        if let Totals::Floats(sums) = &mut self.totals {
            let values = values::floats(column).ok_or_else(|| unfit("other values", &self.argument))?;
            self.overflows |= add_floats(assignment, &values, valid, sums);
            return Ok(());
        }
        let Some(integers) = Integers::of(column) else {
            let values = values::wide(column, valid, 0)?;
            self.totals.widen();
            if let Totals::Wide(sums) = &mut self.totals {
                add_wide(assignment, values.into_iter().map(i256::from_i128), sums);
            }
            return Ok(());
        };
        let values = integers.widen(valid, 0);
        let reach = match column.known_bounds() {
            Some(bounds) => {
                let most = bounds.min.unsigned_abs().max(bounds.max.unsigned_abs());
                most.saturating_mul(values.len() as u64)
            }
            None => reach(&values),
        };
        match self.totals.with_reach(reach) {
            Totals::Narrow { sums, .. } => assignment.add(&values, sums),
            Totals::Wide(sums) => match assignment {
                // The batch's own sums may still be narrow: one wide addition for each group then.
                Assignment::Whole | Assignment::Few(_) if reach <= LARGEST => {
                    let mut batch = vec![0; sums.len()];
                    assignment.add(&values, &mut batch);
                    sums.iter_mut().zip(batch).for_each(|(sum, more)| *sum = sum.wrapping_add(i256::from(more)));
                }
                _ => add_wide(assignment, values.iter().map(|value| i256::from(*value)), sums),
            },
            Totals::Floats(_) => {}
        }
        Ok(())
    }

    /// Adds the totals of another.
    pub(crate) fn absorb(&mut self, other: &Self, pairs: &Pairs) {
        self.seen.absorb(&other.seen, pairs);
        self.overflows |= other.overflows;
        match &other.totals {
            Totals::Narrow { sums: more, reach } => match self.totals.with_reach(*reach) {
                Totals::Narrow { sums, .. } => {
                    pairs.for_each(|source, target| sums[target] = sums[target].wrapping_add(more[source]));
                }
                Totals::Wide(sums) => pairs.for_each(|source, target| {
                    sums[target] = sums[target].wrapping_add(i256::from(more[source]));
                }),
                Totals::Floats(_) => {}
            },
            Totals::Wide(more) => {
                self.totals.widen();
                if let Totals::Wide(sums) = &mut self.totals {
                    pairs.for_each(|source, target| sums[target] = sums[target].wrapping_add(more[source]));
                }
            }
            Totals::Floats(more) => {
                if let Totals::Floats(sums) = &mut self.totals {
                    let overflows = &mut self.overflows;
                    pairs.for_each(|source, target| {
                        let (sum, is_over) = sums[target].add(more[source]);
                        sums[target] = sum;
                        *overflows |= is_over;
                    });
                }
            }
        }
    }

    /// The sums of `groups` as `result`.
    ///
    /// # Errors
    /// If one of them is out of its type's range.
    pub(crate) fn finish(&self, groups: Range<usize>, result: &DataType) -> Result<Column> {
        self.refuse_overflow()?;
        let nulls = self.seen.nulls(groups.clone());
        match &self.totals {
            Totals::Narrow { sums, .. } => {
                let sums = &sums[groups];
                match result {
                    DataType::Float32 | DataType::Float64 => {
                        Ok(Column::new(float_array(sums.iter().map(|sum| *sum as f64).collect(), nulls, result)?))
                    }
                    DataType::Decimal128(precision, _) if *precision < 19 => {
                        within(sums.iter().map(|sum| i128::from(*sum)), *precision)?;
                        Ok(Column::new(integer_array(sums.to_vec(), nulls, result)?))
                    }
                    DataType::Int64 | DataType::Decimal128(..) => {
                        Ok(Column::new(Arc::new(Int64Array::new(sums.to_vec().into(), nulls))))
                    }
                    other => Err(unfit("a sum of integers", other)),
                }
            }
            Totals::Wide(sums) => {
                let sums = &sums[groups];
                match result {
                    DataType::Float32 | DataType::Float64 => {
                        Ok(Column::new(float_array(sums.iter().map(to_float).collect(), nulls, result)?))
                    }
                    DataType::Int64 => {
                        let narrow = |sum: &i256| sum.to_i128().and_then(|sum| i64::try_from(sum).ok());
                        let sums: Option<Vec<i64>> = sums.iter().map(narrow).collect();
                        let sums = sums.ok_or_else(|| VectorError::OutOfRange("bigint".to_owned()))?;
                        Ok(Column::new(Arc::new(Int64Array::new(sums.into(), nulls))))
                    }
                    DataType::Decimal128(precision, _) => {
                        let sums: Option<Vec<i128>> = sums.iter().map(|sum| sum.to_i128()).collect();
                        let sums = sums.ok_or_else(numeric)?;
                        within(sums.iter().copied(), *precision)?;
                        decimals(sums, nulls, result)
                    }
                    other => Err(unfit("a sum of integers", other)),
                }
            }
            Totals::Floats(sums) => Ok(Column::new(float_array(sums[groups].to_vec(), nulls, result)?)),
        }
    }

    /// The sums of `groups` divided by how many values each has. Decimals get the result's scale and are
    /// rounded, halves away from zero.
    ///
    /// # Errors
    /// If a sum or an average is out of its type's range.
    pub(crate) fn average(&self, groups: Range<usize>, counts: &[i64], result: &DataType) -> Result<Column> {
        self.refuse_overflow()?;
        let valid: NullBuffer = counts.iter().map(|count| *count != 0).collect();
        let nulls = Some(valid).filter(|valid| valid.null_count() > 0);
        let quotients = |sums: &mut dyn Iterator<Item = f64>| {
            let quotients = sums.zip(counts).map(|(sum, count)| if *count == 0 { 0.0 } else { sum / *count as f64 });
            Ok(Column::new(float_array(quotients.collect(), nulls.clone(), result)?))
        };
        let scale_by = match (&self.argument, result) {
            (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => {
                10i128.checked_pow((to - from).max(0) as u32)
            }
            _ => None,
        };
        let (DataType::Decimal128(precision, _), Some(scale_by)) = (result, scale_by) else {
            return match &self.totals {
                Totals::Narrow { sums, .. } => quotients(&mut sums[groups].iter().map(|sum| *sum as f64)),
                Totals::Wide(sums) => quotients(&mut sums[groups].iter().map(to_float)),
                Totals::Floats(sums) => quotients(&mut sums[groups].iter().copied()),
            };
        };
        let averages: Option<Vec<i128>> = match &self.totals {
            Totals::Narrow { sums, .. } => {
                let average = |(sum, count): (&i64, &i64)| divide_narrow(*sum, *count, scale_by);
                Some(sums[groups].iter().zip(counts).map(average).collect())
            }
            Totals::Wide(sums) => {
                sums[groups].iter().zip(counts).map(|(sum, count)| divide(*sum, *count, scale_by)).collect()
            }
            Totals::Floats(_) => return Err(unfit("floats", result)),
        };
        let averages = averages.ok_or_else(numeric)?;
        within(averages.iter().copied(), *precision)?;
        decimals(averages, nulls, result)
    }

    fn refuse_overflow(&self) -> Result<()> {
        if self.overflows { Err(VectorError::FloatRange(FloatRange::Overflow)) } else { Ok(()) }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let totals = match &self.totals {
            Totals::Narrow { sums, .. } => sums.capacity() * size_of::<i64>(),
            Totals::Wide(sums) => sums.capacity() * size_of::<i256>(),
            Totals::Floats(sums) => sums.capacity() * size_of::<f64>(),
        };
        totals + self.seen.memory_bytes()
    }
}

impl Totals {
    /// Gets ready for totals to go `more` further from 0.
    fn with_reach(&mut self, more: u64) -> &mut Self {
        if let Self::Narrow { sums, reach } = self {
            *reach = match reach.saturating_add(more) {
                sum if sum <= LARGEST => sum,
                // Too much if all values were of one group and one sign. They may not have been.
                _ => sums.iter().map(|sum| sum.unsigned_abs()).max().unwrap_or(0).saturating_add(more),
            };
            if *reach > LARGEST {
                self.widen();
            }
        }
        self
    }

    fn widen(&mut self) {
        if let Self::Narrow { sums, .. } = self {
            *self = Self::Wide(sums.iter().map(|sum| i256::from(*sum)).collect());
        }
    }
}

fn add_wide(assignment: Assignment<'_>, values: impl Iterator<Item = i256>, sums: &mut [i256]) {
    assignment.for_each(values, |group, value| sums[group] = sums[group].wrapping_add(value));
}

/// Whether a sum of what is finite is not, which PostgreSQL's `+` refuses.
fn add_floats(assignment: Assignment<'_>, values: &[f64], valid: Option<&NullBuffer>, sums: &mut [f64]) -> bool {
    let mut overflows = false;
    let mut add = |group: usize, value: f64| {
        let (sum, is_over) = sums[group].add(value);
        sums[group] = sum;
        overflows |= is_over;
    };
    match valid {
        None => assignment.for_each(values, |group, value| add(group, *value)),
        Some(valid) => assignment.for_each(values.iter().zip(valid), |group, (value, valid)| {
            if valid {
                add(group, *value);
            }
        }),
    }
    overflows
}

fn divide_narrow(sum: i64, count: i64, scale_by: i128) -> i128 {
    if count == 0 {
        return 0;
    }
    let narrow = i64::try_from(scale_by).ok().and_then(|scale_by| sum.checked_mul(scale_by));
    match narrow {
        // Division of 16 bytes costs ten times as much.
        Some(scaled) => {
            let is_more = (scaled % count).unsigned_abs() >= count.unsigned_abs().div_ceil(2);
            i128::from(scaled / count + if is_more { scaled.signum() } else { 0 })
        }
        None => scale_quotient(i128::from(sum), i128::from(count), scale_by).unwrap_or(i128::MAX),
    }
}

/// `sum * scale_by / count`, rounded, though the product may not fit.
fn scale_quotient(sum: i128, count: i128, scale_by: i128) -> Option<i128> {
    let (whole, rest) = (sum / count, sum % count);
    let fraction = rest.checked_mul(scale_by)?;
    let is_more = (fraction % count).unsigned_abs() >= count.unsigned_abs().div_ceil(2);
    let step = if is_more { fraction.signum() } else { 0 };
    whole.checked_mul(scale_by)?.checked_add(fraction / count)?.checked_add(step)
}

fn divide(sum: i256, count: i64, scale_by: i128) -> Option<i128> {
    if count == 0 {
        return Some(0);
    }
    let (count, scale_by) = (i256::from(count), i256::from_i128(scale_by));
    let scaled = sum.checked_mul(scale_by)?;
    let is_more = scaled.checked_rem(count)?.wrapping_abs().checked_mul(i256::from(2))? >= count;
    let step = if is_more { scaled.signum() } else { i256::ZERO };
    scaled.checked_div(count)?.checked_add(step)?.to_i128()
}

fn to_float(sum: &i256) -> f64 {
    let (low, high) = sum.to_parts();
    match sum.to_i128() {
        Some(sum) => sum as f64,
        None => high as f64 * 2f64.powi(128) + low as f64,
    }
}

/// Checks that decimals have at most `precision` digits.
fn within(mut values: impl Iterator<Item = i128>, precision: u8) -> Result<()> {
    let limit = 10i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX).unsigned_abs();
    match values.all(|value| value.unsigned_abs() < limit) {
        true => Ok(()),
        false => Err(numeric()),
    }
}

fn numeric() -> VectorError {
    VectorError::OutOfRange("numeric".to_owned())
}
