//! A history of every anomaly, written by hand, and some without.

use std::collections::BTreeMap;

use super::{Anomaly, Cell, End, Event, Key, Predicate, Transaction, check};

const X: Key = 1;
const Y: Key = 2;

fn cell(value: u64) -> Option<Cell> {
    Some(Cell { group: 0, value })
}

fn read(key: Key, value: u64) -> Event {
    Event::Read(key, cell(value))
}

fn write(key: Key, value: u64) -> Event {
    Event::Write(key, cell(value))
}

fn search(found: &[(Key, u64)]) -> Event {
    let found = found.iter().map(|(key, value)| (*key, cell(*value).expect("a cell"))).collect();
    Event::Search(Predicate::Keys(0, 10), found)
}

fn committed(timestamp: u64, stands_at: u64, events: &[Event]) -> Transaction {
    Transaction { stands_at, events: events.into(), end: End::Committed(Some(timestamp)) }
}

fn reader(stands_at: u64, events: &[Event]) -> Transaction {
    Transaction { stands_at, events: events.into(), end: End::Committed(None) }
}

fn aborted(events: &[Event]) -> Transaction {
    Transaction { stands_at: 1, events: events.into(), end: End::Aborted }
}

/// Writes X = 10 and Y = 20.
fn setup() -> Transaction {
    committed(1, 0, &[write(X, 10), write(Y, 20)])
}

#[test]
fn one_after_the_other_is_fine() {
    let history = [
        setup(),
        committed(2, 1, &[read(X, 10), write(X, 11), read(X, 11)]),
        reader(2, &[read(X, 11), read(Y, 20), search(&[(X, 11), (Y, 20)])]),
        aborted(&[read(X, 10), write(Y, 99)]),
        committed(3, 2, &[Event::Write(X, None), Event::Read(X, None), search(&[(Y, 20)])]),
        reader(3, &[Event::Read(X, None), Event::Read(3, None), search(&[(Y, 20)])]),
        committed(4, 3, &[Event::Read(X, None), write(X, 12)]),
    ];
    assert_eq!(check(&history), []);
}

#[test]
fn an_aborted_value_that_was_read() {
    assert_eq!(check(&[setup(), aborted(&[write(X, 11)]), reader(1, &[read(X, 11)])]), [Anomaly::G1a]);
}

#[test]
fn an_intermediate_value_that_was_read() {
    let history = [setup(), committed(2, 1, &[write(X, 11), write(X, 12)]), reader(2, &[read(X, 11)])];
    assert_eq!(check(&history), [Anomaly::G1b]);
}

#[test]
fn own_writes_not_seen() {
    assert_eq!(check(&[setup(), committed(2, 1, &[write(X, 11), read(X, 10)])]), [Anomaly::Own]);
    assert_eq!(check(&[setup(), committed(2, 1, &[write(X, 11), search(&[(Y, 20)])])]), [Anomaly::Own]);
}

/// Version orders follow timestamps, so that two writers cross cannot be written down but by a read: the cycle is of ww
/// and wr.
#[test]
fn a_circle_of_information() {
    let history =
        [setup(), committed(2, 1, &[write(X, 11), read(Y, 21)]), committed(3, 1, &[write(Y, 21), read(X, 11)])];
    assert_eq!(check(&history), [Anomaly::G1c]);
}

#[test]
fn read_skew() {
    let history = [setup(), committed(2, 1, &[write(X, 11), write(Y, 21)]), reader(1, &[read(X, 10), read(Y, 21)])];
    assert_eq!(check(&history), [Anomaly::GSingle, Anomaly::G2Item]);
}

#[test]
fn a_lost_update() {
    let history =
        [setup(), committed(2, 1, &[read(X, 10), write(X, 11)]), committed(3, 1, &[read(X, 10), write(X, 12)])];
    assert_eq!(check(&history), [Anomaly::GSingle, Anomaly::G2Item]);
}

#[test]
fn write_skew() {
    let history =
        [setup(), committed(2, 1, &[read(Y, 20), write(X, 11)]), committed(3, 1, &[read(X, 10), write(Y, 21)])];
    assert_eq!(check(&history), [Anomaly::G2Item]);
}

#[test]
fn write_skew_by_phantoms() {
    let found = [(X, 10), (Y, 20)];
    let history =
        [setup(), committed(2, 1, &[search(&found), write(3, 30)]), committed(3, 1, &[search(&found), write(4, 40)])];
    assert_eq!(check(&history), [Anomaly::G2]);
    let history = [
        setup(),
        committed(2, 1, &[search(&found), Event::Write(X, None)]),
        committed(3, 1, &[search(&found), Event::Write(Y, None)]),
    ];
    assert_eq!(check(&history), [Anomaly::G2]);
}

#[test]
fn write_skew_by_groups() {
    let in_group = |group: u8, value: u64| Some(Cell { group, value });
    let none = || Event::Search(Predicate::Group(7), BTreeMap::new());
    let history = [
        setup(),
        committed(2, 1, &[none(), Event::Write(X, in_group(7, 11))]),
        committed(3, 1, &[none(), Event::Write(Y, in_group(7, 21))]),
    ];
    assert_eq!(check(&history), [Anomaly::G2]);
    // A change that leaves the other group alone is none of the reader's business.
    let history = [
        setup(),
        committed(2, 1, &[none(), Event::Write(X, in_group(5, 11))]),
        committed(3, 1, &[none(), Event::Write(Y, in_group(7, 21))]),
    ];
    assert_eq!(check(&history), []);
}

/// A reader that sees the second of two writers, who do not know of each other but for it, and not the first.
#[test]
fn a_read_only_transaction_that_shows_the_order() {
    let history = [
        setup(),
        committed(2, 1, &[read(X, 10), read(Y, 20), write(X, 11)]),
        committed(3, 1, &[read(Y, 20), write(Y, 21)]),
        reader(2, &[read(X, 11), read(Y, 20)]),
    ];
    assert_eq!(check(&history), []);
    let history = [
        setup(),
        committed(3, 1, &[read(X, 10), read(Y, 20), write(X, 11)]),
        committed(2, 1, &[read(Y, 20), write(Y, 21)]),
        reader(2, &[read(X, 10), read(Y, 21)]),
    ];
    assert_eq!(check(&history), [Anomaly::G2Item]);
}
