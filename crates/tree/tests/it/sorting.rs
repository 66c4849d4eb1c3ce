//! Sorting within a budget, with and without scratch space.

use saki_base::Random;
use saki_tree::Sorter;

use crate::support::{Bench, key, value};

fn sort(memory_bytes: usize, pairs: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let bench = Bench::new(4096, 64, 1);
    let before = bench.volume.stats();
    let mut sorter = Sorter::new(bench.volume.scratch(), memory_bytes);
    for (key, value) in pairs {
        sorter.push(key, value).expect("pushed");
    }
    let runs = sorter.runs();
    let mut sorted = sorter.finish().expect("sorted");
    // Equal keys keep their order, as in a stable sort.
    let mut expected = pairs.to_vec();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, value) in &expected {
        let (found_key, found_value) = sorted.next().expect("read").expect("as many");
        assert!(found_key == key && found_value == value);
    }
    assert!(sorted.next().expect("read").is_none());
    assert!(sorted.next().expect("read").is_none());
    drop(sorted);
    assert_eq!(bench.volume.stats().used_bytes, before.used_bytes, "scratch space is free again");
    runs
}

#[test]
fn any_number_of_pairs_comes_back_sorted() {
    let mut random = Random::new(3);
    for count in [0, 1, 2, 100, 40_000] {
        let pairs: Vec<_> = (0..count).map(|_| (key(&mut random, 30_000), value(&mut random, 256))).collect();
        assert_eq!(sort(64 << 20, &pairs), 0);
        let runs = sort(1 << 20, &pairs);
        assert!(count < 40_000 || runs > 2, "merged in several passes: {runs} runs, two at a time");
    }
}

#[test]
fn values_larger_than_a_block_and_than_the_budget() {
    let mut random = Random::new(3);
    let lengths = [300_000, 0, 2_000_000, 10, 262_144, 500_000, 1];
    let pairs: Vec<_> =
        lengths.iter().map(|length| (key(&mut random, 100), vec![random.next_u64() as u8; *length])).collect();
    assert!(sort(1 << 20, &pairs) >= 2);
}

#[test]
fn short_keys_and_equal_prefixes() {
    let keys: [&[u8]; 9] =
        [b"", b"a", b"a\0", b"a\0\0\0\0\0\0\0", b"a\0\0\0\0\0\0\0\0", b"12345678", b"123456789", b"1234567", b""];
    let pairs: Vec<_> = keys.iter().enumerate().map(|(index, key)| (key.to_vec(), vec![index as u8])).collect();
    sort(1 << 20, &pairs);
}

#[test]
fn sorted_and_reversed_input() {
    let ascending: Vec<_> = (0..60_000u64).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 20])).collect();
    assert!(sort(1 << 20, &ascending) >= 2);
    let descending: Vec<_> = ascending.into_iter().rev().collect();
    assert!(sort(1 << 20, &descending) >= 2);
}
