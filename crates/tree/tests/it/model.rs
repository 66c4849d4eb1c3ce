//! Bulk load, apply, range, delete: always the same as a map.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use proptest::prelude::*;
use saki_base::Random;
use saki_page::{IoShare, PageStore};
use saki_tree::{BulkLoader, CachedReader, Change, TreeError, TreeReader, Wanted, apply};

use crate::support::{Bench, TREE, key, value};

fn run(page_bytes: u32, frames: u32, seed: u64, space: u64, load: u64, rounds: u64) {
    let mut bench = Bench::new(page_bytes, frames, seed);
    let mut random = Random::new(seed);
    bench.load((0..load).map(|_| (key(&mut random, space), value(&mut random, page_bytes))).collect());
    bench.check();
    for _ in 0..rounds {
        // From a few changes to about all keys; from all inserts to all deletes.
        let (count, deletes) = (random.range(0..4).pow(2) * space / 20 + random.range(0..5), random.unit());
        let change = |random: &mut Random| (!random.chance(deletes)).then(|| value(random, page_bytes));
        let mut changes: BTreeMap<_, _> = (0..count).map(|_| (key(&mut random, space), change(&mut random))).collect();
        if random.chance(0.2) {
            // A whole stretch of keys goes.
            let low = key(&mut random, space);
            changes
                .extend(bench.map.range(low..).take(random.range(0..space) as usize).map(|(k, _)| (k.clone(), None)));
        }
        let (root, map, _held) = (bench.root, bench.map.clone(), bench.volume.hold());
        bench.apply(&changes).expect("applied");
        bench.check();
        bench.check_difference(&root, &map);
        for _ in 0..5 {
            let (a, b) = (key(&mut random, space), key(&mut random, space));
            assert!(bench.reader.get(&bench.root, &a).expect("read").as_ref() == bench.map.get(&a));
            bench.check_range(Bound::Included(&a), Bound::Excluded(&b));
            bench.check_range(Bound::Excluded(&a), Bound::Included(&b));
            bench.check_range(Bound::Unbounded, Bound::Included(&b));
        }
    }
    assert!(rounds == 0 || bench.cached_ranges > 0);
    bench.drop_tree();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn small_pages(seed: u64, space in 1u64..3000, load in 0u64..3000) {
        run(4096, 64, seed, space, load, 6);
    }

    #[test]
    fn large_pages(seed: u64, space in 1u64..3000, load in 0u64..2000) {
        run(131_072, 32, seed, space, load, 2);
    }
}

#[test]
fn everything_deleted_is_an_empty_tree() {
    let mut bench = Bench::new(4096, 256, 5);
    let mut random = Random::new(5);
    bench.load((0..20_000).map(|_| (key(&mut random, 1 << 40), value(&mut random, 4096))).collect());
    assert!(bench.root.height >= 3);
    let all = bench.map.keys().map(|key| (key.clone(), None)).collect();
    let applied = bench.apply(&all).expect("applied");
    assert_eq!(applied.root, saki_tree::TreeRoot::empty(TREE));
    assert_eq!(bench.volume.stats().live_pages, 0);
    bench.check();
    bench.apply(&BTreeMap::from([(vec![], Some(vec![1]))])).expect("applied");
    bench.check();
}

#[test]
fn a_shrinking_tree_loses_levels_and_stays_dense() {
    let mut bench = Bench::new(4096, 1024, 5);
    let number = |n: u64| format!("{n:012}").into_bytes();
    bench.load((0..50_000).map(|n| (number(n), vec![7; 20])).collect());
    let height = bench.root.height;
    let most = (0..50_000).filter(|n| n % 500 != 0).map(|n| (number(n), None)).collect();
    bench.apply(&most).expect("applied");
    bench.check();
    assert!(bench.root.height < height);
    assert!(bench.root.leaf_pages <= 4, "{} leaves for 100 entries", bench.root.leaf_pages);
}

#[test]
fn a_difference_is_found_without_reading_what_is_the_same() {
    let mut bench = Bench::new(4096, 2048, 5);
    let number = |n: u64| format!("{n:012}").into_bytes();
    bench.load((0..50_000).map(|n| (number(n), vec![7; 20])).collect());
    let (root, map, _held) = (bench.root, bench.map.clone(), bench.volume.hold());
    bench.apply(&BTreeMap::from([(number(7), None), (number(40_000), Some(vec![8]))])).expect("applied");
    bench.cache.clear();
    bench.check_difference(&root, &map);
    let read = bench.cache.resident_pages();
    assert!(root.height == 3 && read < 30, "{read} pages read for a difference of two leaves");
    // From something to nothing, and to something else.
    bench.apply(&map.keys().map(|key| (key.clone(), None)).collect()).expect("applied");
    bench.check_difference(&root, &map);
    bench.check_difference(&saki_tree::TreeRoot::empty(TREE), &BTreeMap::new());
    bench.apply(&BTreeMap::from([(number(7), Some(vec![7; 20]))])).expect("applied");
    bench.check_difference(&root, &map);
}

