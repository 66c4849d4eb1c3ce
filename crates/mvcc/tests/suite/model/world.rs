//! Engine and model side by side.

use std::collections::BTreeMap;

use saki_mvcc::{Database, Error, Isolation, Options, Sabotage, Savepoint, Table};

use super::operation::{Operation, Outcome};
use super::things::{BY_NAME, INDEXES, Thing, Things, definition};
use crate::suite::support::{Remote, SimLogs, options};

pub const SESSIONS: usize = 4;

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// A runner does something, in a new transaction if it is in none.
    Do(usize, Operation),
    Commit(usize),
    Abort(usize),
    /// Of a runner in no transaction.
    Reclaim(usize),
    BeginCut,
    /// Everything is dropped, in order or not, and opened again.
    Restart,
    /// The power goes while some of what was written is not durable.
    PowerLoss(u64),
    /// From here on, nothing becomes durable; or all does.
    Hold(bool),
}

pub struct World {
    logs: SimLogs,
    database: Option<Database>,
    table: Table,
    remotes: Vec<Remote>,
    running: Vec<Option<Running>>,
    /// After each commit, by its timestamp.
    states: BTreeMap<u64, Things>,
    /// When each row was last written.
    written: BTreeMap<i64, u64>,
    turn: usize,
}

/// A transaction, as the model has it.
struct Running {
    isolation: Isolation,
    snapshot: u64,
    writes: Vec<(i64, Option<Thing>)>,
    savepoints: Vec<(Savepoint, usize)>,
    /// What it did, and what that gave.
    history: Vec<(Operation, Outcome)>,
}

