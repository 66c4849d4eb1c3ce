//! What clients may be told while the disk has stopped: nothing that rests on a commit that is not durable, and
//! everything else at once.

use std::ops::ControlFlow;

use saki_base::Random;
use saki_mvcc::{Database, Direction, Error, Isolation, KeyRange, Receipt, Runner, Table};

use super::fixture::{Account, account, accounts, delete, get, insert, key, update};
use super::support::{SimLogs, options};

/// Durable accounts 1 (of Ann) and 2 (of Bob, with an address); then the devices stop.
fn frozen() -> (SimLogs, Database, Table) {
    let logs = SimLogs::new(9, 2, &[accounts()]);
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    runner
        .run(Isolation::Snapshot, |t| {
            insert(t, &table, &account(1, "ann", 10))?;
            insert(t, &table, &with_email(2, "bob")).map(drop)
        })
        .unwrap();
    logs.hold(true);
    (logs, database, table)
}

fn with_email(id: i64, email: &str) -> Account {
    Account { email: Some(email.into()), ..account(id, email, 20) }
}

/// Commits in another runner what cannot become durable now.
fn commit(database: &Database, body: impl FnOnce(&mut saki_mvcc::Transaction<'_>) -> Result<(), Error>) -> Receipt {
    let mut runner = database.runner_on(1).unwrap();
    let mut transaction = runner.begin(Isolation::Snapshot);
    body(&mut transaction).unwrap();
    let receipt = transaction.commit_early().unwrap();
    assert!(!database.is_durable(receipt), "the disk has not stopped");
    receipt
}

/// The receipt has to wait, until the disk goes on.
fn must_wait(logs: &SimLogs, database: &Database, receipt: Receipt) {
    assert!(!database.is_durable(receipt), "{receipt:?} rests on what is not durable");
    logs.release(database);
    database.wait(receipt).unwrap();
}

fn with_runner(isolation: Isolation, work: impl Fn(&SimLogs, &Database, &Table, &mut Runner, Isolation)) {
    let (logs, database, table) = frozen();
    let mut runner = database.runner().unwrap();
    work(&logs, &database, &table, &mut runner, isolation);
}

#[test]
fn who_has_read_waits_for_what_it_has_seen_and_for_nothing_else() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        with_runner(isolation, |logs, database, table, runner, isolation| {
            let _ = commit(database, |t| update(t, table, &account(1, "ann", 11)));
            let transaction = runner.begin(isolation);
            assert_eq!(get(&transaction, table, 2).map(|row| row.balance), Some(20));
            assert!(get(&transaction, table, 3).is_none());
            assert!(database.is_durable(transaction.receipt()), "what it has seen is old");
            let receipt = transaction.commit_early().unwrap();
            assert!(database.is_durable(receipt));
            let transaction = runner.begin(isolation);
            assert_eq!(get(&transaction, table, 1).map(|row| row.balance), Some(11));
            let seen = transaction.receipt();
            let committed = transaction.commit_early().unwrap();
            assert_eq!((seen, runner.receipt()), (committed, committed));
            // Whoever has written waits for that.
            let mut transaction = runner.begin(isolation);
            update(&mut transaction, table, &account(2, "bob", 21)).unwrap();
            let committed = transaction.commit_early().unwrap();
            assert_eq!((committed.timestamp, runner.receipt().through), (Some(committed.through), committed.through));
            must_wait(logs, database, committed);
        });
    }
}

#[test]
fn who_has_found_nothing_waits_for_the_delete() {
    with_runner(Isolation::Snapshot, |logs, database, table, runner, isolation| {
        let _ = commit(database, |t| delete(t, table, 1));
        let transaction = runner.begin(isolation);
        assert!(get(&transaction, table, 1).is_none());
        // It gives up, and the client is told of that.
        transaction.abort();
        must_wait(logs, database, runner.receipt());
    });
}

/// Whether a row is there, and whether that may be told now, and what is in it.
fn look(database: &Database, runner: &mut Runner, table: &Table, id: i64) -> (bool, bool, bool) {
    let transaction = runner.begin(Isolation::Snapshot);
    let is_there = get(&transaction, table, id).is_some();
    let told = [transaction.presence(), transaction.receipt()].map(|receipt| database.is_durable(receipt));
    transaction.suspend();
    assert_eq!(told, [runner.presence(), runner.receipt()].map(|receipt| database.is_durable(receipt)));
    runner.resume().unwrap().abort();
    (is_there, told[0], told[1])
}

