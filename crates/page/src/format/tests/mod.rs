//! Views and builders against a model, at every page size, and with pages
//! that are damaged or were never pages.

mod bytes;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::prelude::*;
use saki_base::{PageAddress, PageRef, PageSize, TreeId};

use super::*;

const TREE: TreeId = TreeId(7);

fn page_sizes() -> impl Strategy<Value = PageSize> {
    (12_u32..=17).prop_map(|log2| PageSize::new(1 << log2).unwrap())
}

fn expected(page_size: PageSize) -> PageExpectation {
    PageExpectation { page_size, tree: TREE }
}

fn page_ref(number: u64) -> PageRef {
    PageRef { address: PageAddress(number), checksum: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

/// A value as a model keeps it.
#[derive(Clone, PartialEq, Debug)]
enum Stored {
    Inline(Vec<u8>),
    Overflow(OverflowRef),
}

impl Stored {
    fn as_leaf_value(&self) -> LeafValue<'_> {
        match self {
            Self::Inline(bytes) => LeafValue::Inline(bytes),
            Self::Overflow(overflow) => LeafValue::Overflow(*overflow),
        }
    }
}

/// Keys as trees have them: of one length, of many, with and without much in common.
fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop_oneof![3 => 0_u8..4, 1 => any::<u8>()];
    let count = 0..400_usize;
    let key = prop_oneof![
        prop::collection::vec(prop::collection::vec(byte.clone(), 0..12), count.clone()),
        prop::collection::vec(prop::collection::vec(byte.clone(), 6..=6), count.clone()),
        prop::collection::vec(prop::collection::vec(byte, 0..512), 0..60),
    ];
    (key, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(mut keys, prefix)| {
        keys.iter_mut().for_each(|key| {
            key.splice(0..0, prefix.iter().copied());
            key.truncate(512);
        });
        keys.sort();
        keys.dedup();
        keys
    })
}

fn entries() -> impl Strategy<Value = BTreeMap<Vec<u8>, Stored>> {
    let inline = |bytes| prop::collection::vec(any::<u8>(), bytes).prop_map(Stored::Inline);
    let overflow =
        any::<(u64, u64)>().prop_map(|(length, root)| Stored::Overflow(OverflowRef { length, root: page_ref(root) }));
    let lengths = prop_oneof![
        Just((0..=0_usize, false)),
        Just((20..=20_usize, false)),
        Just((0..=200_usize, false)),
        Just((0..=1024_usize, true)),
    ];
    (keys(), lengths).prop_flat_map(move |(keys, (lengths, with_overflow))| {
        let value = if with_overflow {
            prop_oneof![4 => inline(lengths), 1 => overflow.clone()].boxed()
        } else {
            inline(lengths).boxed()
        };
        let count = keys.len();
        (Just(keys), prop::collection::vec(value, count))
            .prop_map(|(keys, values)| keys.into_iter().zip(values).collect())
    })
}

