//! Old snapshots come and go while hot rows are written: what a snapshot sees never changes, and what nobody sees is
//! freed under the hands of those who walk past it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use saki_base::Random;
use saki_mvcc::{Database, Direction, Isolation, KeyRange, Options, Table, TableDefinition};

use super::fixture::{Account, account, accounts, change_or_abort, get, insert, update, with_accounts};
use super::support::{SimLogs, options};

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
    let mut runner = database.runner().unwrap();
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let transaction = runner.begin(Isolation::Snapshot);
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
    let mut runner = database.runner().unwrap();
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let (id, balance) = (random.below(ROWS as u64) as i64, random.below(10_000) as i64);
        change_or_abort(&mut runner, table, &consistent(id, balance), &mut random);
    }
}

#[test]
fn snapshots_stay_what_they_are_while_others_prune() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    database
        .runner()
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

/// Each takes its turn and then does nothing: what it has superseded is not kept for nobody.
#[test]
fn runners_that_go_idle_keep_little() {
    const RUNNERS: i64 = 40;
    let plain = TableDefinition { indexes: vec![], ..accounts() };
    let logs = SimLogs::new(5, 1, &[plain]);
    let database = logs.open(Options { participants_max: 64, ..options() }).unwrap();
    let table = database.table("accounts").unwrap();
    // A megabyte of rows.
    let wide = |id, balance| account(id, &"x".repeat(100_000 + balance as usize), balance);
    let mut runners: Vec<_> = (0..=RUNNERS).map(|_| database.runner().unwrap()).collect();
    let one = runners.last_mut().unwrap();
    one.run(Isolation::Snapshot, |t| (0..ROWS).try_for_each(|id| insert(t, &table, &wide(id, 0)).map(drop))).unwrap();
    for (runner, balance) in runners.iter_mut().zip(1..=RUNNERS) {
        runner
            .run(Isolation::Snapshot, |t| (0..ROWS).try_for_each(|id| update(t, &table, &wide(id, balance))))
            .unwrap();
    }
    let bytes = database.memory_bytes();
    assert!(bytes < 10 << 20, "{bytes} bytes for {ROWS} rows of 100 kB, after {RUNNERS} have changed them all");
}
