//! Logs that are not what they were: torn at the end, rotten in the middle, gone, or of another database. What was
//! durable and cannot be read is told, by log, extent and byte, and then nothing is opened; what was never durable is
//! passed by.

use std::fs;
use std::path::Path;

use saki_mvcc::{Database, Error, Isolation, LogError};

use crate::suite::fixture::{Account, account, accounts, get, insert, update};
use crate::suite::support::{SimLogs, options};

const LOGS: usize = 2;

fn filled(database: &Database, rounds: i64) {
    let table = database.table("accounts").unwrap_or_else(|| database.create_table(accounts()).unwrap());
    let mut runners: Vec<_> = (0..LOGS).map(|log| database.runner_on(log).unwrap()).collect();
    for round in 0..rounds {
        let runner = &mut runners[round as usize % LOGS];
        let owner = format!("{:x<200}", round % 5);
        let row = account(round % 40, &owner, round);
        runner
            .run(Isolation::Snapshot, |t| match get(t, &table, row.id) {
                Some(_) => update(t, &table, &row),
                None => insert(t, &table, &row).map(drop),
            })
            .unwrap();
    }
}

fn on_disk(directory: &Path) -> Result<Database, Error> {
    Database::open(directory, options(), &|_| {})
}

fn balance(database: &Database, id: i64) -> Option<i64> {
    let table = database.table("accounts")?;
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(Isolation::Snapshot);
    get(&transaction, &table, id).map(|Account { balance, .. }| balance)
}

/// What the opening of a database that lost something says, and that it says it again.
fn refusal(directory: &Path) -> String {
    let [first, second] =
        [(); 2].map(|()| on_disk(directory).map(drop).expect_err("a database that lost something").to_string());
    assert_eq!(first, second, "the attempt has changed something");
    first
}

#[test]
fn a_flipped_bit_in_the_middle_is_told_with_its_place() {
    for log in 0..LOGS {
        let directory = tempfile::tempdir().unwrap();
        {
            let database = on_disk(directory.path()).unwrap();
            filled(&database, 600);
            database.close().unwrap();
        }
        let path = directory.path().join(format!("log-{log}"));
        let mut bytes = fs::read(&path).unwrap();
        let owner = format!("{:x<200}", 3);
        let at = bytes.windows(owner.len()).position(|window| window == owner.as_bytes()).expect("it was written");
        bytes[at + 50] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let message = refusal(directory.path());
        for part in [format!("log {log}"), "extent 1".into(), "byte ".into(), format!("log-{log}")] {
            assert!(message.contains(&part), "no {part:?} in: {message}");
        }
        bytes[at + 50] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let database = on_disk(directory.path()).unwrap();
        assert_eq!(balance(&database, 39), Some(599));
    }
}

#[test]
fn a_torn_end_that_was_never_acknowledged_is_passed_by() {
    let logs = SimLogs::new(3, LOGS, &[accounts()]);
    let database = logs.open(options()).unwrap();
    filled(&database, 100);
    let table = database.table("accounts").unwrap();
    logs.devices.iter().for_each(|device| {
        let rates = saki_io::FaultRates { torn_at_power_loss: 1.0, ..Default::default() };
        device.faults().set_rates(rates);
    });
    for seed in 0..20 {
        logs.hold(true);
        let mut runner = database.runner_on(seed as usize % LOGS).unwrap();
        let mut transaction = runner.begin(Isolation::Snapshot);
        let row = account(1_000 + seed as i64, &format!("{:y<900}", seed), 0);
        insert(&mut transaction, &table, &row).unwrap();
        let _ = transaction.commit_early().unwrap();
        // The record is on its way, in part.
        let lost = logs.crash(&database, seed);
        let found = lost.open(options()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(balance(&found, 39), Some(79), "seed {seed}");
        logs.release(&database);
        database.wait(saki_mvcc::Receipt { timestamp: None, through: database.now() }).unwrap();
    }
}

#[test]
fn a_log_that_is_gone_is_told() {
    let directory = tempfile::tempdir().unwrap();
    {
        let database = on_disk(directory.path()).unwrap();
        filled(&database, 50);
    }
    let (path, aside) = (directory.path().join("log-1"), directory.path().join("aside"));
    fs::rename(&path, &aside).unwrap();
    let message = refusal(directory.path());
    assert!(message.contains("log"), "{message}");
    fs::rename(&aside, &path).unwrap();
    assert_eq!(balance(&on_disk(directory.path()).unwrap(), 9), Some(49));
}

#[test]
fn a_log_of_another_database_is_told() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for directory in &directories {
        filled(&on_disk(directory.path()).unwrap(), 50);
    }
    fs::copy(directories[0].path().join("log-0"), directories[1].path().join("log-0")).unwrap();
    let error = on_disk(directories[1].path()).map(drop).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::OtherDatabase { log: 0, .. })), "{error}");
    // Its own logs, in the wrong order.
    let directory = directories[0].path();
    fs::rename(directory.join("log-0"), directory.join("aside")).unwrap();
    fs::rename(directory.join("log-1"), directory.join("log-0")).unwrap();
    fs::rename(directory.join("aside"), directory.join("log-1")).unwrap();
    let error = on_disk(directory).map(drop).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::OtherLog { .. })), "{error}");
}

#[test]
fn a_record_of_nonsense_is_refused_with_its_place() {
    // The tables of one catalog, the logs of a database that had more.
    let directory = tempfile::tempdir().unwrap();
    filled(&on_disk(directory.path()).unwrap(), 20);
    let path = directory.path().join("catalog.json");
    let mut catalog: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    catalog["tables"] = serde_json::json!([]);
    fs::write(&path, catalog.to_string()).unwrap();
    let error = refusal(directory.path());
    assert!(error.contains("table 0"), "{error}");
}

#[test]
fn a_file_that_is_no_log_is_told() {
    let directory = tempfile::tempdir().unwrap();
    filled(&on_disk(directory.path()).unwrap(), 5);
    let path = directory.path().join("log-0");
    let length = fs::metadata(&path).unwrap().len() as usize;
    fs::write(&path, vec![b'?'; length]).unwrap();
    let message = refusal(directory.path());
    assert!(message.contains("log-0"), "{message}");
}
