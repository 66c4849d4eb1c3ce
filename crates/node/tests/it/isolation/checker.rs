//! Anomalies in histories of appended lists, after Kingsbury and Alvaro, "Elle: inferring isolation anomalies from
//! experimental observations" (2020): a list that was read tells all that was appended before, and in which order; so
//! dependencies follow from what clients were told alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use saki_isolation::SerializationGraph;

pub type Key = i32;
/// Occurs once in a history.
pub type Element = u32;
pub type Lists = BTreeMap<Key, Vec<Element>>;

#[derive(Clone, Debug)]
pub enum Event {
    Append(Key, Element),
    /// Every key that was asked for; a list that is not there is empty.
    Read(Lists),
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub events: Vec<Event>,
    pub is_committed: bool,
}

/// Names as in Adya's thesis; the first three are of lists alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Anomaly {
    /// Something was appended and committed, and is not there.
    Lost,
    /// What was read is not how the list began.
    Fork,
    /// A transaction does not see what it appended itself.
    Own,
    G0,
    /// What an aborted transaction appended was seen.
    G1a,
    /// What was seen is not the last that its transaction appended.
    G1b,
    G1c,
    GSingle,
    G2,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ww,
    Wr,
    Rw,
}

/// The anomalies of a history, after which the lists were `last`.
pub fn check(history: &[Transaction], last: &Lists) -> BTreeSet<Anomaly> {
    let checker = Checker::new(history, last);
    let mut anomalies = checker.lists();
    for (number, reader) in history.iter().enumerate().filter(|(_, reader)| reader.is_committed) {
        checker.reads(number, reader, &mut anomalies);
    }
    // Without an order of the versions there are no dependencies to speak of.
    if anomalies.is_empty() {
        anomalies.extend(checker.cycles());
    }
    anomalies
}

struct Checker<'h> {
    history: &'h [Transaction],
    last: &'h Lists,
    writers: HashMap<Element, usize>,
}

impl<'h> Checker<'h> {
    fn new(history: &'h [Transaction], last: &'h Lists) -> Self {
        let mut writers = HashMap::new();
        for (number, writer) in history.iter().enumerate() {
            writers.extend(writer.events.iter().filter_map(|event| match event {
                Event::Append(_, element) => Some((*element, number)),
                Event::Read(_) => None,
            }));
        }
        Self { history, last, writers }
    }

    fn list(&self, key: Key) -> &'h [Element] {
        self.last.get(&key).map_or(&[], Vec::as_slice)
    }

    fn is_committed(&self, element: Element) -> bool {
        self.writers.get(&element).is_some_and(|writer| self.history[*writer].is_committed)
    }

    /// What a transaction appended to a list.
    fn appended(&self, number: usize, key: Key) -> impl Iterator<Item = Element> + '_ {
        self.history[number].events.iter().filter_map(move |event| match event {
            Event::Append(to, element) if *to == key => Some(*element),
            _ => None,
        })
    }

    /// What can be said of the lists as they are in the end.
    fn lists(&self) -> BTreeSet<Anomaly> {
        let mut anomalies = BTreeSet::new();
        let found: Vec<Element> = self.last.values().flatten().copied().collect();
        if !found.iter().all(|element| self.is_committed(*element)) {
            anomalies.insert(Anomaly::G1a);
        }
        let once: BTreeSet<Element> = found.iter().copied().collect();
        let committed = self.writers.keys().filter(|element| self.is_committed(**element));
        if once.len() < found.len() || !committed.into_iter().all(|element| once.contains(element)) {
            anomalies.insert(Anomaly::Lost);
        }
        anomalies
    }

    /// What can be said of the reads of one transaction, one by one.
    fn reads(&self, number: usize, reader: &Transaction, anomalies: &mut BTreeSet<Anomaly>) {
        let mut own = Lists::new();
        for event in &reader.events {
            match event {
                Event::Append(key, element) => own.entry(*key).or_default().push(*element),
                Event::Read(lists) => {
                    for (key, list) in lists {
                        anomalies.extend((!self.list(*key).starts_with(list)).then_some(Anomaly::Fork));
                        let own = own.get(key).map_or(&[][..], Vec::as_slice);
                        anomalies.extend((!list.ends_with(own)).then_some(Anomaly::Own));
                        let Some(seen) = list.last() else { continue };
                        let Some(writer) = self.writers.get(seen).filter(|_| self.is_committed(*seen)) else {
                            anomalies.insert(Anomaly::G1a);
                            continue;
                        };
                        let is_last = self.appended(*writer, *key).last() == Some(*seen);
                        anomalies.extend((*writer != number && !is_last).then_some(Anomaly::G1b));
                    }
                }
            }
        }
    }

    /// Which transactions depend on which others, and how.
    fn dependencies(&self) -> SerializationGraph<Kind> {
        let mut graph = SerializationGraph::new(self.history.len());
        for pair in self.last.values().flat_map(|list| list.windows(2)) {
            graph.add(self.writers[&pair[0]], self.writers[&pair[1]], Kind::Ww);
        }
        for (number, reader) in self.history.iter().enumerate().filter(|(_, reader)| reader.is_committed) {
            for (key, list) in reader.events.iter().filter_map(Event::read).flatten() {
                if let Some(seen) = list.last() {
                    graph.add(self.writers[seen], number, Kind::Wr);
                }
                if let Some(next) = self.list(*key).get(list.len()) {
                    graph.add(number, self.writers[next], Kind::Rw);
                }
            }
        }
        graph
    }

    fn cycles(&self) -> BTreeSet<Anomaly> {
        use Kind::{Rw, Wr, Ww};
        let graph = self.dependencies();
        let kinds: [(Anomaly, Kind, &[Kind]); 4] = [
            (Anomaly::G0, Ww, &[Ww]),
            (Anomaly::G1c, Wr, &[Ww, Wr]),
            (Anomaly::GSingle, Rw, &[Ww, Wr]),
            (Anomaly::G2, Rw, &[Ww, Wr, Rw]),
        ];
        let found = kinds.into_iter().filter(|(_, one, others)| graph.has_cycle(&[*one], others));
        found.map(|(anomaly, ..)| anomaly).collect()
    }
}

