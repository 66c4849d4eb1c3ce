//! What a transaction sees, what it may write, and what is left of it.

use std::ops::ControlFlow;

use saki_base::ValueRef;
use saki_mvcc::{Direction, Error, Isolation, KeyRange, Table, TableDefinition, Transaction};

use super::fixture::{Account, account, accounts, delete, get, insert, key, update, with_accounts};
use super::support::{SimLogs, options};

fn all(transaction: &Transaction<'_>, table: &Table) -> Vec<Account> {
    let mut rows = Vec::new();
    transaction.scan(table, &KeyRange::all(), Direction::Forward, |found| {
        rows.push(Account::decode(table, found.key, found.body));
        ControlFlow::Continue(())
    });
    rows
}

fn of_owner(transaction: &Transaction<'_>, table: &Table, owner: &str) -> Vec<i64> {
    let index = table.index("by_owner").unwrap();
    let mut prefix = Vec::new();
    table.index_key_layout(index).encode(&[ValueRef::Text(owner)], &mut prefix).unwrap();
    let mut ids = Vec::new();
    transaction.scan_index(table, index, &KeyRange::prefix(&prefix), Direction::Forward, |_, found| {
        ids.push(Account::decode(table, found.key, found.body).id);
        ControlFlow::Continue(())
    });
    ids
}

#[test]
fn writes_are_seen_by_their_transaction_then_by_all() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    let mut writer = one.begin(Isolation::Serializable);
    insert(&mut writer, &table, &account(1, "ann", 10)).unwrap();
    insert(&mut writer, &table, &account(2, "bob", 20)).unwrap();
    assert_eq!(get(&writer, &table, 1), Some(account(1, "ann", 10)));
    assert_eq!(all(&writer, &table).len(), 2);
    let before = two.begin(Isolation::Snapshot);
    assert_eq!(all(&before, &table), []);
    assert_eq!(writer.commit().unwrap(), Some(1));
    assert_eq!(all(&before, &table), [], "a snapshot moves");
    drop(before);
    let after = two.begin(Isolation::Snapshot);
    assert_eq!(all(&after, &table), [account(1, "ann", 10), account(2, "bob", 20)]);
    assert_eq!(of_owner(&after, &table, "bob"), [2]);
    assert_eq!(after.commit().unwrap(), None);
}

#[test]
fn an_abort_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    runner.run(Isolation::Serializable, |t| insert(t, &table, &account(1, "ann", 10)).map(drop)).unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    update(&mut transaction, &table, &account(1, "eve", 0)).unwrap();
    insert(&mut transaction, &table, &account(2, "eve", 0)).unwrap();
    assert_eq!(of_owner(&transaction, &table, "eve"), [1, 2]);
    delete(&mut transaction, &table, 1).unwrap();
    assert_eq!(of_owner(&transaction, &table, "eve"), [2]);
    transaction.abort();
    let transaction = runner.begin(Isolation::Serializable);
    assert_eq!(all(&transaction, &table), [account(1, "ann", 10)]);
    assert_eq!(of_owner(&transaction, &table, "eve"), [0; 0]);
    assert_eq!(of_owner(&transaction, &table, "ann"), [1]);
}

#[test]
fn a_savepoint_takes_back_what_came_after() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    insert(&mut transaction, &table, &account(1, "ann", 10)).unwrap();
    let savepoint = transaction.savepoint();
    update(&mut transaction, &table, &account(1, "bob", 11)).unwrap();
    insert(&mut transaction, &table, &account(2, "bob", 20)).unwrap();
    delete(&mut transaction, &table, 2).unwrap();
    insert(&mut transaction, &table, &account(2, "bob", 21)).unwrap();
    assert_eq!(of_owner(&transaction, &table, "bob"), [1, 2]);
    transaction.rollback_to(savepoint);
    assert_eq!(of_owner(&transaction, &table, "bob"), [0; 0]);
    update(&mut transaction, &table, &account(1, "ann", 12)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(all(&runner.begin(Isolation::Snapshot), &table), [account(1, "ann", 12)]);
}

#[test]
fn the_first_to_commit_wins() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    one.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "ann", 10)).map(drop)).unwrap();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let mut late = two.begin(isolation);
        let mut early = one.begin(isolation);
        update(&mut early, &table, &account(1, "ann", 11)).unwrap();
        let error = update(&mut late, &table, &account(1, "ann", 12)).unwrap_err();
        assert!(error.is_retryable() && matches!(error, Error::Conflict { .. }), "{error}");
        early.commit().unwrap();
        let error = update(&mut late, &table, &account(1, "ann", 12)).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert_eq!(get(&late, &table, 1).map(|row| row.balance), Some(10), "its snapshot");
        drop(late);
        one.run(isolation, |t| update(t, &table, &account(1, "ann", 10))).unwrap();
    }
}

