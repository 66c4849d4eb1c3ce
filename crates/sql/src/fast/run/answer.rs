//! What queries make of the rows they find.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::{DataType, Value, ValueRef, compare};
use saki_mvcc::Transaction;

use super::super::plan::{Aggregate, Item, Query, Shape, Source};
use super::find::ENTRIES_MAX;
use super::rows::Running;
use super::sink::{RowSink, show};
use super::stopped::{Entry, Stopped};
use saki_catalog::{EntryDecoder, Result, SqlError};
use saki_context::values::expr::{Expr, has_digits};
use saki_context::values::range::Range;

/// Entries that are read at first where it is not known how many are needed.
const ENTRIES_FIRST: usize = 64;
/// Entries at most of a whole tree that are tested: each may be a page to read, and none of them what is looked for.
const ENTRIES_OF_WHOLE: usize = 1000;

impl Running<'_> {
    /// Gives the rows of a query to `sink`; how many there are.
    pub fn query(
        &self,
        query: &Query,
        transaction: &mut Transaction<'_>,
        holds: bool,
        sink: &mut dyn RowSink,
    ) -> Result<u64, Stopped> {
        let (limit, offset) = (self.row_count(&query.limit, usize::MAX)?, self.row_count(&query.offset, 0)?);
        if query.is_plain()
            && let (Shape::Rows(columns), false, Some(key)) = (&query.shape, holds, self.single_key(&query.source)?)
        {
            let Some(key) = key.filter(|_| limit > 0 && offset == 0) else { return Ok(0) };
            let mut shown =
                |values: &[ValueRef<'_>]| self.complete(query.width, values, |values| show(columns, values, sink));
            let found = self.find(transaction, &key, |row| self.decode(&key, row, &mut shown))?;
            return Ok(found.transpose()?.transpose()?.map_or(0, |()| 1));
        }
        let held = if holds { Some(self.hold(&query.source, transaction)?) } else { None };
        let (transaction, cut) = (&*transaction, (limit, offset));
        match self.answer((query, held.as_deref()), cut, transaction, sink) {
            Err(Stopped::Long) if let Some(spare) = &query.spare => {
                self.in_order((query, spare), cut, transaction, sink)
            }
            answered => answered,
        }
    }

    /// Holds the rows of a source until the transaction ends.
    fn hold(&self, source: &Source, transaction: &mut Transaction<'_>) -> Result<Vec<Entry>, Stopped> {
        let rows = self.rows(source, transaction)?;
        for (key, row) in &rows {
            self.write(transaction, key, Some(row))?;
        }
        Ok(rows)
    }

    /// Gives the rows of a query's first source, or what it makes of those that it holds.
    fn answer(
        &self,
        (query, held): (&Query, Option<&[Entry]>),
        (limit, offset): (usize, usize),
        transaction: &Transaction<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<u64, Stopped> {
        let mut each = |show: &mut dyn FnMut(&[ValueRef<'_>])| match held {
            None => self.first((query, &query.source), (usize::MAX, 0), transaction, show).map(|_| ()),
            Some(rows) => self.flow((query, &query.source), (rows, usize::MAX), transaction, &mut |values| {
                show(values);
                Ok(ControlFlow::Continue(()))
            }),
        };
        match &query.shape {
            // No LIMIT is on rows that are held.
            Shape::Rows(columns) if let Some(rows) = held => {
                each(&mut |values| show(columns, values, sink))?;
                Ok(rows.len() as u64)
            }
            Shape::Rows(_) | Shape::Extreme { .. } => {
                self.in_order((query, &query.source), (limit, offset), transaction, sink)
            }
            Shape::Sorted { columns, order, is_distinct } => {
                let mut sorted = sorted(&mut each, columns, order, *is_distinct)?;
                cut(&mut sorted, limit, offset);
                sorted.iter().for_each(|row| {
                    let out: Vec<ValueRef<'_>> = row[..columns.len()].iter().map(Value::as_ref).collect();
                    sink.row(&out);
                });
                Ok(sorted.len() as u64)
            }
            Shape::Groups { by, items, order } => {
                let mut groups = groups(&mut each, query.width, by, items, order)?;
                cut(&mut groups, limit, offset);
                groups.iter().for_each(|row| sink.row(&row.iter().map(Value::as_ref).collect::<Vec<_>>()));
                Ok(groups.len() as u64)
            }
            Shape::Aggregates(aggregates) => {
                let values = aggregated(&mut each, aggregates)?;
                sink.row(&values.iter().map(Value::as_ref).collect::<Vec<_>>());
                Ok(1)
            }
        }
    }

    /// Gives the rows of a query from a source that has them in its order.
    fn in_order(
        &self,
        (query, source): (&Query, &Source),
        cut: (usize, usize),
        transaction: &Transaction<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<u64, Stopped> {
        let (column, otherwise) = match &query.shape {
            Shape::Rows(columns) | Shape::Sorted { columns, .. } => {
                let mut show = |values: &[ValueRef<'_>]| show(columns, values, sink);
                return self.first((query, source), cut, transaction, &mut show);
            }
            Shape::Extreme { column, otherwise } => (*column, otherwise),
            Shape::Aggregates(all) => match &all[..] {
                [(Aggregate::Min(column) | Aggregate::Max(column), otherwise)] => (*column, otherwise),
                _ => return Err(Stopped::Ordinary),
            },
            Shape::Groups { .. } => return Err(Stopped::Ordinary),
        };
        let mut found = otherwise.clone();
        let mut show = |values: &[ValueRef<'_>]| found = Value::from(values[column]);
        self.first((query, source), (1, 0), transaction, &mut show)?;
        sink.row(&[found.as_ref()]);
        Ok(1)
    }

    /// Shows the first rows of a query, so many behind others that are passed over; how many there are.
    ///
    /// How many entries a filter or a lookup leaves is not known before: some are read, and from the beginning again
    /// more of them, until there are enough rows.
    fn first(
        &self,
        (query, source): (&Query, &Source),
        (limit, offset): (usize, usize),
        transaction: &Transaction<'_>,
        show: &mut dyn FnMut(&[ValueRef<'_>]),
    ) -> Result<u64, Stopped> {
        if limit == 0 {
            return Ok(0);
        }
        let finder = self.finder(source.tree, transaction);
        let enough = limit.saturating_add(offset);
        let is_exact = source.filter.is_none() && query.is_plain();
        let is_bounded = source.ranges.iter().all(Range::is_bounded);
        let most = if is_bounded { ENTRIES_MAX } else { ENTRIES_OF_WHOLE };
        let mut entries = match is_exact || enough > most {
            true => enough,
            false => (2 * enough).clamp(ENTRIES_FIRST, most),
        };
        let (mut seen, mut passed, mut given) = (0, 0, 0);
        loop {
            let rows = finder.rows(source, entries, &self.inputs())?;
            let wanted = enough - passed - given;
            self.flow((query, source), (&rows[seen..], wanted), transaction, &mut |values| {
                if passed < offset {
                    passed += 1;
                    return Ok(ControlFlow::Continue(()));
                }
                given += 1;
                show(values);
                Ok(if given < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
            if given == limit || rows.len() < entries {
                return Ok(given as u64);
            }
            if entries >= most {
                return Err(Stopped::Long);
            }
            (seen, entries) = (rows.len(), (4 * entries).min(most));
        }
    }

    /// A number of rows; `all` if nothing is said.
    fn row_count(&self, rows: &Option<Expr>, all: usize) -> Result<usize, Stopped> {
        let Some(rows) = rows else { return Ok(all) };
        match rows.value(&self.inputs())?.exactly(DataType::Int8) {
            Some(ValueRef::Int8(rows)) if rows >= 0 => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            Some(ValueRef::Null) => Ok(all),
            _ => Err(Stopped::Ordinary),
        }
    }

    /// Shows the values of rows, by table column, and what is worked out of them.
    pub fn each(&self, rows: &[Entry], mut show: impl FnMut(&[ValueRef<'_>])) -> Result<(), Stopped> {
        let (mut decoder, width) = (EntryDecoder::new(Arc::clone(self.layout)), self.table.columns.len());
        rows.iter().try_for_each(|(key, row)| {
            decoder.decode(self.table, key, row, |values| self.complete(width, values, &mut show))?
        })
    }
}

/// Leaves of the rows of an answer those that LIMIT and OFFSET do.
fn cut(rows: &mut Vec<Vec<Value>>, limit: usize, offset: usize) {
    rows.drain(..offset.min(rows.len()));
    rows.truncate(limit);
}

/// Shows all rows, one after the other.
type Each<'e> = dyn FnMut(&mut dyn FnMut(&[ValueRef<'_>])) -> Result<(), Stopped> + 'e;

/// The columns of all rows and what they are ordered by, in order.
fn sorted(
    each: &mut Each<'_>,
    columns: &[usize],
    order: &[(usize, bool)],
    is_distinct: bool,
) -> Result<Vec<Vec<Value>>, Stopped> {
    let mut all = Vec::new();
    let wanted = || columns.iter().chain(order.iter().map(|(column, _)| column));
    each(&mut |values| all.push(wanted().map(|column| Value::from(values[*column])).collect::<Vec<_>>()))?;
    let by_order = |left: &Vec<Value>, right: &Vec<Value>| {
        let places = columns.len()..;
        let compared = order.iter().zip(places).map(|((_, descends), at)| placed(&left[at], &right[at], *descends));
        compared.fold(Ordering::Equal, Ordering::then)
    };
    let as_a_whole = |left: &Vec<Value>, right: &Vec<Value>| {
        let pairs = left.iter().zip(right).take(columns.len());
        pairs.map(|(left, right)| placed(left, right, false)).fold(Ordering::Equal, Ordering::then)
    };
    if is_distinct {
        all.sort_by(|left, right| by_order(left, right).then_with(|| as_a_whole(left, right)));
        all.dedup_by(|left, right| as_a_whole(left, right).is_eq());
    } else {
        all.sort_by(by_order);
    }
    Ok(all)
}

/// A row for each group of rows with so many columns, in order.
fn groups(
    each: &mut Each<'_>,
    width: usize,
    by: &[usize],
    items: &[Item],
    order: &[(usize, bool)],
) -> Result<Vec<Vec<Value>>, Stopped> {
    let order: Vec<(usize, bool)> = order.iter().copied().chain(by.iter().map(|column| (*column, false))).collect();
    let all: Vec<usize> = (0..width).collect();
    // Rows of a group beside each other.
    let sorted = sorted(each, &all, &order, false)?;
    let is_same = |one: &Vec<Value>, other: &Vec<Value>| {
        by.iter().all(|column| placed(&one[*column], &other[*column], false).is_eq())
    };
    let mut groups = Vec::new();
    for group in sorted.chunk_by(is_same) {
        let said = items.iter().map(|item| match item {
            Item::Column(column) => Ok(group[0][*column].clone()),
            Item::Aggregate(aggregate) => {
                let mut total = Total::default();
                for row in group {
                    total.add(*aggregate, |column| row[column].as_ref());
                }
                total.value(*aggregate)
            }
        });
        groups.push(said.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(groups)
}

fn aggregated(each: &mut Each<'_>, aggregates: &[(Aggregate, Value)]) -> Result<Vec<Value>, Stopped> {
    let mut totals: Vec<Total> = aggregates.iter().map(|_| Total::default()).collect();
    each(&mut |values| {
        for ((aggregate, _), total) in aggregates.iter().zip(&mut totals) {
            total.add(*aggregate, |column| values[column]);
        }
    })?;
    let said = aggregates.iter().zip(totals).map(|((aggregate, otherwise), total)| {
        let value = total.value(*aggregate)?;
        Ok(if value == Value::Null { otherwise.clone() } else { value })
    });
    said.collect()
}

/// How two values of a column lie to each other; NULLs are the greatest.
fn placed(left: &Value, right: &Value, descends: bool) -> Ordering {
    let ordering = compare(left.as_ref(), right.as_ref());
    if descends { ordering.reverse() } else { ordering }
}

/// An aggregate of the rows so far.
#[derive(Default)]
struct Total {
    rows: u64,
    /// `None` once it takes more digits than there are.
    sum: Option<i128>,
    extreme: Value,
    /// Values that are counted once each.
    different: Vec<Value>,
}

impl Total {
    fn add<'v>(&mut self, aggregate: Aggregate, value_of: impl Fn(usize) -> ValueRef<'v>) {
        let column = match aggregate {
            Aggregate::Count => {
                self.rows += 1;
                return;
            }
            Aggregate::CountOf(column)
            | Aggregate::CountDistinct(column)
            | Aggregate::Sum(column, _)
            | Aggregate::Min(column)
            | Aggregate::Max(column) => column,
        };
        let value = value_of(column);
        if value == ValueRef::Null {
            return;
        }
        let is_first = self.rows == 0;
        self.rows += 1;
        match aggregate {
            Aggregate::Count | Aggregate::CountOf(_) => {}
            Aggregate::CountDistinct(_) => self.different.push(Value::from(value)),
            Aggregate::Sum(..) => {
                let before = if is_first { Some(0) } else { self.sum };
                self.sum = before.zip(whole(value)).and_then(|(sum, value)| sum.checked_add(value));
            }
            Aggregate::Min(_) | Aggregate::Max(_) => {
                let wanted = if matches!(aggregate, Aggregate::Min(_)) { Ordering::Less } else { Ordering::Greater };
                if is_first || compare(value, self.extreme.as_ref()) == wanted {
                    self.extreme = Value::from(value);
                }
            }
        }
    }

    fn value(mut self, aggregate: Aggregate) -> Result<Value, Stopped> {
        match aggregate {
            Aggregate::Count | Aggregate::CountOf(_) => Ok(Value::Int8(self.rows as i64)),
            Aggregate::CountDistinct(_) => {
                self.different.sort_by(|one, other| placed(one, other, false));
                self.different.dedup_by(|one, other| placed(one, other, false).is_eq());
                Ok(Value::Int8(self.different.len() as i64))
            }
            Aggregate::Min(_) | Aggregate::Max(_) => Ok(self.extreme),
            Aggregate::Sum(..) if self.rows == 0 => Ok(Value::Null),
            Aggregate::Sum(_, data_type) => match (self.sum, data_type) {
                (Some(sum), DataType::Decimal { .. }) if has_digits(sum, DECIMAL_PRECISION_MAX) => {
                    Ok(Value::Decimal(sum))
                }
                (Some(sum), DataType::Int2 | DataType::Int4) => {
                    let out_of_range = || SqlError::data("bigint out of range").code("22003");
                    Ok(Value::Int8(i64::try_from(sum).map_err(|_| out_of_range())?))
                }
                _ => Err(Stopped::Ordinary),
            },
        }
    }
}

/// An integer, or the digits of a decimal.
fn whole(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int2(value) => Some(value.into()),
        ValueRef::Int4(value) => Some(value.into()),
        ValueRef::Decimal(value) => Some(value),
        _ => None,
    }
}