/// Fills one leaf; the page and the entries that it took.
fn fill_leaf(page_size: PageSize, entries: &BTreeMap<Vec<u8>, Stored>) -> (Vec<u8>, Vec<(Vec<u8>, Stored)>) {
    let mut builder = LeafBuilder::new(page_size, TREE);
    let mut taken = Vec::new();
    for (key, value) in entries {
        if !builder.try_push(key, value.as_leaf_value()) {
            break;
        }
        taken.push((key.clone(), value.clone()));
        assert!(builder.bytes_used() <= page_size.bytes());
    }
    assert!(taken.len() >= entries.len().min(2));
    assert_eq!(builder.first_key(), taken.first().map(|(key, _)| key.as_slice()));
    assert_eq!(builder.last_key(), taken.last().map(|(key, _)| key.as_slice()));
    let mut page = vec![0xaa; page_size.bytes()];
    builder.finish_into(&mut page);
    (page, taken)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn leaf_is_a_sorted_map(page_size in page_sizes(), entries in entries(), probes in keys()) {
        let (page, taken) = fill_leaf(page_size, &entries);
        let view = LeafPage::open(&page, expected(page_size)).unwrap();
        view.verify().unwrap();
        prop_assert_eq!(view.count(), taken.len());
        let mut key = Vec::new();
        for (index, (model_key, model_value)) in taken.iter().enumerate() {
            view.key_into(index, &mut key);
            prop_assert_eq!(&key, model_key);
            prop_assert_eq!([view.prefix(), view.suffix(index)].concat(), model_key.as_slice());
            prop_assert_eq!(view.value(index), model_value.as_leaf_value());
        }
        let probes = probes.iter().chain(taken.iter().map(|(key, _)| key));
        for probe in probes.flat_map(|key| [&key[..], &key[..key.len() / 2]]) {
            let lower = taken.partition_point(|(key, _)| key.as_slice() < probe);
            prop_assert_eq!(view.lower_bound(probe), lower);
            let with_prefix = taken[lower..].iter().take_while(|(key, _)| key.starts_with(probe)).count();
            prop_assert_eq!(view.upper_bound_prefix(probe, lower), lower + with_prefix);
            for index in [0, lower, taken.len().saturating_sub(1)] {
                if let Some((key, _)) = taken.get(index) {
                    prop_assert_eq!(view.compare(index, probe), key.as_slice().cmp(probe));
                }
            }
        }
    }

    #[test]
    fn patched_leaves_are_those_built_anew(
        page_size in page_sizes(),
        entries in entries(),
        chosen in prop::collection::vec((0_usize..3, 0_u64..1000, 0_usize..30), 1..20),
    ) {
        let (page, stored) = fill_leaf(page_size, &entries);
        let leaf = LeafPage::open(&page, expected(page_size)).unwrap();
        let mut wanted: BTreeMap<Vec<u8>, Stored> = stored.iter().cloned().collect();
        // Keys that are there, or the like of them; values as long as those there, or as the case may be.
        let mut changes: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        for (kind, place, length) in chosen {
            let Some((key, old)) = stored.get(place as usize % stored.len().max(1)) else { continue };
            let length = match old {
                Stored::Inline(value) if length % 2 == 0 => value.len(),
                _ => length,
            };
            let mut key = key.clone();
            if kind == 2 && let Some(last) = key.last_mut() {
                *last = last.wrapping_add(1 + (place % 5) as u8);
            }
            changes.insert(key, (kind > 0).then(|| vec![7; length]));
        }
        let mut edits = Vec::new();
        for (key, value) in &changes {
            let at = leaf.lower_bound(key);
            let removes = at < leaf.count() && leaf.compare(at, key).is_eq();
            if removes || value.is_some() {
                edits.push(Edit { at, removes, puts: value.as_deref().map(|value| (key.as_slice(), value)) });
            }
            match value {
                Some(value) => wanted.insert(key.clone(), Stored::Inline(value.clone())),
                None => wanted.remove(key),
            };
        }
        let mut patched = vec![0xaa; page_size.bytes()];
        if let Some(used) = leaf.patch(&edits, &mut patched) {
            let leaf = LeafPage::open(&patched, expected(page_size)).unwrap();
            leaf.verify().unwrap();
            prop_assert!(used <= page_size.bytes());
            prop_assert_eq!(leaf.count(), wanted.len());
            let mut key = Vec::new();
            for (index, (wanted, stored)) in wanted.iter().enumerate() {
                leaf.key_into(index, &mut key);
                prop_assert_eq!(&key, wanted);
                prop_assert_eq!(leaf.value(index), stored.as_leaf_value());
            }
        }
    }

    #[test]
    fn inner_routes_to_the_right_child(
        page_size in page_sizes(),
        separators in keys(),
        probes in keys(),
        level in 1_u8..8,
    ) {
        let mut builder = InnerBuilder::new(page_size, TREE, level);
        let mut taken: Vec<Vec<u8>> = Vec::new();
        for separator in &separators {
            if !builder.try_push(separator, page_ref(taken.len() as u64)) {
                break;
            }
            taken.push(separator.clone());
        }
        prop_assume!(!taken.is_empty());
        prop_assert_eq!(builder.count(), taken.len());
        prop_assert_eq!(builder.first_separator(), Some(taken[0].as_slice()));
        let mut page = vec![0xaa; page_size.bytes()];
        builder.finish_into(&mut page);
        let view = InnerPage::open(&page, expected(page_size)).unwrap();
        view.verify().unwrap();
        prop_assert_eq!((view.level(), view.count()), (level, taken.len()));
        let mut separator = Vec::new();
        for (index, model) in taken.iter().enumerate() {
            prop_assert_eq!(view.child(index), page_ref(index as u64));
            view.separator_into(index, &mut separator);
            prop_assert_eq!(&separator, if index == 0 { &[][..] } else { model.as_slice() });
        }
        let child_of = |key: &[u8]| taken[1..].iter().filter(|separator| separator.as_slice() <= key).count();
        for pair in probes.windows(2).chain(taken.windows(2)) {
            let (low, high) = (pair[0].as_slice(), pair[1].as_slice());
            prop_assert_eq!(view.child_for(low), child_of(low));
            prop_assert_eq!(view.child_range(None, None), 0..taken.len());
            prop_assert_eq!(view.child_range(Some(low), None), child_of(low)..taken.len());
            prop_assert!(view.child_range(Some(high), Some(low)).is_empty());
            let overlapping = (0..taken.len()).filter(|child| {
                let starts_below_high = *child == 0 || taken[*child].as_slice() < high;
                let ends_above_low = taken.get(child + 1).is_none_or(|next| next.as_slice() > low);
                starts_below_high && ends_above_low
            });
            prop_assert!(view.child_range(Some(low), Some(high)).eq(overlapping));
        }
    }

    #[test]
    fn separator_is_the_shortest_that_separates(mut keys in keys()) {
        keys.truncate(50);
        let mut separator = Vec::new();
        for pair in keys.windows(2) {
            shortest_separator(&pair[0], &pair[1], &mut separator);
            prop_assert!(pair[0] < separator && separator <= pair[1]);
            prop_assert!(separator[..separator.len() - 1] <= pair[0][..]);
        }
    }

    #[test]
    fn overflow_pages_hold_the_value(page_size in page_sizes(), length in 0..2_000_000_usize) {
        let layout = OverflowLayout::for_length(length as u64, page_size);
        let value: Vec<u8> = (0..length).map(|index| (index * 31 / 8) as u8).collect();
        let mut pages = Vec::new();
        let mut level: Vec<PageRef> = Vec::new();
        for index in 0..layout.data_pages {
            let start = index as usize * OverflowLayout::data_bytes(page_size);
            let mut page = vec![0xaa; page_size.bytes()];
            write_overflow_data(&mut page, expected(page_size), &value[start..start + layout.piece_bytes(index)]);
            level.push(page_ref(pages.len() as u64));
            pages.push(page);
        }
        for number in 1..=layout.root_level {
            let mut builder = OverflowIndexBuilder::new(page_size, TREE, number);
            let mut above = Vec::new();
            for (index, group) in level.chunks(OverflowLayout::fan_out(page_size)).enumerate() {
                builder.reset();
                prop_assert!(group.iter().all(|child| builder.try_push(*child)));
                prop_assert_eq!(builder.count(), layout.children(number, index as u64));
                let mut page = vec![0xaa; page_size.bytes()];
                builder.finish_into(&mut page);
                above.push(page_ref(pages.len() as u64));
                pages.push(page);
            }
            prop_assert_eq!(above.len() as u64, layout.level_pages(number));
            level = above;
        }
        prop_assert_eq!(pages.len() as u64, layout.pages);
        prop_assert_eq!(level.len(), 1);

        for number in (1..=layout.root_level).rev() {
            let mut below = Vec::new();
            for reference in level {
                let view = OverflowIndexPage::open(&pages[reference.address.0 as usize], expected(page_size)).unwrap();
                view.verify().unwrap();
                prop_assert_eq!(view.level(), number);
                below.extend((0..view.count()).map(|index| view.child(index)));
            }
            level = below;
        }
        let mut read = Vec::new();
        for reference in level {
            let view = OverflowDataPage::open(&pages[reference.address.0 as usize], expected(page_size)).unwrap();
            view.verify().unwrap();
            read.extend_from_slice(view.piece());
        }
        prop_assert!(read == value);
    }

    #[test]
    fn damaged_pages_never_panic(
        page_size in prop::sample::select(vec![4096_u32, 8192, 131_072]),
        entries in entries(),
        damage in prop::collection::vec((prop_oneof![0..48_usize, any::<usize>()], any::<u8>()), 1..20),
        probes in keys(),
    ) {
        let page_size = PageSize::new(page_size).unwrap();
        let (mut page, taken) = fill_leaf(page_size, &entries);
        let mut inner = vec![0; page_size.bytes()];
        let mut builder = InnerBuilder::new(page_size, TREE, 1);
        builder.try_push(&[], page_ref(0));
        for (key, _) in taken.iter().filter(|(key, _)| !key.is_empty()) {
            builder.try_push(key, page_ref(1));
        }
        builder.finish_into(&mut inner);
        for (at, byte) in damage {
            let at = at % page.len();
            page[at] = byte;
            inner[at] = byte;
            exercise(&page, page_size, &probes);
            exercise(&inner, page_size, &probes);
        }
    }

    #[test]
    fn random_pages_never_panic(
        mut page in prop::collection::vec(any::<u8>(), 4096),
        probes in keys(),
        flags in 0_u8..16,
    ) {
        let page_size = PageSize::new(4096).unwrap();
        for kind in [PageKind::Leaf, PageKind::Inner, PageKind::OverflowData, PageKind::OverflowIndex] {
            page[..3].copy_from_slice(&[kind as u8, FORMAT_VERSION, flags]);
            page[4..8].copy_from_slice(&TREE.0.to_le_bytes());
            // Counts and lengths that pass the first checks, most of the time.
            (page[10], page[11], page[14], page[15]) = (0, 0, 0, 0);
            (page[9], page[13], page[17]) = (page[9] % 4, page[13] % 17, page[17] % 4);
            exercise(&page, page_size, &probes);
        }
    }
}