#[test]
fn write_skew_is_for_snapshots_only() {
    for (isolation, allowed) in [(Isolation::Snapshot, true), (Isolation::Serializable, false)] {
        let directory = tempfile::tempdir().unwrap();
        let (database, table) = with_accounts(directory.path());
        let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
        one.run(isolation, |t| {
            insert(t, &table, &account(1, "ann", 10))?;
            insert(t, &table, &account(2, "ann", 10)).map(drop)
        })
        .unwrap();
        let (mut left, mut right) = (one.begin(isolation), two.begin(isolation));
        assert_eq!(get(&left, &table, 2).unwrap().balance + get(&right, &table, 1).unwrap().balance, 20);
        update(&mut left, &table, &account(1, "ann", -10)).unwrap();
        update(&mut right, &table, &account(2, "ann", -10)).unwrap();
        left.commit().unwrap();
        match right.commit() {
            Ok(_) => assert!(allowed, "write skew under serializable"),
            Err(error) => assert!(!allowed && matches!(error, Error::Serialization), "{error}"),
        }
    }
}

#[test]
fn phantoms_are_for_snapshots_only() {
    for (isolation, allowed) in [(Isolation::Snapshot, true), (Isolation::Serializable, false)] {
        let directory = tempfile::tempdir().unwrap();
        let (database, table) = with_accounts(directory.path());
        let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
        let (mut left, mut right) = (one.begin(isolation), two.begin(isolation));
        assert_eq!(of_owner(&left, &table, "ann").len() + of_owner(&right, &table, "ann").len(), 0);
        insert(&mut left, &table, &account(1, "ann", 1)).unwrap();
        insert(&mut right, &table, &account(2, "ann", 1)).unwrap();
        left.commit().unwrap();
        match right.commit() {
            Ok(_) => assert!(allowed, "a phantom under serializable"),
            Err(error) => assert!(!allowed && matches!(error, Error::Serialization), "{error}"),
        }
    }
}

/// Its leaf of the index has it already, so only the row itself tells that it has come.
#[test]
fn a_row_that_is_pending_when_it_is_looked_for_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runners = [database.runner().unwrap(), database.runner().unwrap()];
    let [one, other] = &mut runners;
    for (id, by_range) in [(1, false), (2, true)] {
        let mut pending = other.begin(Isolation::Snapshot);
        insert(&mut pending, &table, &account(id, "ann", 0)).unwrap();
        pending.suspend();
        let mut transaction = one.begin(Isolation::Serializable);
        match by_range {
            false => assert_eq!(get(&transaction, &table, id), None),
            true => assert_eq!(all(&transaction, &table).len(), 1),
        }
        insert(&mut transaction, &table, &account(10 + id, "bob", 0)).unwrap();
        other.resume().unwrap().commit().unwrap();
        let outcome = transaction.commit();
        assert!(matches!(outcome, Err(Error::Serialization)), "by range: {by_range}, {outcome:?}");
    }
}

#[test]
fn ones_own_inserts_are_no_phantoms() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    for id in 0..500 {
        assert_eq!(all(&transaction, &table).len(), id as usize);
        assert_eq!(get(&transaction, &table, id), None);
        insert(&mut transaction, &table, &account(id, "ann", id)).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn keys_and_unique_values_occur_once() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    let with_email = |id, email: &str| Account { email: Some(email.into()), ..account(id, "ann", 0) };
    one.run(Isolation::Serializable, |t| insert(t, &table, &with_email(1, "a@x")).map(drop)).unwrap();
    let mut transaction = two.begin(Isolation::Serializable);
    let error = insert(&mut transaction, &table, &account(1, "bob", 0)).unwrap_err();
    assert!(matches!(&error, Error::Duplicate { index, .. } if index == "primary key"), "{error}");
    let error = insert(&mut transaction, &table, &with_email(2, "a@x")).unwrap_err();
    assert!(matches!(&error, Error::Duplicate { index, .. } if index == "by_email"), "{error}");
    assert_eq!(get(&transaction, &table, 2), None, "half an insert");
    insert(&mut transaction, &table, &account(2, "ann", 0)).unwrap();
    insert(&mut transaction, &table, &account(3, "ann", 0)).unwrap();
    update(&mut transaction, &table, &with_email(3, "b@x")).unwrap();
    let error = update(&mut transaction, &table, &with_email(2, "b@x")).unwrap_err();
    assert!(matches!(error, Error::Duplicate { .. }), "{error}");
    let mut rival = one.begin(Isolation::Serializable);
    let error = insert(&mut rival, &table, &with_email(4, "b@x")).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    drop(rival);
    transaction.commit().unwrap();
    // Given up, the value may be another's; the row that had it keeps its place in the other index.
    one.run(Isolation::Serializable, |t| update(t, &table, &with_email(1, "c@x"))).unwrap();
    one.run(Isolation::Serializable, |t| insert(t, &table, &with_email(5, "a@x")).map(drop)).unwrap();
    assert_eq!(of_owner(&one.begin(Isolation::Snapshot), &table, "ann"), [1, 2, 3, 5]);
}

