//! Pages. The first byte of the input chooses the page size, the rest is the page, cut or filled with zeroes.
//!
//! The tree is taken from the page itself, so that damage is found by more than a
//! wrong tree number. Accessors are called on pages that `verify` refuses too:
//! a page with a right checksum is read without verifying it.

use std::hint::black_box;

use saki_base::{PageAddress, PageRef, PageSize, Random, TreeId};
use saki_page::{
    InnerBuilder, InnerPage, LeafBuilder, LeafPage, LeafValue, OverflowDataPage, OverflowIndexBuilder,
    OverflowIndexPage, OverflowRef, PageExpectation, key_bytes_max, write_overflow_data,
};

use crate::input::Input;

/// Where the common header has the tree's number.
const TREE_AT: usize = 4;

fn page_of(data: &[u8]) -> (Vec<u8>, PageExpectation) {
    let mut input = Input(data);
    let page_size = PageSize::new(4096 << (input.byte() % 6)).expect("a valid size");
    let mut page = input.bytes(page_size.bytes()).to_vec();
    page.resize(page_size.bytes(), 0);
    let tree = TreeId(u32::from_le_bytes(page[TREE_AT..TREE_AT + 4].try_into().expect("four bytes")));
    (page, PageExpectation { page_size, tree })
}

/// A leaf: entries stay inside the page, and if it verifies, every key is found where it is.
pub fn leaf(data: &[u8]) {
    let (page, expected) = page_of(data);
    let Ok(view) = LeafPage::open(&page, expected) else { return };
    let sound = view.verify().is_ok();
    let (mut key, mut before) = (Vec::new(), Vec::new());
    // A count that cannot be true is one more thing an accessor must stand.
    for index in 0..view.count().min(page.len()) {
        view.key_into(index, &mut key);
        assert!(key.len() <= 2 * page.len(), "a key longer than its page");
        if let LeafValue::Inline(value) = view.value(index) {
            assert!(value.len() <= page.len());
        }
        black_box(view.compare(index, &before));
        if sound {
            assert!(key.len() <= key_bytes_max(expected.page_size));
            assert!(index == 0 || before < key, "keys of a sound leaf do not ascend");
            assert_eq!(view.lower_bound(&key), index, "a sound leaf does not find its own key");
        }
        std::mem::swap(&mut before, &mut key);
    }
    for probe in [&before[..], &[], &[0xff; 20]] {
        let from = view.lower_bound(probe);
        black_box(view.upper_bound_prefix(probe, from));
    }
}

/// An inner page: children stay inside the page, and if it verifies, separators lead where they should.
pub fn inner(data: &[u8]) {
    let (page, expected) = page_of(data);
    let Ok(view) = InnerPage::open(&page, expected) else { return };
    let sound = view.verify().is_ok();
    let (mut separator, mut before) = (Vec::new(), Vec::new());
    for index in 0..view.count().min(page.len()) {
        view.separator_into(index, &mut separator);
        black_box(view.child(index));
        if sound && index > 0 {
            assert!(before < separator, "separators of a sound page do not ascend");
            assert_eq!(view.child_for(&separator), index, "a separator does not lead to its child");
            assert_eq!(view.child_range(Some(&before), Some(&separator)), index - 1..index);
        }
        std::mem::swap(&mut before, &mut separator);
    }
    for probe in [&before[..], &[], &[0xff; 20]] {
        let child = view.child_for(probe);
        assert!(!sound || child < view.count());
        black_box((view.children_with_prefix(probe), view.child_range(Some(probe), None)));
    }
}

/// Overflow pages, data and index.
pub fn overflow(data: &[u8]) {
    let (page, expected) = page_of(data);
    if let Ok(view) = OverflowDataPage::open(&page, expected) {
        assert!(view.piece().len() < page.len());
        let sound = view.verify().is_ok();
        let mut again = vec![0xaa; page.len()];
        write_overflow_data(&mut again, expected, view.piece());
        assert!(!sound || again == page, "a sound overflow page has another encoding");
    }
    if let Ok(view) = OverflowIndexPage::open(&page, expected) {
        let mut builder = OverflowIndexBuilder::new(expected.page_size, expected.tree, view.level());
        for index in 0..view.count() {
            assert!(builder.try_push(view.child(index)), "more children than a page holds");
        }
        let mut again = vec![0xaa; page.len()];
        builder.finish_into(&mut again);
        assert!(view.verify().is_err() || again == page, "a sound overflow index has another encoding");
    }
}

/// Page sizes of the seeds, as the first byte of the input.
const SEED_SIZES: [u8; 2] = [0, 1];

fn expectation(choice: u8) -> PageExpectation {
    PageExpectation { page_size: PageSize::new(4096 << choice).expect("a valid size"), tree: TreeId(7) }
}

fn seed(choice: u8, page_size: PageSize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut seed = vec![choice; 1 + page_size.bytes()];
    fill(&mut seed[1..]);
    seed
}

fn some_ref(number: u64) -> PageRef {
    PageRef { address: PageAddress(number), checksum: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) }
}

/// Leaves with keys of one length, of many, with overflow values, and an empty one.
pub fn leaf_seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(11);
    let mut seeds = Vec::new();
    for choice in SEED_SIZES {
        let PageExpectation { page_size, tree } = expectation(choice);
        for kind in 0..4 {
            let mut builder = LeafBuilder::new(page_size, tree);
            for number in 0..(if kind == 3 { 0 } else { 120_u64 }) {
                let mut key = b"customer".to_vec();
                key.extend_from_slice(&(number * 3).to_be_bytes());
                if kind > 0 {
                    key.resize(key.len() + random.below(9) as usize, b'x');
                }
                let mut value = vec![0; random.below(40) as usize];
                random.fill(&mut value);
                let overflow = OverflowRef { length: 70_000 + number, root: some_ref(number) };
                let value = if kind == 2 && number % 5 == 0 {
                    LeafValue::Overflow(overflow)
                } else {
                    LeafValue::Inline(&value)
                };
                if !builder.try_push(&key, value) {
                    break;
                }
            }
            seeds.push(seed(choice, page_size, |page| builder.finish_into(page)));
        }
    }
    seeds
}

/// Inner pages with few and many children.
pub fn inner_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choice in SEED_SIZES {
        let PageExpectation { page_size, tree } = expectation(choice);
        for count in [1, 2, 90_u64] {
            let mut builder = InnerBuilder::new(page_size, tree, 1 + choice);
            for number in 0..count {
                let separator = format!("order-{number:05}");
                builder.try_push(separator.as_bytes(), some_ref(number));
            }
            seeds.push(seed(choice, page_size, |page| builder.finish_into(page)));
        }
    }
    seeds
}

/// A full and a short data page, and an index.
pub fn overflow_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choice in SEED_SIZES {
        let expected = expectation(choice);
        for length in [expected.page_size.bytes() - 16, 100] {
            let piece = vec![0x5a; length];
            seeds.push(seed(choice, expected.page_size, |page| write_overflow_data(page, expected, &piece)));
        }
        let mut builder = OverflowIndexBuilder::new(expected.page_size, expected.tree, 1);
        (0..50).for_each(|number| assert!(builder.try_push(some_ref(number))));
        seeds.push(seed(choice, expected.page_size, |page| builder.finish_into(page)));
    }
    seeds
}
