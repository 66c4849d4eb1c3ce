//! The index with nodes of the sizes that are used: memory, contention, many entries.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use saki_mvcc::epoch::{Epochs, Garbage, Pin};
use saki_mvcc::index::{Direction, Index, KEY_BYTES_MAX, ScanBuffer, bytes_in_use};

/// One test at a time: they share the memory of nodes, and one of them counts it.
static ALONE: Mutex<()> = Mutex::new(());

fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^ number >> 29
}

fn insert(index: &Index, key: &[u8], value: u64, pin: &Pin<'_>) {
    index.insert(key, value, pin, &mut Vec::new()).expect("a new key");
}

#[test]
fn memory_comes_back() {
    let _alone = ALONE.lock().unwrap();
    let epochs = Epochs::new(0, 1);
    let mut participant = epochs.join().unwrap();
    let before = bytes_in_use();

    // A queue that moves on forever, with keys of two lengths.
    let index = Index::new();
    let mut garbage = Garbage::default();
    for key in 0..300_000u64 {
        let pin = participant.pin();
        let name = |key: u64| [&key.to_be_bytes()[..], &b"a longer key"[..12 * (key % 2) as usize]].concat();
        insert(&index, &name(key), key + 1, &pin);
        if let Some(old) = key.checked_sub(1000) {
            assert!(index.remove(&name(old), old + 1, &pin, &mut garbage));
        }
        drop(pin);
        epochs.tick();
        garbage.collect(epochs.watermark());
        assert!(bytes_in_use() - before < 1 << 20, "{} bytes for 1000 entries", bytes_in_use() - before);
    }
    drop(index);
    assert_eq!(bytes_in_use(), before);

    // Keys so long that nodes are outgrown, inserted at both ends.
    let index = Index::new();
    let long = |key: u64| [&key.to_be_bytes()[..], &[7; KEY_BYTES_MAX - 8]].concat();
    let pin = participant.pin();
    for key in 0..5000u64 {
        let number = if key % 2 == 0 { 1 << 40 | key } else { (1 << 40) - key };
        insert(&index, &long(number), key + 1, &pin);
    }
    assert_eq!(index.verify(&pin).unwrap().entries, 5000);
    drop(pin);
    drop(index);
    assert_eq!(bytes_in_use(), before);
}

/// All threads insert behind the last key. Alone, a thread fills every leaf; several overtake each other as the system
/// has it.
#[test]
fn ascending_keys() {
    ascending_keys_of(1, 40);
    ascending_keys_of(4, 16);
}

fn ascending_keys_of(threads: u64, entries_of_leaf_min: u64) {
    const COUNT: u64 = 50_000;
    let _alone = ALONE.lock().unwrap();
    let epochs = Epochs::new(0, threads as usize);
    let index = Index::new();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut participant = epochs.join().unwrap();
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    if key >= COUNT {
                        return;
                    }
                    insert(&index, &key.to_be_bytes(), key + 1, &participant.pin());
                }
            });
        }
    });
    let mut participant = epochs.join().unwrap();
    let pin = participant.pin();
    let statistics = index.verify(&pin).unwrap();
    assert_eq!(statistics.entries as u64, COUNT);
    assert!(statistics.leaves as u64 <= COUNT / entries_of_leaf_min, "leaves are nearly full: {statistics:?}");
}

/// Names of pages, of hosts of several lengths: keys as long as texts are, which share much with their neighbours,
/// and more with fewer of them.
#[test]
fn texts_that_begin_alike_fit_in_any_order() {
    const COUNT: u64 = 5000;
    let _alone = ALONE.lock().unwrap();
    let epochs = Epochs::new(0, 1);
    let mut participant = epochs.join().unwrap();
    let pin = participant.pin();
    let name = |number: u64, host: usize| format!("https://example.com/{}/{number}", "x".repeat(host)).into_bytes();
    for host in (0..40).chain([100, 980]) {
        let ascending: BTreeMap<_, _> = (1..=COUNT).map(|number| (name(number, host), number)).collect();
        let shuffled = (1..=COUNT).map(|number| mix(number) % COUNT + 1).map(|number| (name(number, host), number));
        let orders: [Vec<_>; 3] = [
            ascending.clone().into_iter().collect(),
            ascending.clone().into_iter().rev().collect(),
            shuffled.collect(),
        ];
        for keys in orders {
            let index = Index::new();
            for (key, number) in &keys {
                // Shuffled ones come more than once.
                let _ = index.insert(key, *number, &pin, &mut Vec::new());
            }
            index.verify(&pin).unwrap();
            assert!(keys.iter().all(|(key, number)| index.get(key, &pin) == Some(*number)));
        }
    }
}

