//! Reads validated before the timestamp and after it, and what gets in between. (Here few reads count as many.)

use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::time::Duration;

use saki_mvcc::{
    Database, Direction, Error, Isolation, KeyRange, Options, Runner, Sabotage, Table, TableDefinition, Transaction,
};

use super::fixture::{account, accounts, delete, get, insert, update};
use super::support::{SimLogs, options};

const READ: i64 = 20;
/// The row that validating transactions write.
const OWN: i64 = 1_000;
/// So long one stays between its timestamp and its stamps, or until who should wait for it has ended.
const PAUSE: Duration = Duration::from_millis(50);

thread_local! {
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
    static TICKED: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
}

/// What another does in the middle of the next commit, once.
fn meanwhile() {
    if let Some(act) = MEANWHILE.take() {
        act();
    }
}

/// What this thread does right after the timestamp of its next commit, once.
fn ticked() {
    if let Some(act) = TICKED.take() {
        act();
    }
}

fn opened(sabotage: Sabotage) -> (SimLogs, Database, Table) {
    let logs = SimLogs::new(1, 2, &[accounts()]);
    let database = logs.open(Options { sabotage: Some(sabotage), ..options() }).unwrap();
    let table = database.table("accounts").unwrap();
    let mut runner = database.runner().unwrap();
    runner
        .run(Isolation::Snapshot, |t| {
            (0..READ).chain([OWN, OWN + 1]).try_for_each(|id| insert(t, &table, &account(2 * id, "ann", 0)).map(drop))
        })
        .unwrap();
    (logs, database, table)
}

/// Reads the first rows, by range, and changes one of its own.
fn read_and_write(transaction: &mut Transaction<'_>, table: &Table) {
    let end = super::fixture::key(table, 2 * READ);
    let range = KeyRange::between(std::ops::Bound::Unbounded, std::ops::Bound::Excluded(&end));
    let mut seen = 0;
    transaction.scan(table, &range, Direction::Forward, |_| {
        seen += 1;
        std::ops::ControlFlow::Continue(())
    });
    assert!(seen >= READ);
    update(transaction, table, &account(2 * OWN, "ann", 1)).unwrap();
}

/// A serializable transaction that reads much, and what another does while it commits; the outcome.
fn beside(sabotage: Sabotage, act: impl FnOnce(&mut Runner, &Table) + 'static) -> Result<Option<u64>, Error> {
    let (_logs, database, table) = opened(sabotage);
    let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
    let mut transaction = one.begin(Isolation::Serializable);
    read_and_write(&mut transaction, &table);
    MEANWHILE.set(Some(Box::new(move || act(&mut two, &table))));
    let outcome = transaction.commit();
    assert!(MEANWHILE.take().is_none(), "nothing happened meanwhile");
    outcome
}

/// A transaction of another. It does not wait to be durable, since that would be to wait for the one in the middle of
/// whose commit it comes.
fn in_one(runner: &mut Runner, change: impl Fn(&mut Transaction<'_>)) {
    let mut transaction = runner.begin(Isolation::Snapshot);
    change(&mut transaction);
    let _ = transaction.commit_early().unwrap();
}

#[test]
fn what_was_validated_before_the_timestamp_and_has_changed_since_is_found() {
    let outcome = beside(Sabotage::BeforeTick(meanwhile), |runner, table| {
        in_one(runner, |t| update(t, table, &account(6, "bob", 5)).unwrap());
    });
    assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}");
    let outcome = beside(Sabotage::BeforeTick(meanwhile), |runner, table| {
        in_one(runner, |t| delete(t, table, 6).unwrap());
    });
    assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}");
    let outcome = beside(Sabotage::BeforeTick(meanwhile), |runner, table| {
        in_one(runner, |t| _ = insert(t, table, &account(7, "bob", 5)).unwrap());
    });
    assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}");
}

