//! What devices may do to a database as a whole: any bit turned is found or harmless, in the volume, its superblocks
//! and the logs alike; and whatever a power cut leaves opens, with all that was committed.
//!
//! `SAKI_FLIPS` and `SAKI_CRASHES` say how many are tried.

use saki_base::{PageSize, Random};

use crate::fixture::{Bench, Rows, Shape, decoded, entry, make_table, options};
use crate::{OpenOptions, SimStorage};

const ROWS: i64 = 1_500;

fn made() -> (SimStorage, Bench) {
    let storage = SimStorage::default();
    let page_size = PageSize::new(4096).expect("a page size");
    let db = storage.create("simulated", page_size, logging()).expect("started");
    make_table(&db, Shape::default());
    (storage, Bench::around(db))
}

fn logging() -> OpenOptions {
    OpenOptions { logs: Some(2), log_extent_bytes: 64 << 10, ..options() }
}

fn times(name: &str, few: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}

/// Loaded, changed, merged and changed again.
fn filled() -> (SimStorage, Rows) {
    let (storage, bench) = made();
    bench.load((0..ROWS).map(|id| (id, id % 7))).expect("loaded");
    (0..60).for_each(|id| bench.commit(&[(id * 3, Some(id)), (id * 5, None)]));
    bench.merge();
    (0..90).for_each(|id| bench.commit(&[(id * 4, Some(id)), (id * 11, None), (ROWS + id, Some(1))]));
    bench.check();
    let rows = bench.moment().range();
    drop(bench.close());
    (storage, rows)
}

/// Whether an opening, or `check`, finds something; and nobody reads a row that is wrong.
fn is_found(storage: &SimStorage, rows: &Rows, what: &str) -> bool {
    let Ok(db) = storage.open("simulated", logging()) else { return true };
    let report = db.check(&mut |_| {});
    let bench = Bench::around(db);
    let moment = bench.moment();
    if report.is_ok_and(|report| report.faults.is_empty()) {
        assert!(
            moment.range() == *rows && moment.pipeline() == *rows && moment.columns() == *rows,
            "{what}: other rows"
        );
        return false;
    }
    for id in 0..ROWS + 90 {
        let (key, _) = entry(moment.table(), id, 0);
        let value = |row: &[u8]| decoded(moment.table(), &key, row).1;
        let read = moment.read(|reader, base| reader.get(base, &key).map(|row| row.map(|row| value(&row))));
        if let Ok(found) = read {
            assert_eq!(found, rows.get(&id).copied(), "{what}: row {id}");
        }
    }
    true
}

#[test]
fn any_bit_that_is_turned_is_found_or_harmless() {
    let (storage, rows) = filled();
    assert!(!is_found(&storage.crash(0), &rows, "as it was"));
    let (sectors, mut random) = (storage.sectors().expect("readable"), Random::new(times("SAKI_SEED", 1)));
    let mut found = 0;
    for number in 0..times("SAKI_FLIPS", 120) {
        let damaged = storage.crash(number);
        let what = damaged.turn_bit(&sectors, number, &mut random);
        found += u64::from(is_found(&damaged, &rows, &what));
    }
    assert!(found > 0, "nothing was found");
}

#[test]
fn whatever_a_power_cut_leaves_opens_with_all_that_was_committed() {
    let (storage, bench) = made();
    let mut random = Random::new(times("SAKI_SEED", 1));
    for number in 0..times("SAKI_CRASHES", 40) {
        match random.below(8) {
            0 => bench.merge(),
            1 => bench.db().release_merged().expect("released"),
            2 => drop(bench.load((0..50).map(|id| (1_000 * (number as i64 + 1) + id, 5))).expect("loaded")),
            _ => {
                let id = random.below(200) as i64;
                bench.commit(&[(id, Some(number as i64)), (id + 300, random.chance(0.5).then_some(1))]);
            }
        }
        let rows = bench.moment().range();
        let mut left = storage.crash(number);
        // Power may go again while it is being opened, or right after.
        for again in 0..2 {
            let db =
                left.open("simulated", logging()).unwrap_or_else(|error| panic!("crash {number}, {again}: {error}"));
            let opened = Bench::around(db);
            assert_eq!(opened.moment().range(), rows, "crash {number}, {again}");
            opened.check();
            left = left.crash(number + 1);
        }
    }
}
