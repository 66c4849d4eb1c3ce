//! How full pages get and how long their entries take to write and to find.
//!
//! ```text
//! cargo run --release -p saki-page --example format_speed
//! ```
//! Every figure is of entries as a bulk load and a lookup meet them: 12-byte keys
//! and values of 95 to 135 bytes (TPC-H lineitem), and 16-byte keys without a
//! value (a secondary index). The answers are checked while they are timed.

use std::hint::black_box;
use std::time::Instant;

use saki_base::{PageAddress, PageRef, PageSize, Random, TreeId};
use saki_page::{InnerBuilder, InnerPage, LeafBuilder, LeafPage, LeafValue, PageExpectation};

const TREE: TreeId = TreeId(1);
const ENTRIES: usize = 1_000_000;
const LOOKUPS: usize = 2_000_000;

fn main() {
    println!("page   entries            full %   write ns   find ns   B/entry   children   route ns");
    for bytes in [4_096, 8_192, 16_384, 131_072] {
        let page_size = PageSize::new(bytes).expect("a page size");
        run(page_size, "lineitem", 12, 95..136);
        run(page_size, "secondary", 16, 0..1);
    }
}

fn run(page_size: PageSize, name: &str, key_bytes: usize, value_bytes: std::ops::Range<u64>) {
    let mut random = Random::new(7);
    let keys = keys(key_bytes);
    let values: Vec<Vec<u8>> = (0..1_000).map(|_| vec![7; random.range(value_bytes.clone()) as usize]).collect();

    let mut builder = LeafBuilder::new(page_size, TREE);
    let mut pages = vec![0_u8; (ENTRIES * (key_bytes + 150)).next_multiple_of(page_size.bytes())];
    // The pages' memory is touched before the clock starts.
    black_box(&mut pages).fill(1);
    let (mut page_count, mut used) = (0, 0);
    let mut starts = vec![0];
    let begun = Instant::now();
    for (index, key) in keys.chunks_exact(key_bytes).enumerate() {
        let value = LeafValue::Inline(&values[index % values.len()]);
        if !builder.try_push(key, value) {
            builder.finish_into(&mut pages[page_count * page_size.bytes()..][..page_size.bytes()]);
            (page_count, used) = (page_count + 1, used + builder.bytes_used());
            starts.push(index);
            builder.reset();
            assert!(builder.try_push(key, value));
        }
    }
    let write = begun.elapsed();

    let expected = PageExpectation { page_size, tree: TREE };
    // A few pages, so that the search is timed and not the memory.
    let near = page_count.min(64);
    let found = time(&mut random, |random| {
        let page = random.below(near as u64) as usize;
        let view = LeafPage::open(&pages[page * page_size.bytes()..][..page_size.bytes()], expected).expect("a leaf");
        let entry = random.below(view.count() as u64) as usize;
        assert_eq!(view.lower_bound(&keys[(starts[page] + entry) * key_bytes..][..key_bytes]), entry);
    });

    let mut inner = InnerBuilder::new(page_size, TREE, 1);
    let mut page = vec![0; page_size.bytes()];
    let mut separator = Vec::new();
    for start in &starts {
        if *start > 0 {
            let (left, right) = keys[(start - 1) * key_bytes..][..2 * key_bytes].split_at(key_bytes);
            saki_page::shortest_separator(left, right, &mut separator);
        }
        if !inner.try_push(&separator, PageRef { address: PageAddress(*start as u64), checksum: 1 }) {
            break;
        }
    }
    inner.finish_into(&mut page);
    let routed = time(&mut random, |random| {
        let view = InnerPage::open(&page, expected).expect("an inner page");
        let child = random.below(view.count() as u64) as usize;
        assert_eq!(view.child_for(&keys[starts[child] * key_bytes..][..key_bytes]), child);
        black_box(view.child(child));
    });

    println!(
        "{:<6} {name:<18} {:6.2} {:10.1} {found:9.1} {:9.1} {:10} {routed:10.1}",
        page_size.bytes(),
        100.0 * used as f64 / (page_count * page_size.bytes()) as f64,
        write.as_nanos() as f64 / ENTRIES as f64,
        used as f64 / starts[page_count] as f64,
        inner.count(),
    );
}

/// Ascending keys: orders with one to seven lines, or a random number with a row id.
fn keys(key_bytes: usize) -> Vec<u8> {
    let mut random = Random::new(3);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut order = 0_u64;
    while keys.len() < ENTRIES {
        order += 1;
        if key_bytes == 12 {
            for line in 1..=1 + random.below(7) as u32 {
                keys.push([&(order | 1 << 63).to_be_bytes()[..], &(line | 1 << 31).to_be_bytes()].concat());
            }
        } else {
            keys.push([random.below(1 << 24).to_be_bytes(), order.to_be_bytes()].concat());
        }
    }
    keys.truncate(ENTRIES);
    keys.sort_unstable();
    keys.concat()
}

/// Nanoseconds of one call with its random draws: the best of some rounds, since
/// other work on the machine can only add to it.
fn time(random: &mut Random, mut call: impl FnMut(&mut Random)) -> f64 {
    const ROUNDS: usize = 10;
    let round = |_| {
        let begun = Instant::now();
        (0..LOOKUPS / ROUNDS).for_each(|_| call(random));
        begun.elapsed().as_nanos() as f64 / (LOOKUPS / ROUNDS) as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}
