use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use saki_base::TableId;
use saki_mvcc::Isolation;

use super::Stop;
use super::{LockMode, LockOwner, LockWait, Locks, Policy, Requested, WaitEvent};
use crate::fixture::{Bench, Shape};

const T: TableId = TableId(7);
const U: TableId = TableId(8);

use LockMode as M;

fn owners<const N: usize>() -> (Arc<Locks>, [Arc<LockOwner>; N]) {
    let locks = Arc::<Locks>::default();
    let owners = std::array::from_fn(|number| {
        let owner = LockOwner::new(&locks);
        owner.set_process(number as i64 + 1);
        owner
    });
    (locks, owners)
}

fn ask(owner: &Arc<LockOwner>, table: TableId, mode: LockMode) -> Result<Option<LockWait>, String> {
    match owner.lock(table, mode, Policy::Wait, None) {
        Ok(Requested::Granted) => Ok(None),
        Ok(Requested::Waiting(wait)) => Ok(Some(wait)),
        Ok(Requested::Refused) => panic!("it was to wait"),
        Err(error) => Err(error.sqlstate().to_owned()),
    }
}

fn take(owner: &Arc<LockOwner>, table: TableId, mode: LockMode) {
    assert!(ask(owner, table, mode).expect("no circle").is_none(), "{mode} is free");
}

fn wait(owner: &Arc<LockOwner>, table: TableId, mode: LockMode) -> LockWait {
    ask(owner, table, mode).expect("no circle").expect("somebody is in the way")
}

/// As work asks that gives its place up again.
fn ask_giving_way(owner: &Arc<LockOwner>, table: TableId, mode: LockMode) -> Result<LockWait, String> {
    match owner.lock(table, mode, Policy::GivingWay, None) {
        Ok(Requested::Waiting(wait)) => Ok(wait),
        Ok(_) => panic!("somebody is in the way"),
        Err(error) => Err(error.sqlstate().to_owned()),
    }
}

