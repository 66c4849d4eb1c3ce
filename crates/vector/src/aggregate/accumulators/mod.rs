//! The accumulators of all calls.
//!
//! Calls over the same argument, such as SUM(x) and AVG(x), keep the same once. Which ones do is seen by their columns
//! being one array, not two equal ones; should a later batch have two, each goes on with a copy.

mod accumulator;
mod assignment;
mod extreme;
mod pairs;
mod seen;
mod sum;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::BooleanArray;

use super::call::Call;
use crate::{Column, Result};

pub(crate) use accumulator::{Accumulator, Step};
pub(crate) use assignment::{Assignment, FEW};
pub(crate) use pairs::{Pairs, Stretch, merge_ascending};

pub(crate) struct Accumulators {
    all: Vec<Member>,
    /// By call: its members.
    by_call: Vec<Range<usize>>,
    has_rows: bool,
}

struct Member {
    accumulator: Accumulator,
    /// Whose argument it takes.
    call: usize,
    /// The member that keeps the same; itself if there is none before it. The accumulator is not in use then.
    keeper: usize,
}

/// The arguments of a batch, by call.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub(crate) columns: &'a [Option<Column>],
    /// Empty, or one for each call.
    pub(crate) filters: &'a [Option<BooleanArray>],
}

impl<'a> Arguments<'a> {
    fn filter(&self, call: usize) -> Option<&'a BooleanArray> {
        self.filters.get(call)?.as_ref()
    }

    /// Whether two calls are seen to have the same argument.
    fn are_one(&self, a: usize, b: usize) -> bool {
        let columns = match (&self.columns[a], &self.columns[b]) {
            (Some(a), Some(b)) => Arc::ptr_eq(a.array(), b.array()),
            (None, None) => true,
            _ => false,
        };
        columns && self.filter(a).is_none() && self.filter(b).is_none()
    }
}

impl Accumulators {
    pub(crate) fn new(calls: &[Call]) -> Self {
        let mut all = Vec::new();
        let by_call = calls.iter().enumerate().map(|(call, planned)| {
            let start = all.len();
            for accumulator in Accumulator::of(planned) {
                all.push(Member { accumulator, call, keeper: all.len() });
            }
            start..all.len()
        });
        let by_call = by_call.collect();
        Self { all, by_call, has_rows: false }
    }

    /// The only group may have no row.
    pub(crate) fn expect_nothing(&mut self) {
        for member in &mut self.all {
            member.accumulator.expect_nothing();
            member.accumulator.resize(1);
        }
    }

    pub(crate) fn update(&mut self, step: Step<'_>, arguments: Arguments<'_>) -> Result<()> {
        self.share(arguments);
        self.has_rows = true;
        for (_, member) in self.all.iter_mut().enumerate().filter(|(position, member)| member.keeper == *position) {
            let (column, filter) = (arguments.columns[member.call].as_ref(), arguments.filter(member.call));
            member.accumulator.update(step, column, filter)?;
        }
        Ok(())
    }

    /// Finds who keeps what for whom: before the first rows anew, later only who has to part.
    fn share(&mut self, arguments: Arguments<'_>) {
        for position in 0..self.all.len() {
            let (before, from) = self.all.split_at_mut(position);
            let Some(member) = from.first_mut() else { return };
            if !self.has_rows {
                let same = |keeper: &Member| {
                    arguments.are_one(keeper.call, member.call) && keeper.accumulator.is_like(&member.accumulator)
                };
                member.keeper = before.iter().find(|keeper| same(keeper)).map_or(position, |keeper| keeper.keeper);
            } else if let Some(keeper) = before.get(member.keeper)
                && !arguments.are_one(keeper.call, member.call)
            {
                member.accumulator = keeper.accumulator.clone();
                member.keeper = position;
            }
        }
    }

    /// The accumulators of a call.
    pub(crate) fn of_call(&self, call: usize) -> Vec<&Accumulator> {
        let members = &self.all[self.by_call[call].clone()];
        members.iter().map(|member| &self.all[member.keeper].accumulator).collect()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.all.iter().map(|member| member.accumulator.memory_bytes()).sum()
    }
}
