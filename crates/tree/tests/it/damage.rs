//! Damage is always an error that names page, tree and device, and a walk finds all of it.

use saki_base::{PageAddress, Random};
use saki_tree::{TreeError, free_all};

use crate::support::{Bench, TREE, key, value};

fn loaded(seed: u64) -> Bench {
    let mut bench = Bench::new(4096, 128, seed);
    let mut random = Random::new(seed);
    bench.load((0..5000).map(|_| (key(&mut random, 1 << 30), value(&mut random, 4096))).collect());
    bench
}

fn flip(bench: &Bench, page: PageAddress, bit: u64) {
    let location = bench.volume.locate(page).expect("mapped");
    let offset = location.offset() + bench.volume.page_size().offset_in_chunk(page) as u64;
    bench.device.flip_bit(offset + bit / 8, (bit % 8) as u8);
}

#[test]
fn every_rotten_page_is_found_and_never_read() {
    let mut random = Random::new(4);
    for seed in 0..20 {
        let mut bench = loaded(seed);
        let pages = free_all(bench.reader.fetcher(), &bench.root).pages;
        let mut rotten: Vec<_> = (0..3).map(|_| pages[random.range(0..pages.len() as u64) as usize]).collect();
        rotten.sort_unstable();
        rotten.dedup();
        rotten.iter().for_each(|page| flip(&bench, *page, random.range(0..4096 * 8)));
        let found = bench.verify();
        let named: Vec<_> = found.faults.iter().filter_map(|fault| fault.page).collect();
        assert!(!named.is_empty());
        // Below a rotten inner page nothing can be reached, so not every one need be named; but no other one is.
        assert!(named.iter().all(|page| rotten.contains(page)));
        assert!(found.faults.iter().all(|fault| fault.tree == TREE));
        assert!(found.faults.iter().filter(|fault| fault.page.is_some()).all(|fault| fault.device.starts_with("sim:")));
        bench.cache.clear();
        let mut scan = bench.reader.scan(&bench.root);
        let mut expected = bench.map.iter();
        let error = loop {
            match scan.next() {
                Ok(Some((key, value))) => assert!(expected.next() == Some((&key.to_vec(), &value.to_vec()))),
                Ok(None) => panic!("a rotten page was overlooked"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TreeError::Page { tree: TREE, .. }));
    }
}

#[test]
fn wrong_counts_and_trees_are_noticed() {
    let mut bench = loaded(1);
    bench.root.entries += 1;
    bench.root.inner_pages -= 1;
    assert_eq!(bench.verify().faults.len(), 2);
    bench.root.id.0 += 1;
    let found = bench.verify();
    assert!(found.faults[0].what.contains("expected a page of tree 10, found one of tree 9"), "{}", found.faults[0]);
    let error = bench.reader.get(&bench.root, b"key").expect_err("another tree");
    assert!(matches!(error, TreeError::Malformed { .. }));
    bench.root.id.0 -= 1;
    bench.root.height -= 1;
    assert!(bench.reader.get(&bench.root, b"key").is_err());
    assert!(!bench.verify().faults.is_empty());
}

#[test]
fn a_device_that_does_not_answer_is_an_error_of_the_page() {
    let mut bench = loaded(1);
    bench.cache.clear();
    bench.device.faults().fail_range(1 << 20..1 << 40);
    assert!(matches!(bench.reader.get(&bench.root, b"key"), Err(TreeError::Page { .. })));
    assert!(bench.verify().faults.iter().any(|fault| fault.page == bench.root.root.map(|page| page.address)));
    bench.device.faults().heal();
    bench.check();
}

#[test]
fn a_damaged_tree_can_be_dropped() {
    let mut bench = loaded(1);
    let listed = free_all(bench.reader.fetcher(), &bench.root);
    flip(&bench, listed.pages[listed.pages.len() / 2], 7);
    bench.cache.clear();
    let listed = free_all(bench.reader.fetcher(), &bench.root);
    assert!(listed.unreadable.len() <= 1);
    let publication = bench.volume.begin();
    publication.free(&listed.pages);
    publication.commit(&[]).expect("committed");
}
