//! Whole rows: with what is worked out of them behind the columns of the tables. What the planner works out is asked of
//! many rows at a time, since that costs hardly more than of one.

use std::ops::ControlFlow;

use saki_base::{Value, ValueRef};

use super::super::evaluated::Evaluated;
use super::super::plan::{Computed, Query};
use super::rows::Running;
use super::stopped::Stopped;
use saki_catalog::Result;
use saki_context::values::condition::Filter;

/// Takes rows, by column of the statement.
pub type Show<'s> = dyn FnMut(&[ValueRef<'_>]) -> Result<ControlFlow<()>, Stopped> + 's;

/// Rows at a time, at most.
const ROWS: usize = 1024;

/// Rows of a query that wait to be whole.
pub struct Whole<'w> {
    running: &'w Running<'w>,
    query: &'w Query,
    planned: Vec<&'w Evaluated>,
    filter: Option<Filter<'w>>,
    /// How many rows are worked out together.
    batch: usize,
    rows: Vec<Vec<Value>>,
}

impl<'w> Whole<'w> {
    /// Of a query of which so many rows are wanted: if each is one of the answer's, no others are looked for.
    pub fn new(running: &'w Running<'w>, query: &'w Query, wanted: usize) -> Result<Self, Stopped> {
        let filter = (!query.conditions.is_empty()).then(|| Filter::new(&query.conditions, &running.inputs()));
        let filter = filter.transpose()?;
        let batch = if filter.is_none() { wanted.min(ROWS) } else { ROWS };
        Ok(Self { running, query, planned: planned(running.computed).collect(), filter, batch, rows: Vec::new() })
    }

    /// Adds a row, and shows those that are whole and meet what has to be true of them.
    pub fn add(&mut self, values: &[ValueRef<'_>], show: &mut Show<'_>) -> Result<ControlFlow<()>, Stopped> {
        if self.planned.is_empty() {
            return self.running.complete(self.query.width, values, show)?;
        }
        self.rows.push(values[..self.query.width].iter().map(|value| Value::from(*value)).collect());
        if self.rows.len() < self.batch { Ok(ControlFlow::Continue(())) } else { self.finish(show) }
    }

    /// The same of the rows so far.
    pub fn finish(&mut self, show: &mut Show<'_>) -> Result<ControlFlow<()>, Stopped> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let planned = self.planned.iter().map(|evaluated| evaluated.values(&rows).ok_or(Stopped::Ordinary));
        let planned = planned.collect::<Result<Vec<_>, _>>()?;
        for (at, row) in rows.iter().enumerate() {
            let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            let step =
                self.running.complete_with(
                    &values,
                    planned.iter().map(|all| all[at].as_ref()),
                    |whole| match &self.filter {
                        Some(filter) if !filter.holds(&self.running.inputs_over(whole))? => {
                            Ok(ControlFlow::Continue(()))
                        }
                        _ => show(whole),
                    },
                )??;
            if step.is_break() {
                return Ok(step);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn planned(computed: &[Computed]) -> impl Iterator<Item = &Evaluated> {
    computed.iter().filter_map(|computed| match computed {
        Computed::Planned(evaluated) => Some(evaluated),
        Computed::Own(_) => None,
    })
}

impl Running<'_> {
    /// Shows a row of so many columns with what is worked out of it behind them.
    pub fn complete<T>(
        &self,
        width: usize,
        values: &[ValueRef<'_>],
        show: impl FnOnce(&[ValueRef<'_>]) -> T,
    ) -> Result<T, Stopped> {
        if self.computed.is_empty() {
            return Ok(show(values));
        }
        let planned = planned(self.computed).map(|evaluated| evaluated.value(values).ok_or(Stopped::Ordinary));
        let planned = planned.collect::<Result<Vec<_>, _>>()?;
        self.complete_with(&values[..width], planned.iter().map(Value::as_ref), show)
    }

    /// The same, where it is known already what the planner works out.
    fn complete_with<'v, T>(
        &'v self,
        values: &'v [ValueRef<'v>],
        mut planned: impl Iterator<Item = ValueRef<'v>>,
        show: impl FnOnce(&[ValueRef<'_>]) -> T,
    ) -> Result<T, Stopped> {
        let (mut row, inputs) = (values.to_vec(), self.inputs_over(values));
        for computed in self.computed {
            row.push(match computed {
                Computed::Own(expr) => expr.value(&inputs)?.value,
                Computed::Planned(_) => planned.next().unwrap_or(ValueRef::Null),
            });
        }
        Ok(show(&row))
    }
}
