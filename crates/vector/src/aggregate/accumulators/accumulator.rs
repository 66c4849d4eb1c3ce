//! What is kept for each group.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, Int64Array};
use arrow_buffer::NullBuffer;

use super::assignment::Assignment;
use super::extreme::Extreme;
use super::pairs::Pairs;
use super::sum::Sum;
use crate::aggregate::call::{Call, Function};
use crate::{Column, Result, VectorError};

/// What is kept by group. An average has two of them: its sum and its NULLs.
#[derive(Clone)]
pub(crate) enum Accumulator {
    Nulls(Nulls),
    Sum(Sum),
    Extreme(Extreme),
}

/// Rows of each group whose argument is NULL; empty until there is one. Counts are the difference to all rows of a
/// group.
#[derive(Clone, Default)]
pub(crate) struct Nulls(Vec<i64>);

impl Nulls {
    fn note(&mut self, assignment: Assignment<'_>, valid: Option<&NullBuffer>, groups: usize) {
        if let Some(valid) = valid {
            self.0.resize(groups, 0);
            assignment.count_nulls(valid, &mut self.0);
        }
    }

    fn absorb(&mut self, other: &Self, pairs: &Pairs, groups: usize) {
        if other.0.is_empty() {
            return;
        }
        self.0.resize(groups, 0);
        pairs.for_each(|source, target| self.0[target] += other.0.get(source).unwrap_or(&0));
    }

    /// The rows of each of `groups` whose argument is not NULL.
    fn counts(&self, rows: &[i64], groups: Range<usize>) -> Vec<i64> {
        let nulls = |group: usize| self.0.get(group).unwrap_or(&0);
        rows[groups.clone()].iter().zip(groups).map(|(rows, group)| rows - nulls(group)).collect()
    }
}

/// Rows of a batch: groups there are with them, and were before.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) assignment: Assignment<'a>,
    pub(crate) rows: usize,
    pub(crate) groups: usize,
    pub(crate) known: usize,
}

impl Accumulator {
    /// Those of a call.
    pub(crate) fn of(call: &Call) -> Vec<Self> {
        let argument = call.argument.as_ref().unwrap_or(&call.result);
        let sum = || Self::Sum(Sum::new(argument));
        let nulls = || Self::Nulls(Nulls::default());
        match call.function {
            Function::Count => vec![nulls()],
            Function::Sum => vec![sum()],
            Function::Average => vec![sum(), nulls()],
            Function::Min => vec![Self::Extreme(Extreme::new(argument, false))],
            Function::Max => vec![Self::Extreme(Extreme::new(argument, true))],
        }
    }

    /// Whether it would keep the same, given the same arguments.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nulls(_), Self::Nulls(_)) => true,
            (Self::Sum(sum), Self::Sum(other)) => sum.is_like(other),
            (Self::Extreme(extreme), Self::Extreme(other)) => extreme.is_like(other),
            _ => false,
        }
    }

    /// Of no group yet, to absorb `others`.
    pub(crate) fn of_others(others: &[&Self]) -> Option<Self> {
        let sums = || others.iter().filter_map(|other| if let Self::Sum(sum) = other { Some(sum) } else { None });
        Some(match others.first()? {
            Self::Nulls(_) => Self::Nulls(Nulls::default()),
            Self::Sum(sum) => Self::Sum(sum.of_others(sums().map(|sum| &sum.seen))),
            Self::Extreme(extreme) => {
                let extremes = others.iter().filter_map(|o| if let Self::Extreme(e) = o { Some(e) } else { None });
                Self::Extreme(extreme.of_others(&extremes.collect::<Vec<_>>()))
            }
        })
    }

    /// The only group may have no row.
    pub(crate) fn expect_nothing(&mut self) {
        match self {
            Self::Nulls(_) => {}
            Self::Sum(sum) => sum.seen.track(0),
            Self::Extreme(extreme) => extreme.seen.track(0),
        }
    }

    /// Makes room for `groups` groups.
    pub(crate) fn resize(&mut self, groups: usize) {
        match self {
            Self::Nulls(_) => {}
            Self::Sum(sum) => sum.resize(groups),
            Self::Extreme(extreme) => extreme.resize(groups),
        }
    }

    /// Takes the rows of a batch for which `filter` is true.
    pub(crate) fn update(
        &mut self,
        step: Step<'_>,
        argument: Option<&Column>,
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        self.resize(step.groups);
        let nulls = argument.and_then(|column| column.array().nulls());
        let valid = match filter {
            None => nulls.cloned(),
            Some(filter) => {
                let kept = NullBuffer::new(filter.values().clone());
                NullBuffer::union(NullBuffer::union(Some(&kept), filter.nulls()).as_ref(), nulls)
            }
        };
        let valid = valid.as_ref().filter(|valid| valid.null_count() > 0);
        let column = || argument.ok_or_else(|| VectorError::internal("an aggregate without its argument"));
        match self {
            Self::Nulls(nulls) => {
                nulls.note(step.assignment, valid, step.groups);
                Ok(())
            }
            Self::Sum(sum) => {
                sum.seen.note(step.assignment, step.rows, valid, step.known);
                sum.update(step.assignment, column()?, valid)
            }
            Self::Extreme(extreme) => extreme.update(step.assignment, column()?, valid, step.known),
        }
    }

    /// Takes groups of another into those here, of which there are `groups`.
    pub(crate) fn absorb(&mut self, other: &Self, pairs: &Pairs, groups: usize) {
        match (self, other) {
            (Self::Nulls(nulls), Self::Nulls(more)) => nulls.absorb(more, pairs, groups),
            (Self::Sum(sum), Self::Sum(more)) => sum.absorb(more, pairs),
            (Self::Extreme(extreme), Self::Extreme(more)) => extreme.absorb(more, pairs),
            _ => {}
        }
    }

    /// A call's results for `groups`, whose rows are counted in `rows`, from its accumulators.
    pub(crate) fn finish(of: &[&Self], call: &Call, groups: Range<usize>, rows: &[i64]) -> Result<Column> {
        match of {
            [Self::Nulls(nulls)] => Ok(Column::new(Arc::new(Int64Array::from(nulls.counts(rows, groups))))),
            [Self::Sum(sum)] => sum.finish(groups, &call.result),
            [Self::Sum(sum), Self::Nulls(nulls)] => {
                let counts = nulls.counts(rows, groups.clone());
                sum.average(groups, &counts, &call.result)
            }
            [Self::Extreme(extreme)] => extreme.finish(groups),
            _ => Err(VectorError::internal("a call with accumulators of another")),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Nulls(nulls) => nulls.0.capacity() * size_of::<i64>(),
            Self::Sum(sum) => sum.memory_bytes(),
            Self::Extreme(extreme) => extreme.memory_bytes(),
        }
    }
}