/// Calls every accessor of every type that takes the page.
fn exercise(page: &[u8], page_size: PageSize, probes: &[Vec<u8>]) {
    let expected = expected(page_size);
    let mut key = Vec::new();
    if let Ok(view) = LeafPage::open(page, expected) {
        let _ = view.verify();
        let count = view.count();
        for index in [0, 1, count / 2, count.saturating_sub(1), count, count + 1, usize::MAX] {
            view.key_into(index, &mut key);
            let _ = (view.suffix(index), view.value(index), view.upper_bound_prefix(&key, index.min(count)));
            let _ = view.compare(index, &key);
        }
        for probe in probes.iter().take(10) {
            assert!(view.lower_bound(probe) <= count);
            assert!(view.upper_bound_prefix(probe, 0) <= count);
        }
    }
    if let Ok(view) = InnerPage::open(page, expected) {
        let _ = view.verify();
        let count = view.count();
        for index in [0, 1, count / 2, count - 1, count] {
            view.separator_into(index, &mut key);
            let _ = view.child(index);
        }
        for pair in probes.windows(2).take(10) {
            assert!(view.child_for(&pair[0]) < count);
            assert!(view.child_range(Some(&pair[0]), Some(&pair[1])).end <= count);
        }
    }
    if let Ok(view) = OverflowDataPage::open(page, expected) {
        let _ = (view.verify(), view.piece());
    }
    if let Ok(view) = OverflowIndexPage::open(page, expected) {
        let _ = (view.verify(), view.child(0), view.child(view.count() - 1));
    }
}

