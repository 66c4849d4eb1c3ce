//! Small nodes, deep trees, against a map that is known to work.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;

use super::node::class::{LEAF_CLASS, words_of};
use super::*;
use crate::epoch::{Epochs, Participant};
use crate::epoch::{Garbage, Pin};

fn participant() -> Participant {
    Epochs::new(0, 8).join().expect("a place is free")
}

type Range<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);
const ALL: Range<'static> = (Bound::Unbounded, Bound::Unbounded);

fn scan(index: &Index, range: Range<'_>, direction: Direction, limit: usize, pin: &Pin<'_>) -> Vec<(Vec<u8>, u64)> {
    let mut buffer = ScanBuffer::default();
    let mut cursor = index.cursor(range, direction, &mut buffer, pin);
    let mut all = Vec::new();
    while let Some(leaf) = cursor.step(limit) {
        assert!(leaf.observed.is_unchanged(pin));
        assert!(leaf.len() <= limit);
        all.extend(leaf.iter().map(|(key, value)| (key.to_vec(), value)));
    }
    all
}

/// Frees all that nobody sees any more.
fn collect(epochs: &Epochs, garbage: &mut Garbage) {
    epochs.tick();
    garbage.collect(epochs.watermark());
    assert!(garbage.is_empty());
}

#[derive(Clone, Debug)]
enum Action {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    Scan { lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>, is_reverse: bool, limit: usize },
}

/// Keys with much in common, prefixes of each other, zeros, nothing, and up to the longest.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(0..3u8, 0..6),
        3 => (0..400u64).prop_map(|key| key.to_be_bytes().to_vec()),
        3 => (0..200u32, 0..4usize).prop_map(|(key, more)| {
            [b"a common prefix, ", &key.to_be_bytes()[..], &[0; 4][..more]].concat()
        }),
        2 => (0..60u8, 8..40usize).prop_map(|(key, length)| vec![key; length]),
        1 => (0..30u8, KEY_BYTES_MAX - 2..=KEY_BYTES_MAX).prop_map(|(key, length)| {
            let mut bytes = vec![7; length];
            bytes[length - 1 - usize::from(key % 3) * 400] = key;
            bytes
        }),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        2 => key().prop_map(Bound::Included),
        2 => key().prop_map(Bound::Excluded)
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => key().prop_map(Action::Insert),
        4 => key().prop_map(Action::Remove),
        2 => key().prop_map(Action::Get),
        1 => (bound(), bound(), any::<bool>(), 1..50usize)
            .prop_map(|(lower, upper, is_reverse, limit)| Action::Scan { lower, upper, is_reverse, limit }),
    ]
}

fn model_scan(model: &BTreeMap<Vec<u8>, u64>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Vec<(Vec<u8>, u64)> {
    let admits = |key: &Vec<u8>| {
        let above = match lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => &key[..] >= bound,
            Bound::Excluded(bound) => &key[..] > bound,
        };
        above
            && match upper {
                Bound::Unbounded => true,
                Bound::Included(bound) => &key[..] <= bound,
                Bound::Excluded(bound) => &key[..] < bound,
            }
    };
    model.iter().filter(|(key, _)| admits(key)).map(|(key, &value)| (key.clone(), value)).collect()
}

