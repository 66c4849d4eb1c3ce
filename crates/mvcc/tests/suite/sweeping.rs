//! What an old snapshot has held back is freed after its end, whoever made it and whatever that one does since.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saki_base::Random;
use saki_mvcc::{Database, Isolation, Options, Runner, Table, TableDefinition};

use super::fixture::{Account, account, accounts, change_or_abort, get, insert, update};
use super::support::{SimLogs, options, scaled};

const ROWS: i64 = 200;
/// Of a row, so that all together take two megabytes.
const BYTES: usize = 10_000;

fn wide(id: i64, balance: i64) -> Account {
    account(id, &"x".repeat(BYTES + balance as usize), balance)
}

/// A database of wide rows, by whom nobody knows.
fn wide_rows(rows: i64) -> (SimLogs, Database, Table) {
    let plain = TableDefinition { indexes: vec![], ..accounts() };
    let logs = SimLogs::new(6, 1, &[plain]);
    let mut options = Options { participants_max: 64, ..options() };
    options.log.extent_bytes = 4 << 20;
    let database = logs.open(options).unwrap();
    let table = database.table("accounts").unwrap();
    let insert_all = |runner: &mut Runner| {
        for id in 0..rows {
            runner.run(Isolation::Snapshot, |t| insert(t, &table, &account(id, "", 0)).map(drop)).unwrap();
        }
    };
    insert_all(&mut database.runner().unwrap());
    // The first versions are part of their rows.
    change_all(&mut database.runner().unwrap(), &table, rows, 0);
    (logs, database, table)
}

/// Changes each of the rows once.
fn change_all(runner: &mut Runner, table: &Table, rows: i64, balance: i64) {
    for id in 0..rows {
        runner.run(Isolation::Snapshot, |t| update(t, table, &wide(id, balance))).unwrap();
    }
}

/// The runner that made it is idle from here on, and its garbage is held by a snapshot that is idle too.
fn with_garbage_of_an_idle_runner(check: impl FnOnce(&Database, &Table, &dyn Fn())) {
    let (_logs, database, table) = wide_rows(ROWS);
    let mut idle = database.runner().unwrap();
    let mut old = database.runner().unwrap();
    old.begin(Isolation::Snapshot).suspend();
    // Nothing, while one is suspended.
    old.reclaim();
    change_all(&mut idle, &table, ROWS, 1);
    let held = database.garbage_bytes();
    assert!(held >= ROWS as usize * BYTES, "a snapshot sees them, and {held} bytes are kept");
    database.sweep().unwrap();
    assert_eq!(database.garbage_bytes(), held, "what a snapshot sees is freed");
    let seen = old.resume().unwrap();
    assert_eq!(get(&seen, &table, 7), Some(wide(7, 0)));
    seen.abort();
    check(&database, &table, &|| {
        let kept = database.garbage_bytes();
        assert!(kept < 4 * BYTES, "{kept} bytes are kept for nobody");
        // And it serves others.
        let before = database.memory_bytes();
        let mut other = database.runner().unwrap();
        for id in ROWS..2 * ROWS - 50 {
            other.run(Isolation::Snapshot, |t| insert(t, &table, &wide(id, 0)).map(drop)).unwrap();
        }
        let grown = database.memory_bytes() - before;
        assert!(grown < 1 << 20, "memory grows by {grown} bytes, though as much is free");
    });
    drop(idle);
}

#[test]
fn a_sweep_frees_what_an_idle_runner_keeps() {
    with_garbage_of_an_idle_runner(|database, _, is_freed| {
        database.sweep().unwrap();
        is_freed();
    });
}

#[test]
fn whoever_changes_other_rows_frees_what_an_idle_runner_keeps() {
    with_garbage_of_an_idle_runner(|database, table, is_freed| {
        let mut other = database.runner().unwrap();
        for balance in 0..scaled("SAKI_COMMITS", if cfg!(debug_assertions) { 600 } else { 10_000 }) {
            other.run(Isolation::Snapshot, |t| update(t, table, &account(0, "", balance as i64))).unwrap();
        }
        is_freed();
    });
}