#[test]
fn another_page_is_recognised() {
    let page_size = PageSize::new(4096).unwrap();
    let mut page = vec![0; 4096];
    LeafBuilder::new(page_size, TREE).finish_into(&mut page);
    assert_eq!(LeafPage::open(&page, expected(page_size)).unwrap().count(), 0);
    assert_eq!(
        InnerPage::open(&page, expected(page_size)).unwrap_err(),
        FormatError::Kind { expected: PageKind::Inner, found: b'L' }
    );
    assert_eq!(
        LeafPage::open(&page, PageExpectation { page_size, tree: TreeId(8) }).unwrap_err(),
        FormatError::Tree { expected: TreeId(8), found: TREE }
    );
    assert_eq!(
        LeafPage::open(&page[..100], expected(page_size)).unwrap_err(),
        FormatError::Size { expected: 4096, found: 100 }
    );
    assert_eq!(
        LeafPage::open(&[0; 4096], expected(page_size)).unwrap_err(),
        FormatError::Kind { expected: PageKind::Leaf, found: 0 }
    );
    page[1] = 9;
    assert_eq!(
        LeafPage::open(&page, expected(page_size)).unwrap_err(),
        FormatError::Version { expected: FORMAT_VERSION, found: 9 }
    );
}

/// A page of 128 KiB has entries beyond what two bytes can address.
#[test]
fn slots_wrap_once_in_the_largest_page() {
    let page_size = PageSize::new(128 << 10).unwrap();
    let entries: BTreeMap<_, _> = (0_u32..10_000)
        .map(|number| (number.to_be_bytes().to_vec(), Stored::Inline(vec![number as u8; 30 + number as usize % 7])))
        .collect();
    let (page, taken) = fill_leaf(page_size, &entries);
    let view = LeafPage::open(&page, expected(page_size)).unwrap();
    view.verify().unwrap();
    assert!(taken.len() > 3_000);
    for (index, (key, value)) in taken.iter().enumerate() {
        assert_eq!(view.compare(index, key), Ordering::Equal);
        assert_eq!(view.lower_bound(key), index);
        assert_eq!(view.value(index), value.as_leaf_value());
    }
}

