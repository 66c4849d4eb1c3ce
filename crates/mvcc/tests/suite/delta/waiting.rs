//! Who is in the way, and waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use saki_base::Random;
use saki_mvcc::{Database, Durability, Error, Holder, Isolation, Runner, Seen, Table};

use super::{Note, key, note, with_notes};
use crate::suite::support::{first_seed, scaled};

fn write(runner: &mut Runner, table: &Table, id: i64) -> Result<(), Option<Holder>> {
    let mut transaction = if runner.is_open() {
        runner.resume().expect("one is suspended")
    } else {
        runner.begin_with(Isolation::Snapshot, Durability::Relaxed)
    };
    let outcome = transaction.write(table, &key(id), None);
    transaction.suspend();
    match outcome {
        Ok(()) => Ok(()),
        Err(Error::Conflict { holder, .. }) => Err(holder),
        Err(error) => panic!("{error}"),
    }
}

fn holder(runner: &mut Runner) -> Holder {
    let transaction = runner.resume().expect("one is suspended");
    let holder = transaction.holder();
    transaction.suspend();
    holder
}

/// How often its callbacks were called.
#[derive(Clone, Default)]
struct Bell(Arc<AtomicUsize>);

impl Bell {
    fn ring(&self) -> impl FnOnce() + Send + 'static {
        let count = Arc::clone(&self.0);
        move || _ = count.fetch_add(1, Ordering::SeqCst)
    }

    fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn those_who_wait_are_called_when_the_holder_ends() {
    let (_logs, database, table) = with_notes(1);
    let [mut one, mut two] = [(); 2].map(|()| database.runner().unwrap());
    let commits = |runner: &mut Runner| _ = runner.resume().unwrap().commit().unwrap();
    for ends in [Runner::abort, commits] {
        write(&mut one, &table, 1).unwrap();
        let first = write(&mut two, &table, 1).unwrap_err().expect("a pending version has a holder");
        assert_eq!(first, holder(&mut one));
        let second = holder(&mut two);
        let (bell, silent) = (Bell::default(), Bell::default());
        let _wait = database.when_ended(Some(second), first, bell.ring()).unwrap();
        drop(database.when_ended(None, first, silent.ring()).unwrap());
        assert!(!database.wait_until_ended(None, first, Some(Duration::from_millis(5))).unwrap());
        assert_eq!(bell.rung(), 0);
        let (told, ended) = channel();
        let again = database.clone();
        std::thread::spawn(move || told.send(again.wait_until_ended(None, first, None)));
        // The other thread waits by then, as a rule.
        std::thread::sleep(Duration::from_millis(20));
        ends(&mut one);
        assert!(ended.recv_timeout(Duration::from_secs(20)).expect("who waits is woken").unwrap());
        assert_eq!((bell.rung(), silent.rung()), (1, 0));
        // Of one that has ended everybody is told at once.
        let late = Bell::default();
        let _late = database.when_ended(Some(second), first, late.ring()).unwrap();
        assert_eq!(late.rung(), 1);
        assert!(database.wait_until_ended(None, first, None).unwrap());
        let mut transaction = two.resume().unwrap();
        transaction.refresh();
        transaction.write(&table, &key(1), None).unwrap();
        transaction.abort();
    }
    // Also of one whose runner is dropped.
    write(&mut one, &table, 1).unwrap();
    let bell = Bell::default();
    let first = holder(&mut one);
    let _wait = database.when_ended(None, first, bell.ring()).unwrap();
    drop(one);
    assert_eq!(bell.rung(), 1);
}

#[test]
fn a_circle_of_waits_is_refused() {
    let (_logs, database, table) = with_notes(2);
    let mut runners = [(); 3].map(|()| database.runner().unwrap());
    (0..3).for_each(|at| write(&mut runners[at], &table, at as i64).unwrap());
    let [a, b, c] = runners.each_mut().map(holder);
    let bell = Bell::default();
    assert!(matches!(database.when_ended(Some(a), a, || ()), Err(Error::Deadlock)));
    let _ab = database.when_ended(Some(a), b, bell.ring()).unwrap();
    let bc = database.when_ended(Some(b), c, bell.ring()).unwrap();
    assert!(matches!(database.when_ended(Some(c), a, || ()), Err(Error::Deadlock)));
    // Who is no transaction cannot be waited for.
    let _of_none = database.when_ended(None, a, || ()).unwrap();
    // A wait given up is no edge any more.
    drop(bc);
    let ca = database.when_ended(Some(c), a, || ()).unwrap();
    assert!(matches!(database.when_ended(Some(b), c, || ()), Err(Error::Deadlock)));
    drop(ca);
    runners[1].abort();
    assert_eq!(bell.rung(), 1);
}