/// In the middle of a transaction, with garbage of those before.
#[test]
fn a_sweep_frees_what_a_suspended_runner_keeps() {
    let (_logs, database, table) = wide_rows(ROWS);
    let mut runner = database.runner().unwrap();
    let old = database.moment().unwrap();
    change_all(&mut runner, &table, ROWS, 1);
    runner.begin(Isolation::Snapshot).suspend();
    drop(old);
    database.sweep().unwrap();
    assert!(database.garbage_bytes() < BYTES, "{} bytes are kept for nobody", database.garbage_bytes());
    assert_eq!(get(&runner.resume().unwrap(), &table, 7), Some(wide(7, 1)));
}

#[test]
fn a_sweep_frees_what_runners_left_that_have_ended() {
    let (_logs, database, table) = wide_rows(ROWS);
    let old = database.moment().unwrap();
    for balance in 1..4 {
        let mut runner = database.runner().unwrap();
        change_all(&mut runner, &table, ROWS, balance);
    }
    assert!(database.garbage_bytes() > ROWS as usize * BYTES);
    drop(old);
    database.sweep().unwrap();
    assert_eq!(database.garbage_bytes(), 0);
}

/// Of all kinds: versions that were held back for long, pruned ones, those of aborts, rows and their index entries.
#[test]
fn little_stays_of_runners_that_have_ended() {
    const ROWS: i64 = 300;
    const BYTES: usize = 300;
    let logs = SimLogs::new(8, 1, &[accounts()]);
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let old = |runner: &mut Runner| runner.begin(Isolation::Snapshot).suspend();
    let (mut early, mut late) = (database.runner().unwrap(), database.runner().unwrap());
    let mut runner = database.runner().unwrap();
    for id in 0..ROWS {
        runner.run(Isolation::Snapshot, |t| insert(t, &table, &account(id, "", 0)).map(drop)).unwrap();
    }
    old(&mut early);
    let mut random = Random::new(4);
    for balance in 0..6_000 {
        if balance == 3_000 {
            old(&mut late);
        }
        let id = random.below(ROWS as u64) as i64;
        change_or_abort(&mut runner, &table, &account(id, &"x".repeat(BYTES), balance), &mut random);
    }
    for id in 0..ROWS {
        runner.run(Isolation::Snapshot, |t| super::fixture::delete(t, &table, id)).unwrap();
    }
    drop(runner);
    assert!(database.garbage_bytes() > 2 * ROWS as usize * BYTES, "two snapshots see it");
    early.abort();
    late.abort();
    database.runner().unwrap().run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "", 0)).map(drop)).unwrap();
    let last = database.now();
    while database.durable() < last {
        std::thread::yield_now();
    }
    // What a cleanup unlinks is for the next one, and what was pruned goes once all visits have ended.
    for _ in 0..4 {
        database.sweep().unwrap();
    }
    assert_eq!(table.rows(), 1);
    // So few pruned versions are not worth to wait for visits.
    assert!(database.garbage_bytes() < 256 * BYTES, "{} bytes are kept for nobody", database.garbage_bytes());
}

/// The end of a snapshot that held back much is paid for in steps, not by the next commit.
#[test]
fn a_commit_frees_a_little_of_what_was_held_back() {
    const VERSIONS: i64 = 20_000;
    let plain = TableDefinition { indexes: vec![], ..accounts() };
    let logs = SimLogs::new(6, 1, &[plain]);
    let mut options = options();
    options.log.extent_bytes = 4 << 20;
    let database = logs.open(options).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    let mut all = |change: &dyn Fn(&mut saki_mvcc::Transaction<'_>, i64) -> Result<(), saki_mvcc::Error>| {
        runner.run(Isolation::Snapshot, |t| (0..VERSIONS).try_for_each(|id| change(t, id))).unwrap();
    };
    all(&|t, id| insert(t, &table, &account(id, "", 0)).map(drop));
    all(&|t, id| update(t, &table, &account(id, "", 1)));
    let old = database.moment().unwrap();
    all(&|t, id| update(t, &table, &account(id, "", 2)));
    let held = database.garbage_bytes();
    drop(old);
    let (mut left, mut commits) = (held, 0);
    while left > held / 100 {
        runner.run(Isolation::Snapshot, |t| update(t, &table, &account(commits, "", 3))).unwrap();
        let before = std::mem::replace(&mut left, database.garbage_bytes());
        // A step of its own queue; it may also leave more than it frees.
        let freed = before.saturating_sub(left);
        assert!(freed < held / 8, "a commit frees {freed} of {held} bytes");
        commits += 1;
        assert!(commits < 1000, "{left} of {held} bytes stay");
    }
}