/// What `open` lets pass, `verify` finds.
#[test]
fn verify_finds_what_open_does_not() {
    let page_size = PageSize::new(4096).unwrap();
    let reason_after = |damage: &dyn Fn(&mut [u8])| {
        // Three entries at 24 (offsets), 30 (prefix "k") and 31, 34, 38: suffix and value.
        let mut builder = LeafBuilder::new(page_size, TREE);
        for (key, value) in [(b"ka", &b"11"[..]), (b"kb", b"222"), (b"kc", b"3")] {
            assert!(builder.try_push(key, LeafValue::Inline(value)));
        }
        let mut page = vec![0; 4096];
        builder.finish_into(&mut page);
        assert_eq!((page[30], page[31], page[34], page[38], builder.bytes_used()), (b'k', b'a', b'b', b'c', 40));
        damage(&mut page);
        match LeafPage::open(&page, expected(page_size)).and_then(|view| view.verify()) {
            Err(FormatError::Malformed { kind: PageKind::Leaf, at, reason }) => (at, reason),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason_after(&|page| page[34] = b'a'), (1, "keys are not strictly ascending"));
    assert_eq!(reason_after(&|page| page[4095] = 1), (0, "unused bytes are not zero"));
    assert_eq!(reason_after(&|page| page[2] |= 0x80), (0, "unknown flags"));
    assert_eq!(reason_after(&|page| page[3] = 1), (0, "level is not zero"));
    assert_eq!(reason_after(&|page| page[26] = 99), (0, "entry is not where the one before it ends"));
    assert_eq!(reason_after(&|page| page[18] = 9), (0, "suffix or value is longer than the entry"));
    assert_eq!(reason_after(&|page| page[22] = 1), (0, "entry is not where the one before it ends"));
    assert_eq!(reason_after(&|page| page[12] = 30), (0, "offsets and prefix exceed the content"));
}
