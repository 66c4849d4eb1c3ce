//! Random histories of transactions that get into each other's way on a few keys, recorded as they happen, and checked
//! for anomalies: none under serializable, none but write skew under snapshot.
//!
//! `SAKI_HISTORIES` says how many of each kind, `SAKI_SEED` from which seed on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::{Barrier, Mutex};

use saki_base::{Column, DataType, Random, Value, ValueRef};
use saki_mvcc::{
    Direction, Durability, Error, IndexDefinition, Isolation, KeyRange, Options, Runner, Sabotage, Table,
    TableDefinition,
};

use super::adya::{Anomaly, Cell, End, Event, Key, Predicate, Transaction, check};
use super::support::{SimLogs, first_seed, options, scaled};

const THREADS: usize = 3;
/// Keys of one history; the next has others, so that one database serves all.
const KEYS: u64 = 4;
const GROUPS: u64 = 2;

fn cells() -> TableDefinition {
    let column = |name: &str| Column { name: name.into(), data_type: DataType::Int8, nullable: false };
    TableDefinition {
        name: "cells".into(),
        columns: vec![column("key"), column("group"), column("value")],
        primary_key: vec![0],
        indexes: vec![IndexDefinition {
            name: "by_group".into(),
            columns: vec![1],
            unique: false,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn encode(table: &Table, key: Key, group: i64, value: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut to, mut body) = (Vec::new(), Vec::new());
    let values = [ValueRef::Int8(key as i64), ValueRef::Int8(group), ValueRef::Int8(value as i64)];
    table.encode(&values, &mut to, &mut body).expect("values of the table");
    (to, body)
}

/// One thread's part of one history.
struct Part<'a> {
    table: &'a Table,
    history: u64,
    isolation: Isolation,
    random: Random,
    next_value: u64,
}

impl Part<'_> {
    fn key(&mut self) -> Key {
        self.history * KEYS + self.random.below(KEYS)
    }

    /// Groups of a history are its own as well.
    fn group(&self, group: u8) -> i64 {
        (self.history * GROUPS) as i64 + i64::from(group)
    }

    fn cell(&self, body: &[u8], key: &[u8]) -> (Key, Cell) {
        let values = self.table.decode(key, body).expect("a row of the table");
        let [Value::Int8(key), Value::Int8(group), Value::Int8(value)] = values[..] else { panic!("{values:?}") };
        (key as Key, Cell { group: (group - self.group(0)) as u8, value: value as u64 })
    }

    fn run(&mut self, runner: &mut Runner, recorded: &Mutex<Vec<Transaction>>) {
        for _ in 0..4 {
            let mut transaction = runner.begin_with(self.isolation, Durability::Relaxed);
            let (snapshot, mut events) = (transaction.snapshot(), Vec::new());
            let mut is_refused = false;
            for _ in 0..self.random.range(1..5) {
                self.dawdle();
                match self.operation(&mut transaction) {
                    Ok(event) => events.push(event),
                    Err(error) if error.is_retryable() => is_refused = true,
                    Err(error) => panic!("{error}"),
                }
                if is_refused {
                    break;
                }
            }
            self.dawdle();
            let end = match is_refused || self.random.chance(0.1) {
                true => End::Aborted,
                false => match transaction.commit() {
                    Ok(timestamp) => End::Committed(timestamp),
                    Err(Error::Serialization) => End::Aborted,
                    Err(error) => panic!("{error}"),
                },
            };
            let stands_at = match end {
                End::Committed(Some(timestamp)) if self.isolation == Isolation::Serializable => timestamp - 1,
                _ => snapshot,
            };
            recorded.lock().expect("nobody panicked").push(Transaction { stands_at, events, end });
        }
    }

    /// Lets the others come in between.
    fn dawdle(&mut self) {
        match self.random.below(4) {
            0 => std::thread::yield_now(),
            1 => (0..self.random.below(2_000)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    fn operation(&mut self, transaction: &mut saki_mvcc::Transaction<'_>) -> Result<Event, Error> {
        let key = self.key();
        let (encoded, _) = encode(self.table, key, 0, 0);
        match self.random.below(10) {
            0..3 => {
                let found = transaction.get(self.table, &encoded);
                Ok(Event::Read(key, found.map(|found| self.cell(found.body, found.key).1)))
            }
            3..5 => Ok(self.search(transaction)),
            5 => {
                let Some(row) = transaction.get(self.table, &encoded).map(|found| found.id) else {
                    return Ok(Event::Read(key, None));
                };
                transaction.delete(self.table, row)?;
                Ok(Event::Write(key, None))
            }
            _ => {
                self.next_value += 1;
                let cell = Cell { group: self.random.below(GROUPS) as u8, value: self.next_value };
                let (encoded, body) = encode(self.table, key, self.group(cell.group), cell.value);
                transaction.put(self.table, &encoded, &body)?;
                Ok(Event::Write(key, Some(cell)))
            }
        }
    }

    fn search(&mut self, transaction: &saki_mvcc::Transaction<'_>) -> Event {
        let direction = if self.random.chance(0.5) { Direction::Forward } else { Direction::Reverse };
        let mut found = BTreeMap::new();
        if self.random.chance(0.5) {
            let bounds = [self.random.below(KEYS), self.random.below(KEYS)].map(|key| self.history * KEYS + key);
            let (from, to) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]) + 1);
            let ([from_key, to_key], _) = ([from, to].map(|key| encode(self.table, key, 0, 0).0), ());
            let range = KeyRange::between(Bound::Included(&from_key), Bound::Excluded(&to_key));
            transaction.scan(self.table, &range, direction, |row| {
                found.extend([self.cell(row.body, row.key)]);
                ControlFlow::Continue(())
            });
            return Event::Search(Predicate::Keys(from, to), found);
        }
        let group = self.random.below(GROUPS) as u8;
        let index = self.table.index("by_group").expect("an index");
        let mut prefix = Vec::new();
        let values = [ValueRef::Int8(self.group(group))];
        self.table.index_key_layout(index).encode(&values, &mut prefix).expect("a group");
        transaction.scan_index(self.table, index, &KeyRange::prefix(&prefix), direction, |_, row| {
            found.extend([self.cell(row.body, row.key)]);
            ControlFlow::Continue(())
        });
        Event::Search(Predicate::Group(group), found)
    }
}

/// How often each anomaly was found in `histories` histories.
fn anomalies(histories: u64, isolation: Isolation, sabotage: Option<Sabotage>) -> BTreeMap<Anomaly, u64> {
    let seed = first_seed();
    let logs = SimLogs::new(seed, 2, &[cells()]);
    let mut options = Options { sabotage, ..options() };
    options.log.flush = false;
    let database = logs.open(options).expect("new logs");
    let table = database.table("cells").expect("the table");
    let barrier = Barrier::new(THREADS);
    let recorded = Mutex::new(Vec::new());
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (database, table, barrier, recorded, found) = (&database, &table, &barrier, &recorded, &found);
            scope.spawn(move || {
                let mut runner = database.runner_on(thread as usize % 2).expect("a runner");
                for history in 0..histories {
                    let random = Random::new((seed + history) * THREADS as u64 + thread);
                    let next_value = (history * THREADS as u64 + thread) << 8;
                    let mut part = Part { table, history, isolation, random, next_value };
                    barrier.wait();
                    part.run(&mut runner, recorded);
                    if barrier.wait().is_leader() {
                        let transactions = std::mem::take(&mut *recorded.lock().expect("nobody panicked"));
                        let anomalies = check(&transactions);
                        let mut found = found.lock().expect("nobody panicked");
                        if !is_allowed(&anomalies, isolation) && sabotage.is_none() {
                            eprintln!("SAKI_SEED={} {isolation:?}: {anomalies:?} in {transactions:#?}", seed + history);
                        }
                        anomalies.into_iter().for_each(|anomaly| *found.entry(anomaly).or_insert(0) += 1);
                    }
                }
            });
        }
    });
    found.into_inner().expect("nobody panicked")
}