fn run(actions: Vec<Action>) {
    let mut participant = participant();
    let epochs = Arc::clone(participant.epochs());
    let index = Index::new();
    let mut model = BTreeMap::new();
    let mut garbage = Garbage::default();
    let mut changes = Vec::new();
    for (step, action) in actions.into_iter().enumerate() {
        let pin = participant.pin();
        let value = step as u64 + 1;
        match action {
            Action::Insert(key) => {
                changes.clear();
                let (before, seen) = index.get_observed(&key, &pin);
                let result = index.insert(&key, value, &pin, &mut changes);
                match model.get(&key) {
                    Some(&existing) => {
                        assert_eq!(result, Err(Occupied { existing }));
                        assert_eq!(before, Some(existing));
                    }
                    None => {
                        assert_eq!((before, result), (None, Ok(())));
                        assert!(!seen.is_unchanged(&pin));
                        let nodes = follow(&[seen], &changes);
                        assert!(nodes.iter().all(|leaf| leaf.is_unchanged(&pin)));
                        assert!(nodes.contains(&index.get_observed(&key, &pin).1));
                        model.insert(key, value);
                    }
                }
            }
            Action::Remove(key) => {
                let expected = model.get(&key).copied();
                assert!(!index.remove(&key, u64::MAX, &pin, &mut garbage));
                assert_eq!(index.remove(&key, expected.unwrap_or(1), &pin, &mut garbage), expected.is_some());
                model.remove(&key);
            }
            Action::Get(key) => assert_eq!(index.get(&key, &pin), model.get(&key).copied()),
            Action::Scan { lower, upper, is_reverse, limit } => {
                let (lower, upper) = (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..]));
                let mut expected = model_scan(&model, lower, upper);
                let direction = if is_reverse { Direction::Reverse } else { Direction::Forward };
                if is_reverse {
                    expected.reverse();
                }
                assert_eq!(scan(&index, (lower, upper), direction, limit, &pin), expected);
            }
        }
        drop(pin);
        if step % 64 == 0 {
            collect(&epochs, &mut garbage);
        }
    }
    let pin = participant.pin();
    assert_eq!(index.verify(&pin).unwrap().entries, model.len());
    assert_eq!(index.len(&pin), model.len());
    assert_eq!(index.is_empty(&pin), model.is_empty());
    let keys: Vec<&[u8]> = model.keys().map(|key| &key[..]).chain([&b"absent"[..]]).collect();
    let mut found = vec![None; keys.len()];
    index.get_many(&keys, &mut found, &pin);
    assert!(keys.iter().zip(found).all(|(&key, found)| found == model.get(key).copied()));
    for (key, &value) in &model {
        assert!(index.remove(key, value, &pin, &mut garbage));
    }
    let rest = index.verify(&pin).unwrap();
    assert_eq!((rest.entries, rest.leaves), (0, 1));
    drop(pin);
    collect(&epochs, &mut garbage);
}

/// What a transaction that observed `seen` has observed after its own insert.
fn follow(seen: &[Observed], changes: &[LeafChange]) -> Vec<Observed> {
    let mut seen = seen.to_vec();
    for change in changes {
        if let Some(leaf) = seen.iter_mut().find(|leaf| **leaf == change.before) {
            *leaf = change.after;
            seen.extend(change.made);
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 150 }))]

    #[test]
    fn does_what_a_map_does(actions in prop::collection::vec(action(), 1..if cfg!(miri) { 200 } else { 1500 })) {
        run(actions);
    }
}

fn numbers(count: u64) -> impl Iterator<Item = u64> {
    // An odd factor reaches each number below a power of two once.
    let modulus = count.next_power_of_two();
    (0..modulus).map(move |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (modulus - 1)).filter(move |&i| i < count)
}

const COUNT: u64 = if cfg!(miri) { 300 } else { 20_000 };

#[test]
fn ascending_keys_fill_their_leaves() {
    let mut participant = participant();
    let pin = participant.pin();
    let index = Index::new();
    for key in 0..COUNT {
        index.insert(&key.to_be_bytes(), key + 1, &pin, &mut Vec::new()).unwrap();
    }
    let statistics = index.verify(&pin).unwrap();
    let entries_of_leaf = (words_of(LEAF_CLASS) - node::HEADER_WORDS) / 2;
    assert!(statistics.leaves <= COUNT as usize / entries_of_leaf + 2, "{statistics:?}");
    if !cfg!(miri) {
        assert!(statistics.height >= 2);
    }
    let reverse = scan(&index, ALL, Direction::Reverse, 7, &pin);
    assert!(reverse.iter().map(|(_, value)| *value).eq((1..=COUNT).rev()));
}

/// Several ascending runs, as the orders of districts are.
#[test]
fn ascending_runs_fill_their_leaves() {
    let mut participant = participant();
    let pin = participant.pin();
    let index = Index::new();
    for order in 0..COUNT / 10 {
        for district in 0..10u64 {
            let key = [b"district".as_slice(), &district.to_be_bytes(), &order.to_be_bytes()].concat();
            index.insert(&key, order + 1, &pin, &mut Vec::new()).unwrap();
        }
    }
    let statistics = index.verify(&pin).unwrap();
    let entries_of_leaf = (words_of(LEAF_CLASS) - node::HEADER_WORDS - 4) / 2;
    let full = COUNT as usize / entries_of_leaf;
    assert!(statistics.leaves <= full + full / 5 + 30, "{statistics:?}");
}

#[test]
fn a_queue_does_not_grow() {
    let mut participant = participant();
    let epochs = Arc::clone(participant.epochs());
    let index = Index::new();
    let mut garbage = Garbage::default();
    let mut largest = 0;
    for key in 0..20 * COUNT / 10 {
        let pin = participant.pin();
        index.insert(&key.to_be_bytes(), key + 1, &pin, &mut Vec::new()).unwrap();
        if let Some(old) = key.checked_sub(100) {
            assert!(index.remove(&old.to_be_bytes(), old + 1, &pin, &mut garbage));
        }
        if key % 1000 == 999 {
            largest = largest.max(index.verify(&pin).unwrap().bytes);
            drop(pin);
            collect(&epochs, &mut garbage);
        }
    }
    assert!(largest <= 64 << 10, "{largest} bytes for 100 entries");
}

