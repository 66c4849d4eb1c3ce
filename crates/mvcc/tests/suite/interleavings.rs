//! Interleavings by hand: what once went wrong, or easily would, each told as a story of two or three runners.

use saki_mvcc::{Error, Isolation};

use super::fixture::{Account, account, accounts, delete, get, insert, key, update, with_accounts};
use super::support::{SimLogs, options};

fn with_email(id: i64, email: &str) -> Account {
    Account { email: Some(email.into()), ..account(id, "ann", 0) }
}

/// A key is looked up while another transaction is adding it; that one gives up, a third adds the key. Whoever saw that
/// it was not there comes before the third, so it may not have read what came of it.
#[test]
fn a_key_that_was_being_added_is_absent_all_the_same() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for many in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let (database, table) = with_accounts(directory.path());
            let mut runners = [(); 3].map(|()| database.runner().unwrap());
            let [one, two, three] = &mut runners;
            let mut adding = one.begin(isolation);
            insert(&mut adding, &table, &account(1, "ann", 0)).unwrap();
            let mut looking = two.begin(isolation);
            match many {
                false => assert_eq!(get(&looking, &table, 1), None),
                true => looking.get_many(&table, &[key(&table, 1)], |_, found| assert!(found.is_none())),
            }
            insert(&mut looking, &table, &account(2, "bob", 0)).unwrap();
            adding.abort();
            three.run(isolation, |t| insert(t, &table, &account(1, "eve", 0)).map(drop)).unwrap();
            let outcome = looking.commit();
            match isolation {
                Isolation::Snapshot => assert!(outcome.is_ok()),
                Isolation::Serializable => assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}"),
            }
        }
    }
}

/// A transaction changes a unique value twice, and has not committed. The value it gave up first is still its row's if
/// it aborts.
#[test]
fn a_value_given_up_in_two_steps_is_not_free_yet() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    one.run(Isolation::Snapshot, |t| insert(t, &table, &with_email(1, "a@x")).map(drop)).unwrap();
    let mut changing = one.begin(Isolation::Snapshot);
    update(&mut changing, &table, &with_email(1, "b@x")).unwrap();
    update(&mut changing, &table, &with_email(1, "c@x")).unwrap();
    let mut taking = two.begin(Isolation::Snapshot);
    for email in ["a@x", "b@x", "c@x"] {
        let outcome = insert(&mut taking, &table, &with_email(2, email));
        assert!(matches!(outcome, Err(Error::Conflict { .. })), "{email}: {outcome:?}");
    }
    changing.abort();
    let outcome = insert(&mut taking, &table, &with_email(2, "a@x"));
    assert!(matches!(outcome, Err(Error::Duplicate { .. })), "{outcome:?}");
    insert(&mut taking, &table, &with_email(2, "b@x")).unwrap();
    taking.commit().unwrap();
}

/// That a unique value is taken is something read: whoever relies on it comes before the one who gives the value up.
#[test]
fn a_refused_value_is_a_read() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    one.run(Isolation::Serializable, |t| insert(t, &table, &with_email(1, "a@x")).map(drop)).unwrap();
    let mut refused = two.begin(Isolation::Serializable);
    let outcome = insert(&mut refused, &table, &with_email(2, "a@x"));
    assert!(matches!(outcome, Err(Error::Duplicate { .. })), "{outcome:?}");
    insert(&mut refused, &table, &account(3, "bob", 0)).unwrap();
    one.run(Isolation::Serializable, |t| delete(t, &table, 1)).unwrap();
    let outcome = refused.commit();
    assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}");
}

/// A row is deleted and even its memory freed before the deletion is durable. Whoever finds it gone may be told so only
/// when the deletion can no longer be lost.
#[test]
fn that_a_row_is_gone_is_told_when_its_deletion_is_durable() {
    let logs = SimLogs::new(1, 2, &[accounts()]);
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    one.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "ann", 0)).map(drop)).unwrap();
    logs.hold(true);
    let mut transaction = one.begin(Isolation::Snapshot);
    delete(&mut transaction, &table, 1).unwrap();
    let deletion = transaction.commit_early().unwrap();
    // Something later, so that nobody's snapshot is of before the deletion.
    let mut transaction = two.begin(Isolation::Snapshot);
    insert(&mut transaction, &table, &account(2, "bob", 0)).unwrap();
    let _ = transaction.commit_early().unwrap();
    for _ in 0..3 {
        one.reclaim();
        two.reclaim();
    }
    let reader = two.begin(Isolation::Serializable);
    assert_eq!(get(&reader, &table, 1), None);
    let reading = reader.commit_early().unwrap();
    let told_early = database.is_durable(reading);
    logs.release(&database);
    assert!(reading.through >= deletion.through, "{reading:?} relies on {deletion:?}");
    assert!(!told_early);
    database.wait(reading).unwrap();
}

/// A handle got before a savepoint is good after it; one of a row taken back leads nowhere.
#[test]
fn a_handle_of_a_row_taken_back_leads_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    let mut transaction = runner.begin(Isolation::Serializable);
    let savepoint = transaction.savepoint();
    let id = insert(&mut transaction, &table, &account(1, "ann", 0)).unwrap();
    transaction.rollback_to(savepoint);
    assert!(transaction.see_again(&table, id).unwrap().is_none());
    let (_, body) = account(1, "ann", 1).encode(&table);
    assert!(transaction.update(&table, id, &body).is_err());
    assert!(transaction.delete(&table, id).is_err());
    insert(&mut transaction, &table, &account(1, "bob", 0)).unwrap();
    transaction.commit().unwrap();
}

