//! What runners do, what it gives on a plain map, and what it gives in a transaction of the engine.

use std::ops::{Bound, ControlFlow};

use proptest::prelude::*;
use saki_mvcc::{Direction, Error, KeyRange, Table, Transaction};

use super::things::{COLOURS, Encoded, Thing, Things, encode, entries, index, key, prefix};

pub const IDS: i64 = 9;

/// Done within a transaction.
#[derive(Clone, Debug)]
pub enum Operation {
    Get(i64),
    GetMany(Vec<i64>),
    Insert(i64, Thing),
    Put(i64, Thing),
    Update(i64, Thing),
    /// Another colour, if it has one.
    Modify(i64),
    Delete(i64),
    Scan {
        from: Bound<i64>,
        to: Bound<i64>,
        reverse: bool,
        most: usize,
    },
    /// The entries of an index that have these values in the first columns; of none: all.
    ScanIndex {
        index: usize,
        columns: usize,
        like: Thing,
        reverse: bool,
        most: usize,
    },
    Savepoint,
    /// To one of the savepoints there are.
    RollBack(usize),
}

/// What an operation gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Done,
    Row(Option<Encoded>),
    Rows(Vec<(Vec<u8>, Encoded)>),
    /// There is no such row to write to.
    NoRow,
    Duplicate(String),
    Conflict,
}

fn thing() -> impl Strategy<Value = Thing> {
    let size = prop_oneof![Just(-1_i64), Just(0), Just(7)];
    let note = prop_oneof![3 => Just(0_u16), 1 => Just(11), 1 => Just(300)];
    (prop::option::of(0..3_u8), prop::option::weighted(0.4, 0..4_u8), size, note)
        .prop_map(|(colour, name, size, note)| Thing { colour, name, size, note })
}

fn bound() -> impl Strategy<Value = Bound<i64>> {
    prop_oneof![Just(Bound::Unbounded), (0..IDS).prop_map(Bound::Included), (0..IDS).prop_map(Bound::Excluded)]
}

fn most() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(usize::MAX), 1 => 1..4_usize]
}

pub fn operation() -> impl Strategy<Value = Operation> {
    let id = || 0..IDS;
    prop_oneof![
        3 => id().prop_map(Operation::Get),
        1 => prop::collection::vec(id(), 0..6).prop_map(Operation::GetMany),
        4 => (id(), thing()).prop_map(|(id, thing)| Operation::Insert(id, thing)),
        2 => (id(), thing()).prop_map(|(id, thing)| Operation::Put(id, thing)),
        5 => (id(), thing()).prop_map(|(id, thing)| Operation::Update(id, thing)),
        2 => id().prop_map(Operation::Modify),
        3 => id().prop_map(Operation::Delete),
        2 => (bound(), bound(), any::<bool>(), most())
            .prop_map(|(from, to, reverse, most)| Operation::Scan { from, to, reverse, most }),
        3 => (0..3_usize, 0..3_usize, thing(), any::<bool>(), most())
            .prop_map(|(index, columns, like, reverse, most)| {
                Operation::ScanIndex { index, columns, like, reverse, most }
            }),
        1 => Just(Operation::Savepoint),
        1 => (0..4_usize).prop_map(Operation::RollBack),
    ]
}

/// The same length, another content: what `Modify` does.
pub fn modified(thing: &Thing) -> Thing {
    Thing { colour: thing.colour.map(|colour| (colour + 1) % COLOURS.len() as u8), ..*thing }
}

impl Operation {
    /// The row that it writes, and what it is to become where it was `before`; `None` if it writes none.
    pub fn write(&self, before: impl Fn(i64) -> Option<Thing>) -> Option<(i64, Option<Thing>)> {
        match self {
            Self::Insert(id, thing) | Self::Put(id, thing) | Self::Update(id, thing) => Some((*id, Some(*thing))),
            Self::Modify(id) => Some((*id, before(*id).as_ref().map(modified))),
            Self::Delete(id) => Some((*id, None)),
            _ => None,
        }
    }