impl Event {
    fn read(&self) -> Option<&Lists> {
        match self {
            Self::Read(lists) => Some(lists),
            Self::Append(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event::Append;
    use super::*;

    fn read(lists: &[(Key, &[Element])]) -> Event {
        Event::Read(lists.iter().map(|(key, list)| (*key, list.to_vec())).collect())
    }

    fn found(history: &[&[Event]], last: &[(Key, &[Element])]) -> Vec<Anomaly> {
        let history: Vec<Transaction> =
            history.iter().map(|events| Transaction { events: events.to_vec(), is_committed: true }).collect();
        let Event::Read(last) = read(last) else { unreachable!("a read was made") };
        check(&history, &last).into_iter().collect()
    }

    #[test]
    fn one_after_the_other_is_fine() {
        let history: [&[Event]; 2] =
            [&[Append(1, 1), read(&[(1, &[1])])], &[read(&[(1, &[1]), (2, &[])]), Append(2, 2)]];
        assert_eq!(found(&history, &[(1, &[1]), (2, &[2])]), []);
    }

    #[test]
    fn lists_tell_of_what_is_missing_and_of_what_should_be() {
        assert_eq!(found(&[&[Append(1, 1)], &[Append(1, 2)]], &[(1, &[2])]), [Anomaly::Lost]);
        assert_eq!(found(&[&[Append(1, 1)], &[read(&[(1, &[2])])], &[Append(1, 2)]], &[(1, &[1, 2])]), [Anomaly::Fork]);
        assert_eq!(found(&[&[Append(1, 1), read(&[(1, &[])])]], &[(1, &[1])]), [Anomaly::Own]);
        let aborted = Transaction { events: vec![Append(1, 1)], is_committed: false };
        assert_eq!(check(&[aborted], &Lists::from([(1, vec![1])])), BTreeSet::from([Anomaly::G1a]));
        let history: [&[Event]; 2] = [&[Append(1, 1), Append(1, 2)], &[read(&[(1, &[1])])]];
        assert_eq!(found(&history, &[(1, &[1, 2])]), [Anomaly::G1b]);
    }

    #[test]
    fn cycles_have_names() {
        let history: [&[Event]; 2] = [&[Append(1, 1), Append(2, 2)], &[Append(1, 3), Append(2, 4)]];
        assert!(found(&history, &[(1, &[1, 3]), (2, &[4, 2])]).contains(&Anomaly::G0));
        let history: [&[Event]; 2] = [&[Append(1, 1), read(&[(2, &[2])])], &[Append(2, 2), read(&[(1, &[1])])]];
        assert_eq!(found(&history, &[(1, &[1]), (2, &[2])]), [Anomaly::G1c]);
        let skewed: [&[Event]; 2] = [&[Append(1, 1), Append(2, 2)], &[read(&[(1, &[])]), read(&[(2, &[2])])]];
        assert_eq!(found(&skewed, &[(1, &[1]), (2, &[2])]), [Anomaly::GSingle, Anomaly::G2]);
        let history: [&[Event]; 2] = [&[read(&[(2, &[])]), Append(1, 1)], &[read(&[(1, &[])]), Append(2, 2)]];
        assert_eq!(found(&history, &[(1, &[1]), (2, &[2])]), [Anomaly::G2]);
    }
}
