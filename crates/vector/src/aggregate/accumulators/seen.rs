//! Which groups have had a value that is not NULL.

use std::ops::Range;

use arrow_buffer::NullBuffer;

use super::assignment::Assignment;
use super::pairs::Pairs;

/// As long as no argument is NULL, every group that has a row has a value, and nothing need be written down.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    groups: usize,
    values: Option<Vec<bool>>,
}

impl Seen {
    pub(crate) fn resize(&mut self, groups: usize) {
        self.groups = groups;
        if let Some(values) = &mut self.values {
            values.resize(groups, false);
        }
    }

    /// From here on, groups have a value only if a row with one is noted; those before `known` have one.
    pub(crate) fn track(&mut self, known: usize) {
        if self.values.is_none() {
            self.values = Some((0..self.groups).map(|group| group < known).collect());
        }
    }

    /// Of no group yet, to absorb `others`.
    pub(crate) fn of_others<'a>(mut others: impl Iterator<Item = &'a Self>) -> Self {
        Self { groups: 0, values: others.any(|other| other.values.is_some()).then(Vec::new) }
    }

    /// Notes the rows of a batch; `known`: groups there were before it.
    pub(crate) fn note(&mut self, assignment: Assignment<'_>, rows: usize, valid: Option<&NullBuffer>, known: usize) {
        if valid.is_some() {
            self.track(known);
        }
        let Some(values) = &mut self.values else { return };
        match (assignment, valid) {
            (Assignment::Whole, _) => values[0] |= rows > valid.map_or(0, NullBuffer::null_count),
            (_, None) => assignment.for_each(0..rows, |group, _| values[group] = true),
            (_, Some(valid)) => assignment.for_each(valid, |group, valid| values[group] |= valid),
        }
    }

    /// Notes that `group` has a value.
    pub(crate) fn set(&mut self, group: usize) {
        if let Some(values) = &mut self.values {
            values[group] = true;
        }
    }

    pub(crate) fn has(&self, group: usize) -> bool {
        self.values.as_ref().is_none_or(|values| values[group])
    }

    pub(crate) fn absorb(&mut self, other: &Self, pairs: &Pairs) {
        if let Some(values) = &mut self.values {
            pairs.for_each(|source, target| values[target] |= other.has(source));
        }
    }

    /// NULLs of the results of `groups`.
    pub(crate) fn nulls(&self, groups: Range<usize>) -> Option<NullBuffer> {
        let valid = NullBuffer::from(&self.values.as_ref()?[groups]);
        Some(valid).filter(|valid| valid.null_count() > 0)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.values.as_ref().map_or(0, Vec::capacity)
    }
}
