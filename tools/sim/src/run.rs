//! What of a seed's run outlives restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use saki_base::Random;

use crate::model::{Model, TableNumber};
use crate::script::{Choices, Cut, Script, Step};
use crate::station::Station;
use crate::tables::Tables;
use crate::tables::bank::Bank;
use crate::tables::numbers::Numbers;
use crate::threads::{self, Kept};

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Working,
    /// All is done; it is to be looked at once more after a restart.
    Reopening,
    Finished,
}

/// What a seed's run consists of.
pub struct Run {
    pub script: Script,
    pub tables: Tables,
    pub station: Arc<Station>,
    pub model: Kept<Model>,
    pub bank: Kept<Bank>,
    pub numbers: Kept<Numbers>,
    pub phase: Kept<Phase>,
    /// Whether there is a database, and whether it has its tables.
    pub is_made: AtomicBool,
    pub is_set_up: AtomicBool,
    /// Restarts so far.
    pub restarts: AtomicUsize,
    /// How many have altered what everybody uses, and not yet ended their transactions.
    pub alterations: AtomicUsize,
    /// By client: which step is next.
    next: Vec<AtomicUsize>,
    failure: Kept<Option<String>>,
    history: Kept<Vec<String>>,
    /// Whether history is written as it happens.
    is_loud: bool,
}

impl Run {
    pub fn new(seed: u64, choices: &Choices, is_loud: bool) -> Arc<Self> {
        let script = Script::new(seed, choices);
        let owners = script.steps.len();
        Arc::new(Self {
            tables: Tables { owners },
            station: Station::new(seed ^ 0x5eed, &script.setup),
            model: Kept::new(Model::new(owners)),
            bank: Kept::default(),
            numbers: Kept::default(),
            phase: Kept::new(Phase::Working),
            is_made: AtomicBool::new(false),
            is_set_up: AtomicBool::new(false),
            restarts: AtomicUsize::new(0),
            alterations: AtomicUsize::new(0),
            next: (0..owners).map(|_| AtomicUsize::new(0)).collect(),
            failure: Kept::default(),
            history: Kept::default(),
            is_loud,
            script,
        })
    }

    /// How the world that begins now ends before its work is done.
    pub fn cut(&self) -> Option<Cut> {
        self.script.cuts.get(self.restarts.load(Ordering::Relaxed)).copied()
    }

    /// A client's next step.
    pub fn next_step(&self, client: usize) -> Option<Step> {
        let next = self.next[client].fetch_add(1, Ordering::Relaxed);
        self.script.steps[client].get(next).copied()
    }

    /// A table to read.
    pub fn any_table(&self, random: &mut Random) -> TableNumber {
        let all: Vec<TableNumber> = self.tables.all().collect();
        self.script.focus.table(random, &all)
    }

    pub fn is_through(&self) -> bool {
        let is_through = |(next, steps): (&AtomicUsize, &Vec<Step>)| next.load(Ordering::Relaxed) >= steps.len();
        self.next.iter().zip(&self.script.steps).all(is_through)
    }

    /// Something is wrong with the database.
    pub fn fail(&self, what: &str) {
        self.tell(&format!("!!!! {what}"));
        self.failure.lock().get_or_insert_with(|| what.to_owned());
    }

    pub fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// What was wrong first, and the history, once it is over.
    pub fn take_findings(&self) -> (Option<String>, Vec<String>) {
        (self.failure.lock().take(), std::mem::take(&mut self.history.lock()))
    }

    /// A line of history.
    pub fn tell(&self, line: &str) {
        let line = match threads::in_world() {
            true => format!("{:>13.6} {line}", threads::now().as_secs_f64()),
            false => line.to_owned(),
        };
        if self.is_loud {
            println!("{line}");
        }
        self.history.lock().push(line);
    }
}
