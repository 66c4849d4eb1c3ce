//! A checker of isolation, after Adya, Liskov and O'Neil, "Generalized isolation level definitions" (2000).
//!
//! A *history* is what transactions read and wrote. Every write has a value of its own, so a value that was read tells
//! who wrote it; the order of a key's versions is that of the commit timestamps. From these follow the *dependencies*
//! between committed transactions, and an isolation level is what cycles it lets pass:
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | the writer of a version | the writer of the next one |
//! | wr | the writer of a version | who read it |
//! | rw | who read a version | the writer of the next one |
//!
//! A predicate read (a range of keys, a group) reads a version of every key there is: what it found, or one that did
//! not match. It anti-depends on the first later version that changes whether the key matches.
//!
//! | anomaly | what is wrong |
//! |---|---|
//! | G0 | a cycle of ww: dirty writes |
//! | G1a, G1b | a value of an aborted transaction was read, or one that its own transaction replaced |
//! | G1c | a cycle of ww and wr |
//! | G-single | a cycle with one rw: read skew, lost updates |
//! | G2-item | a cycle with rw of items: write skew |
//! | G2 | a cycle with a rw of a predicate: phantoms |
//! | own | a transaction did not see what it wrote itself |

mod examples;
mod graph;

use std::collections::BTreeMap;

pub type Key = u64;

/// A version's content: a group, and a value that occurs once in a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    pub group: u8,
    pub value: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Predicate {
    /// Keys from the first up to the second, exclusive.
    Keys(Key, Key),
    Group(u8),
}

#[derive(Clone, Debug)]
pub enum Event {
    Read(Key, Option<Cell>),
    /// `None` deletes.
    Write(Key, Option<Cell>),
    Search(Predicate, BTreeMap<Key, Cell>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Aborted,
    /// With a timestamp if it wrote.
    Committed(Option<u64>),
}

#[derive(Clone, Debug)]
pub struct Transaction {
    /// Where it stands: of several versions that it may have met in vain, the last one up to here is meant. Its
    /// snapshot, or what comes before its timestamp if its reads hold until then.
    pub stands_at: u64,
    pub events: Vec<Event>,
    pub end: End,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Anomaly {
    Own,
    G0,
    G1a,
    G1b,
    G1c,
    GSingle,
    G2Item,
    G2,
}

/// The anomalies of a history. The first version of every key is one without content.
pub fn check(history: &[Transaction]) -> Vec<Anomaly> {
    let mut anomalies = graph::reads_amiss(history);
    anomalies.extend(graph::Graph::of(history).cycles());
    anomalies.sort();
    anomalies.dedup();
    anomalies
}

impl Predicate {
    pub fn matches(self, key: Key, cell: Option<Cell>) -> bool {
        match self {
            Self::Keys(from, to) => cell.is_some() && (from..to).contains(&key),
            Self::Group(group) => cell.is_some_and(|cell| cell.group == group),
        }
    }
}

impl Transaction {
    fn is_committed(&self) -> bool {
        self.end != End::Aborted
    }

    /// Its last words on each key.
    fn writes(&self) -> BTreeMap<Key, Option<Cell>> {
        let writes = self.events.iter().filter_map(|event| match event {
            Event::Write(key, cell) => Some((*key, *cell)),
            _ => None,
        });
        writes.collect()
    }
}
