//! Devices that are full, or fail: writes are refused with an error, reads go on, nothing acknowledged is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saki_base::Arena;
use saki_io::{Device, DeviceError, Lane, OperationKind, SimDevice};
use saki_mvcc::{Database, Durability, Error, Isolation, LogError, Runner, Table};

use crate::suite::fixture::{account, accounts, get, insert};
use crate::suite::support::{SimLogs, options};

fn opened(seed: u64) -> (SimLogs, Database, Table) {
    let logs = SimLogs::new(seed, 2, &[accounts()]);
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    (logs, database, table)
}

fn put(runner: &mut Runner, table: &Table, id: i64) -> Result<(), Error> {
    runner.run(Isolation::Serializable, |t| insert(t, table, &account(id, &"x".repeat(900), id)).map(drop))
}

fn count(runner: &mut Runner, table: &Table) -> usize {
    // Relaxed: it does not ask whether what it sees is durable.
    let transaction = runner.begin_with(Isolation::Serializable, Durability::Relaxed);
    let found = (0..2_000).filter(|id| get(&transaction, table, *id).is_some()).count();
    transaction.commit().expect("a reader is not refused");
    found
}

/// A device that can be kept from growing, as a file system that is full.
struct Limited {
    device: Arc<SimDevice>,
    is_full: AtomicBool,
}

impl Device for Limited {
    fn name(&self) -> String {
        self.device.name()
    }
    fn length_bytes(&self) -> Result<u64, DeviceError> {
        self.device.length_bytes()
    }
    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }
    fn read_only(&self) -> bool {
        false
    }
    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        let grows = bytes > self.device.length_bytes()?;
        match grows && self.is_full.load(Ordering::Relaxed) {
            true => Err(DeviceError::Full { device: self.name() }),
            false => self.device.ensure_length(bytes),
        }
    }
    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        self.device.open_lane(arena)
    }
}

#[test]
fn a_full_disk_refuses_writes_and_heals() {
    let logs = SimLogs::new(1, 2, &[accounts()]);
    let limited: Vec<_> = logs
        .devices
        .iter()
        .map(|device| Arc::new(Limited { device: Arc::clone(device), is_full: AtomicBool::new(false) }))
        .collect();
    let devices = limited.iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect();
    let database = Database::open_on(logs.catalog.reopened(), devices, options(), &|_| {}).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner_on(1).unwrap();
    put(&mut runner, &table, 0).unwrap();
    limited.iter().for_each(|device| device.is_full.store(true, Ordering::Relaxed));
    // The extents that are ready take some more.
    let mut id = 1;
    let error = loop {
        let mut transaction = runner.begin(Isolation::Serializable);
        insert(&mut transaction, &table, &account(id, &"x".repeat(900), id)).unwrap();
        match transaction.commit() {
            Ok(_) => id += 1,
            Err(error) => break error,
        }
        assert!(id < 2_000, "it takes all there is");
    };
    assert!(matches!(error, Error::Log(LogError::Full { log: 1, .. })), "{error}");
    assert_eq!(count(&mut runner, &table), id as usize, "reads go on, and see nothing of what was refused");
    assert!(matches!(put(&mut runner, &table, id), Err(Error::Log(LogError::Full { .. }))), "again");
    limited.iter().for_each(|device| device.is_full.store(false, Ordering::Relaxed));
    put(&mut runner, &table, id).expect("there is room again");
    assert_eq!(count(&mut runner, &table), id as usize + 1);
    drop(runner);
    database.close().unwrap();
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    assert_eq!(count(&mut database.runner().unwrap(), &table), id as usize + 1);
}

#[test]
fn a_failing_device_ends_acknowledgements_and_not_reads() {
    for kind in [OperationKind::Write, OperationKind::Flush] {
        let (logs, database, table) = opened(2);
        let mut runner = database.runner_on(0).unwrap();
        put(&mut runner, &table, 0).unwrap();
        logs.devices[0].faults().fail_next(kind, u32::MAX);
        let error = put(&mut runner, &table, 1).unwrap_err();
        assert!(matches!(error, Error::Log(LogError::Failed { log: 0, .. })), "{error}");
        assert!(error.to_string().contains("injected fault"), "{error}");
        // Latched: also the other log acknowledges nothing, since timestamps before are missing.
        logs.devices[0].faults().heal();
        let mut other = database.runner_on(1).unwrap();
        assert!(matches!(put(&mut other, &table, 2), Err(Error::Log(LogError::Failed { .. }))));
        assert!(count(&mut other, &table) >= 1);
        let last = database.durable();
        drop((runner, other));
        assert!(database.close().is_err(), "closing says that something was lost");
        let database = logs.open(options()).unwrap();
        assert!(database.recovery().horizon >= last);
        let table = database.table("accounts").unwrap();
        let mut runner = database.runner().unwrap();
        assert!(count(&mut runner, &table) >= 1);
        put(&mut runner, &table, 5).unwrap();
    }
}

#[test]
fn a_callback_is_told_of_failure() {
    let (logs, database, table) = opened(3);
    let mut runner = database.runner().unwrap();
    logs.hold(true);
    let mut transaction = runner.begin(Isolation::Snapshot);
    insert(&mut transaction, &table, &account(1, "ann", 0)).unwrap();
    let receipt = transaction.commit_early().unwrap();
    let (to, answer) = std::sync::mpsc::channel();
    database.when_durable(receipt, move |outcome| to.send(outcome).expect("it is waited for"));
    assert!(answer.try_recv().is_err() && !database.is_durable(receipt));
    logs.devices[0].faults().fail_next(OperationKind::Write, u32::MAX);
    logs.release(&database);
    let outcome = answer.recv_timeout(Duration::from_secs(20)).expect("an answer");
    assert!(matches!(outcome, Err(Error::Log(LogError::Failed { .. }))), "{outcome:?}");
    assert!(database.wait(receipt).is_err());
}

#[test]
fn a_device_that_cannot_be_read_is_told_when_opening() {
    let (logs, database, table) = opened(4);
    put(&mut database.runner().unwrap(), &table, 0).unwrap();
    database.close().unwrap();
    drop(table);
    logs.devices[1].faults().fail_next(OperationKind::Read, 1);
    let error = logs.open(options()).map(drop).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::Device { log: 1, .. })), "{error}");
    assert_eq!(logs.open(options()).unwrap().recovery().records, 1);
}

#[test]
fn after_closing_reads_go_on_and_writes_are_refused() {
    let (_logs, database, table) = opened(5);
    let mut runner = database.runner().unwrap();
    put(&mut runner, &table, 0).unwrap();
    let mut open = runner.begin(Isolation::Serializable);
    insert(&mut open, &table, &account(1, "ann", 0)).unwrap();
    database.clone().close().unwrap();
    assert!(matches!(open.commit(), Err(Error::Log(LogError::Closed))));
    assert!(matches!(put(&mut runner, &table, 2), Err(Error::Log(LogError::Closed))));
    assert_eq!(count(&mut runner, &table), 1);
    database.clone().close().unwrap();
}