#[test]
fn a_scan_that_is_broken_off_leaves_nothing_to_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    runner
        .run(Isolation::Snapshot, |t| (0..100).try_for_each(|id| insert(t, &table, &account(id, "ann", 0)).map(drop)))
        .unwrap();
    let transaction = runner.begin(Isolation::Serializable);
    let scanned = |direction, at_most: usize| {
        let mut ids = Vec::new();
        transaction.scan(&table, &KeyRange::all(), direction, |found| {
            ids.push(Account::decode(&table, found.key, found.body).id);
            if ids.len() < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        ids
    };
    let upwards: Vec<i64> = (0..100).collect();
    let downwards: Vec<i64> = (0..100).rev().collect();
    for (direction, expected) in [(Direction::Forward, &upwards), (Direction::Reverse, &downwards)] {
        assert_eq!(scanned(Direction::Forward, 50), upwards[..50]);
        assert_eq!(scanned(direction, usize::MAX), *expected);
        assert_eq!(scanned(Direction::Reverse, 50), downwards[..50]);
        assert_eq!(scanned(direction, usize::MAX), *expected);
    }
}

#[test]
fn a_key_can_be_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    for round in 0..300 {
        one.run(Isolation::Serializable, |t| insert(t, &table, &account(1, "ann", round)).map(drop)).unwrap();
        assert_eq!(
            two.run(Isolation::Serializable, |t| Ok(get(t, &table, 1))).unwrap(),
            Some(account(1, "ann", round))
        );
        two.run(Isolation::Serializable, |t| delete(t, &table, 1)).unwrap();
        assert_eq!(one.run(Isolation::Serializable, |t| Ok(get(t, &table, 1))).unwrap(), None);
        if round % 7 == 0 {
            one.reclaim();
            two.reclaim();
        }
    }
}

#[test]
fn handles_are_good_in_their_transaction_only() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    let id = insert(&mut transaction, &table, &account(1, "ann", 0)).unwrap();
    transaction.commit().unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    assert!(matches!(transaction.delete(&table, id), Err(Error::ForeignRow)));
    let id = transaction.get(&table, &key(&table, 1)).unwrap().id;
    transaction.delete(&table, id).unwrap();
    assert!(matches!(transaction.delete(&table, id), Err(Error::NoRow { .. })));
    drop(transaction);
    // What a handle leads to is kept for the snapshot that it was found in.
    let mut transaction = runner.begin(Isolation::Snapshot);
    let id = transaction.get(&table, &key(&table, 1)).unwrap().id;
    transaction.refresh();
    assert!(matches!(transaction.delete(&table, id), Err(Error::ForeignRow)));
    let id = transaction.get(&table, &key(&table, 1)).unwrap().id;
    transaction.delete(&table, id).unwrap();
}

/// Only the transaction sees it, until it commits; the row as it was is as it was.
#[test]
fn a_row_is_modified_in_a_copy() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runners = [database.runner().unwrap(), database.runner().unwrap()];
    let [one, other] = &mut runners;
    one.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "ann", 10)).map(drop)).unwrap();
    let mut transaction = one.begin(Isolation::Snapshot);
    let found = transaction.get(&table, &key(&table, 1)).unwrap();
    let (id, (_, after)) = (found.id, account(1, "eve", 11).encode(&table));
    transaction.modify(&table, id, |body| body.copy_from_slice(&after)).unwrap();
    assert_eq!(get(&transaction, &table, 1), Some(account(1, "eve", 11)));
    assert_eq!(of_owner(&transaction, &table, "eve"), [1]);
    assert_eq!(get(&other.begin(Isolation::Snapshot), &table, 1), Some(account(1, "ann", 10)));
    transaction.commit().unwrap();
    assert_eq!(get(&other.begin(Isolation::Snapshot), &table, 1), Some(account(1, "eve", 11)));
}

