//! Rows that leave memory after a serializable transaction has read them, before it commits.

use std::cell::RefCell;
use std::ops::ControlFlow;

use saki_mvcc::{Database, Direction, Error, Isolation, KeyRange, Options, Sabotage, Table, Transaction};

use super::{key, note, notes};
use crate::suite::support::{SimLogs, options};

/// The row that the transaction writes.
const OWN: i64 = 1_000;

thread_local! {
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
}

/// What is done between validation and the next commit's timestamp, once.
fn meanwhile() {
    if let Some(act) = MEANWHILE.take() {
        act();
    }
}

#[derive(Clone, Copy, Debug)]
enum Read {
    One,
    /// As many as are validated before the timestamp.
    Many,
    Range,
    Index,
}

impl Read {
    fn of(self, transaction: &Transaction<'_>, table: &Table) {
        let mut seen = 0;
        match self {
            Self::One | Self::Many => {
                for id in 0..if matches!(self, Self::One) { 1 } else { 8 } {
                    seen += usize::from(transaction.look(table, &key(id)).row().is_some());
                }
            }
            Self::Range => transaction.scan(table, &KeyRange::all(), Direction::Forward, |_| {
                seen += 1;
                ControlFlow::Continue(())
            }),
            Self::Index => transaction.scan_index(
                table,
                table.index("by_colour").expect("an index"),
                &KeyRange::all(),
                Direction::Forward,
                |_, _| {
                    seen += 1;
                    ControlFlow::Continue(())
                },
            ),
        }
        assert!(seen > 0, "{self:?}");
    }
}

/// What becomes of row 0, or of another, after all have left memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Nothing,
    Updated,
    Deleted,
    /// And its new row leaves memory as it came: never committed.
    TakenBack,
    AnotherUpdated,
}

impl Then {
    fn is_seen(self) -> bool {
        matches!(self, Self::Updated | Self::Deleted)
    }

    fn act(self, database: &Database, table: &Table) {
        let body = note(7, "new").body(table);
        let mut writer = database.runner_on(1).unwrap();
        let mut transaction = writer.begin(Isolation::Snapshot);
        match self {
            Self::Nothing => return,
            Self::Updated | Self::TakenBack => transaction.write(table, &key(0), Some(&body)).unwrap(),
            Self::Deleted => transaction.write(table, &key(0), None).unwrap(),
            Self::AnotherUpdated => transaction.write(table, &key(OWN + 1), Some(&body)).unwrap(),
        }
        if self != Self::TakenBack {
            // To be durable is to wait for the one in the middle of whose commit this comes.
            let _ = transaction.commit_early().unwrap();
        }
    }
}

/// A transaction that reads, and then commits what it has written; all that it has read leaves memory, and more is
/// done, before its commit or between its validation and its timestamp.
fn outcome(read: Read, then: Then, is_between: bool) -> Result<Option<u64>, Error> {
    let logs = SimLogs::new(1, 2, &[notes()]);
    let database = logs.open(Options { sabotage: Some(Sabotage::BeforeTick(meanwhile)), ..options() }).unwrap();
    let table = database.table("notes").unwrap();
    let mut runner = database.runner().unwrap();
    let body = note(3, "old").body(&table);
    runner.run(Isolation::Snapshot, |t| (0..8).try_for_each(|id| t.write(&table, &key(id), Some(&body)))).unwrap();
    let through = database.now();
    let mut transaction = runner.begin(Isolation::Serializable);
    read.of(&transaction, &table);
    transaction.write(&table, &key(OWN), Some(&body)).unwrap();
    let act = {
        let (database, table) = (database.clone(), table.clone());
        move || {
            assert_eq!(database.release(&table, through).unwrap().rows, 8);
            then.act(&database, &table);
        }
    };
    if is_between {
        MEANWHILE.set(Some(Box::new(act)));
    } else {
        act();
    }
    let outcome = transaction.commit();
    assert!(MEANWHILE.take().is_none(), "nothing happened meanwhile");
    outcome
}

/// What was read is in the base: it has not changed by that.
#[test]
fn rows_that_leave_memory_have_not_changed_until_they_are_written() {
    for read in [Read::One, Read::Many, Read::Range, Read::Index] {
        for then in [Then::Nothing, Then::Updated, Then::Deleted, Then::TakenBack, Then::AnotherUpdated] {
            for is_between in [false, true] {
                // Few reads are validated after the timestamp alone.
                if is_between && matches!(read, Read::One) {
                    continue;
                }
                // Another row that comes is one more of the range.
                let is_refused =
                    then.is_seen() || then == Then::AnotherUpdated && !matches!(read, Read::One | Read::Many);
                match outcome(read, then, is_between) {
                    Ok(_) => assert!(!is_refused, "{read:?} {then:?} {is_between}"),
                    Err(Error::Serialization) => assert!(is_refused, "{read:?} {then:?} {is_between}"),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}