    /// What a read gives; `None` of a write.
    pub fn read(&self, table: &Table, view: &Things) -> Option<Outcome> {
        let row = |id: &i64| view.get(id).map(|thing| encode(table, *id, thing));
        match self {
            Self::Get(id) => Some(Outcome::Row(row(id))),
            Self::GetMany(ids) => {
                let found = ids.iter().map(|id| (vec![u8::from(row(id).is_some())], row(id).unwrap_or_default()));
                Some(Outcome::Rows(found.collect()))
            }
            Self::Scan { from, to, reverse, most } => {
                let within = |id: &i64| std::ops::RangeBounds::contains(&(*from, *to), id);
                let rows = view.keys().filter(|id| within(id)).filter_map(row).map(|row| (Vec::new(), row));
                Some(Outcome::Rows(some(rows.collect(), *reverse, *most)))
            }
            Self::ScanIndex { index, columns, like, reverse, most } => {
                let prefix = prefix(table, *index, *columns, like);
                let mut entries = entries(table, *index, view);
                entries.retain(|(entry, _)| entry.starts_with(&prefix));
                Some(Outcome::Rows(some(entries, *reverse, *most)))
            }
            _ => None,
        }
    }

    /// Does it in a transaction of the engine.
    pub fn perform(&self, table: &Table, transaction: &mut Transaction<'_>) -> Outcome {
        let encoded = |found: saki_mvcc::Found<'_>| (found.key.to_vec(), found.body.to_vec());
        match self {
            Self::Get(id) => Outcome::Row(transaction.get(table, &key(table, *id)).map(encoded)),
            Self::GetMany(ids) => {
                let keys: Vec<_> = ids.iter().map(|id| key(table, *id)).collect();
                let mut rows = Vec::new();
                transaction.get_many(table, &keys, |at, found| {
                    assert_eq!(at, rows.len());
                    rows.push((vec![u8::from(found.is_some())], found.map(encoded).unwrap_or_default()));
                });
                Outcome::Rows(rows)
            }
            Self::Insert(id, thing) => {
                let (key, body) = encode(table, *id, thing);
                outcome(transaction.insert(table, &key, &body))
            }
            Self::Put(id, thing) => {
                let (key, body) = encode(table, *id, thing);
                outcome(transaction.put(table, &key, &body))
            }
            Self::Update(id, thing) => {
                let (key, body) = encode(table, *id, thing);
                let Some(row) = transaction.get(table, &key).map(|found| found.id) else { return Outcome::NoRow };
                let outcome = outcome(transaction.update(table, row, &body));
                if outcome == Outcome::Done {
                    let again = transaction.see_again(table, row).expect("its handle").expect("it was just updated");
                    assert_eq!(again.body, body);
                }
                outcome
            }
            Self::Modify(id) => {
                let Some(found) = transaction.get(table, &key(table, *id)) else { return Outcome::NoRow };
                let before = super::decode(table, found.key, found.body);
                let row = found.id;
                let (_, after) = encode(table, *id, &modified(&before));
                outcome(transaction.modify(table, row, |body| body.copy_from_slice(&after)))
            }
            Self::Delete(id) => {
                let found = transaction.get(table, &key(table, *id)).map(|found| found.id);
                found.map_or(Outcome::NoRow, |row| outcome(transaction.delete(table, row)))
            }
            Self::Scan { from, to, reverse, most } => {
                let (from, to) = (from.map(|id| key(table, id)), to.map(|id| key(table, id)));
                let range = KeyRange::between(from.as_ref().map(|key| &**key), to.as_ref().map(|key| &**key));
                let mut rows = Vec::new();
                transaction.scan(table, &range, direction(*reverse), |found| {
                    rows.push((Vec::new(), encoded(found)));
                    if rows.len() == *most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                Outcome::Rows(rows)
            }
            Self::ScanIndex { index: number, columns, like, reverse, most } => {
                let prefix = prefix(table, *number, *columns, like);
                let mut rows = Vec::new();
                let range = KeyRange::prefix(&prefix);
                transaction.scan_index(table, index(table, *number), &range, direction(*reverse), |entry, found| {
                    rows.push((entry.to_vec(), encoded(found)));
                    if rows.len() == *most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                Outcome::Rows(rows)
            }
            Self::Savepoint | Self::RollBack(_) => unreachable!("savepoints are the runner's"),
        }
    }
}

fn direction(reverse: bool) -> Direction {
    if reverse { Direction::Reverse } else { Direction::Forward }
}

fn some(mut rows: Vec<(Vec<u8>, Encoded)>, reverse: bool, most: usize) -> Vec<(Vec<u8>, Encoded)> {
    if reverse {
        rows.reverse();
    }
    rows.truncate(most);
    rows
}

fn outcome<T>(result: Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(Error::Duplicate { index, .. }) => Outcome::Duplicate(index),
        Err(Error::Conflict { .. }) => Outcome::Conflict,
        Err(error) => panic!("{error}"),
    }
}
