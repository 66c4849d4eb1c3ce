//! What is too large or too many: refused, each with its limit, and without a trace.

use saki_mvcc::{BODY_BYTES_MAX, Error, Isolation, KEY_BYTES_MAX, LogError, Options, TableDefinition};

use crate::suite::fixture::{account, accounts, get, insert, key};
use crate::suite::support::{SimLogs, options};

#[test]
fn a_transaction_larger_than_an_extent_works() {
    let logs = SimLogs::new(1, 2, &[accounts()]);
    {
        let database = logs.open(options()).unwrap();
        let table = database.table("accounts").unwrap();
        let mut runner = database.runner_on(1).unwrap();
        let note = "x".repeat(900);
        runner
            .run(Isolation::Serializable, |t| {
                (0..1_000).try_for_each(|id| insert(t, &table, &account(id, &note, id)).map(drop))
            })
            .unwrap();
    }
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    assert!((0..1_000).all(|id| get(&transaction, &table, id).is_some_and(|row| row.balance == id)));
}

#[test]
fn a_transaction_larger_than_a_record_is_aborted() {
    let logs = SimLogs::new(2, 1, &[accounts()]);
    let mut options = options();
    options.log.record_bytes_max = 10_000;
    let database = logs.open(options).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    let note = "x".repeat(900);
    let mut transaction = runner.begin(Isolation::Serializable);
    (0..20).for_each(|id| _ = insert(&mut transaction, &table, &account(id, &note, id)).unwrap());
    let error = transaction.commit().unwrap_err();
    assert!(matches!(error, Error::Log(LogError::TooLarge { bytes_max: 10_000, .. })), "{error}");
    assert!(!error.is_retryable());
    let transaction = runner.begin(Isolation::Serializable);
    assert!((0..20).all(|id| get(&transaction, &table, id).is_none()));
    drop(transaction);
    runner.run(Isolation::Serializable, |t| insert(t, &table, &account(1, "ann", 0)).map(drop)).unwrap();
}

#[test]
fn the_largest_body_comes_back() {
    let mut plain = accounts();
    plain.name = "plain".into();
    plain.indexes.clear();
    let logs = SimLogs::new(3, 1, &[plain]);
    let mut largest = Vec::new();
    {
        let database = logs.open(options()).unwrap();
        let table = database.table("plain").unwrap();
        let mut runner = database.runner().unwrap();
        largest.resize(BODY_BYTES_MAX, 0xa5);
        let mut transaction = runner.begin(Isolation::Serializable);
        transaction.insert(&table, &key(&table, 1), &largest).unwrap();
        let mut larger = largest.clone();
        larger.push(0);
        let error = transaction.put(&table, &key(&table, 1), &larger).map(drop).unwrap_err();
        assert!(matches!(error, Error::RowTooLarge { limit: BODY_BYTES_MAX, .. }), "{error}");
        transaction.commit().unwrap();
        // And again, smaller: large blocks come and go.
        for bytes in [70_000, 1, BODY_BYTES_MAX] {
            runner.run(Isolation::Snapshot, |t| t.put(&table, &key(&table, 1), &largest[..bytes]).map(drop)).unwrap();
        }
    }
    let database = logs.open(options()).unwrap();
    let table = database.table("plain").unwrap();
    let mut runner = database.runner().unwrap();
    assert!(runner.begin(Isolation::Snapshot).get(&table, &key(&table, 1)).is_some_and(|found| *found == *largest));
}

#[test]
fn the_longest_key_is_taken() {
    for (limit, bytes_max) in [(Some(100), 100), (None, KEY_BYTES_MAX)] {
        let plain = TableDefinition { indexes: vec![], key_bytes_max: limit, ..accounts() };
        let logs = SimLogs::new(5, 1, &[plain]);
        let database = logs.open(options()).unwrap();
        let table = database.table("accounts").unwrap();
        let mut runner = database.runner().unwrap();
        let mut transaction = runner.begin(Isolation::Serializable);
        let longer = vec![7; bytes_max + 1];
        transaction.insert(&table, &longer[1..], b"body").unwrap();
        let error = transaction.insert(&table, &longer, b"body").unwrap_err();
        assert!(matches!(error, Error::KeyTooLong { limit, .. } if limit == bytes_max), "{error}");
        assert!(transaction.get(&table, &longer[1..]).is_some());
        transaction.commit().unwrap();
    }
}

#[test]
fn too_many_runners_are_refused_until_one_ends() {
    let logs = SimLogs::new(4, 1, &[accounts()]);
    let database = logs.open(Options { participants_max: 3, ..options() }).unwrap();
    for _ in 0..3 {
        let mut runners: Vec<_> = (0..3).map(|_| database.runner().unwrap()).collect();
        let error = database.runner().map(drop).unwrap_err();
        assert!(matches!(error, Error::TooManyParticipants { limit: 3 }), "{error}");
        runners.pop();
        drop(database.runner().unwrap());
    }
    assert!(matches!(database.runner_on(1).map(drop), Err(Error::Name { .. })), "there is one log");
}
