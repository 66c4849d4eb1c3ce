//! Dependencies, and the cycles in them.

use std::collections::{BTreeMap, HashMap};

use saki_isolation::SerializationGraph;

use super::{Anomaly, Cell, End, Event, Key, Transaction};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ww,
    Wr,
    RwItem,
    RwPredicate,
}

/// The direct serialization graph.
pub struct Graph(SerializationGraph<Kind>);

/// A version: who wrote it (`None`: it was there first), when, and what.
struct Version {
    writer: Option<usize>,
    timestamp: u64,
    cell: Option<Cell>,
}

/// What can be said of reads one by one: G1a, G1b, and own writes not seen.
pub fn reads_amiss(history: &[Transaction]) -> Vec<Anomaly> {
    let mut writers = HashMap::new();
    for (number, transaction) in history.iter().enumerate() {
        let last = transaction.writes();
        for event in &transaction.events {
            if let Event::Write(key, Some(cell)) = event {
                writers.insert(cell.value, (number, last[key] == Some(*cell)));
            }
        }
    }
    let mut anomalies = Vec::new();
    for (number, reader) in history.iter().enumerate().filter(|(_, reader)| reader.is_committed()) {
        let mut own: BTreeMap<Key, Option<Cell>> = BTreeMap::new();
        let mut misses_own = false;
        let mut saw = |own: &BTreeMap<Key, Option<Cell>>, key: Key, cell: Option<Cell>| {
            if let Some(own) = own.get(&key) {
                return anomalies.extend((*own != cell).then_some(Anomaly::Own));
            }
            let Some(cell) = cell else { return };
            match writers.get(&cell.value) {
                None => anomalies.push(Anomaly::G1a),
                Some((writer, _)) if *writer == number => anomalies.push(Anomaly::Own),
                Some((writer, _)) if !history[*writer].is_committed() => anomalies.push(Anomaly::G1a),
                Some((_, false)) => anomalies.push(Anomaly::G1b),
                Some((_, true)) => {}
            }
        };
        for event in &reader.events {
            match event {
                Event::Read(key, cell) => saw(&own, *key, *cell),
                Event::Search(predicate, found) => {
                    found.iter().for_each(|(key, cell)| saw(&own, *key, Some(*cell)));
                    let missing = own.iter().filter(|(key, _)| !found.contains_key(key));
                    if missing.into_iter().any(|(key, cell)| predicate.matches(*key, *cell)) {
                        misses_own = true;
                    }
                }
                Event::Write(key, cell) => _ = own.insert(*key, *cell),
            }
        }
        anomalies.extend(misses_own.then_some(Anomaly::Own));
    }
    anomalies
}

impl Graph {
    pub fn of(history: &[Transaction]) -> Self {
        let versions = versions(history);
        let mut graph = Self(SerializationGraph::new(history.len()));
        for order in versions.values() {
            for pair in order.windows(2) {
                graph.add(pair[0].writer, pair[1].writer, Kind::Ww);
            }
        }
        for (number, reader) in history.iter().enumerate().filter(|(_, reader)| reader.is_committed()) {
            let mut own = BTreeMap::new();
            for event in &reader.events {
                match event {
                    Event::Write(key, _) => _ = own.insert(*key, ()),
                    Event::Read(key, cell) if !own.contains_key(key) => {
                        graph.read(&versions, number, reader, *key, |other| other.is_some(), *cell);
                    }
                    Event::Read(..) => {}
                    Event::Search(predicate, found) => {
                        for key in versions.keys().filter(|key| !own.contains_key(key)) {
                            let matches = |cell: Option<Cell>| predicate.matches(*key, cell);
                            let cell = found.get(key).copied();
                            graph.search(&versions, number, reader, *key, matches, cell);
                        }
                    }
                }
            }
        }
        graph
    }

    fn add(&mut self, from: Option<usize>, to: Option<usize>, kind: Kind) {
        if let (Some(from), Some(to)) = (from, to) {
            self.0.add(from, to, kind);
        }
    }