/// Keys beyond the limit are nowhere, in whatever way they are looked for.
#[test]
fn keys_that_cannot_be_are_not_found() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    runner.run(Isolation::Snapshot, |t| insert(t, &table, &account(1, "ann", 0)).map(drop)).unwrap();
    let long = vec![0x80; saki_mvcc::KEY_BYTES_MAX + 1];
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let transaction = runner.begin(isolation);
        assert!(transaction.get(&table, &long).is_none());
        let mut answers = Vec::new();
        transaction.get_many(&table, &[long.clone(), key(&table, 1)], |at, found| answers.push((at, found.is_some())));
        assert_eq!(answers, [(0, false), (1, true)]);
        for range in [saki_mvcc::KeyRange::prefix(&long), saki_mvcc::KeyRange::prefix(b"")] {
            transaction.scan(&table, &range, saki_mvcc::Direction::Reverse, |_| std::ops::ControlFlow::Continue(()));
        }
    }
}

/// Rows made, changed and taken back in one transaction leave nothing to clean up that outlives them.
#[test]
fn rows_taken_back_leave_no_cleanups() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let mut runner = database.runner().unwrap();
    let owners = ["ann", "bob", "eve"];
    for round in 0..3_000_i64 {
        let mut transaction = runner.begin(Isolation::Snapshot);
        let savepoint = transaction.savepoint();
        insert(&mut transaction, &table, &account(round % 7, "ann", 0)).unwrap();
        let inserted = transaction.savepoint();
        for step in 0..round % 4 {
            update(&mut transaction, &table, &account(round % 7, owners[(step + 1) as usize % 3], step)).unwrap();
        }
        if round % 3 == 0 {
            delete(&mut transaction, &table, round % 7).unwrap();
            insert(&mut transaction, &table, &account(round % 7, "bob", 0)).unwrap();
        }
        match round % 5 {
            0 => transaction.rollback_to(savepoint),
            1 => transaction.rollback_to(inserted),
            _ => {}
        }
        if round % 5 == 1 {
            transaction.commit().unwrap();
            runner.run(Isolation::Snapshot, |t| delete(t, &table, round % 7)).unwrap();
        } else {
            transaction.abort();
        }
        if round % 11 == 0 {
            runner.reclaim();
        }
    }
    let nodes = saki_mvcc::index::bytes_in_use();
    assert!(nodes < 16 << 20, "{nodes} bytes of index nodes");
    assert!(database.memory_bytes() < 4 << 20, "{} bytes of rows", database.memory_bytes());
}

/// Each of two transactions finds out, by an insert that it takes back, that there is no row where the other then
/// adds one. One of them must fail: whichever came second would have found a row.
#[test]
fn an_insert_that_was_taken_back_is_a_read() {
    let rows: [fn(i64) -> Account; 2] = [|id| account(id, "ann", 0), |id| with_email(10 + id, &format!("{id}@x"))];
    for (probed, deleted_before) in [(0, false), (0, true), (1, false), (1, true)] {
        let directory = tempfile::tempdir().unwrap();
        let (database, table) = with_accounts(directory.path());
        let mut runners = [(); 2].map(|()| database.runner().unwrap());
        if deleted_before {
            // Deletes that an old snapshot keeps from being cleaned up.
            runners[0].run(Isolation::Snapshot, |t| insert(t, &table, &rows[0](1)).map(drop)).unwrap();
            runners[0].run(Isolation::Snapshot, |t| insert(t, &table, &rows[0](2)).map(drop)).unwrap();
        }
        let _old = database.moment().unwrap();
        if deleted_before {
            runners[0].run(Isolation::Snapshot, |t| delete(t, &table, 1)).unwrap();
            runners[0].run(Isolation::Snapshot, |t| delete(t, &table, 2)).unwrap();
        }
        let [one, two] = &mut runners;
        let mut transactions = [one.begin(Isolation::Serializable), two.begin(Isolation::Serializable)];
        for (transaction, id) in transactions.iter_mut().zip([1, 2]) {
            let savepoint = transaction.savepoint();
            insert(transaction, &table, &rows[probed](id)).unwrap();
            transaction.rollback_to(savepoint);
        }
        for (transaction, id) in transactions.iter_mut().zip([2, 1]) {
            // By another key, but of the same address, or by the same key.
            let row = if probed == 0 { rows[0](id) } else { with_email(20 + id, &format!("{id}@x")) };
            insert(transaction, &table, &row).unwrap();
        }
        let outcomes = transactions.map(saki_mvcc::Transaction::commit);
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        assert!(matches!(outcomes[1], Err(Error::Serialization)), "probed {probed}, {deleted_before}: {outcomes:?}");
    }
}

/// What was taken back is no obstacle as long as nobody else comes there.
#[test]
fn an_insert_that_was_taken_back_stands_in_nobodys_way() {
    let directory = tempfile::tempdir().unwrap();
    let (database, table) = with_accounts(directory.path());
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    let mut transaction = one.begin(Isolation::Serializable);
    let savepoint = transaction.savepoint();
    insert(&mut transaction, &table, &with_email(1, "a@x")).unwrap();
    transaction.rollback_to(savepoint);
    insert(&mut transaction, &table, &with_email(1, "a@x")).unwrap();
    two.run(Isolation::Serializable, |t| insert(t, &table, &with_email(2, "b@x")).map(drop)).unwrap();
    transaction.commit().unwrap();
}
