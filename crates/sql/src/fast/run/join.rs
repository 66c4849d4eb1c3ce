//! Rows of several tables made one: for each row, rows of the next table are looked up.

use std::ops::ControlFlow;
use std::sync::Arc;

use saki_base::ValueRef;
use saki_mvcc::Transaction;

use super::super::plan::{Kind, Query, Source};
use super::find::{ENTRIES_MAX, Finder, Relation};
use super::rows::Running;
use super::stopped::{Entry, Stopped};
use super::whole::{Show, Whole};
use saki_catalog::EntryDecoder;
use saki_context::values::condition::Filter;
use saki_store::{Eyes, Missing, Wanted};

impl Running<'_> {
    /// Shows the rows that a query makes of those of its first table, found in one of its sources, until it is told to
    /// stop, which it is to be after so many that are `wanted`.
    pub fn flow<'f>(
        &'f self,
        (query, source): (&'f Query, &'f Source),
        (rows, wanted): (&[Entry], usize),
        transaction: &'f Transaction<'_>,
        given: &mut Show<'_>,
    ) -> Result<(), Stopped> {
        let mut whole = Whole::new(self, query, wanted)?;
        match self.join((query, source), rows, transaction, &mut |values| whole.add(values, given))? {
            ControlFlow::Continue(()) => whole.finish(given).map(drop),
            ControlFlow::Break(()) => Ok(()),
        }
    }

    /// Shows the same without what is worked out of them; whether it was told to stop.
    fn join<'f>(
        &'f self,
        (query, source): (&'f Query, &'f Source),
        rows: &[Entry],
        transaction: &'f Transaction<'_>,
        show: &mut Show<'_>,
    ) -> Result<ControlFlow<()>, Stopped> {
        let mut decoder = EntryDecoder::new(Arc::clone(self.layout));
        let ready = |source: &'f Source| source.filter.as_ref().map(|filter| Filter::new(filter, &self.inputs()));
        let filter = ready(source).transpose()?;
        if query.lookups.is_empty() {
            for (key, row) in rows {
                let step = decoder.decode(self.table, key, row, |values| match &filter {
                    Some(filter) if !filter.holds(&self.inputs_over(values))? => Ok(ControlFlow::Continue(())),
                    _ => show(values),
                })??;
                if step.is_break() {
                    return Ok(step);
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        let lookups = query.lookups.iter().zip(self.joined);
        let finders = lookups
            .map(|(lookup, relation)| Finder::new(self.db, *relation, lookup.source.tree, transaction))
            .collect();
        let filters = query.lookups.iter().map(|lookup| ready(&lookup.source).transpose()).collect::<Result<_, _>>()?;
        let weights = query.lookups.iter().map(|lookup| lookup.source.count(self.parameters).max(1)).collect();
        let mut flow = Flow { running: self, query, finders, filters, weights, away: Vec::new(), taken: 0 };
        let (nulls, columns) = (vec![ValueRef::Null; query.width], self.table.columns.len());
        let mut end = ControlFlow::Continue(());
        for (key, row) in rows {
            let step = decoder.decode(self.table, key, row, |values| {
                let row = placed(&nulls, query.first, &values[..columns]);
                match &filter {
                    Some(filter) if !filter.holds(&self.inputs_over(&row))? => Ok(ControlFlow::Continue(())),
                    _ => flow.step(0, &row, show),
                }
            })??;
            if step.is_break() {
                end = step;
                break;
            }
        }
        if flow.away.is_empty() { Ok(end) } else { Err(Stopped::away(flow.away)) }
    }
}

/// A row with the values of one of its tables.
fn placed<'v>(row: &[ValueRef<'v>], first: usize, values: &[ValueRef<'v>]) -> Vec<ValueRef<'v>> {
    let mut row = row.to_vec();
    row[first..first + values.len()].copy_from_slice(values);
    row
}

/// Rows on their way through the tables of a query.
struct Flow<'f, E> {
    running: &'f Running<'f>,
    query: &'f Query,
    /// One for each lookup.
    finders: Vec<Finder<'f, E>>,
    filters: Vec<Option<Filter<'f>>>,
    /// Keys or ranges that each looks for.
    weights: Vec<usize>,
    /// What lookups were missing in memory: of all rows, so that it is read together.
    away: Vec<Wanted>,
    /// Rows looked for and found.
    taken: usize,
}

impl<E: Eyes> Flow<'_, E> {
    /// Looks up what belongs to a row from a lookup on.
    fn step(&mut self, number: usize, row: &[ValueRef<'_>], show: &mut Show<'_>) -> Result<ControlFlow<()>, Stopped> {
        let (running, query) = (self.running, self.query);
        let Some(lookup) = query.lookups.get(number) else {
            // What is not complete is not shown.
            return if self.away.is_empty() { show(row) } else { Ok(ControlFlow::Continue(())) };
        };
        self.count(self.weights[number])?;
        let found = match self.finders[number].rows(&lookup.source, usize::MAX, &running.inputs_over(row)) {
            Ok(found) => found,
            Err(Stopped::Read(missing)) => match *missing {
                Missing::Pages(mut pages) => {
                    self.away.append(&mut pages);
                    return self.count(0).map(|()| ControlFlow::Continue(()));
                }
                Missing::Long => return Err(Stopped::Long),
            },
            Err(stopped) => return Err(stopped),
        };
        self.count(found.len())?;
        let Relation { table, layout, .. } = running.joined[number];
        let (mut decoder, mut has_any) = (EntryDecoder::new(Arc::clone(layout)), false);
        for (key, body) in &found {
            let step = decoder.decode(table, key, body, |values| {
                let wider = placed(row, lookup.first, &values[..table.columns.len()]);
                if let Some(filter) = &self.filters[number]
                    && !filter.holds(&running.inputs_over(&wider))?
                {
                    return Ok(ControlFlow::Continue(()));
                }
                has_any = true;
                match lookup.kind {
                    Kind::Inner | Kind::Outer => self.step(number + 1, &wider, show),
                    // One says it.
                    Kind::Semi | Kind::Anti => Ok(ControlFlow::Break(())),
                }
            })??;
            match lookup.kind {
                Kind::Semi | Kind::Anti if has_any => break,
                _ if step.is_break() => return Ok(step),
                _ => {}
            }
        }
        // What it has found none for has NULLs still in the columns of the table, as has what it is not joined with.
        match (lookup.kind, has_any) {
            (Kind::Semi, true) | (Kind::Outer | Kind::Anti, false) => self.step(number + 1, row, show),
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    fn count(&mut self, rows: usize) -> Result<(), Stopped> {
        self.taken += rows;
        if self.taken + self.away.len() <= ENTRIES_MAX { Ok(()) } else { Err(Stopped::Long) }
    }
}
