//! Old snapshots come and go while hot rows are written: what a snapshot sees never changes, and what nobody sees is freed under
//! the hands of those who walk past it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use saki_base::Random;
use saki_mvcc::{Database, Direction, Isolation, KeyRange, Table};

use super::fixture::{Account, account, get, insert, update, with_accounts};

const ROWS: i64 = 12;

/// An account whose owner follows from its balance, so that a body made of two is noticed.
fn consistent(id: i64, balance: i64) -> Account {
    account(id, &"abcdefgh".repeat(balance as usize % 40 + 1), balance)
}

fn all(transaction: &saki_mvcc::Transaction<'_>, table: &Table) -> Vec<Account> {
    let mut rows = Vec::new();
    transaction.scan(table, &KeyRange::all(), Direction::Forward, |found| {
        rows.push(Account::decode(table, found.key, found.body));
        ControlFlow::Continue(())
    });
    rows
}

fn read(database: &Database, table: &Table, seed: u64, stop: &AtomicBool) {
    let mut session = database.session().unwrap();
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let transaction = session.begin(Isolation::Snapshot);
        let seen = all(&transaction, table);
        assert_eq!(seen.len(), ROWS as usize);
        seen.iter().for_each(|row| assert_eq!(*row, consistent(row.id, row.balance)));
        let end = Instant::now() + Duration::from_micros(random.below(30_000));
        while Instant::now() < end {
            assert_eq!(all(&transaction, table), seen);
            let id = random.below(ROWS as u64) as i64;
            assert_eq!(get(&transaction, table, id).as_ref(), seen.get(id as usize));
        }
        drop(transaction);
        // Without old snapshots for a while: what was held for their sake must not be held any more.
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
    }
}

fn write(database: &Database, table: &Table, seed: u64, stop: &AtomicBool) {
    let mut session = database.session().unwrap();
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let (id, balance) = (random.below(ROWS as u64) as i64, random.below(10_000) as i64);
        let mut transaction = session.begin(Isolation::Snapshot);
        if update(&mut transaction, table, &consistent(id, balance)).is_ok() {
            if random.chance(0.1) {
                transaction.abort();
            } else {
                let _ = transaction.commit_early().unwrap();
            }
        }
    }
}

#[test]
fn snapshots_stay_what_they_are_while_others_prune() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    database
        .session()
        .unwrap()
        .run(Isolation::Snapshot, |t| (0..ROWS).try_for_each(|id| insert(t, &table, &consistent(id, id)).map(drop)))
        .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(|| read(&database, &table, 10, &stop));
            let (database, table, stop) = (&database, &table, &stop);
            scope.spawn(move || write(database, table, seed, stop));
        }
        std::thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
    });
    assert!(database.memory_bytes() < 16 << 20, "{} bytes for {ROWS} rows", database.memory_bytes());
}
