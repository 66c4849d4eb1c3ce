//! Readers on every path beside writers, merges and releases, over reopenings.
//!
//! Money moves between accounts, so that all of it is always there: a reader that misses a row, sees one twice, or
//! takes one half of a transaction for the whole, finds another sum.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use saki_base::Random;
use saki_mvcc::Direction;

use super::TableReader;
use crate::fixture::{Bench, Moment, Rows, Shape, decoded, entry};

const ACCOUNTS: i64 = 600;
const BALANCE: i64 = 1_000;
const ROUND: Duration = Duration::from_millis(700);

/// Moves some money, in one transaction; whether it has.
fn transfers(bench: &Bench, random: &mut Random) -> bool {
    let from = random.below(ACCOUNTS as u64) as i64;
    let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
    let amount = random.below(100) as i64;
    let moved = bench.transact(|table, delta, transaction| {
        for (id, change) in [(from, -amount), (to, amount)] {
            let (key, _) = entry(table, id, 0);
            let mut base = bench.db().base_reader();
            let row = TableReader::new(table, delta, &*transaction).get(&mut base, &key)?;
            let (_, v) = decoded(table, &key, &row.expect("accounts are never closed"));
            let (_, row) = entry(table, id, v + change);
            delta.write(transaction, &key, Some(&row))?;
        }
        Ok(())
    });
    moved.is_ok()
}

fn is_whole(rows: &Rows) -> bool {
    rows.len() == ACCOUNTS as usize && rows.values().sum::<i64>() == ACCOUNTS * BALANCE
}

/// All money is there, on one of the paths.
fn sees_all(moment: &Moment, path: usize) -> bool {
    match path {
        0 => is_whole(&moment.range()),
        1 => is_whole(&moment.pipeline()),
        2 => is_whole(&moment.columns()),
        3 => moment.values().into_iter().map(|(v, times)| v * times as i64).sum::<i64>() == ACCOUNTS * BALANCE,
        4 => moment.short(false, Direction::Reverse).is_none_or(|rows| is_whole(&rows)),
        5 => moment.short(true, Direction::Forward).is_none_or(|rows| is_whole(&rows)),
        _ => (0..ACCOUNTS).map(|id| moment.point(id).expect("an account")).sum::<i64>() == ACCOUNTS * BALANCE,
    }
}

fn stress(resident: bool) {
    let mut bench = Bench::new(Shape { resident, ..Shape::default() });
    bench.load((0..ACCOUNTS).map(|id| (id, BALANCE))).expect("loaded");
    let (transferred, reads) = (AtomicU64::new(0), AtomicU64::new(0));
    for round in 0..3 {
        let began = Instant::now();
        let is_over = AtomicBool::new(false);
        let goes_on = || began.elapsed() < ROUND && !is_over.load(Ordering::Relaxed);
        thread::scope(|scope| {
            let (bench, transferred, reads, is_over) = (&bench, &transferred, &reads, &is_over);
            for writer in 0..2 {
                scope.spawn(move || {
                    let mut random = Random::new(round * 7 + writer);
                    while goes_on() {
                        transferred.fetch_add(u64::from(transfers(bench, &mut random)), Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(move || {
                while goes_on() {
                    bench.merge();
                    bench.db().release_merged().expect("released");
                }
            });
            for reader in 0..2 {
                scope.spawn(move || {
                    // One that is held for long, beside others that are new each time.
                    let old = bench.moment();
                    for path in (0..7).cycle().skip(reader * 3) {
                        if !goes_on() {
                            break;
                        }
                        let whole = sees_all(&bench.moment(), path) && sees_all(&old, path);
                        is_over.fetch_or(!whole, Ordering::Relaxed);
                        assert!(whole, "path {path} misses money");
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        bench.reopen();
        let moment = bench.moment();
        (0..7).for_each(|path| assert!(sees_all(&moment, path), "path {path} misses money after reopening"));
    }
    assert!(transferred.into_inner() > 50 && reads.into_inner() > 7);
    bench.merge();
    bench.check();
}

#[test]
fn all_money_is_always_there_beside_transfers_merges_and_reopenings() {
    stress(false);
}

#[test]
fn all_money_is_always_there_in_a_resident_table() {
    stress(true);
}