/// Who has ended waits for nobody, though its place in line may not be given up yet.
#[test]
fn who_has_ended_is_in_no_circle() {
    let (_logs, database, table) = with_notes(3);
    let [mut one, mut two] = [(); 2].map(|()| database.runner().unwrap());
    write(&mut one, &table, 1).unwrap();
    write(&mut two, &table, 2).unwrap();
    let (first, second) = (holder(&mut one), holder(&mut two));
    let _place = database.when_ended(Some(first), second, || ()).unwrap();
    one.abort();
    let bell = Bell::default();
    let _late = database.when_ended(Some(second), first, bell.ring()).unwrap();
    assert_eq!(bell.rung(), 1);
}

/// Who is called, at once or later, may go on to wait for another.
#[test]
fn a_callback_may_wait_itself() {
    let (_logs, database, table) = with_notes(4);
    let database = Arc::new(database);
    let [mut one, mut two] = [(); 2].map(|()| database.runner().unwrap());
    write(&mut one, &table, 1).unwrap();
    write(&mut two, &table, 2).unwrap();
    let (first, second) = (holder(&mut one), holder(&mut two));
    let (told, is_told) = std::sync::mpsc::channel();
    let chained = move |database: &Arc<Database>| {
        let (told, database) = (told.clone(), Arc::clone(database));
        move || {
            let place = database.when_ended(None, second, || ()).unwrap();
            told.send(place).unwrap();
        }
    };
    let other = Arc::clone(&database);
    std::thread::spawn(move || {
        let _place = other.when_ended(None, first, chained(&other)).unwrap();
        one.abort();
        let _late = other.when_ended(None, first, chained(&other)).unwrap();
    });
    for _ in 0..2 {
        drop(is_told.recv_timeout(Duration::from_secs(10)).expect("called, and not stuck"));
    }
    two.abort();
}

/// Clients that write several rows each in any order, with snapshots that they move on, wait for each other and never
/// for ever.
#[test]
fn clients_that_wait_lose_nothing() {
    const CLIENTS: u64 = 4;
    const IDS: u64 = 5;
    let (_logs, database, table) = with_notes(first_seed());
    let rounds = scaled("SAKI_ROUNDS", 500);
    let deadlocks = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (database, table, deadlocks) = (&database, &table, &deadlocks);
            scope.spawn(move || {
                let mut runner = database.runner().expect("a runner");
                let mut random = Random::new(first_seed() + client);
                for _ in 0..rounds {
                    let ids: Vec<_> = (0..3).map(|_| random.below(IDS) as i64).collect();
                    while !count(database, &mut runner, table, &ids) {
                        deadlocks.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let moment = database.moment().unwrap();
    let reader = moment.reader().unwrap();
    let number = |id| {
        reader.look(&table, &key(id), |seen| match seen {
            Seen::Row(body) => Note::decode(&table, &key(id), body).text.parse::<u64>().expect("a number"),
            _ => 0,
        })
    };
    assert_eq!((0..IDS as i64).map(number).sum::<u64>(), CLIENTS * rounds * 3);
    assert!(!database.changed_since(&table, database.now()));
}

/// Adds one to each of the numbers, read committed; `false` if that was a deadlock.
fn count(database: &Database, runner: &mut Runner, table: &Table, ids: &[i64]) -> bool {
    let mut transaction = runner.begin_with(Isolation::Snapshot, Durability::Relaxed);
    for id in ids {
        loop {
            let before = match transaction.look(table, &key(*id)) {
                Seen::Row(found) => Note::decode(table, found.key, found.body).text.parse::<u64>().expect("a number"),
                _ => 0,
            };
            let body = note(1, &(before + 1).to_string()).body(table);
            match transaction.write(table, &key(*id), Some(&body)) {
                Ok(()) => break,
                Err(Error::Conflict { holder, .. }) => {
                    if let Some(holder) = holder {
                        match database.wait_until_ended(Some(transaction.holder()), holder, None) {
                            Ok(ended) => assert!(ended),
                            Err(Error::Deadlock) => return false,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    transaction.refresh();
                }
                Err(error) => panic!("{error}"),
            }
            // Others shall meet it.
            std::thread::yield_now();
        }
    }
    transaction.commit().expect("nothing to validate");
    true
}