    /// One key was looked up.
    fn read(
        &mut self,
        versions: &BTreeMap<Key, Vec<Version>>,
        number: usize,
        reader: &Transaction,
        key: Key,
        matches: impl Fn(Option<Cell>) -> bool,
        cell: Option<Cell>,
    ) {
        let Some(order) = versions.get(&key) else { return };
        let Some(at) = version_read(order, reader, &matches, cell) else { return };
        self.add(order[at].writer, Some(number), Kind::Wr);
        if let Some(next) = order.get(at + 1) {
            self.add(Some(number), next.writer, Kind::RwItem);
        }
    }

    /// One key among those that a predicate was tried on.
    fn search(
        &mut self,
        versions: &BTreeMap<Key, Vec<Version>>,
        number: usize,
        reader: &Transaction,
        key: Key,
        matches: impl Fn(Option<Cell>) -> bool,
        cell: Option<Cell>,
    ) {
        let order = &versions[&key];
        let Some(at) = version_read(order, reader, &matches, cell) else { return };
        self.add(order[at].writer, Some(number), Kind::Wr);
        let changes = |next: &&Version| cell.is_some() || matches(next.cell);
        if let Some(next) = order[at + 1..].iter().find(changes) {
            let is_item = cell.is_some() && matches(next.cell);
            self.add(Some(number), next.writer, if is_item { Kind::RwItem } else { Kind::RwPredicate });
        }
    }

    pub fn cycles(&self) -> Vec<Anomaly> {
        use Kind::{RwItem, RwPredicate, Wr, Ww};
        let mut anomalies = Vec::new();
        let mut look =
            |anomaly, one: &[Kind], others: &[Kind]| anomalies.extend(self.0.has_cycle(one, others).then_some(anomaly));
        look(Anomaly::G0, &[Ww], &[Ww]);
        look(Anomaly::G1c, &[Wr], &[Ww, Wr]);
        look(Anomaly::GSingle, &[RwItem, RwPredicate], &[Ww, Wr]);
        look(Anomaly::G2Item, &[RwItem], &[Ww, Wr, RwItem]);
        look(Anomaly::G2, &[RwPredicate], &[Ww, Wr, RwItem, RwPredicate]);
        anomalies
    }
}

/// The versions of each key, in order.
fn versions(history: &[Transaction]) -> BTreeMap<Key, Vec<Version>> {
    let mut versions: BTreeMap<Key, Vec<Version>> = BTreeMap::new();
    for (number, writer) in history.iter().enumerate() {
        let End::Committed(Some(timestamp)) = writer.end else { continue };
        for (key, cell) in writer.writes() {
            let first = || vec![Version { writer: None, timestamp: 0, cell: None }];
            versions.entry(key).or_insert_with(first).push(Version { writer: Some(number), timestamp, cell });
        }
    }
    versions.values_mut().for_each(|order| order.sort_by_key(|version| version.timestamp));
    versions
}

/// Which version was read: that of the cell, or the last one that does not match, up to where the reader stands.
fn version_read(
    order: &[Version],
    reader: &Transaction,
    matches: impl Fn(Option<Cell>) -> bool,
    cell: Option<Cell>,
) -> Option<usize> {
    match cell {
        Some(_) => order.iter().position(|version| version.cell == cell),
        None => order.iter().rposition(|version| version.timestamp <= reader.stands_at && !matches(version.cell)),
    }
}

/// Version orders follow the timestamps of one clock, so no history can be written down that has this one.
#[test]
fn dirty_writes_are_a_cycle() {
    let mut graph = Graph(SerializationGraph::new(3));
    [(0, 1), (1, 0), (2, 0)].into_iter().for_each(|(from, to)| graph.add(Some(from), Some(to), Kind::Ww));
    assert_eq!(graph.cycles(), [Anomaly::G0]);
    let mut graph = Graph(SerializationGraph::new(3));
    [(0, 1), (2, 0)].into_iter().for_each(|(from, to)| graph.add(Some(from), Some(to), Kind::Ww));
    assert_eq!(graph.cycles(), []);
}