#[test]
fn that_a_row_is_there_is_durable_before_what_is_in_it() {
    with_runner(Isolation::Snapshot, |logs, database, table, runner, isolation| {
        let looks = |runner: &mut Runner, id| look(database, runner, table, id);
        assert_eq!(looks(runner, 1), (true, true, true));
        for balance in 11..15 {
            let _ = commit(database, |t| update(t, table, &account(1, "ann", balance)));
            assert_eq!(looks(runner, 1), (true, true, false));
        }
        // Its own row of another's, and one that it has made.
        let mut transaction = runner.begin(isolation);
        update(&mut transaction, table, &account(1, "ann", 20)).unwrap();
        assert!(get(&transaction, table, 1).is_some_and(|row| row.balance == 20));
        assert!(database.is_durable(transaction.presence()) && !database.is_durable(transaction.receipt()));
        insert(&mut transaction, table, &account(9, "own", 20)).unwrap();
        assert!(get(&transaction, table, 9).is_some() && !database.is_durable(transaction.presence()));
        transaction.abort();
        // Gone and come back: whether it is there depends on what becomes durable.
        let _ = commit(database, |t| delete(t, table, 1));
        assert_eq!(looks(runner, 1), (false, false, false));
        let _ = commit(database, |t| insert(t, table, &account(1, "ann", 1)).map(drop));
        let _ = commit(database, |t| update(t, table, &account(1, "ann", 2)));
        assert_eq!(looks(runner, 1), (true, false, false));
        // One that was never there before.
        let _ = commit(database, |t| insert(t, table, &account(3, "eve", 1)).map(drop));
        let last = commit(database, |t| update(t, table, &account(3, "eve", 2)));
        assert_eq!(looks(runner, 3), (true, false, false));
        must_wait(logs, database, last);
        assert_eq!((looks(runner, 1), looks(runner, 3)), ((true, true, true), (true, true, true)));
    });
}

/// Whatever happens while the disk stands still: which rows are said to be there for certain is what the disk has.
#[test]
fn what_is_said_to_be_there_is_what_a_power_cut_leaves() {
    let mut early = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (logs, database, table) = frozen();
        logs.release(&database);
        let mut runner = database.runner().unwrap();
        for _ in 0..4 {
            logs.hold(false);
            database.finish_cut(0);
            while database.durable() < database.now() {
                std::thread::yield_now();
            }
            logs.hold(true);
            let on_disk: Vec<bool> = (0..6).map(|id| look(&database, &mut runner, &table, id).0).collect();
            for _ in 0..30 {
                let id = random.below(6) as i64;
                let mut writer = database.runner_on(1).unwrap();
                let mut transaction = writer.begin(Isolation::Snapshot);
                for _ in 0..1 + random.below(2) {
                    let row = account(id, "x", random.below(100) as i64);
                    match (get(&transaction, &table, id).is_some(), random.below(3)) {
                        (true, 0) => delete(&mut transaction, &table, id).unwrap(),
                        (true, _) => update(&mut transaction, &table, &row).unwrap(),
                        (false, _) => drop(insert(&mut transaction, &table, &row).unwrap()),
                    }
                }
                if random.below(5) == 0 {
                    transaction.abort();
                } else {
                    let _ = transaction.commit_early().unwrap();
                }
                writer.reclaim();
                for (id, is_on_disk) in (0..).zip(&on_disk) {
                    let (is_there, is_certain, is_known) = look(&database, &mut runner, &table, id);
                    assert!(!is_certain || is_there == *is_on_disk, "seed {seed}: row {id}");
                    early += usize::from(is_certain && !is_known);
                }
            }
        }
        // Whatever of it survives: what was said last is so.
        let said: Vec<_> = (0..6).map(|id| look(&database, &mut runner, &table, id)).collect();
        let survivor = logs.crash(&database, seed).open(options()).unwrap();
        let (survived, mut reader) = (survivor.table("accounts").unwrap(), survivor.runner().unwrap());
        for (id, (is_there, is_certain, _)) in (0..).zip(said) {
            let is_left = look(&survivor, &mut reader, &survived, id).0;
            assert!(!is_certain || is_left == is_there, "seed {seed}: row {id} after a power cut");
        }
        logs.release(&database);
    }
    assert!(early > 1000, "{early} rows were known to be there, of commits that were not durable");
}