#[test]
fn an_absent_key_and_an_empty_range_are_protected() {
    let mut participant = participant();
    let pin = participant.pin();
    let index = Index::new();
    for key in numbers(COUNT) {
        index.insert(&(10 * key).to_be_bytes(), 1, &pin, &mut Vec::new()).unwrap();
    }
    let absent = 55u64.to_be_bytes();
    let (value, leaf) = index.get_observed(&absent, &pin);
    assert_eq!(value, None);
    let (lower, upper) = (51u64.to_be_bytes(), 59u64.to_be_bytes());
    let mut buffer = ScanBuffer::default();
    let mut cursor =
        index.cursor((Bound::Included(&lower), Bound::Excluded(&upper)), Direction::Forward, &mut buffer, &pin);
    let scanned = cursor.step(10).map(|leaf| (leaf.observed, leaf.len())).unwrap();
    assert_eq!(scanned, (leaf, 0));
    assert!(cursor.step(10).is_none());
    index.insert(&(10 * COUNT).to_be_bytes(), 1, &pin, &mut Vec::new()).unwrap();
    assert!(leaf.is_unchanged(&pin));
    index.insert(&absent, 1, &pin, &mut Vec::new()).unwrap();
    assert!(!leaf.is_unchanged(&pin));
}

/// Each thread inserts and removes keys of its own class, and knows what is there of them. Keys of one more class are
/// always there.
#[test]
fn threads_do_not_disturb_each_other() {
    const THREADS: u64 = 3;
    let rounds = if cfg!(miri) { 60 } else { 60_000 };
    let space = if cfg!(miri) { 40 } else { 3000 };
    let epochs = Epochs::new(0, 8);
    let index = Index::new();
    let make_key = |class: u64, key: u64| {
        // Two forms, so that nodes of both formats and changes between them come up.
        let key = (key * (THREADS + 1) + class).to_be_bytes();
        if key[7] % 16 < 4 { [&key[..], b" with something behind it"].concat() } else { key.to_vec() }
    };
    {
        let mut participant = epochs.join().unwrap();
        let pin = participant.pin();
        for key in 0..space {
            index.insert(&make_key(THREADS, key), u64::MAX, &pin, &mut Vec::new()).unwrap();
        }
    }
    let work = |class: u64| {
        let mut participant = epochs.join().unwrap();
        let mut garbage = Garbage::default();
        let mut random = class + 1;
        let mut mine = BTreeMap::new();
        for round in 1..=rounds {
            let pin = participant.pin();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Windows of keys, so that whole leaves become empty.
            let key = make_key(class, (round / 500 * 37 + (random >> 40) % 200) % space);
            if let Some(value) = mine.remove(&key) {
                assert_eq!(index.get(&key, &pin), Some(value));
                assert!(index.remove(&key, value, &pin, &mut garbage));
            } else {
                index.insert(&key, round, &pin, &mut Vec::new()).unwrap();
                mine.insert(key, round);
            }
            if round % 1000 == 0 || cfg!(miri) && round % 20 == 0 {
                for direction in [Direction::Forward, Direction::Reverse] {
                    check_scan(
                        &index,
                        direction,
                        space,
                        &mine,
                        |key| u64::from_be_bytes(*key.first_chunk().unwrap()) % (THREADS + 1) == class,
                        &pin,
                    );
                }
            }
            drop(pin);
            epochs.tick();
            garbage.collect(epochs.watermark());
        }
        let pin = participant.pin();
        for (key, value) in mine {
            assert!(index.remove(&key, value, &pin, &mut garbage));
        }
        garbage
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|class| scope.spawn(move || work(class))).collect();
        let mut garbage = Garbage::default();
        threads.into_iter().for_each(|thread| garbage.append(&mut thread.join().unwrap()));
        collect(&epochs, &mut garbage);
    });
    let mut participant = epochs.join().unwrap();
    let pin = participant.pin();
    assert_eq!(index.verify(&pin).unwrap().entries as u64, space);
}