/// Many ranges are brought to memory together, values in pages of their own as well; of a long one no more than is
/// wanted, from either end.
#[test]
fn ranges_that_were_brought_to_memory_are_read_there() {
    let mut bench = Bench::new(4096, 2048, 5);
    let number = |n: u64| format!("{n:012}").into_bytes();
    let value = |n: u64| vec![n as u8; if n % 50 == 7 { 5000 + n as usize } else { 20 }];
    bench.load((0..20_000).map(|n| (number(n), value(n))).collect());
    let root = bench.root;
    let cached = CachedReader::new(&bench.cache, bench.volume.page_size());
    let read = |low: &[u8], high: &[u8], is_reverse: bool, most: usize| {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let bounds = (Bound::Included(low), Bound::Excluded(high));
        let is_there = cached.range(&root, bounds, is_reverse, |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        is_there.expect("sound").then_some(found)
    };
    bench.cache.clear();
    let ranges: Vec<_> = (0..40).map(|range| (number(range * 450), number(range * 450 + 30))).collect();
    let wanted = ranges.iter().map(|(low, high)| {
        let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
        Wanted::range(&root, bounds, false)
    });
    let keys = [19_007, 19_999, 30_000].map(|n| Wanted::key(&root, &number(n)));
    let wanted: Vec<_> = wanted.chain(keys).collect();
    assert!(ranges.iter().all(|(low, high)| read(low, high, false, usize::MAX).is_none()), "nothing is in memory");
    bench.reader.bring(&wanted, 4).expect("read");
    assert!(bench.cache.resident_pages() < 350, "{} pages", bench.cache.resident_pages());
    for (low, high) in &ranges {
        let expected: Vec<_> =
            bench.map.range(low.clone()..high.clone()).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert!(read(low, high, false, usize::MAX) == Some(expected));
    }
    let mut found = Vec::new();
    for n in [19_007, 19_999] {
        assert_eq!(cached.get(&root, &number(n), &mut found).expect("sound"), Some(true));
        assert!(found == value(n));
    }
    assert_eq!(cached.get(&root, &number(30_000), &mut found).expect("sound"), Some(false));
    for is_reverse in [false, true] {
        bench.cache.clear();
        let (low, high) = (number(1000), number(15_000));
        let whole = Wanted::range(&root, (Bound::Included(&low), Bound::Excluded(&high)), is_reverse);
        bench.reader.bring(&[whole], 3).expect("read");
        assert!(bench.cache.resident_pages() < 80, "{} pages", bench.cache.resident_pages());
        let first = read(&low, &high, is_reverse, 50).expect("in memory")[0].0.clone();
        assert_eq!(first, number(if is_reverse { 14_999 } else { 1000 }));
        assert!(read(&low, &high, is_reverse, usize::MAX).is_none(), "no more was wanted");
    }
}

/// A merge rewrites pages: those that readers look at stay in memory through it, others do not come.
#[test]
fn what_comes_in_the_place_of_warm_pages_is_in_memory() {
    let mut bench = Bench::new(4096, 2048, 6);
    let number = |n: u64| format!("{n:012}").into_bytes();
    bench.load((0..20_000).map(|n| (number(n), vec![n as u8; 40])).collect());
    let store: Arc<dyn PageStore> = Arc::clone(&bench.volume) as Arc<dyn PageStore>;
    bench.cache.clear();
    let mut readers = TreeReader::new(&bench.cache, &store, &IoShare::new(u32::MAX)).expect("opened");
    let warm = 0..2000;
    for n in warm.clone() {
        readers.get(&bench.root, &number(n)).expect("read");
    }
    bench.reader = TreeReader::background(&bench.cache, &store, &IoShare::new(u32::MAX)).expect("opened");
    // Every tenth key gets another value, and so many new ones come that pages are cut.
    let changed = (0..20_000).step_by(10).map(|n| (number(n), Some(vec![7; 50])));
    let new = (0..2000).map(|n| ([&number(n)[..], b"x"].concat(), Some(vec![8; 40])));
    bench.apply(&changed.chain(new).collect()).expect("applied");
    let cached = CachedReader::new(&bench.cache, bench.volume.page_size());
    let mut value = Vec::new();
    let mut in_memory = |n: u64| cached.get(&bench.root, &number(n), &mut value).expect("sound").is_some();
    assert!(warm.clone().all(&mut in_memory), "warm pages went cold");
    let elsewhere = (3000..20_000).filter(|n| in_memory(*n)).count();
    assert_eq!(elsewhere, 0, "pages that nobody looked at are kept");
    bench.check();
}

#[test]
fn removing_what_is_not_there_changes_no_page() {
    let mut bench = Bench::new(4096, 256, 5);
    bench.load((0..5000u64).map(|n| ((n * 2).to_be_bytes().to_vec(), vec![1; 30])).collect());
    let root = bench.root;
    let applied = bench.apply(&(0..5000u64).map(|n| ((n * 2 + 1).to_be_bytes().to_vec(), None)).collect());
    let applied = applied.expect("applied");
    assert_eq!((applied.root, applied.freed.len()), (root, 0));
}

#[test]
fn ascending_inserts_fill_their_pages() {
    let mut bench = Bench::new(4096, 256, 5);
    for round in 0..50u64 {
        let batch = (0..200u64).map(|n| ((round * 200 + n).to_be_bytes().to_vec(), Some(vec![1; 30])));
        bench.apply(&batch.collect()).expect("applied");
    }
    bench.check();
    let appended = bench.root.leaf_pages;
    let map = bench.map.clone();
    bench.drop_tree();
    bench.load(map);
    assert!(appended <= bench.root.leaf_pages + 1, "{appended} leaves, bulk load makes {}", bench.root.leaf_pages);
}

#[test]
fn scattered_inserts_leave_pages_half_full_at_least() {
    let mut bench = Bench::new(4096, 512, 5);
    bench.load((0..20_000u64).map(|n| ((n * 8).to_be_bytes().to_vec(), vec![1; 30])).collect());
    let full = bench.root.leaf_pages;
    bench
        .apply(&(0..20_000u64).step_by(50).map(|n| ((n * 8 + 1).to_be_bytes().to_vec(), Some(vec![1; 30]))).collect())
        .expect("applied");
    bench.check();
    assert!(bench.root.leaf_pages <= 2 * full);
    let split = bench.root.leaf_pages;
    // Now there is room: more of the same splits nothing.
    bench
        .apply(&(0..20_000u64).step_by(50).map(|n| ((n * 8 + 2).to_be_bytes().to_vec(), Some(vec![1; 30]))).collect())
        .expect("applied");
    assert_eq!(bench.root.leaf_pages, split);
}

#[test]
fn disorder_is_refused_and_named() {
    let mut bench = Bench::new(4096, 64, 5);
    let publication = bench.volume.begin();
    let mut loader = BulkLoader::new(publication.writer(), bench.volume.page_size(), TREE);
    loader.push(b"b", b"").expect("first");
    assert!(matches!(loader.push(b"b", b""), Err(TreeError::DuplicateKey { .. })));
    let error = loader.push(b"a", b"").expect_err("descends");
    assert_eq!(error.to_string(), "tree 9: keys must ascend, but 61 came after 62");
    assert!(matches!(loader.push(&[b'z'; 513], b""), Err(TreeError::KeyTooLong { bytes: 513, bytes_max: 512, .. })));
    loader.push(&[b'z'; 512], b"").expect("the longest key");
    let (root, mut writer) = loader.finish().expect("loaded");
    assert_eq!(root.entries, 2);
    let change = |key| Change { key, value: None };
    let descending = apply(bench.reader.fetcher(), &mut writer, &root, &[change(b"b"), change(b"a")]);
    assert!(matches!(descending, Err(TreeError::OutOfOrder { .. })));
    let twice = apply(bench.reader.fetcher(), &mut writer, &root, &[change(b"b"), change(b"b")]);
    assert!(matches!(twice, Err(TreeError::DuplicateKey { .. })));
    // Several applies in one publication see each other's pages.
    let first = apply(bench.reader.fetcher(), &mut writer, &root, &[change(b"b")]).expect("applied");
    let second = Change { key: b"c", value: Some(b"d") };
    let second = apply(bench.reader.fetcher(), &mut writer, &first.root, &[second]).expect("applied");
    assert_eq!(bench.reader.get(&second.root, b"c").expect("read"), Some(b"d".to_vec()));
    assert_eq!(bench.reader.get(&second.root, b"b").expect("read"), None);
}