impl World {
    pub fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let logs = SimLogs::new(seed, 2, &[definition()]);
        let database = logs.open(Options { sabotage, ..options() }).expect("new logs");
        let table = database.table("things").expect("the table");
        let states = BTreeMap::from([(0, Things::new())]);
        let mut world = Self {
            logs,
            database: Some(database),
            table,
            remotes: Vec::new(),
            running: Vec::new(),
            states,
            written: BTreeMap::new(),
            turn: 0,
        };
        world.open_runners();
        world
    }

    fn open_runners(&mut self) {
        let database = self.database();
        self.remotes = (0..SESSIONS).map(|log| Remote::new(database.runner_on(log % 2).expect("a runner"))).collect();
        self.running = (0..SESSIONS).map(|_| None).collect();
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("is open")
    }

    pub fn step(&mut self, step: &Step) {
        self.turn += 1;
        match step {
            Step::Do(runner, operation) => self.perform(*runner, operation),
            Step::Commit(runner) => self.commit(*runner),
            Step::Abort(runner) => {
                if self.running[*runner].take().is_some() {
                    self.remotes[*runner].abort();
                    self.check();
                }
            }
            Step::Reclaim(runner) => {
                if self.running[*runner].is_none() {
                    self.remotes[*runner].reclaim();
                }
            }
            Step::BeginCut => {
                // What is written from here on leans on nothing before; the logs keep everything all the same.
                let through = self.database().begin_cut();
                assert_eq!(through, self.database().now());
            }
            Step::Hold(holding) => self.logs.hold(*holding),
            Step::Restart => self.restart(),
            Step::PowerLoss(seed) => self.power_loss(*seed),
        }
    }

    fn state_at(&self, timestamp: u64) -> &Things {
        self.states.range(..=timestamp).next_back().expect("there is a first").1
    }

    fn view(&self, running: &Running) -> Things {
        let mut view = self.state_at(running.snapshot).clone();
        running.writes.iter().for_each(|(id, thing)| set(&mut view, *id, *thing));
        view
    }

    fn perform(&mut self, runner: usize, operation: &Operation) {
        if self.running[runner].is_none() {
            let isolation = [Isolation::Snapshot, Isolation::Serializable, Isolation::Serializable][self.turn % 3];
            let snapshot = self.remotes[runner].begin(isolation);
            assert_eq!(snapshot, self.database().now(), "where a snapshot is taken");
            let (writes, savepoints, history) = (Vec::new(), Vec::new(), Vec::new());
            self.running[runner] = Some(Running { isolation, snapshot, writes, savepoints, history });
        }
        let outcome = match operation {
            Operation::Savepoint => self.set_savepoint(runner),
            Operation::RollBack(which) => self.roll_back(runner, *which),
            _ => self.do_and_compare(runner, operation),
        };
        self.running[runner].as_mut().expect("begun above").history.push((operation.clone(), outcome));
    }

    fn set_savepoint(&mut self, runner: usize) -> Outcome {
        let savepoint = self.remotes[runner].within(|transaction| transaction.savepoint());
        let running = self.running[runner].as_mut().expect("begun");
        running.savepoints.push((savepoint, running.writes.len()));
        Outcome::Done
    }

    fn roll_back(&mut self, runner: usize, which: usize) -> Outcome {
        let running = self.running[runner].as_mut().expect("begun");
        let Some((savepoint, writes)) = running.savepoints.get(which).copied() else { return Outcome::Done };
        running.savepoints.truncate(which + 1);
        running.writes.truncate(writes);
        self.remotes[runner].within(move |transaction| transaction.rollback_to(savepoint));
        Outcome::Done
    }

    fn do_and_compare(&mut self, runner: usize, operation: &Operation) -> Outcome {
        let (table, todo) = (self.table.clone(), operation.clone());
        let outcome = self.remotes[runner].within(move |transaction| todo.perform(&table, transaction));
        let running = self.running[runner].as_ref().expect("begun");
        let view = self.view(running);
        let expected = operation.read(&self.table, &view).unwrap_or_else(|| self.fate(runner, operation, &view));
        assert_eq!(outcome, expected, "runner {runner} ({:?}), {operation:?}", running.isolation);
        if outcome == Outcome::Done {
            let write = operation.write(|id| view.get(&id).copied()).expect("what is done is a write");
            self.running[runner].as_mut().expect("begun").writes.push(write);
        }
        outcome
    }

    /// What becomes of a write.
    fn fate(&self, runner: usize, operation: &Operation, view: &Things) -> Outcome {
        let running = self.running[runner].as_ref().expect("begun");
        let (id, after) = operation.write(|id| view.get(&id).copied()).expect("a write");
        let is_insert = match operation {
            Operation::Insert(..) => true,
            Operation::Put(..) => !view.contains_key(&id),
            _ if !view.contains_key(&id) => return Outcome::NoRow,
            _ => false,
        };
        let is_late = self.written.get(&id).is_some_and(|at| *at > running.snapshot);
        if is_late || self.rivals(runner).any(|rival| rival.writes.iter().any(|(other, _)| *other == id)) {
            return Outcome::Conflict;
        }
        if is_insert && view.contains_key(&id) {
            return Outcome::Duplicate("primary key".into());
        }
        let name = after.and_then(|after| after.name);
        let is_new = is_insert || view.get(&id).map(|thing| thing.name) != Some(name);
        let others = (0..super::operation::IDS).filter(|other| *other != id && is_new);
        let refusals = others.filter_map(|other| self.refusal(runner, other, name?));
        refusals.into_iter().next().unwrap_or(Outcome::Done)
    }

    fn rivals(&self, runner: usize) -> impl Iterator<Item = &Running> {
        self.running
            .iter()
            .enumerate()
            .filter(move |(rival, _)| *rival != runner)
            .filter_map(|(_, running)| running.as_ref())
    }

    /// What a runner is told that wants to take a name, in view of one other row.
    fn refusal(&self, runner: usize, other: i64, name: u8) -> Option<Outcome> {
        let running = self.running[runner].as_ref().expect("begun");
        let has_name = |thing: Option<&Thing>| thing.is_some_and(|thing| thing.name == Some(name));
        let duplicate = Outcome::Duplicate(definition().indexes[BY_NAME].name.clone());
        if let Some((_, own)) = running.writes.iter().rev().find(|(id, _)| *id == other) {
            return has_name(own.as_ref()).then_some(duplicate);
        }
        let mut pending = self.rivals(runner).flat_map(|rival| &rival.writes).filter(|(id, _)| *id == other).peekable();
        let is_pending = pending.peek().is_some();
        if pending.any(|(_, thing)| has_name(thing.as_ref())) {
            return Some(Outcome::Conflict);
        }
        let newest = self.states.last_key_value().expect("there is a first").1;
        let is_early = self.written.get(&other).is_none_or(|at| *at <= running.snapshot) && !is_pending;
        has_name(newest.get(&other)).then_some(if is_early { duplicate } else { Outcome::Conflict })
    }

    fn commit(&mut self, runner: usize) {
        let Some(running) = self.running[runner].take() else { return };
        let before = self.states.last_key_value().expect("there is a first");
        // Validation is too strict about entries that others have made and not committed, but of nothing comes nothing.
        // Besides scans, writes that were refused or taken back have read an index: whether their name is free.
        let has_read_index = running.history.iter().any(|(operation, outcome)| {
            matches!(operation, Operation::ScanIndex { .. } | Operation::RollBack(_))
                || matches!(outcome, Outcome::Duplicate(_) | Outcome::Conflict)
        });
        let is_alone = *before.0 <= running.snapshot && !has_read_index;
        let receipt = match self.remotes[runner].commit() {
            Ok(receipt) => receipt,
            Err(Error::Serialization) => {
                assert!(
                    running.isolation == Isolation::Serializable && !is_alone,
                    "nothing has changed since its snapshot"
                );
                return self.check();
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(receipt.timestamp.is_some(), !running.writes.is_empty());
        let before = before.1.clone();
        if running.isolation == Isolation::Serializable {
            let at = if receipt.timestamp.is_some() { &before } else { self.state_at(running.snapshot) };
            self.run_again(&running, at.clone());
        }
        if let Some(timestamp) = receipt.timestamp {
            assert!(timestamp > *self.states.last_key_value().expect("there is a first").0);
            let mut after = before;
            for (id, thing) in running.writes {
                set(&mut after, id, thing);
                self.written.insert(id, timestamp);
            }
            self.states.insert(timestamp, after);
        }
        self.check();
    }

    /// A committed transaction once more, alone, on the state before its timestamp.
    fn run_again(&self, running: &Running, before: Things) {
        let mut writes: Vec<(i64, Option<Thing>)> = Vec::new();
        let mut savepoints = Vec::new();
        // Taken back in the end: what the engine said of these writes has bound nobody since.
        let kept = running.writes.len();
        for (operation, outcome) in &running.history {
            let mut view = before.clone();
            writes.iter().for_each(|(id, thing)| set(&mut view, *id, *thing));
            match operation {
                Operation::Savepoint => savepoints.push(writes.len()),
                Operation::RollBack(which) => {
                    if let Some(length) = savepoints.get(*which).copied() {
                        savepoints.truncate(which + 1);
                        writes.truncate(length);
                    }
                }
                _ if *outcome == Outcome::Conflict => {}
                _ => {
                    let write = operation.write(|id| view.get(&id).copied());
                    let expected = operation.read(&self.table, &view).unwrap_or_else(|| alone(operation, &view));
                    // Which of two reasons a refused write met first is said by rows that it does not answer for.
                    let are_refusals = matches!((outcome, &expected), (Outcome::Duplicate(_), Outcome::Duplicate(_)));
                    let is_given_up = write.is_some()
                        && *outcome == Outcome::Done
                        && !running.writes[..kept].contains(&write.expect("seen"));
                    assert!(
                        is_given_up || are_refusals || *outcome == expected,
                        "{operation:?} gave {outcome:?}, and {expected:?} when run alone"
                    );
                    writes.extend(write.filter(|_| *outcome == Outcome::Done));
                }
            }
        }
        assert_eq!(writes, running.writes);
    }

    /// Everything there is, as a new snapshot sees it.
    pub fn check(&self) {
        let expected = self.states.last_key_value().expect("there is a first").1.clone();
        let all = [false, true].into_iter().flat_map(|reverse| {
            let like = Thing { colour: None, name: None, size: 0, note: 0 };
            let most = usize::MAX;
            let scan =
                Operation::Scan { from: std::ops::Bound::Unbounded, to: std::ops::Bound::Unbounded, reverse, most };
            let index = move |index| Operation::ScanIndex { index, columns: 0, like, reverse, most };
            std::iter::once(scan).chain((0..INDEXES).map(index))
        });
        let mut runner = self.database().runner().expect("a runner");
        let mut transaction = runner.begin(Isolation::Snapshot);
        for operation in all {
            let found = operation.perform(&self.table, &mut transaction);
            assert_eq!(Some(found), operation.read(&self.table, &expected), "{operation:?} of a new snapshot");
        }
    }

    fn close(&mut self) {
        // Transactions that run are aborted by that.
        self.remotes.clear();
        self.database = None;
    }

    fn restart(&mut self) {
        self.logs.hold(false);
        self.close();
        let last = *self.states.last_key_value().expect("there is a first").0;
        let horizon = self.reopen();
        assert!(horizon >= last, "all through {last} was committed, and all through {horizon} is found");
    }

    fn power_loss(&mut self, seed: u64) {
        let logs = self.logs.crash(self.database(), seed);
        let durable = self.database().durable();
        let old = std::mem::replace(&mut self.logs, logs);
        old.hold(false);
        self.close();
        let horizon = self.reopen();
        assert!(horizon >= durable, "all through {durable} was durable, and all through {horizon} is found");
        self.states.retain(|timestamp, _| *timestamp <= horizon);
    }

    /// Through which timestamp everything was recovered.
    fn reopen(&mut self) -> u64 {
        let database = self.logs.open(options()).unwrap_or_else(|error| panic!("{error}"));
        let report = database.recovery();
        let (horizon, clock) = (report.horizon, report.clock);
        assert!(clock >= horizon && database.now() == clock);
        self.table = database.table("things").expect("the table");
        self.database = Some(database);
        self.states.retain(|timestamp, _| *timestamp <= horizon);
        self.written.clear();
        self.open_runners();
        self.check();
        horizon
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.logs.hold(false);
    }
}

fn set(things: &mut Things, id: i64, thing: Option<Thing>) {
    match thing {
        Some(thing) => _ = things.insert(id, thing),
        None => _ = things.remove(&id),
    }
}

/// What a write gives where nobody else is.
fn alone(operation: &Operation, view: &Things) -> Outcome {
    let (id, after) = operation.write(|id| view.get(&id).copied()).expect("a write");
    let is_there = view.contains_key(&id);
    match operation {
        Operation::Insert(..) if is_there => return Outcome::Duplicate("primary key".into()),
        Operation::Insert(..) | Operation::Put(..) => {}
        _ if !is_there => return Outcome::NoRow,
        _ => {}
    }
    let name = after.and_then(|after| after.name);
    let is_taken = view.iter().any(|(other, thing)| *other != id && name.is_some() && thing.name == name);
    if is_taken { Outcome::Duplicate(definition().indexes[BY_NAME].name.clone()) } else { Outcome::Done }
}