/// Each table by what the transaction has done to it, whatever was written between.
#[test]
fn a_commit_counts_for_each_table_that_it_writes() {
    let others = TableDefinition { name: "others".into(), ..accounts() };
    let logs = SimLogs::new(1, 1, &[accounts(), others]);
    let database = logs.open(options()).unwrap();
    let [table, other] = ["accounts", "others"].map(|name| database.table(name).unwrap());
    let mut runner = database.runner().unwrap();
    let before = database.now();
    runner
        .run(Isolation::Snapshot, |t| {
            (0..6).try_for_each(|id| {
                insert(t, if id % 3 == 0 { &other } else { &table }, &account(id, "ann", 0)).map(drop)
            })
        })
        .unwrap();
    assert_eq!((table.rows(), other.rows()), (4, 2));
    assert_eq!(table.bytes(), 2 * other.bytes());
    for table in [&table, &other] {
        assert!(database.changed_since(table, before) && !database.changed_since(table, database.now()));
    }
    let before = database.now();
    runner.run(Isolation::Snapshot, |t| delete(t, &other, 0)).unwrap();
    assert!(database.changed_since(&other, before) && !database.changed_since(&table, before));
    let counted = (table.rows(), table.bytes());
    drop((runner, database));
    let table = logs.open(options()).unwrap().table("accounts").unwrap();
    assert_eq!((table.rows(), table.bytes()), counted, "after a restart");
}

/// To whoever begins then, whatever others still see in it.
#[test]
fn a_table_that_was_dropped_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    runner.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "ann", 0)).map(drop)).unwrap();
    let _old = database.moment().unwrap();
    database.drop_table(&table).unwrap();
    let other = database.create_table(TableDefinition { name: "others".into(), ..accounts() }).unwrap();
    runner.run(Isolation::Snapshot, |t| insert(t, &other, &account(1, "ann", 0)).map(drop)).unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    assert_eq!((get(&transaction, &table, 1), all(&transaction, &table)), (None, Vec::new()));
}

#[test]
fn what_is_too_large_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    let body = vec![0; saki_mvcc::BODY_BYTES_MAX + 1];
    assert!(matches!(transaction.insert(&table, b"12345678", &body), Err(Error::RowTooLarge { .. })));
    let long = vec![1; saki_mvcc::KEY_BYTES_MAX + 1];
    assert!(matches!(transaction.insert(&table, &long, b""), Err(Error::KeyTooLong { .. })));
    assert!(transaction.get(&table, &long).is_none());
    // Of an entry, 10 bytes are the key and what ends the text.
    let owner = "x".repeat(saki_mvcc::KEY_BYTES_MAX - 10);
    insert(&mut transaction, &table, &account(2, &owner, 0)).unwrap();
    let owner = owner + "x";
    let error = insert(&mut transaction, &table, &account(1, &owner, 0)).unwrap_err();
    assert!(matches!(error, Error::KeyTooLong { .. }), "an index entry: {error}");
    insert(&mut transaction, &table, &account(1, "ann", 0)).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn what_a_base_cannot_take_is_refused_when_it_is_written() {
    const LIMIT: usize = 100;
    let note = |bytes: usize| format!("{:n<bytes$}", "");
    let definition = TableDefinition { key_bytes_max: Some(LIMIT), ..accounts() };
    let logs = SimLogs::new(1, 1, &[accounts()]);
    {
        let database = logs.open(options()).unwrap();
        let table = database.table("accounts").unwrap();
        let mut runner = database.runner().unwrap();
        runner.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, &note(500), 7)).map(drop)).unwrap();
    }
    // What was written while the limit was another is found, and can be taken away.
    let mut catalog = saki_mvcc::Catalog::in_memory(logs.catalog.database(), 1);
    catalog.add(definition).unwrap();
    let database = SimLogs { catalog, devices: logs.devices }.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    assert_eq!(get(&transaction, &table, 1).map(|row| row.balance), Some(7));
    delete(&mut transaction, &table, 1).unwrap();
    let error = transaction.insert(&table, &[1; LIMIT + 1], b"").unwrap_err();
    let expected = "index row size 101 exceeds maximum 100 for the primary key of table \"accounts\"";
    assert_eq!(error.to_string(), expected);
    // Of an entry, 10 bytes are the key and what ends the text.
    let longest = LIMIT - 10;
    insert(&mut transaction, &table, &account(2, &note(longest), 0)).unwrap();
    let expected = "index row size 101 exceeds maximum 100 for index \"by_owner\" of table \"accounts\"";
    let too_long = account(3, &note(longest + 1), 0);
    assert_eq!(insert(&mut transaction, &table, &too_long).unwrap_err().to_string(), expected);
    assert!(get(&transaction, &table, 3).is_none());
    let too_long = account(2, &note(longest + 1), 0);
    assert_eq!(update(&mut transaction, &table, &too_long).unwrap_err().to_string(), expected);
    let (key, body) = too_long.encode(&table);
    assert_eq!(transaction.write(&table, &key, Some(&body)).unwrap_err().to_string(), expected);
    assert_eq!(get(&transaction, &table, 2), Some(account(2, &note(longest), 0)));
    transaction.commit().unwrap();
}

