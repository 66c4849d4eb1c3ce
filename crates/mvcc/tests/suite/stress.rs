//! Many at once: threads that get in each other's way for a while, and what must hold all the while and in the end.
//!
//! `SAKI_STRESS` says for how many milliseconds each test runs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use saki_base::{Random, ValueRef};
use saki_mvcc::{Database, Direction, Durability, Error, Isolation, KeyRange, Options, Runner, Table, Transaction};

use super::fixture::{Account, account, accounts, delete, get, insert, update};
use super::support::{SimLogs, first_seed, options, scaled};

/// Runs `work` in threads of their own until the time is over, then `check`s what there is; and once more after a
/// restart.
fn stress(
    threads: u64,
    work: impl Fn(&mut Runner, &Table, &mut Random, u64) + Sync,
    check: impl Fn(&Transaction<'_>, &Table),
) {
    let logs = SimLogs::new(first_seed(), 2, &[accounts()]);
    {
        let database = logs.open(options()).unwrap();
        let table = database.table("accounts").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (database, table, work, is_over) = (&database, &table, &work, &is_over);
                scope.spawn(move || {
                    let mut runner = database.runner_on(thread as usize % 2).unwrap();
                    let mut random = Random::new(first_seed() * 100 + thread);
                    let mut rounds = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        work(&mut runner, table, &mut random, thread);
                        rounds += 1;
                        if rounds.is_multiple_of(500) {
                            runner.reclaim();
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(scaled("SAKI_STRESS", 1_500)));
            is_over.store(true, Ordering::Relaxed);
        });
        verify(&database, &table, &check);
    }
    let database = logs.open(options()).unwrap();
    verify(&database, &database.table("accounts").unwrap(), &check);
}

fn verify(database: &Database, table: &Table, check: &impl Fn(&Transaction<'_>, &Table)) {
    let mut runner = database.runner().unwrap();
    runner.reclaim();
    let transaction = runner.begin(Isolation::Snapshot);
    agree(&transaction, table);
    check(&transaction, table);
}

fn all(transaction: &Transaction<'_>, table: &Table, direction: Direction) -> Vec<Account> {
    let mut rows = Vec::new();
    transaction.scan(table, &KeyRange::all(), direction, |found| {
        rows.push(Account::decode(table, found.key, found.body));
        ControlFlow::Continue(())
    });
    rows
}

/// Every row has its entry in every index, and every entry its row; no two rows have the same email.
fn agree(transaction: &Transaction<'_>, table: &Table) {
    let rows = all(transaction, table, Direction::Forward);
    let mut reversed = all(transaction, table, Direction::Reverse);
    reversed.reverse();
    assert_eq!(rows, reversed);
    for (index, of) in [
        ("by_owner", (|row: &Account| Some(row.owner.clone())) as fn(&Account) -> Option<String>),
        ("by_email", |row: &Account| row.email.clone()),
    ] {
        let id = table.index(index).unwrap();
        let mut expected = BTreeMap::new();
        for row in &rows {
            let mut entry = Vec::new();
            let value = of(row);
            let value = value.as_deref().map_or(ValueRef::Null, ValueRef::Text);
            table.index_key_layout(id).encode(&[value], &mut entry).unwrap();
            entry.extend(row.encode(table).0);
            expected.insert(entry, row.clone());
        }
        let mut found = Vec::new();
        transaction.scan_index(table, id, &KeyRange::all(), Direction::Forward, |entry, row| {
            found.push((entry.to_vec(), Account::decode(table, row.key, row.body)));
            ControlFlow::Continue(())
        });
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{index}");
    }
    let mut emails: Vec<_> = rows.iter().filter_map(|row| row.email.clone()).collect();
    emails.sort();
    assert!(emails.windows(2).all(|pair| pair[0] != pair[1]), "an email twice: {emails:?}");
}

/// Tries once; whether it was committed.
fn attempt(
    runner: &mut Runner,
    isolation: Isolation,
    body: impl FnOnce(&mut Transaction<'_>) -> Result<(), Error>,
) -> bool {
    let mut transaction = runner.begin_with(isolation, Durability::Relaxed);
    match body(&mut transaction).and_then(|()| transaction.commit()) {
        Ok(_) => true,
        Err(error) if error.is_retryable() || matches!(error, Error::Duplicate { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn level(random: &mut Random) -> Isolation {
    if random.chance(0.5) { Isolation::Snapshot } else { Isolation::Serializable }
}

const ACCOUNTS: i64 = 12;
const TOTAL: i64 = 1_000 * ACCOUNTS;

#[test]
fn money_is_neither_made_nor_lost() {
    let sum = |rows: Vec<Account>| rows.iter().map(|row| row.balance).sum::<i64>();
    let transfers = AtomicU64::new(0);
    let work = |runner: &mut Runner, table: &Table, random: &mut Random, thread: u64| {
        let isolation = level(random);
        if thread == 3 {
            // Reads only; the sum is right in every snapshot, also when it is taken twice.
            let transaction = runner.begin(isolation);
            let rows = all(&transaction, table, Direction::Forward);
            assert!(rows.is_empty() || sum(rows) == TOTAL);
            std::thread::yield_now();
            let rows = all(&transaction, table, Direction::Reverse);
            assert!(rows.is_empty() || sum(rows) == TOTAL);
            return;
        }
        let (from, to) = (random.below(ACCOUNTS as u64) as i64, random.below(ACCOUNTS as u64) as i64);
        let amount = random.below(100) as i64;
        let owner = ["ann", "bob", "eve"][random.below(3) as usize];
        let done = attempt(runner, isolation, |t| {
            let Some(giver) = get(t, table, from) else {
                return (0..ACCOUNTS).try_for_each(|id| insert(t, table, &account(id, "ann", 1_000)).map(drop));
            };
            update(t, table, &Account { owner: owner.into(), balance: giver.balance - amount, ..giver })?;
            std::thread::yield_now();
            let taker = get(t, table, to).expect("accounts come together");
            update(t, table, &Account { balance: taker.balance + amount, ..taker })
        });
        transfers.fetch_add(done.into(), Ordering::Relaxed);
    };
    stress(4, work, |transaction, table| {
        assert_eq!(sum(all(transaction, table, Direction::Forward)), TOTAL);
    });
    assert!(transfers.load(Ordering::Relaxed) > 100, "too few to mean anything");
}

/// Rows that come and go on few keys, with emails that move from one to the other.
#[test]
fn rows_that_come_and_go_agree_with_their_indexes() {
    let work = |runner: &mut Runner, table: &Table, random: &mut Random, thread: u64| {
        let isolation = level(random);
        if thread == 2 {
            let transaction = runner.begin(isolation);
            agree(&transaction, table);
            return;
        }
        let emails = random.below(6);
        let mut transaction = runner.begin_with(isolation, Durability::Relaxed);
        for _ in 0..random.range(1..4) {
            let id = random.below(8) as i64;
            let email = (emails > 0).then(|| format!("{}@x", random.below(emails)));
            let row = Account { email, ..account(id, ["ann", "bob"][random.below(2) as usize], 0) };
            let savepoint = transaction.savepoint();
            let outcome = match (get(&transaction, table, id), random.below(3)) {
                (Some(_), 0) => delete(&mut transaction, table, id),
                (Some(_), _) => update(&mut transaction, table, &row),
                (None, _) => insert(&mut transaction, table, &row).map(drop),
            };
            match outcome {
                Ok(()) if random.chance(0.1) => transaction.rollback_to(savepoint),
                Ok(()) | Err(Error::Duplicate { .. }) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => panic!("{error}"),
            }
            if random.chance(0.3) {
                std::thread::yield_now();
            }
        }
        match transaction.commit() {
            Err(error) if !error.is_retryable() => panic!("{error}"),
            _ => {}
        }
    };
    stress(4, work, |_, _| {});
}

/// A snapshot that is held for long sees the same all the while, whatever writers do beside it.
#[test]
fn long_snapshots_do_not_move() {
    let work = |runner: &mut Runner, table: &Table, random: &mut Random, thread: u64| {
        if thread < 2 {
            let transaction = runner.begin(Isolation::Snapshot);
            let first = all(&transaction, table, Direction::Forward);
            for _ in 0..random.below(40) {
                std::thread::yield_now();
                assert_eq!(all(&transaction, table, Direction::Forward), first, "snapshot {}", transaction.snapshot());
                first.iter().for_each(|row| assert_eq!(get(&transaction, table, row.id).as_ref(), Some(row)));
            }
            agree(&transaction, table);
            return;
        }
        for _ in 0..20 {
            let id = random.below(10) as i64;
            let row = account(id, ["ann", "bob", "eve"][random.below(3) as usize], random.below(1_000) as i64);
            let deletes = random.chance(0.2);
            attempt(runner, Isolation::Snapshot, |t| match get(t, table, id) {
                Some(_) if deletes => delete(t, table, id),
                Some(_) => update(t, table, &row),
                None => insert(t, table, &row).map(drop),
            });
        }
    };
    stress(4, work, |_, _| {});
}

/// Cuts that begin at once, from two threads, among updates: nothing may lean on what was cut away. What was written
/// before the last cut counts as durable elsewhere and is left out when the logs are opened, so what comes after it
/// must stand by itself.
#[test]
fn what_is_written_after_a_cut_stands_by_itself() {
    let logs = SimLogs::new(first_seed(), 2, &[accounts()]);
    let note = "x".repeat(300);
    let cut = AtomicU64::new(0);
    let reopened = || Options { after: Some(cut.load(Ordering::Relaxed)), ..options() };
    for _ in 0..8 {
        let database = logs.open(reopened()).unwrap();
        let table = database.table("accounts").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (database, table, is_over, note, cut) = (&database, &table, &is_over, &note, &cut);
                scope.spawn(move || {
                    let mut runner = database.runner_on(thread).unwrap();
                    let mut random = Random::new(first_seed() + thread as u64);
                    while !is_over.load(Ordering::Relaxed) {
                        let id = random.below(20) as i64;
                        let row = account(id, note, random.below(1_000) as i64);
                        attempt(&mut runner, Isolation::Snapshot, |t| match get(t, table, id) {
                            Some(_) => update(t, table, &row),
                            None => insert(t, table, &row).map(drop),
                        });
                    }
                });
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let through = database.begin_cut();
                        cut.fetch_max(through, Ordering::Relaxed);
                        database.finish_cut(through);
                        std::thread::yield_now();
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(scaled("SAKI_STRESS", 1_500) / 10));
            is_over.store(true, Ordering::Relaxed);
        });
        drop((table, database));
        // Opening fails if a patch is without the row it is against.
        logs.open(reopened()).unwrap_or_else(|error| panic!("{error}"));
    }
}
