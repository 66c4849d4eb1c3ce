//! What is kept of one call for each group.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, Int64Array};
use arrow_buffer::NullBuffer;

use super::assignment::Assignment;
use super::extreme::Extreme;
use super::seen::Seen;
use super::sum::Sum;
use super::{Call, Function};
use crate::{Column, Result, VectorError};

pub(super) enum Accumulator {
    Count(Nulls),
    Sum(Sum),
    Average(Sum, Nulls),
    Extreme(Extreme),
}

/// Rows of each group whose argument is NULL; empty until there is one. Counts are the difference to all rows of a group.
#[derive(Default)]
pub(super) struct Nulls(Vec<i64>);

impl Nulls {
    fn note(&mut self, assignment: Assignment<'_>, valid: Option<&NullBuffer>, groups: usize) {
        if let Some(valid) = valid {
            self.0.resize(groups, 0);
            assignment.count_nulls(valid, &mut self.0);
        }
    }

    fn absorb(&mut self, other: &Self, sources: &[u32], targets: &[u32], groups: usize) {
        if other.0.is_empty() {
            return;
        }
        self.0.resize(groups, 0);
        for (source, target) in sources.iter().zip(targets) {
            self.0[*target as usize] += other.0.get(*source as usize).unwrap_or(&0);
        }
    }

    /// The rows of each of `groups` whose argument is not NULL.
    fn counts(&self, rows: &[i64], groups: Range<usize>) -> Vec<i64> {
        let nulls = |group: usize| self.0.get(group).unwrap_or(&0);
        rows[groups.clone()].iter().zip(groups).map(|(rows, group)| rows - nulls(group)).collect()
    }
}

/// Rows of a batch: groups there are with them, and were before.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) assignment: Assignment<'a>,
    pub(super) rows: usize,
    pub(super) groups: usize,
    pub(super) known: usize,
}

impl Accumulator {
    pub(super) fn new(call: &Call) -> Self {
        let argument = call.argument.as_ref().unwrap_or(&call.result);
        match call.function {
            Function::Count => Self::Count(Nulls::default()),
            Function::Sum => Self::Sum(Sum::new(argument)),
            Function::Average => Self::Average(Sum::new(argument), Nulls::default()),
            Function::Min => Self::Extreme(Extreme::new(argument, false)),
            Function::Max => Self::Extreme(Extreme::new(argument, true)),
        }
    }

    /// Of no group yet, to absorb `others`, of which there is at least one.
    pub(super) fn of_others(call: &Call, others: &[&Self]) -> Self {
        let mut empty = Self::new(call);
        match &mut empty {
            Self::Count(_) => {}
            Self::Sum(sum) | Self::Average(sum, _) => {
                sum.seen = Seen::of_others(others.iter().filter_map(|other| other.seen()));
            }
            Self::Extreme(extreme) => {
                let others: Vec<&Extreme> = others.iter().filter_map(|other| other.extreme()).collect();
                *extreme = extreme.of_others(&others);
            }
        }
        empty
    }

    fn seen(&self) -> Option<&Seen> {
        match self {
            Self::Count(_) => None,
            Self::Sum(sum) | Self::Average(sum, _) => Some(&sum.seen),
            Self::Extreme(extreme) => Some(&extreme.seen),
        }
    }

    fn extreme(&self) -> Option<&Extreme> {
        match self {
            Self::Extreme(extreme) => Some(extreme),
            _ => None,
        }
    }

    /// The only group may have no row.
    pub(super) fn expect_nothing(&mut self) {
        match self {
            Self::Count(_) => {}
            Self::Sum(sum) | Self::Average(sum, _) => sum.seen.track(0),
            Self::Extreme(extreme) => extreme.seen.track(0),
        }
    }

    /// Makes room for `groups` groups.
    pub(super) fn resize(&mut self, groups: usize) {
        match self {
            Self::Count(_) => {}
            Self::Sum(sum) | Self::Average(sum, _) => sum.resize(groups),
            Self::Extreme(extreme) => extreme.resize(groups),
        }
    }

    /// Takes the rows of a batch for which `filter` is true.
    pub(super) fn update(
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
        let Step { assignment, rows, groups, known } = step;
        if let Self::Count(nulls) = self {
            nulls.note(assignment, valid, groups);
            return Ok(());
        }
        let column = argument.ok_or_else(|| VectorError::internal("an aggregate without its argument"))?;
        match self {
            Self::Count(_) => Ok(()),
            Self::Sum(sum) => {
                sum.seen.note(assignment, rows, valid, known);
                sum.update(assignment, column, valid)
            }
            Self::Average(sum, nulls) => {
                nulls.note(assignment, valid, groups);
                sum.update(assignment, column, valid)
            }
            Self::Extreme(extreme) => extreme.update(assignment, column, valid, known),
        }
    }

    /// Takes groups of another: its group `sources[i]` into the group `targets[i]` here, of `groups`.
    pub(super) fn absorb(&mut self, other: &Self, sources: &[u32], targets: &[u32], groups: usize) {
        match (self, other) {
            (Self::Count(nulls), Self::Count(more)) => nulls.absorb(more, sources, targets, groups),
            (Self::Sum(sum), Self::Sum(more)) => sum.absorb(more, sources, targets),
            (Self::Average(sum, nulls), Self::Average(more, more_nulls)) => {
                sum.absorb(more, sources, targets);
                nulls.absorb(more_nulls, sources, targets, groups);
            }
            (Self::Extreme(extreme), Self::Extreme(more)) => extreme.absorb(more, sources, targets),
            _ => {}
        }
    }

    /// The call's results for `groups`, whose rows are counted in `rows`.
    pub(super) fn finish(&self, call: &Call, groups: Range<usize>, rows: &[i64]) -> Result<Column> {
        match self {
            Self::Count(nulls) => Ok(Column::new(Arc::new(Int64Array::from(nulls.counts(rows, groups))))),
            Self::Sum(sum) => sum.finish(groups, &call.result),
            Self::Average(sum, nulls) => {
                let counts = nulls.counts(rows, groups.clone());
                sum.average(groups, &counts, &call.result)
            }
            Self::Extreme(extreme) => extreme.finish(groups),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Count(nulls) => nulls.0.capacity() * size_of::<i64>(),
            Self::Sum(sum) => sum.memory_bytes(),
            Self::Average(sum, nulls) => sum.memory_bytes() + nulls.0.capacity() * size_of::<i64>(),
            Self::Extreme(extreme) => extreme.memory_bytes(),
        }
    }
}