#[test]
fn an_old_snapshot_keeps_what_it_sees_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runners = [database.runner().unwrap(), database.runner().unwrap(), database.runner().unwrap()];
    let [old, one, two] = &mut runners;
    one.run(Isolation::Snapshot, |t| (0..10).try_for_each(|id| insert(t, &table, &account(id, "ann", 0)).map(drop)))
        .unwrap();
    let reader = old.begin(Isolation::Snapshot);
    let seen = all(&reader, &table);
    let mut settled = 0;
    for round in 0..60_000 {
        let writer = if round % 3 == 0 { &mut *one } else { &mut *two };
        let mut transaction = writer.begin(Isolation::Snapshot);
        update(&mut transaction, &table, &account(round % 10, "ann", round)).unwrap();
        let _ = transaction.commit_early().unwrap();
        if round == 20_000 {
            settled = database.memory_bytes();
        }
        if round % 1_000 == 0 {
            assert_eq!(all(&reader, &table), seen, "round {round}");
        }
    }
    assert!(database.memory_bytes() <= settled + (1 << 20), "{settled} then {}", database.memory_bytes());
    assert_eq!(all(&reader, &table), seen);
}

/// Time that grows with the square of the writes would be minutes.
#[test]
fn large_transactions_take_time_in_proportion() {
    const ROWS: i64 = 100_000;
    let mut plain = accounts();
    plain.indexes.clear();
    let logs = SimLogs::new(2, 1, &[plain]);
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    runner
        .run(Isolation::Snapshot, |t| (0..ROWS).try_for_each(|id| insert(t, &table, &account(id, "ann", 0)).map(drop)))
        .unwrap();
    let began = std::time::Instant::now();
    let change = |t: &mut Transaction<'_>, balance| {
        (0..ROWS).try_for_each(|id| update(t, &table, &account(id, "ann", balance))).unwrap();
    };
    let mut transaction = runner.begin(Isolation::Snapshot);
    change(&mut transaction, 1);
    let savepoint = transaction.savepoint();
    change(&mut transaction, 2);
    transaction.rollback_to(savepoint);
    assert_eq!(get(&transaction, &table, ROWS - 1).map(|row| row.balance), Some(1));
    change(&mut transaction, 3);
    transaction.abort();
    let mut transaction = runner.begin(Isolation::Snapshot);
    change(&mut transaction, 4);
    change(&mut transaction, 5);
    transaction.commit().unwrap();
    let took = began.elapsed();
    let transaction = runner.begin(Isolation::Snapshot);
    assert!((0..ROWS).all(|id| get(&transaction, &table, id).is_some_and(|row| row.balance == 5)));
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
}

/// A panic of the engine's own, at the worst moment: others must go on to be acknowledged.
#[test]
fn a_panic_between_a_timestamp_and_its_record_leaves_no_gap() {
    let logs = SimLogs::new(3, 2, &[accounts()]);
    let broken = saki_mvcc::Options { sabotage: Some(saki_mvcc::Sabotage::PanicBesideTick), ..options() };
    {
        let database = logs.open(broken).unwrap();
        let table = database.table("accounts").unwrap();
        let (mut one, mut two) = (database.runner_on(0).unwrap(), database.runner_on(1).unwrap());
        let mut transaction = one.begin(Isolation::Serializable);
        insert(&mut transaction, &table, &account(1, "ann", 0)).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| transaction.commit()));
        assert!(panicked.is_err());
        // Without validation nothing panics.
        two.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "bob", 2)).map(drop)).unwrap();
        one.run(Isolation::Snapshot, |t| insert(t, &table, &account(2, "cleo", 3)).map(drop)).unwrap();
    }
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    assert_eq!(all(&transaction, &table), [account(1, "bob", 2), account(2, "cleo", 3)]);
}