#[test]
fn a_moment_tells_what_its_readers_have_shown_while_they_read() {
    with_runner(Isolation::Snapshot, |logs, database, table, runner, isolation| {
        let _ = commit(database, |t| update(t, table, &account(1, "ann", 11)));
        for moment in [database.moment().unwrap(), runner.begin(isolation).moment().unwrap()] {
            let reader = moment.reader().unwrap();
            reader.look(table, &key(table, 2), |seen| assert!(seen.row().is_some()));
            assert!(database.is_durable(moment.receipt()), "what it has shown is old");
            reader.scan(table, &KeyRange::all(), Direction::Reverse, |_, _, _| {
                // From the first row on that is new: rows may leave before a scan has ended.
                let is_new = !database.is_durable(moment.receipt());
                if is_new { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(!database.is_durable(moment.receipt()));
        }
        let moment = database.moment().unwrap();
        moment.reader().unwrap().look(table, &key(table, 1), |_| {});
        let resting = database.moment().unwrap();
        resting.rest_on(moment.receipt());
        assert_eq!(resting.receipt(), moment.receipt());
        must_wait(logs, database, moment.receipt());
        // Durable by now, so it costs nothing any more.
        let moment = database.moment().unwrap();
        moment.reader().unwrap().look(table, &key(table, 1), |_| {});
        assert_eq!(moment.receipt().through, 0);
    });
}

#[test]
fn a_transaction_answers_for_its_moments() {
    with_runner(Isolation::Snapshot, |logs, database, table, runner, isolation| {
        let _ = commit(database, |t| update(t, table, &account(1, "ann", 11)));
        let transaction = runner.begin(isolation);
        let moment = transaction.moment().unwrap();
        transaction.suspend();
        assert!(database.is_durable(runner.receipt()));
        moment.reader().unwrap().look(table, &key(table, 1), |_| {});
        assert!(!database.is_durable(runner.receipt()), "suspended, it answers as well");
        let transaction = runner.resume().unwrap();
        let receipt = transaction.commit_early().unwrap();
        must_wait(logs, database, receipt);
    });
}

#[test]
fn a_transactions_own_rows_rest_on_what_it_had_seen() {
    with_runner(Isolation::Snapshot, |logs, database, table, runner, isolation| {
        let _ = commit(database, |t| update(t, table, &account(1, "ann", 11)));
        let mut transaction = runner.begin(isolation);
        let seen = get(&transaction, table, 1).expect("committed").balance;
        update(&mut transaction, table, &account(1, "ann", seen)).unwrap();
        let moment = transaction.moment().unwrap();
        moment.reader().unwrap().look(table, &key(table, 1), |seen| assert!(seen.row().is_some()));
        must_wait(logs, database, moment.receipt());
    });
}

/// What is written behind a moment's back is made of what was seen since.
#[test]
fn an_earlier_moment_answers_for_later_rows_of_its_transaction() {
    type Change = fn(&mut saki_mvcc::Transaction<'_>, &Table, i64) -> Result<(), Error>;
    let changes: [(i64, Change); 3] = [
        (1, |t, table, seen| update(t, table, &account(1, "ann", seen))),
        (2, |t, table, seen| update(t, table, &account(2, "bob", seen))),
        (3, |t, table, seen| insert(t, table, &account(3, "eve", seen)).map(drop)),
    ];
    for (id, change) in changes {
        with_runner(Isolation::Snapshot, |logs, database, table, runner, isolation| {
            let mut transaction = runner.begin(isolation);
            let moment = transaction.moment().unwrap();
            let _ = commit(database, |t| update(t, table, &account(1, "ann", 11)));
            transaction.refresh();
            let seen = get(&transaction, table, 1).expect("committed").balance;
            assert_eq!(seen, 11);
            assert!(database.is_durable(moment.receipt()), "nothing has been shown yet");
            change(&mut transaction, table, seen).unwrap();
            let shown = moment.reader().unwrap().look(table, &key(table, id), |seen| {
                seen.row().map(|body| Account::decode(table, &key(table, id), body).balance)
            });
            assert_eq!(shown, Some(11), "the moment shows its transaction's rows");
            must_wait(logs, database, moment.receipt());
        });
    }
}

#[test]
fn errors_that_speak_of_rows_wait_for_them() {
    with_runner(Isolation::Snapshot, |logs, database, table, runner, isolation| {
        let _ = commit(database, |t| insert(t, table, &with_email(3, "cat")).map(drop));
        for taken in [account(3, "other", 0), with_email(4, "cat")] {
            let mut transaction = runner.begin(isolation);
            let error = insert(&mut transaction, table, &taken).unwrap_err();
            assert!(matches!(error, Error::Duplicate { .. }), "{error}");
            assert!(!database.is_durable(transaction.receipt()));
            drop(transaction);
            assert!(!database.is_durable(runner.receipt()));
        }
        let mut transaction = runner.begin(isolation);
        let error = insert(&mut transaction, table, &with_email(4, "bob")).unwrap_err();
        assert!(matches!(error, Error::Duplicate { .. }) && database.is_durable(transaction.receipt()), "{error}");
        drop(transaction);
        // What has come since the snapshot, and what has changed.
        let mut transaction = runner.begin(isolation);
        let _ = commit(database, |t| insert(t, table, &with_email(6, "dan")).map(drop));
        assert!(database.is_durable(transaction.receipt()));
        let error = insert(&mut transaction, table, &with_email(7, "dan")).unwrap_err();
        assert!(matches!(error, Error::Conflict { holder: None, .. }), "{error}");
        assert!(!database.is_durable(transaction.receipt()));
        drop(transaction);
        let mut transaction = runner.begin(isolation);
        let _ = commit(database, |t| update(t, table, &account(1, "ann", 11)));
        let error = update(&mut transaction, table, &account(1, "ann", 12)).unwrap_err();
        assert!(matches!(error, Error::Conflict { holder: None, .. }), "{error}");
        drop(transaction);
        must_wait(logs, database, runner.receipt());
    });
}

#[test]
fn a_commit_that_failed_waits_for_what_was_in_its_way() {
    with_runner(Isolation::Serializable, |logs, database, table, runner, isolation| {
        let mut transaction = runner.begin(isolation);
        assert!(get(&transaction, table, 1).is_some());
        insert(&mut transaction, table, &account(5, "eve", 0)).unwrap();
        let _ = commit(database, |t| update(t, table, &account(1, "ann", 11)));
        assert!(matches!(transaction.commit_early(), Err(Error::Serialization)));
        must_wait(logs, database, runner.receipt());
    });
}

/// The cleanup of one change must not take away the entry that tells of another, later one.
#[test]
fn an_entry_stays_until_what_made_it_stale_is_durable() {
    let (logs, database, table) = frozen();
    logs.release(&database);
    let mut writer = database.runner().unwrap();
    let mut change = |owner: &str| {
        let mut transaction = writer.begin(Isolation::Snapshot);
        update(&mut transaction, &table, &account(1, owner, 10)).unwrap();
        transaction.commit_early().unwrap()
    };
    // An old snapshot keeps the first cleanup, of "ann", waiting.
    let old = database.moment().unwrap();
    let _ = change("bea");
    database.wait(change("ann")).unwrap();
    logs.hold(true);
    assert!(!database.is_durable(change("cleo")));
    drop(old);
    writer.reclaim();
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    let index = table.index("by_owner").unwrap();
    let mut prefix = Vec::new();
    table.index_key_layout(index).encode(&[saki_base::ValueRef::Text("ann")], &mut prefix).unwrap();
    transaction.scan_index(&table, index, &KeyRange::prefix(&prefix), Direction::Forward, |_, found| {
        panic!("{:?}", Account::decode(&table, found.key, found.body))
    });
    must_wait(&logs, &database, transaction.receipt());
    drop(transaction);
    // Then it goes.
    writer.reclaim();
    writer.reclaim();
    let transaction = runner.begin(Isolation::Snapshot);
    transaction.scan_index(
        &table,
        index,
        &KeyRange::prefix(&prefix),
        Direction::Forward,
        |_, _| ControlFlow::Break(()),
    );
    assert_eq!(transaction.receipt().through, 0, "the entry is gone");
}

#[test]
fn nobody_is_told_of_a_commit_that_the_log_has_lost() {
    let (logs, database, table) = frozen();
    let lost = commit(&database, |t| update(t, &table, &account(1, "ann", 11)));
    logs.devices.iter().for_each(|device| device.faults().fail_next(saki_io::OperationKind::Write, 1000));
    logs.release(&database);
    assert!(matches!(database.wait(lost), Err(Error::Log(_))));
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    assert!(get(&transaction, &table, 2).is_some());
    database.wait(transaction.receipt()).unwrap();
    assert!(get(&transaction, &table, 1).is_some());
    assert!(matches!(database.wait(transaction.receipt()), Err(Error::Log(_))), "the row is of the lost commit");
}