/// A scan beside writers is in order, and has every key that does not change: those of nobody, and those of this
/// thread.
fn check_scan(
    index: &Index,
    direction: Direction,
    stable: u64,
    mine: &BTreeMap<Vec<u8>, u64>,
    is_mine: impl Fn(&[u8]) -> bool,
    pin: &Pin<'_>,
) {
    let mut buffer = ScanBuffer::default();
    let mut cursor = index.cursor(ALL, direction, &mut buffer, pin);
    let mut last: Option<Vec<u8>> = None;
    let mut stable_seen = 0;
    let mut mine_seen = 0;
    while let Some(leaf) = cursor.step(usize::MAX) {
        for (key, value) in leaf.iter() {
            let is_ordered =
                last.as_ref().is_none_or(|last| (&last[..] < key) == (direction == Direction::Forward) && last != key);
            assert!(is_ordered, "{last:?} before {key:?}");
            last = Some(key.to_vec());
            stable_seen += u64::from(value == u64::MAX);
            if is_mine(key) {
                assert_eq!(mine.get(key), Some(&value));
                mine_seen += 1;
            }
        }
    }
    assert_eq!((stable_seen, mine_seen), (stable, mine.len()));
}

/// Keys, and the order in which they come: bytes shared by many, by few and by none, so that what a node's keys share
/// changes with every key and every split; lengths of 0 to the longest.
fn hard_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let stem = prop_oneof![4 => 0..40usize, 2 => 0..300usize, 1 => KEY_BYTES_MAX - 16..=KEY_BYTES_MAX];
    let key = (0..4u8, stem, 0..500u32, 0..4usize).prop_map(|(family, shared, number, more)| {
        let number = format!("{number}{}", &"///"[..more]);
        let stem = std::iter::repeat_n(b'a' + family, shared.min(KEY_BYTES_MAX - number.len()));
        stem.chain(number.bytes()).collect::<Vec<u8>>()
    });
    let length = if cfg!(miri) { 40 } else { 250 };
    let keys = prop_oneof![
        // One stem for all: what they share is long, and grows as they are split.
        (0..200usize, prop::collection::vec((0..500u32, 0..30usize), 1..length)).prop_map(|(stem, keys)| {
            let key = |(number, more)| format!("{}{number}{}", "s".repeat(stem), "x".repeat(more)).into_bytes();
            keys.into_iter().map(key).collect::<Vec<_>>()
        }),
        prop::collection::vec(key, 1..length),
    ];
    (keys, 0..3u8).prop_map(|(mut keys, order)| {
        match order {
            0 => keys.sort(),
            1 => keys.sort_by(|left, right| right.cmp(left)),
            _ => {}
        }
        keys
    })
}

#[test]
fn splits_fit_however_long_it_is_what_keys_share() {
    let mut participant = participant();
    let pin = participant.pin();
    for shared in 0..if cfg!(miri) { 1 } else { 70 } {
        let keys = (0..150).map(|number| format!("{}{number}", "s".repeat(shared)).into_bytes());
        let ascending: std::collections::BTreeSet<_> = keys.clone().collect();
        let orders: [Vec<_>; 3] =
            [keys.collect(), ascending.iter().cloned().collect(), ascending.into_iter().rev().collect()];
        for keys in orders {
            let index = Index::new();
            for (entries, key) in (1..).zip(&keys) {
                index.insert(key, 1, &pin, &mut Vec::new()).unwrap();
                assert_eq!(index.verify(&pin).unwrap().entries, entries);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 100 }))]

    #[test]
    fn whatever_keys_share_every_split_fits(keys in hard_keys(), removals in prop::collection::vec(0..4usize, 250)) {
        let mut participant = participant();
        let epochs = Arc::clone(participant.epochs());
        let index = Index::new();
        let mut model = BTreeMap::new();
        let mut garbage = Garbage::default();
        for (step, (key, removal)) in keys.iter().zip(removals).enumerate() {
            let pin = participant.pin();
            let value = step as u64 + 1;
            let expected = model.get(key).map_or(Ok(()), |&existing| Err(Occupied { existing }));
            prop_assert_eq!(index.insert(key, value, &pin, &mut Vec::new()), expected);
            model.entry(key.clone()).or_insert(value);
            if removal == 0 {
                let gone = &keys[step / 2];
                let expected = model.remove(gone);
                prop_assert_eq!(index.remove(gone, expected.unwrap_or(1), &pin, &mut garbage), expected.is_some());
            }
            prop_assert_eq!(index.verify(&pin).unwrap().entries, model.len());
            drop(pin);
            collect(&epochs, &mut garbage);
        }
        let pin = participant.pin();
        let all = scan(&index, ALL, Direction::Forward, 50, &pin);
        prop_assert!(all.into_iter().eq(model));
    }
}
