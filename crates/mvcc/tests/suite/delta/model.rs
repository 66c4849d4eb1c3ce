//! Runners that one thread interleaves, each transaction suspended between its steps, against the history of each key.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use proptest::prelude::*;
use saki_mvcc::{
    Database, Direction, Durability, Error, Isolation, KeyRange, Moment, Runner, Savepoint, Seen, Table, Transaction,
};

use super::{Note, key, notes};
use crate::suite::support::{SimLogs, options, scaled};

const RUNNERS: usize = 3;
const IDS: i64 = 7;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, i64, Option<Note>),
    Look(usize, i64),
    ReadAll(usize, bool),
    Refresh(usize),
    Savepoint(usize),
    RollBack(usize),
    Commit(usize),
    Abort(usize),
    /// Takes a moment of a runner's transaction, or of now.
    TakeMoment(usize),
    ReadMoment,
    Release,
    Reclaim(usize),
    Restart,
    PowerLoss(u64),
}

fn some_note() -> impl Strategy<Value = Note> {
    let text = prop_oneof![Just(String::new()), Just("word".repeat(3)), Just("long ".repeat(60))];
    (prop::option::of(0..3_i32), text).prop_map(|(colour, text)| Note { colour, text })
}

fn step() -> impl Strategy<Value = Step> {
    let runner = || 0..RUNNERS;
    let note = prop::option::weighted(0.7, some_note());
    prop_oneof![
        12 => (runner(), 0..IDS, note).prop_map(|(s, id, note)| Step::Write(s, id, note)),
        4 => (runner(), 0..IDS).prop_map(|(s, id)| Step::Look(s, id)),
        3 => (runner(), any::<bool>()).prop_map(|(s, reverse)| Step::ReadAll(s, reverse)),
        2 => runner().prop_map(Step::Refresh),
        1 => runner().prop_map(Step::Savepoint),
        1 => runner().prop_map(Step::RollBack),
        6 => runner().prop_map(Step::Commit),
        2 => runner().prop_map(Step::Abort),
        2 => runner().prop_map(Step::TakeMoment),
        2 => Just(Step::ReadMoment),
        2 => Just(Step::Release),
        1 => runner().prop_map(Step::Reclaim),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(Step::PowerLoss),
    ]
}

/// What a runner's transaction has done.
struct Running {
    snapshot: u64,
    isolation: Isolation,
    writes: Vec<(i64, Option<Note>)>,
    savepoint: Option<(Savepoint, usize)>,
}

/// Committed versions of a key, the oldest first, and through which timestamp they may be gone.
#[derive(Default, Clone)]
struct History {
    versions: Vec<(u64, Option<Note>)>,
    released: u64,
}

/// A moment, with the writes of its transaction at the time.
struct HeldMoment {
    moment: Moment,
    of: Option<usize>,
    writes: BTreeMap<i64, Option<Note>>,
}

struct World {
    logs: SimLogs,
    database: Option<Database>,
    table: Table,
    runners: Vec<Runner>,
    running: Vec<Option<Running>>,
    histories: BTreeMap<i64, History>,
    held: Option<HeldMoment>,
}

/// What there may be at a key.
type Expected = Vec<Seen<Note>>;

impl World {
    fn new() -> Self {
        let logs = SimLogs::new(1, 2, &[notes()]);
        let database = logs.open(options()).expect("a new database");
        let table = database.table("notes").expect("the table");
        let mut world = Self {
            logs,
            database: Some(database),
            table,
            runners: Vec::new(),
            running: Vec::new(),
            histories: BTreeMap::new(),
            held: None,
        };
        world.open_runners();
        world
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("is open")
    }

    fn open_runners(&mut self) {
        self.runners = (0..RUNNERS).map(|at| self.database().runner_on(at % 2).expect("a runner")).collect();
        self.running = (0..RUNNERS).map(|_| None).collect();
    }