const FEW: i64 = 10;

/// An account whose owner follows from its balance, so that a body made of two is noticed.
fn consistent(id: i64, balance: i64) -> Account {
    account(id, &"abcdefgh".repeat(balance as usize % 60), balance)
}

/// Runners that come, change some rows, and go; with pauses.
fn change_now_and_then(database: &Database, table: &Table, seed: u64, is_over: &AtomicBool) {
    let mut random = Random::new(seed);
    while !is_over.load(Ordering::Relaxed) {
        let mut runner = database.runner().unwrap();
        for _ in 0..random.below(400) {
            let (id, balance) = (random.below(FEW as u64) as i64, random.below(1000) as i64);
            change_or_abort(&mut runner, table, &consistent(id, balance), &mut random);
        }
        std::thread::sleep(Duration::from_micros(random.below(3000)));
    }
}

/// Snapshots that are old for a while.
fn read(database: &Database, table: &Table, seed: u64, is_over: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut runner = database.runner().unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let transaction = runner.begin(Isolation::Snapshot);
        let see = |id| get(&transaction, table, id).expect("a row");
        let seen: Vec<_> = (0..FEW).map(see).collect();
        seen.iter().for_each(|row| assert_eq!(*row, consistent(row.id, row.balance)));
        for _ in 0..random.below(300) {
            let id = random.below(FEW as u64) as i64;
            assert_eq!(see(id), seen[id as usize]);
        }
    }
}

/// Sweeps beside owners that come, go and pause, and beside readers of old snapshots.
#[test]
fn what_snapshots_see_stays_while_others_sweep() {
    let logs = SimLogs::new(7, 1, &[accounts()]);
    let database = logs.open(Options { participants_max: 64, ..options() }).unwrap();
    let table = database.table("accounts").unwrap();
    let insert_all = |t: &mut saki_mvcc::Transaction<'_>| {
        (0..FEW).try_for_each(|id| insert(t, &table, &consistent(id, id)).map(drop))
    };
    database.runner().unwrap().run(Isolation::Snapshot, insert_all).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (database, table, is_over) = (&database, &table, &is_over);
        for seed in 0..2 {
            scope.spawn(move || change_now_and_then(database, table, seed, is_over));
            scope.spawn(move || read(database, table, 10 + seed, is_over));
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    database.sweep().unwrap();
                }
            });
        }
        std::thread::sleep(Duration::from_millis(scaled("SAKI_STRESS", 1_500)));
        is_over.store(true, Ordering::Relaxed);
    });
    // What was pruned goes once all visits have ended.
    for _ in 0..3 {
        database.sweep().unwrap();
    }
    assert!(database.garbage_bytes() < 64 << 10, "{} bytes are kept for nobody", database.garbage_bytes());
}

/// One version of each row, however large they are: few large ones weigh as much as many small ones.
#[test]
fn beside_an_old_snapshot_large_versions_do_not_pile_up() {
    const ROWS: i64 = 50;
    let (_logs, database, table) = wide_rows(ROWS);
    let large = |id: i64, balance: i64| account(id, &"x".repeat(10 * BYTES), balance);
    let mut runner = database.runner().unwrap();
    let mut random = Random::new(3);
    let mut change = |balance: i64| {
        let id = random.below(ROWS as u64) as i64;
        runner.run(Isolation::Snapshot, |t| update(t, &table, &large(id, balance))).unwrap();
    };
    (0..500).for_each(&mut change);
    let mut old = database.runner().unwrap();
    let snapshot = old.begin(Isolation::Snapshot);
    let seen: Vec<_> = (0..ROWS).map(|id| get(&snapshot, &table, id)).collect();
    (500..1500).for_each(&mut change);
    let rows = ROWS as usize * 10 * BYTES;
    let kept = database.garbage_bytes();
    assert!(kept < 3 * rows, "{kept} bytes are kept beside rows of {rows}, for one snapshot");
    assert_eq!((0..ROWS).map(|id| get(&snapshot, &table, id)).collect::<Vec<_>>(), seen);
}