#[test]
fn many_random_keys_are_found_alone_together_and_in_order() {
    const COUNT: u64 = 200_000;
    let _alone = ALONE.lock().unwrap();
    let epochs = Epochs::new(0, 1);
    let mut participant = epochs.join().unwrap();
    let pin = participant.pin();
    let index = Index::new();
    let mut model = BTreeMap::new();
    for number in 1..=COUNT {
        let key = mix(number).to_be_bytes();
        insert(&index, &key, number, &pin);
        model.insert(key, number);
    }
    assert_eq!(index.verify(&pin).unwrap().entries as u64, COUNT);
    let keys: Vec<[u8; 8]> = (1..=COUNT + 100).map(|number| mix(number).to_be_bytes()).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut values = vec![None; keys.len()];
    index.get_many(&keys, &mut values, &pin);
    for (i, (key, value)) in keys.iter().zip(values).enumerate() {
        let expected = Some(i as u64 + 1).filter(|&number| number <= COUNT);
        assert_eq!((value, index.get(key, &pin)), (expected, expected));
    }
    let mut buffer = ScanBuffer::default();
    for start in keys.iter().take(1000) {
        let expected = model.range::<[u8; 8], _>(<[u8; 8]>::try_from(*start).unwrap()..).take(50);
        let mut cursor =
            index.cursor((Bound::Included(start), Bound::Unbounded), Direction::Forward, &mut buffer, &pin);
        let mut found = Vec::new();
        while found.len() < 50
            && let Some(leaf) = cursor.step(50 - found.len())
        {
            found.extend(leaf.iter().map(|(key, value)| (<[u8; 8]>::try_from(key).unwrap(), value)));
        }
        assert!(found.iter().map(|(key, value)| (key, value)).eq(expected));
    }
}

/// Keys of one length, and longer ones that go on where these end, also with zeros only.
#[test]
fn keys_that_go_on_where_others_end_come_behind_them() {
    let _alone = ALONE.lock().unwrap();
    let epochs = Epochs::new(0, 1);
    let mut participant = epochs.join().unwrap();
    let pin = participant.pin();
    let mut buffer = ScanBuffer::default();
    for (length, count) in (1..=9).flat_map(|length| [1, 2, 40].map(|count| (length, count))) {
        let index = Index::new();
        let key = |number: u64| {
            let bytes = [&[0], &number.to_be_bytes()[..]].concat();
            bytes[9 - length..].to_vec()
        };
        (0..count).for_each(|number| insert(&index, &key(5 * number), number + 1, &pin));
        let mut first = |lower: Bound<&[u8]>, upper: Bound<&[u8]>, direction| {
            let mut cursor = index.cursor((lower, upper), direction, &mut buffer, &pin);
            while let Some(leaf) = cursor.step(1) {
                if let Some((_, value)) = leaf.iter().next() {
                    return Some(value);
                }
            }
            None
        };
        for (number, more) in (0..count).flat_map(|number| [&[0][..], &[0; 9], b"more"].map(|more| (number, more))) {
            let (own, longer) = (key(5 * number), [&key(5 * number)[..], more].concat());
            assert_eq!((index.get(&own, &pin), index.get(&longer, &pin)), (Some(number + 1), None));
            let next = Some(number + 2).filter(|next| *next <= count);
            assert_eq!(first(Bound::Included(&longer), Bound::Unbounded, Direction::Forward), next);
            assert_eq!(first(Bound::Unbounded, Bound::Excluded(&longer), Direction::Reverse), Some(number + 1));
            assert!(!index.remove(&longer, number + 1, &pin, &mut Garbage::default()));
        }
        let longer = |number: u64| [&key(5 * number)[..], &[0]].concat();
        (0..count).for_each(|number| insert(&index, &longer(number), 1_000 + number, &pin));
        index.verify(&pin).unwrap();
        for number in 0..count {
            assert_eq!(index.get(&key(5 * number), &pin), Some(number + 1));
            assert_eq!(index.get(&longer(number), &pin), Some(1_000 + number));
        }
    }
}