#[test]
fn what_it_has_not_read_may_change_beside_it() {
    let outcome = beside(Sabotage::BeforeTick(meanwhile), |runner, table| {
        in_one(runner, |t| update(t, table, &account(2 * OWN + 2, "bob", 5)).unwrap());
        in_one(runner, |t| _ = insert(t, table, &account(2 * OWN + 1, "bob", 5)).unwrap());
        // Also a row that it has read, if nothing comes of it.
        let mut aborted = runner.begin(Isolation::Snapshot);
        update(&mut aborted, table, &account(6, "bob", 5)).unwrap();
        insert(&mut aborted, table, &account(7, "bob", 5)).unwrap();
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// A row that another is adding while the range is read anew.
#[test]
fn a_row_that_was_pending_when_its_range_was_read_anew_is_missed() {
    for (commits, late) in [(true, false), (true, true), (false, false)] {
        let (_logs, database, table) = opened(Sabotage::BeforeTick(meanwhile));
        let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
        let mut transaction = one.begin(Isolation::Serializable);
        read_and_write(&mut transaction, &table);
        let mut adding = two.begin(Isolation::Snapshot);
        insert(&mut adding, &table, &account(7, "bob", 0)).unwrap();
        adding.suspend();
        MEANWHILE.set(Some(Box::new(move || {
            let adding = two.resume().unwrap();
            match commits {
                true => _ = adding.commit_early().unwrap(),
                false => adding.abort(),
            }
            if late {
                // Gone again, and not as if it had never been.
                in_one(&mut two, |t| update(t, &table, &account(7, "eve", 1)).unwrap());
            }
        })));
        let outcome = transaction.commit();
        match commits {
            true => assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}"),
            false => assert!(outcome.is_ok(), "{outcome:?}"),
        }
    }
}

/// Two that read what the other writes, one in the middle of the other's commit.
#[test]
fn of_two_that_validate_ahead_one_gives_way() {
    let (_logs, database, table) = opened(Sabotage::BeforeTick(meanwhile));
    let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
    let mut first = one.begin(Isolation::Serializable);
    read_and_write(&mut first, &table);
    let mut second = two.begin(Isolation::Serializable);
    for id in 0..READ {
        assert!(get(&second, &table, 2 * id).is_some());
    }
    assert_eq!(get(&second, &table, 2 * OWN).unwrap().balance, 0);
    update(&mut second, &table, &account(6, "eve", 1)).unwrap();
    second.suspend();
    MEANWHILE.set(Some(Box::new(move || _ = two.resume().unwrap().commit_early().unwrap())));
    assert!(matches!(first.commit(), Err(Error::Serialization)));
}

/// A read that has changed already is found before a timestamp is taken, which everybody would wait for.
#[test]
fn a_transaction_that_cannot_commit_takes_no_timestamp() {
    let (_logs, database, table) = opened(Sabotage::BeforeTick(meanwhile));
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    let mut transaction = one.begin(Isolation::Serializable);
    read_and_write(&mut transaction, &table);
    in_one(&mut two, |t| update(t, &table, &account(6, "bob", 5)).unwrap());
    let before = database.now();
    assert!(matches!(transaction.commit(), Err(Error::Serialization)));
    assert_eq!(database.now(), before);
    assert!(one.receipt().through >= before, "that it failed rests on what the other has committed");
}

/// Between the timestamp and the validation others commit, and take out of the chain what no snapshot sees: not what
/// the validation asks for.
#[test]
fn versions_that_validation_asks_for_are_not_pruned() {
    const UPDATES: i64 = 600;
    for (reads_much, has_changed) in [(false, false), (false, true), (true, false), (true, true)] {
        let (_logs, database, table) = opened(Sabotage::AfterTick(meanwhile));
        let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
        // Longer than what is beside the row, so that versions are apart.
        let long = |id, balance| account(id, "a name that takes more than the first one did", balance);
        in_one(&mut two, |t| update(t, &table, &long(6, 1)).unwrap());
        // It holds the watermark whatever the transaction announces.
        let _old = database.moment().unwrap();
        let mut transaction = one.begin(Isolation::Serializable);
        assert!(get(&transaction, &table, 6).is_some());
        let others = if reads_much { 10..READ } else { 0..0 };
        others.for_each(|id| assert!(get(&transaction, &table, 2 * id).is_some()));
        update(&mut transaction, &table, &account(2 * OWN, "ann", 1)).unwrap();
        if has_changed {
            // No snapshot sees it for long, but it is before the transaction's timestamp.
            in_one(&mut two, |t| update(t, &table, &long(6, 2)).unwrap());
        }
        let again = table.clone();
        MEANWHILE.set(Some(Box::new(move || {
            let balance = |t: &mut Transaction<'_>, id, balance| update(t, &again, &long(id, balance)).unwrap();
            in_one(&mut two, |t| balance(t, 6, 3));
            (0..UPDATES).for_each(|round| in_one(&mut two, |t| balance(t, 8, round)));
            in_one(&mut two, |t| balance(t, 6, 4));
        })));
        let outcome = transaction.commit_early();
        match has_changed {
            true => assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}"),
            false => assert!(outcome.is_ok(), "only later ones have changed what it read: {outcome:?}"),
        }
    }
}

/// One that has a timestamp and is about to stamp its versions counts for all that come later, read by read and range
/// by range, although it may yet fail.
#[test]
fn one_who_is_about_to_stamp_is_not_passed_by() {
    for by_range in [false, true] {
        let (_logs, database, table) = opened(Sabotage::AfterTick(meanwhile));
        let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
        let mut later = two.begin(Isolation::Serializable);
        match by_range {
            false => assert!(get(&later, &table, 6).is_some()),
            true => assert_eq!(get(&later, &table, 7), None),
        }
        insert(&mut later, &table, &account(2 * OWN + 7, "bob", 0)).unwrap();
        later.suspend();
        let mut first = one.begin(Isolation::Serializable);
        match by_range {
            false => update(&mut first, &table, &account(6, "eve", 1)).unwrap(),
            true => _ = insert(&mut first, &table, &account(7, "eve", 1)).unwrap(),
        }
        MEANWHILE.set(Some(Box::new(move || {
            let outcome = two.resume().unwrap().commit_early();
            assert!(matches!(outcome, Err(Error::Serialization)), "by range: {by_range}, {outcome:?}");
        })));
        let _ = first.commit_early().unwrap();
        assert!(MEANWHILE.take().is_none());
    }
}

/// Whose snapshot is later than a timestamp sees what has it, though it is not stamped yet.
#[test]
fn whoever_begins_after_a_timestamp_waits_for_its_stamps() {
    let seen = beside_a_timestamp(|_, second, table| get(second, table, 6));
    assert_eq!(seen, Some(account(6, "eve", 1)));
}

/// And writes on from there: nobody is in its way.
#[test]
fn whoever_writes_after_a_timestamp_waits_for_its_stamps() {
    let outcome = beside_a_timestamp(|_, second, table| {
        let (key, body) = account(6, "dan", 2).encode(table);
        second.write(table, &key, Some(&body))
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// Whoever asks what has changed is told of it, too.
#[test]
fn whoever_asks_for_changes_after_a_timestamp_waits_for_its_stamps() {
    assert!(beside_a_timestamp(|database, second, table| database.changed_since(table, second.snapshot() - 1)));
}

/// What a transaction comes to that has begun between another's timestamp and its stamps; the other has written row 6.
fn beside_a_timestamp<T: Send + 'static>(
    act: impl FnOnce(&Database, &mut Transaction<'_>, &Table) -> T + Send + 'static,
) -> T {
    let (_logs, database, table) = opened(Sabotage::AfterTick(meanwhile));
    let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
    let mut first = one.begin(Isolation::Serializable);
    update(&mut first, &table, &account(6, "eve", 1)).unwrap();
    let (joins, joined) = channel();
    MEANWHILE.set(Some(Box::new(move || {
        let (has_begun, begun) = channel();
        let (has_ended, ended) = channel();
        let acting = std::thread::spawn(move || {
            let mut second = two.begin(Isolation::Snapshot);
            has_begun.send(()).unwrap();
            let outcome = act(&database, &mut second, &table);
            let _ = has_ended.send(());
            outcome
        });
        begun.recv().expect("the other begins");
        let _ = ended.recv_timeout(PAUSE);
        joins.send(acting).unwrap();
    })));
    let _ = first.commit_early().unwrap();
    assert!(MEANWHILE.take().is_none(), "it was not validated after its timestamp");
    joined.recv().unwrap().join().unwrap()
}

/// Who validated ahead waits for those who have an earlier timestamp and have not noted their rows yet.
#[test]
fn what_is_about_to_be_noted_is_waited_for() {
    for by_range in [false, true] {
        let (_logs, database, table) = opened(Sabotage::AroundTick(meanwhile, ticked));
        let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
        let mut first = one.begin(Isolation::Serializable);
        read_and_write(&mut first, &table);
        let (has_ended, ended) = channel();
        let other = table.clone();
        let (joins, joined) = channel();
        MEANWHILE.set(Some(Box::new(move || {
            let (has_ticked, is_between) = channel();
            let committing = std::thread::spawn(move || {
                let mut second = two.begin(Isolation::Serializable);
                match by_range {
                    false => update(&mut second, &other, &account(6, "eve", 1)).unwrap(),
                    true => _ = insert(&mut second, &other, &account(7, "eve", 1)).unwrap(),
                }
                TICKED.set(Some(Box::new(move || {
                    has_ticked.send(()).unwrap();
                    let _ = ended.recv_timeout(PAUSE);
                })));
                second.commit_early().map(drop)
            });
            is_between.recv().expect("the other takes a timestamp");
            joins.send(committing).unwrap();
        })));
        let outcome = first.commit_early();
        assert!(MEANWHILE.take().is_none(), "it was not validated ahead");
        let _ = has_ended.send(());
        joined.recv().unwrap().join().unwrap().expect("the one that came first commits");
        assert!(matches!(outcome, Err(Error::Serialization)), "by range: {by_range}, {outcome:?}");
    }
}

/// That a key is taken is something read: whoever relies on it comes before the one who frees it.
#[test]
fn a_refused_key_is_a_read() {
    let logs = SimLogs::new(2, 2, &[accounts()]);
    let database = logs.open(options()).unwrap();
    let table = database.table("accounts").unwrap();
    let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
    in_one(&mut one, |t| _ = insert(t, &table, &account(1, "ann", 0)).unwrap());
    let mut refused = two.begin(Isolation::Serializable);
    let outcome = insert(&mut refused, &table, &account(1, "bob", 0));
    assert!(matches!(outcome, Err(Error::Duplicate { .. })), "{outcome:?}");
    insert(&mut refused, &table, &account(3, "bob", 0)).unwrap();
    in_one(&mut one, |t| delete(t, &table, 1).unwrap());
    let outcome = refused.commit_early();
    assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}");
}

/// Whoever replaces a table keeps others from it, and knows what is in it; of all others' reads nobody can say whether
/// they still hold.
#[test]
fn reads_of_a_table_that_was_replaced_hold_for_whom_has_replaced_it() {
    for by in ["nobody who is known", "the reader", "another"] {
        let logs = SimLogs::new(3, 2, &[accounts(), TableDefinition { name: "others".into(), ..accounts() }]);
        let database = logs.open(options()).unwrap();
        let [table, others] = ["accounts", "others"].map(|name| database.table(name).unwrap());
        let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
        in_one(&mut one, |t| _ = insert(t, &table, &account(1, "ann", 0)).unwrap());
        let mut reader = one.begin(Isolation::Serializable);
        assert!(get(&reader, &table, 1).is_some());
        insert(&mut reader, &others, &account(1, "bob", 0)).unwrap();
        let other = two.begin(Isolation::Snapshot);
        table.replaced(match by {
            "the reader" => Some(reader.holder()),
            "another" => Some(other.holder()),
            _ => None,
        });
        let outcome = reader.commit_early();
        match by {
            "the reader" => assert!(outcome.is_ok(), "{outcome:?}"),
            _ => assert!(matches!(outcome, Err(Error::Serialization)), "by {by}: {outcome:?}"),
        }
    }
}

/// Of each table that was read, whichever was read first; and of the transaction that has read it, not the next one of
/// its runner.
#[test]
fn a_table_that_was_replaced_fails_those_who_have_read_it_and_no_others() {
    for first in [0, 1] {
        let logs = SimLogs::new(3, 2, &[accounts(), TableDefinition { name: "others".into(), ..accounts() }]);
        let database = logs.open(options()).unwrap();
        let tables = ["accounts", "others"].map(|name| database.table(name).unwrap());
        let mut runner = database.runner().unwrap();
        let read = |transaction: &Transaction<'_>, table: &Table| assert_eq!(get(transaction, table, 1), None);
        let mut reader = runner.begin(Isolation::Serializable);
        read(&reader, &tables[first]);
        read(&reader, &tables[1 - first]);
        insert(&mut reader, &tables[1], &account(5, "ann", 0)).unwrap();
        tables[0].replaced(None);
        let outcome = reader.commit_early();
        assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}");
        let mut next = runner.begin(Isolation::Serializable);
        read(&next, &tables[1]);
        insert(&mut next, &tables[1], &account(5, "ann", 0)).unwrap();
        let outcome = next.commit_early();
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// In a table over a base, where a delete is not as good as no row: one that has seen a row that is not committed has
/// seen nothing, and that is so still while it stays so, or after it was taken back.
#[test]
fn a_row_that_is_never_committed_fails_nobody() {
    for ends in [false, true] {
        let logs = SimLogs::new(4, 2, &[TableDefinition { over_base: true, ..accounts() }]);
        let database = logs.open(options()).unwrap();
        let table = database.table("accounts").unwrap();
        let (mut one, mut two) = (database.runner().unwrap(), database.runner().unwrap());
        let [pending, own] = [1, 2].map(|id| account(id, "ann", 0).encode(&table));
        let mut adding = one.begin(Isolation::Snapshot);
        adding.write(&table, &pending.0, Some(&pending.1)).unwrap();
        let mut reader = two.begin(Isolation::Serializable);
        assert_eq!(get(&reader, &table, 1), None);
        reader.write(&table, &own.0, Some(&own.1)).unwrap();
        if ends {
            adding.abort();
            let outcome = reader.commit_early();
            assert!(outcome.is_ok(), "{outcome:?}");
        } else {
            let outcome = reader.commit_early();
            assert!(outcome.is_ok(), "{outcome:?}");
            adding.abort();
        }
    }
}

/// A row that comes into a range that was read and is gone again before the commit has changed nothing.
#[test]
fn what_came_and_went_is_no_phantom() {
    let (_logs, database, table) = opened(Sabotage::BeforeTick(meanwhile));
    let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
    for round in 0..3 {
        let mut transaction = one.begin(Isolation::Serializable);
        assert_eq!(get(&transaction, &table, 7), None);
        update(&mut transaction, &table, &account(2 * OWN, "ann", round)).unwrap();
        in_one(&mut two, |t| _ = insert(t, &table, &account(7, "bob", 5)).unwrap());
        in_one(&mut two, |t| delete(t, &table, 7).unwrap());
        let outcome = transaction.commit_early();
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// Little was read, but many rows are coming into it, of a transaction that may commit at any moment: they are not
/// looked through while others wait for a timestamp.
#[test]
fn a_range_that_many_rows_come_into_is_validated_ahead() {
    const FIRST: i64 = 10_000;
    const ADDED: i64 = 3_000;
    for commits in [false, true] {
        let (_logs, database, table) = opened(Sabotage::BeforeTick(meanwhile));
        let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
        let mut transaction = one.begin(Isolation::Serializable);
        let [lower, upper] = [FIRST, FIRST + ADDED].map(|id| super::fixture::key(&table, id));
        let range = KeyRange::between(std::ops::Bound::Included(&lower), std::ops::Bound::Excluded(&upper));
        transaction.scan(&table, &range, Direction::Forward, |_| panic!("nothing is there"));
        update(&mut transaction, &table, &account(2 * OWN, "ann", 1)).unwrap();
        let mut adding = two.begin(Isolation::Snapshot);
        (FIRST..FIRST + ADDED).for_each(|id| _ = insert(&mut adding, &table, &account(id, "bob", 0)).unwrap());
        adding.suspend();
        let before = database.now();
        MEANWHILE.set(Some(Box::new(move || {
            let adding = two.resume().unwrap();
            if commits {
                let _ = adding.commit_early().unwrap();
            }
        })));
        let outcome = transaction.commit();
        assert!(MEANWHILE.take().is_none(), "it was not validated ahead");
        match commits {
            true => assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}"),
            // One timestamp in vain.
            false => assert_eq!(outcome.unwrap(), Some(before + 2)),
        }
    }
}

/// Rows that a commit of many has written at the last moment are not looked at while others wait, either.
#[test]
fn many_rows_that_were_written_at_the_last_moment_are_validated_ahead() {
    for first in [10_000, 1] {
        let (_logs, database, table) = opened(Sabotage::BeforeTick(meanwhile));
        let (mut one, mut two) = (database.runner().unwrap(), database.runner_on(1).unwrap());
        let mut transaction = one.begin(Isolation::Serializable);
        read_and_write(&mut transaction, &table);
        let before = database.now();
        let other = table.clone();
        MEANWHILE.set(Some(Box::new(move || {
            in_one(&mut two, |t| {
                // Not among those that were read, or between them.
                (0..1_500).for_each(|n| _ = insert(t, &other, &account(first + 2 * n, "bob", 0)).unwrap());
            });
        })));
        let outcome = transaction.commit();
        match first {
            // The other's, one in vain, and then its own.
            10_000 => assert_eq!(outcome.unwrap(), Some(before + 3)),
            _ => assert!(matches!(outcome, Err(Error::Serialization)), "{outcome:?}"),
        }
    }
}