fn is_allowed(anomalies: &[Anomaly], isolation: Isolation) -> bool {
    let write_skew = BTreeSet::from([Anomaly::G2Item, Anomaly::G2]);
    anomalies.iter().all(|anomaly| isolation == Isolation::Snapshot && write_skew.contains(anomaly))
}

fn histories() -> u64 {
    scaled("SAKI_HISTORIES", 3_000)
}

#[test]
fn serializable_histories_have_no_anomaly() {
    assert_eq!(anomalies(histories(), Isolation::Serializable, None), BTreeMap::new());
}

#[test]
fn snapshot_histories_have_write_skew_and_nothing_worse() {
    let found = anomalies(histories(), Isolation::Snapshot, None);
    assert!(is_allowed(&found.keys().copied().collect::<Vec<_>>(), Isolation::Snapshot), "{found:?}");
    assert!(found.contains_key(&Anomaly::G2Item) && found.contains_key(&Anomaly::G2), "nothing is seen: {found:?}");
}

/// The test of the test: what is not validated shows.
#[test]
fn validation_that_forgets_something_is_found_out() {
    let found = anomalies(histories(), Isolation::Serializable, Some(Sabotage::IgnoreRows));
    assert!(found.contains_key(&Anomaly::G2Item), "rows that are not validated do not show: {found:?}");
    let found = anomalies(histories(), Isolation::Serializable, Some(Sabotage::IgnoreRanges));
    assert!(found.contains_key(&Anomaly::G2), "ranges that are not validated do not show: {found:?}");
}