fn is_ready(wait: &mut LockWait) -> bool {
    Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn two_owners_hold_what_does_not_conflict() {
    for one in LockMode::ALL {
        for other in LockMode::ALL {
            let (locks, [a, b]) = owners();
            take(&a, T, one);
            let asked = ask(&b, T, other).expect("no circle");
            assert_eq!(asked.is_some(), one.conflicts_with(other), "{one} and {other}");
            take(&b, U, other);
            drop(asked);
            a.release_all();
            take(&b, T, M::AccessExclusive);
            b.release_all();
            assert_eq!(locks.list(), [], "{one} and {other}");
        }
    }
}

#[test]
fn an_owner_is_never_in_its_own_way() {
    let (_, [a]) = owners();
    for mode in LockMode::ALL.into_iter().chain(LockMode::ALL.into_iter().rev()) {
        take(&a, T, mode);
    }
}

#[test]
fn who_waits_is_not_overtaken() {
    let (_, [reader, ddl, late]) = owners();
    take(&reader, T, M::AccessShare);
    let mut exclusive = wait(&ddl, T, M::AccessExclusive);
    let mut shared = wait(&late, T, M::AccessShare);
    // Who is there already is not held up by who waits for it.
    take(&reader, T, M::RowExclusive);
    reader.release_all();
    assert!(is_ready(&mut exclusive) && !is_ready(&mut shared));
    ddl.release_all();
    assert!(is_ready(&mut shared));
}

#[test]
fn whoever_gives_up_lets_those_behind_through() {
    let (locks, [reader, ddl, late]) = owners();
    take(&reader, T, M::AccessShare);
    let exclusive = wait(&ddl, T, M::AccessExclusive);
    let mut shared = wait(&late, T, M::AccessShare);
    drop(exclusive);
    assert!(is_ready(&mut shared));
    // Given, and not taken: it goes to the next.
    reader.release_all();
    late.release_all();
    take(&reader, T, M::Exclusive);
    let given = wait(&ddl, T, M::AccessExclusive);
    let mut next = wait(&late, T, M::RowShare);
    reader.release_all();
    drop(given);
    assert!(is_ready(&mut next));
    late.release_all();
    assert_eq!(locks.list(), []);
    assert!(reader.try_weak(T, M::RowExclusive), "no strong lock is counted any more");
}

#[test]
fn locks_taken_after_a_savepoint_go_with_it() {
    let (_, [a, b]) = owners();
    take(&a, T, M::RowExclusive);
    let mark = a.mark();
    take(&a, T, M::AccessExclusive);
    take(&a, U, M::Share);
    a.release_to(mark);
    take(&b, U, M::RowExclusive);
    take(&b, T, M::RowExclusive);
    assert!(a.holds(T, M::RowExclusive) && !a.holds(T, M::AccessExclusive));
    let mut waiting = wait(&b, T, M::Share);
    a.release_all();
    assert!(is_ready(&mut waiting));
}

#[test]
fn nowait_does_not_wait() {
    let (_, [a, b]) = owners();
    take(&a, T, M::RowExclusive);
    let refused = b.lock(T, M::Share, Policy::Now, None).expect("no circle");
    assert!(matches!(refused, Requested::Refused));
    assert!(a.try_weak(T, M::RowShare), "nobody wants a strong lock any more");
    take(&b, T, M::RowExclusive);
}

#[test]
fn circles_of_tables_are_refused() {
    let (_, [a, b, c]) = owners();
    take(&a, T, M::AccessExclusive);
    take(&b, U, M::AccessExclusive);
    let mut first = wait(&a, U, M::AccessShare);
    assert_eq!(ask(&b, T, M::AccessShare).err().as_deref(), Some("40P01"));
    // The one refused holds what it held, and its end lets the other through.
    assert!(!is_ready(&mut first));
    b.release_all();
    assert!(is_ready(&mut first));
    take(&c, TableId(9), M::Share);
    let _second = wait(&c, T, M::Share);
    assert_eq!(ask(&a, TableId(9), M::Exclusive).err().as_deref(), Some("40P01"));
}

#[test]
fn two_that_hold_a_table_do_not_both_get_it_alone() {
    let (_, [a, b]) = owners();
    take(&a, T, M::RowExclusive);
    take(&b, T, M::RowExclusive);
    let mut first = wait(&a, T, M::AccessExclusive);
    assert_eq!(ask(&b, T, M::AccessExclusive).err().as_deref(), Some("40P01"));
    b.release_all();
    assert!(is_ready(&mut first));
}

#[test]
fn a_circle_that_only_the_order_of_the_queue_makes_is_untied() {
    let (_, [a, b, c]) = owners();
    take(&c, T, M::AccessShare);
    take(&a, U, M::AccessExclusive);
    // `b` waits for `c`; `a` would stand behind `b`, whom it does not hold up, and `c` waits for `a`.
    let mut exclusive = wait(&b, T, M::AccessExclusive);
    let mut other = wait(&c, U, M::AccessShare);
    take(&a, T, M::AccessShare);
    a.release_all();
    assert!(is_ready(&mut other) && !is_ready(&mut exclusive));
    c.release_all();
    assert!(is_ready(&mut exclusive));
}

#[test]
fn nobody_is_refused_for_standing_behind_work_that_gives_way() {
    let (locks, [a, b, builder]) = owners();
    take(&a, T, M::RowExclusive);
    take(&b, U, M::AccessExclusive);
    take(&builder, T, M::ShareUpdateExclusive);
    let giving_way = ask_giving_way(&builder, T, M::Share).expect("no circle");
    // `b` stands behind it, and `a`, for which it waits, waits for `b`.
    let mut behind = wait(&b, T, M::RowExclusive);
    let mut last = wait(&a, U, M::AccessShare);
    assert!(!is_ready(&mut behind) && locks.wait_events().len() == 3);
    drop(giving_way);
    assert!(is_ready(&mut behind) && !is_ready(&mut last));
    b.release_all();
    assert!(is_ready(&mut last));
}

#[test]
fn work_that_gives_way_finds_the_circles_that_it_is_on() {
    let (_, [a, builder]) = owners();
    take(&a, T, M::RowExclusive);
    take(&builder, T, M::ShareUpdateExclusive);
    let giving_way = ask_giving_way(&builder, T, M::Share).expect("no circle");
    let for_good = wait(&a, T, M::ShareRowExclusive);
    drop(giving_way);
    assert_eq!(ask_giving_way(&builder, T, M::Share).err().as_deref(), Some("40P01"));
    drop(for_good);
    assert!(ask_giving_way(&builder, T, M::Share).is_ok(), "the other has given up");
}

#[test]
fn two_that_give_way_find_their_circle_whichever_of_them_waits_just_now() {
    let (locks, [a, b, one, other]) = owners();
    for (owner, builder, table) in [(&a, &one, T), (&b, &other, U)] {
        take(owner, table, M::RowExclusive);
        take(builder, table, M::ShareUpdateExclusive);
    }
    let waits = [wait(&a, U, M::ShareUpdateExclusive), wait(&b, T, M::ShareUpdateExclusive)];
    let giving_way = ask_giving_way(&one, T, M::Share).expect("the other does not wait yet");
    assert_eq!(ask_giving_way(&other, U, M::Share).err().as_deref(), Some("40P01"));
    drop(giving_way);
    let given_way = one.gives_way(T, M::Share);
    assert_eq!(locks.wait_events()[&3], WaitEvent::Relation);
    assert_eq!(ask_giving_way(&other, U, M::Share).err().as_deref(), Some("40P01"));
    drop(given_way);
    assert!(ask_giving_way(&other, U, M::Share).is_ok(), "the other does not want it any more");
    drop(waits);
}

#[test]
fn circles_of_rows_and_tables_are_refused() {
    let bench = Bench::new(Shape::default());
    let engine = bench.db().engine().expect("started");
    let (mut first, mut second) = (engine.runner().expect("a runner"), engine.runner().expect("a runner"));
    let transactions = (first.begin(Isolation::Snapshot), second.begin(Isolation::Snapshot));
    let (one, two) = (transactions.0.holder(), transactions.1.holder());
    let (locks, [a, b]) = owners();
    take(&a, T, M::RowExclusive);
    // `b` has a row that `a` waits for, and asks for the table.
    let row = a.wait_for_row(Some(one), two).expect("no circle");
    assert_eq!(locks.wait_events()[&1], WaitEvent::Transaction);
    let asked = b.lock(T, M::AccessExclusive, Policy::Wait, Some(two));
    assert_eq!(asked.err().expect("a circle").sqlstate(), "40P01");
    drop(row);
    // The other way round.
    let table = b.lock(T, M::AccessExclusive, Policy::Wait, Some(two)).expect("no circle any more");
    assert_eq!(locks.wait_events()[&2], WaitEvent::Relation);
    assert_eq!(a.wait_for_row(Some(one), two).err().expect("a circle").sqlstate(), "40P01");
    // Two rows.
    drop(table);
    let _row = a.wait_for_row(Some(one), two).expect("no circle");
    assert_eq!(b.wait_for_row(Some(two), one).err().expect("a circle").sqlstate(), "40P01");
}

#[test]
fn threads_wait_for_a_time_or_until_they_are_told_to_stop() {
    let (locks, [a, b]) = owners();
    take(&a, T, M::RowExclusive);
    assert!(!wait(&b, T, M::Share).wait(&Stop::default(), Duration::from_millis(1)).expect("not stopped"));
    let stop = Stop::default();
    stop.tell();
    let stopped = wait(&b, T, M::Share).wait(&stop, Duration::from_secs(60));
    assert_eq!(stopped.unwrap_err().sqlstate(), "57014");
    let waiting = wait(&b, T, M::Share);
    let waiter = std::thread::spawn(move || waiting.wait(&Stop::default(), Duration::from_secs(60)));
    a.release_all();
    assert!(waiter.join().expect("no panic").expect("not stopped"));
    assert_eq!(locks.list().len(), 1);
}

#[test]
fn what_is_held_and_what_is_waited_for_is_listed() {
    let (locks, [a, b]) = owners();
    take(&a, T, M::AccessShare);
    let row = locks.list()[0];
    assert!(row.is_granted && row.is_fast && row.process == 1 && row.table == T);
    let _waiting = wait(&b, T, M::AccessExclusive);
    let rows = locks.list();
    assert!(rows[0].is_granted && !rows[0].is_fast, "somebody else had to know");
    assert_eq!((rows[1].process, rows[1].mode, rows[1].is_granted), (2, M::AccessExclusive, false));
    assert!(rows[1].since.is_some());
}

/// Many threads take weak locks by the fast path, others strong ones in between: nobody ever has a strong lock beside a
/// weak one, and none waits for ever.
#[test]
fn strong_locks_are_never_held_beside_weak_ones_that_conflict() {
    let locks = Arc::<Locks>::default();
    let (writers, alone) = (AtomicI64::new(0), AtomicU64::new(0));
    let rounds = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let owner = LockOwner::new(&locks);
                for round in 0..rounds {
                    hold(&owner, if round % 3 == 0 { M::AccessShare } else { M::RowExclusive });
                    assert!(writers.fetch_add(1, Ordering::SeqCst) >= 0, "beside ACCESS EXCLUSIVE");
                    std::hint::spin_loop();
                    writers.fetch_sub(1, Ordering::SeqCst);
                    owner.release_all();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let owner = LockOwner::new(&locks);
                for _ in 0..rounds / 20 {
                    hold(&owner, M::AccessExclusive);
                    assert_eq!(writers.fetch_sub(1_000, Ordering::SeqCst), 0, "beside a weak lock");
                    std::thread::yield_now();
                    writers.fetch_add(1_000, Ordering::SeqCst);
                    alone.fetch_add(1, Ordering::Relaxed);
                    owner.release_all();
                }
            });
        }
    });
    assert_eq!(alone.load(Ordering::Relaxed), 2 * (rounds / 20));
    assert_eq!(locks.list(), []);
}

fn hold(owner: &Arc<LockOwner>, mode: LockMode) {
    if let Requested::Waiting(wait) = owner.lock(T, mode, Policy::Wait, None).expect("no circle") {
        assert!(wait.wait(&Stop::default(), Duration::from_secs(120)).expect("not stopped"), "waits for ever");
    }
}
