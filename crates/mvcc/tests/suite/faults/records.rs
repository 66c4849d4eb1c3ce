//! Logs as other hands might have written them: records that no transaction leaves, and very many that lean on each
//! other.

use std::time::{Duration, Instant};

use saki_io::Device;
use saki_log::{Logs, Range};
use saki_mvcc::record::{Change, Effect, Patch};
use saki_mvcc::{BODY_BYTES_MAX, Database, Error, Isolation, KEY_BYTES_MAX};

use crate::suite::fixture::{account, accounts, get, key};
use crate::suite::support::{SimLogs, options};

/// Logs of these records, each with the log that it is in; the first has timestamp 1.
fn logs_of(logs: usize, records: impl IntoIterator<Item = (usize, Vec<u8>)>) -> SimLogs {
    let sim = SimLogs::new(5, logs, &[accounts()]);
    let devices = sim.devices.iter().map(|device| std::sync::Arc::clone(device) as std::sync::Arc<dyn Device>);
    let log_options = saki_log::Options { database: sim.catalog.database(), ..options().log };
    let apply = |_: usize, _: u64, _: &[u8]| Ok::<_, std::convert::Infallible>(());
    let (logs, _) = Logs::recover(devices.collect(), log_options, Range::default(), &|_| {}, &apply).unwrap();
    let mut last = 0;
    for (timestamp, (log, record)) in (1..).zip(records) {
        logs.reserve(log, record.len()).unwrap().commit(timestamp, &record);
        last = timestamp;
    }
    logs.wait_durable(last).unwrap();
    logs.close().unwrap();
    sim
}

fn record(changes: &[Change<'_>]) -> Vec<u8> {
    let mut record = Vec::new();
    changes.iter().for_each(|change| change.encode(&mut record));
    record
}

fn refusal(logs: &SimLogs) -> String {
    logs.open(options()).map(|_: Database| ()).expect_err("a record that no transaction leaves").to_string()
}

#[test]
fn a_record_that_no_transaction_leaves_is_refused_with_its_place() {
    let put = |key: &[u8], body: &[u8]| record(&[Change { table: 0, key, effect: Effect::Put(body) }]);
    let long_key = vec![7; KEY_BYTES_MAX + 1];
    let long_body = vec![7; BODY_BYTES_MAX + 1];
    let cases = [
        (put(&long_key, b""), format!("a key of table 0 of {} bytes; the limit is {KEY_BYTES_MAX}", KEY_BYTES_MAX + 1)),
        (put(b"k", &long_body), format!("a body of table 0 of {} bytes", BODY_BYTES_MAX + 1)),
        (vec![77], "make no sense from byte 0 on".into()),
    ];
    for (bad, reason) in cases {
        // Good ones before and behind it, which are applied together with it.
        let good = || put(b"good", b"body");
        let logs = logs_of(2, [(0, good()), (1, good()), (1, bad), (0, good()), (1, good())]);
        let message = refusal(&logs);
        let place = format!("log 1 ({}), extent ", logs.devices[1].name());
        for part in [&place, "the record of timestamp 3 cannot be applied", &reason] {
            assert!(message.contains(part), "no {part:?} in: {message}");
        }
    }
}

#[test]
fn patches_that_contradict_each_other_are_refused() {
    let patch = |base| Effect::Patch(Patch { base, prefix: 0, suffix: 0, middle: b"body" });
    let change = |effect| record(&[Change { table: 0, key: b"k", effect }]);
    let cases = [
        // Two against the same version.
        [change(Effect::Put(b"body")), change(patch(1)), change(patch(1))],
        // One against a version that is later than what it makes.
        [change(Effect::Put(b"body")), change(patch(3)), change(Effect::Delete)],
        // And against that one itself.
        [change(Effect::Put(b"body")), change(patch(2)), change(Effect::Delete)],
        // One against a version that was followed by another.
        [change(Effect::Put(b"body")), change(Effect::Put(b"other")), change(patch(1))],
    ];
    for records in cases {
        let logs = logs_of(1, records.into_iter().map(|record| (0, record)));
        let error = logs.open(options()).map(|_| ()).expect_err("a contradiction");
        assert!(matches!(error, Error::Open { .. } | Error::Log(_)), "{error}");
    }
}

/// Patches of two rows, one after the other, that make longer bodies than those before.
#[test]
fn patches_may_change_the_length_of_a_body() {
    let scratch = SimLogs::new(6, 1, &[accounts()]).open(options()).unwrap();
    let table = scratch.table("accounts").unwrap();
    let after = [1, 2].map(|id| account(id, &"ann".repeat(10 + id as usize), id));
    let mut records = Vec::new();
    for (id, _) in (1..).zip(&after) {
        let (key, body) = account(id, "ann", id).encode(&table);
        records.push(record(&[Change { table: 0, key: &key, effect: Effect::Put(&body) }]));
    }
    for (base, account) in (1..).zip(&after) {
        let (key, body) = account.encode(&table);
        let patch = Patch { base, prefix: 0, suffix: 0, middle: &body };
        records.push(record(&[Change { table: 0, key: &key, effect: Effect::Patch(patch) }]));
    }
    let database = logs_of(1, records.into_iter().map(|record| (0, record))).open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    assert_eq!([1, 2].map(|id| get(&transaction, &table, id).unwrap()), after);
}

/// Each update is a patch against the one before, which is in the other log: they wait for each other all the time,
/// and thousands at once if one of the two is read first.
#[test]
fn many_updates_of_one_row_from_two_logs_are_applied_in_a_moment() {
    const UPDATES: u64 = 100_000;
    let scratch = SimLogs::new(6, 1, &[accounts()]).open(options()).unwrap();
    let table = scratch.table("accounts").unwrap();
    let row = |balance| account(1, "ann", balance).encode(&table);
    let (row_key, first) = row(1);
    let mut before = first.clone();
    let records = (1..=UPDATES).map(|timestamp| {
        let (_, body) = row(timestamp as i64);
        let effect = match Patch::between(timestamp - 1, &before, &body).filter(|_| timestamp > 1) {
            Some(patch) => Effect::Patch(patch),
            None => Effect::Put(&body),
        };
        let record = record(&[Change { table: 0, key: &row_key, effect }]);
        before = body;
        (timestamp as usize % 2, record)
    });
    let logs = logs_of(2, records);
    let began = Instant::now();
    let database = logs.open(options()).unwrap();
    let took = began.elapsed();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    assert_eq!(get(&transaction, &table, 1).map(|row| row.balance), Some(UPDATES as i64));
    assert_eq!(key(&table, 1), row_key);
    // Far more than it takes on a busy machine; what grows with the square of the updates takes minutes.
    assert!(took < Duration::from_secs(5), "{took:?}");
}