    /// Does something in a runner's transaction, which is suspended before and after.
    fn within<T>(&mut self, runner: usize, work: impl FnOnce(&mut Transaction<'_>, &Table) -> T) -> T {
        let Self { runners, running, table, .. } = self;
        let runner_of = &mut runners[runner];
        if running[runner].is_none() {
            let isolation = if runner == 0 { Isolation::Serializable } else { Isolation::Snapshot };
            let transaction = runner_of.begin_with(isolation, Durability::Relaxed);
            let snapshot = transaction.snapshot();
            running[runner] = Some(Running { snapshot, isolation, writes: Vec::new(), savepoint: None });
            transaction.suspend();
        }
        assert!(runner_of.is_open());
        let mut transaction = runner_of.resume().expect("it is suspended");
        let outcome = work(&mut transaction, table);
        transaction.suspend();
        outcome
    }

    fn running(&mut self, runner: usize) -> &mut Running {
        self.running[runner].as_mut().expect("begun")
    }

    /// What a snapshot may see of a key, of what is committed.
    fn committed(&self, id: i64, snapshot: u64) -> Expected {
        let Some(history) = self.histories.get(&id) else { return vec![Seen::Absent] };
        let Some((at, note)) = history.versions.iter().rev().find(|(at, _)| *at <= snapshot) else {
            return vec![Seen::Absent];
        };
        let seen = note.clone().map_or(Seen::Deleted, Seen::Row);
        if *at <= history.released { vec![seen, Seen::Absent] } else { vec![seen] }
    }

    fn expected(&self, runner: usize, id: i64) -> Expected {
        let running = self.running[runner].as_ref().expect("begun");
        let own = running.writes.iter().rev().find(|(other, _)| *other == id);
        match own {
            Some((_, note)) => vec![note.clone().map_or(Seen::Deleted, Seen::Row)],
            None => self.committed(id, running.snapshot),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write(runner, id, note) => self.write(runner, id, note),
            Step::Look(runner, id) => {
                let seen = self.within(runner, |transaction, table| {
                    let found = transaction.look(table, &key(id));
                    match found {
                        Seen::Absent => Seen::Absent,
                        Seen::Deleted => Seen::Deleted,
                        Seen::Row(found) => Seen::Row(Note::decode(table, found.key, found.body)),
                    }
                });
                let expected = self.expected(runner, id);
                assert!(expected.contains(&seen), "key {id}: {seen:?}, expected one of {expected:?}");
            }
            Step::ReadAll(runner, reverse) => self.read_all(runner, reverse),
            Step::Refresh(runner) => {
                let now = self.database().now();
                self.within(runner, |_, _| ());
                if self.running(runner).isolation == Isolation::Snapshot {
                    self.within(runner, |transaction, _| {
                        transaction.refresh();
                        assert_eq!(transaction.snapshot(), now);
                    });
                    self.running(runner).snapshot = now;
                }
            }
            Step::Savepoint(runner) => {
                let savepoint = self.within(runner, |transaction, _| transaction.savepoint());
                let running = self.running(runner);
                running.savepoint = Some((savepoint, running.writes.len()));
            }
            Step::RollBack(runner) => {
                let Some(running) = &mut self.running[runner] else { return };
                let Some((savepoint, writes)) = running.savepoint else { return };
                running.writes.truncate(writes);
                self.within(runner, |transaction, _| transaction.rollback_to(savepoint));
            }
            Step::Commit(runner) => self.commit(runner),
            Step::Abort(runner) => {
                if self.running[runner].take().is_some() {
                    self.runners[runner].abort();
                    assert!(!self.runners[runner].is_open());
                }
            }
            Step::TakeMoment(runner) => self.take_moment(runner),
            Step::ReadMoment => self.read_moment(),
            Step::Release => self.release(),
            Step::Reclaim(runner) => self.runners[runner].reclaim(),
            Step::Restart => self.restart(None),
            Step::PowerLoss(seed) => self.restart(Some(seed)),
        }
    }

    fn write(&mut self, runner: usize, id: i64, note: Option<Note>) {
        let outcome = self.within(runner, |transaction, table| {
            let body = note.as_ref().map(|note| note.body(table));
            transaction.write(table, &key(id), body.as_deref())
        });
        let snapshot = self.running(runner).snapshot;
        let rival = (0..RUNNERS).filter(|rival| *rival != runner).find(|rival| {
            self.running[*rival].as_ref().is_some_and(|running| running.writes.iter().any(|(other, _)| *other == id))
        });
        let is_late =
            self.histories.get(&id).is_some_and(|history| history.versions.last().is_some_and(|v| v.0 > snapshot));
        match outcome {
            Ok(()) => {
                assert!(rival.is_none() && !is_late, "two write key {id}");
                self.running(runner).writes.push((id, note));
            }
            Err(Error::Conflict { holder, .. }) => {
                let expected = rival.map(|rival| self.within(rival, |transaction, _| transaction.holder()));
                assert_eq!(holder, expected, "who is in the way at key {id}");
                assert!(rival.is_some() || is_late, "nobody is in the way at key {id}");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn read_all(&mut self, runner: usize, reverse: bool) {
        let direction = if reverse { Direction::Reverse } else { Direction::Forward };
        let (all, indexed) = self.within(runner, |transaction, table| {
            let mut all = Vec::new();
            transaction.scan_all(table, &KeyRange::all(), direction, |key, body| {
                all.push((key.to_vec(), body.map(|body| Note::decode(table, key, body))));
                ControlFlow::Continue(())
            });
            let mut indexed = Vec::new();
            let index = table.index("by_colour").expect("the index");
            transaction.scan_index(table, index, &KeyRange::all(), direction, |entry, found| {
                indexed.push((entry.to_vec(), Note::decode(table, found.key, found.body)));
                ControlFlow::Continue(())
            });
            (all, indexed)
        });
        let expected = |id| self.expected(runner, id);
        agree(&all, &indexed, reverse, expected);
    }

    fn commit(&mut self, runner: usize) {
        let Some(running) = self.running[runner].take() else { return };
        let transaction = self.runners[runner].resume().expect("it is suspended");
        match transaction.commit_early() {
            Ok(receipt) => {
                assert_eq!(receipt.timestamp.is_some(), !running.writes.is_empty());
                let Some(timestamp) = receipt.timestamp else { return };
                let changed: BTreeMap<i64, Option<Note>> = running.writes.into_iter().collect();
                assert!(self.database().changed_since(&self.table, timestamp - 1));
                assert!(!self.database().changed_since(&self.table, timestamp));
                for (id, note) in changed {
                    self.histories.entry(id).or_default().versions.push((timestamp, note));
                }
            }
            Err(Error::Serialization) => assert_eq!(running.isolation, Isolation::Serializable),
            Err(error) => panic!("{error}"),
        }
    }

    fn take_moment(&mut self, runner: usize) {
        self.held = None;
        let (moment, of, writes) = match &self.running[runner] {
            None => (self.database().moment(), None, BTreeMap::new()),
            Some(running) => {
                let writes = running.writes.iter().cloned().collect();
                (self.within(runner, |transaction, _| transaction.moment()), Some(runner), writes)
            }
        };
        self.held = Some(HeldMoment { moment: moment.expect("there are places"), of, writes });
    }

    /// By a thread of its own. A transaction that goes on writing, or has ended, is no longer what it was.
    fn read_moment(&mut self) {
        let Some(HeldMoment { moment, of, writes }) = &self.held else { return };
        let timestamp = moment.timestamp();
        let own = of.map(|of| self.running[of].as_ref());
        let is_as_taken = match own {
            None => true,
            Some(None) => false,
            Some(Some(running)) => {
                running.snapshot == timestamp && running.writes.iter().cloned().collect::<BTreeMap<_, _>>() == *writes
            }
        };
        let table = &self.table;
        let keys: Vec<_> = (0..IDS).map(key).collect();
        let read = || {
            let reader = moment.reader().expect("there are places");
            let mut all = Vec::new();
            reader.scan(table, &KeyRange::all(), Direction::Forward, |key, body, begin| {
                assert!(begin.is_none_or(|begin| begin <= timestamp));
                all.push((key.to_vec(), body.map(|body| Note::decode(table, key, body))));
                ControlFlow::Continue(())
            });
            let mut indexed = Vec::new();
            let index = table.index("by_colour").expect("the index");
            reader.scan_index(table, index, &KeyRange::all(), Direction::Forward, |entry, key, body| {
                indexed.push((entry.to_vec(), Note::decode(table, key, body)));
                ControlFlow::Continue(())
            });
            let mut looked = Vec::new();
            reader.look_many(table, &keys, |at, seen| {
                let again = reader.look(table, &keys[at], |seen| own_copy(table, &keys[at], seen));
                assert_eq!(again, own_copy(table, &keys[at], seen));
                looked.push(again);
            });
            (all, indexed, looked)
        };
        let (all, indexed, looked) = std::thread::scope(|scope| scope.spawn(read).join().expect("no panic"));
        for (id, seen) in (0..IDS).zip(&looked) {
            let in_scan = all.iter().find(|(other, _)| *other == key(id)).map(|(_, note)| note.clone());
            let scanned = in_scan.map_or(Seen::Absent, |note| note.map_or(Seen::Deleted, Seen::Row));
            assert_eq!(scanned, *seen, "key {id}, by a scan and by a look");
        }
        if is_as_taken {
            agree(&all, &indexed, false, |id| match writes.get(&id) {
                Some(note) => vec![note.clone().map_or(Seen::Deleted, Seen::Row)],
                None => self.committed(id, timestamp),
            });
        }
    }

    /// As late as the snapshots of all allow.
    fn release(&mut self) {
        let moments = self.held.iter().map(|held| held.moment.timestamp());
        let snapshots = self.running.iter().flatten().map(|running| running.snapshot);
        let through = moments.chain(snapshots).min().unwrap_or_else(|| self.database().now());
        let before = self.table.rows();
        let released = self.database().release(&self.table, through).expect("there is a place");
        assert_eq!(self.table.rows(), before - released.rows, "rows are counted");
        let mut may_go = 0;
        for history in self.histories.values_mut() {
            if history.versions.last().is_some_and(|(at, _)| *at <= through) {
                history.released = through;
                may_go += 1;
            }
        }
        assert!(released.rows <= may_go, "{} rows are released, and {may_go} may go", released.rows);
    }

    fn restart(&mut self, power_loss: Option<u64>) {
        let mut horizon = u64::MAX;
        if let Some(seed) = power_loss {
            let logs = self.logs.crash(self.database(), seed);
            let old = std::mem::replace(&mut self.logs, logs);
            old.hold(false);
            horizon = self.database().durable();
        }
        self.held = None;
        self.runners.clear();
        self.database = None;
        let database = self.logs.open(options()).unwrap_or_else(|error| panic!("{error}"));
        let found = database.recovery().horizon;
        assert!(power_loss.is_none() || found >= horizon.min(found));
        self.table = database.table("notes").expect("the table");
        for history in self.histories.values_mut() {
            history.versions.retain(|(at, _)| *at <= found);
        }
        self.database = Some(database);
        self.open_runners();
        self.read_all(0, false);
        // The logs have not been cut, so what was released is back.
        let rows = self.histories.values().filter(|history| !history.versions.is_empty()).count();
        assert_eq!(self.table.rows(), rows as u64);
        self.running[0] = None;
        self.runners[0].abort();
    }
}

fn own_copy(table: &Table, key: &[u8], seen: Seen<&[u8]>) -> Seen<Note> {
    match seen {
        Seen::Absent => Seen::Absent,
        Seen::Deleted => Seen::Deleted,
        Seen::Row(body) => Seen::Row(Note::decode(table, key, body)),
    }
}

/// Whether what was read is what may be seen, key by key, in order, and in the index just the rows.
fn agree(
    all: &[(Vec<u8>, Option<Note>)],
    indexed: &[(Vec<u8>, Note)],
    reverse: bool,
    expected: impl Fn(i64) -> Expected,
) {
    let in_order =
        |keys: Vec<&Vec<u8>>| keys.windows(2).all(|pair| if reverse { pair[0] > pair[1] } else { pair[0] < pair[1] });
    assert!(in_order(all.iter().map(|(key, _)| key).collect()));
    assert!(in_order(indexed.iter().map(|(entry, _)| entry).collect()));
    let mut entries = BTreeSet::new();
    for id in 0..IDS {
        let found = all.iter().find(|(other, _)| *other == key(id)).map(|(_, note)| note.clone());
        if let Some(Some(note)) = &found {
            entries.insert((note.entry(id), note.text.clone()));
        }
        let seen = found.map_or(Seen::Absent, |note| note.map_or(Seen::Deleted, Seen::Row));
        let expected = expected(id);
        assert!(expected.contains(&seen), "key {id}: {seen:?}, expected one of {expected:?}");
    }
    let indexed: BTreeSet<_> = indexed.iter().map(|(entry, note)| (entry.clone(), note.text.clone())).collect();
    assert_eq!(indexed, entries);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: scaled("SAKI_DELTA_CASES", 200) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn tables_over_a_base_are_as_in_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
    }
}
