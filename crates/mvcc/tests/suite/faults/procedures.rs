//! Stored procedures that panic, give up, or get in each other's way: their transactions are aborted, their workers
//! live on.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use saki_mvcc::{Database, Error, LogError, Table};

use crate::suite::fixture::{account, accounts, get, insert, update};
use crate::suite::support::{SimLogs, options};

fn opened() -> (SimLogs, Database, Table) {
    let logs = SimLogs::new(1, 2, &[accounts()]);
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    (logs, database, table)
}

#[test]
fn a_procedure_that_panics_leaves_nothing_and_its_worker_lives_on() {
    let (_logs, database, table) = opened();
    let workers = database.start_workers().unwrap();
    let own = table.clone();
    workers.register("add", move |transaction, argument| {
        let id = i64::from(argument[0]);
        insert(transaction, &own, &account(id, "ann", 0))?;
        assert!(id != 13, "thirteen");
        match id {
            14 => Err(Error::Procedure { message: "fourteen".into() }),
            // In the middle of a read.
            15 => {
                transaction.get_many(&own, &[b"x"], |_, _| panic!("fifteen"));
                Ok(Vec::new())
            }
            _ => Ok(vec![argument[0] + 1]),
        }
    });
    for worker in 0..workers.count() {
        for round in 0..5 {
            for (id, word) in [(13, "thirteen"), (15, "fifteen")] {
                let error = workers.call_on(worker, "add", &[id]).unwrap().wait().unwrap_err();
                assert!(matches!(&error, Error::Panicked { message, .. } if message == word), "{error}");
            }
            let error = workers.call_on(worker, "add", &[14]).unwrap().wait().unwrap_err();
            assert!(matches!(&error, Error::Procedure { message } if message == "fourteen"), "{error}");
            let id = worker as u8 * 100 + 20 + round;
            assert_eq!(workers.call_on(worker, "add", &[id]).unwrap().wait().unwrap(), [id + 1]);
        }
    }
    let error = workers.call("add", &[20]).unwrap().wait().unwrap_err();
    assert!(matches!(error, Error::Duplicate { .. }), "{error}");
    let error = workers.call("add", &[]).unwrap().wait().unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    assert!(matches!(workers.call("sub", &[]).map(drop), Err(Error::Name { .. })));
    assert!(matches!(workers.call_on(9, "add", &[]).map(drop), Err(Error::Name { .. })));
    let mut runner = database.runner().unwrap();
    let transaction = runner.begin(saki_mvcc::Isolation::Snapshot);
    assert!((13..16).all(|id| get(&transaction, &table, id).is_none()));
}

#[test]
fn calls_that_meet_are_run_again_until_all_are_done() {
    let (_logs, database, table) = opened();
    database
        .runner()
        .unwrap()
        .run(saki_mvcc::Isolation::Snapshot, |t| insert(t, &table, &account(1, "ann", 0)).map(drop))
        .unwrap();
    let workers = database.start_workers().unwrap();
    let own = table.clone();
    workers.register("raise", move |transaction, _| {
        let balance = get(transaction, &own, 1).expect("the row").balance + 1;
        update(transaction, &own, &account(1, "ann", balance))?;
        Ok(balance.to_le_bytes().into())
    });
    let calls: Vec<_> = (0..400).map(|_| workers.call("raise", &[]).unwrap()).collect();
    let mut balances: Vec<_> =
        calls.into_iter().map(|call| i64::from_le_bytes(call.wait().unwrap().try_into().unwrap())).collect();
    balances.sort_unstable();
    assert_eq!(balances, (1..=400).collect::<Vec<_>>());
}

#[test]
fn calls_after_closing_are_answered() {
    let (_logs, database, table) = opened();
    let workers = database.start_workers().unwrap();
    let own = table.clone();
    workers.register("add", move |transaction, argument| {
        insert(transaction, &own, &account(argument[0].into(), "ann", 0)).map(|_| Vec::new())
    });
    let own = table.clone();
    workers.register("has", move |transaction, argument| {
        Ok(vec![get(transaction, &own, argument[0].into()).is_some().into()])
    });
    workers.call("add", &[1]).unwrap().wait().unwrap();
    database.clone().close().unwrap();
    for _ in 0..4 {
        let error = workers.call("add", &[2]).unwrap().wait().unwrap_err();
        assert!(matches!(error, Error::Log(LogError::Closed)), "{error}");
        assert_eq!(workers.call("has", &[1]).unwrap().wait().unwrap(), [1]);
        assert_eq!(workers.call("has", &[2]).unwrap().wait().unwrap(), [0]);
    }
    drop(workers);
}

/// What was called before the workers end is done and answered.
#[test]
fn ending_workers_finish_their_calls() {
    let (_logs, database, table) = opened();
    let workers = database.start_workers().unwrap();
    let own = table.clone();
    workers.register("add", move |transaction, argument| {
        insert(transaction, &own, &account(argument[0].into(), "ann", 0)).map(|_| Vec::new())
    });
    let calls: Vec<_> = (0..100).map(|id| workers.call("add", &[id]).unwrap()).collect();
    drop(workers);
    calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
}

/// Whoever calls a worker that has too much to do waits until it has done some of it.
#[test]
fn calls_that_are_too_many_wait() {
    const CALLS: usize = 1_500;
    let (_logs, database, _table) = opened();
    let workers = database.start_workers().unwrap();
    let (goes_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    // Until then it holds up its worker.
    workers.register("wait", move |_, _| Ok(may_go_on.lock().unwrap().recv().map_or(Vec::new(), |()| Vec::new())));
    let (told, has_called) = channel();
    std::thread::spawn(move || {
        let calls: Vec<_> = (0..CALLS).map(|_| workers.call_on(0, "wait", &[]).unwrap()).collect();
        told.send(()).unwrap();
        calls.into_iter().for_each(|call| _ = call.wait().unwrap());
        told.send(()).unwrap();
    });
    assert!(has_called.recv_timeout(Duration::from_millis(50)).is_err(), "{CALLS} calls at once");
    drop(goes_on);
    for what in ["called", "answered"] {
        assert!(has_called.recv_timeout(Duration::from_secs(20)).is_ok(), "all are {what}");
    }
}
