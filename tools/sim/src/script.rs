//! What a seed says: how the database is made, who does what in it, and what goes wrong with its devices.

use std::collections::BTreeSet;

use saki_base::Random;
use saki_base::planted::Fault;

use crate::setup::Setup;
use crate::tables::Tables;
use crate::tables::focus::Focus;

/// Worlds that end before their work is done, at most.
const CUTS_MAX: u64 = 6;
/// The same, of a seed that has many.
const CUTS_MANY: u64 = 12;
/// A cut, or a trouble's beginning, comes within so many operations of the devices, most often.
const SPAN: u64 = 3_000;

/// All that a seed decides beforehand. What each step does follows from its own seed and from what is there then.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub setup: Setup,
    pub focus: Focus,
    /// By client, in order.
    pub steps: Vec<Vec<Step>>,
    /// How worlds end, one after the other.
    pub cuts: Vec<Cut>,
    /// By restart.
    pub weather: Vec<Vec<Weather>>,
}

/// How a world ends before its work is done.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// At which of the operations that count.
    pub at: u64,
    pub counted: Counted,
    /// Counted from the world's beginning: the database may still be being opened. Else from when all was looked at.
    pub is_early: bool,
    /// The process is killed, and its devices keep what they had not flushed. Else the power goes.
    pub is_kill: bool,
    /// Of what the logs had not flushed nothing is left.
    pub loses_logs: bool,
}

/// Operations of devices that count for a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    All,
    /// Of the logs.
    Logs,
    /// Flushes, before which there is most to lose.
    Flushes,
    /// Those of the logs.
    LogFlushes,
    /// Those of the volume, between a generation and the superblock that refers to it, and behind that.
    VolumeFlushes,
    /// What clients were told: from then on it has to be there.
    Answers,
    /// Of those, what tells of a commit before its own client was told of it, and of what was altered.
    News,
}

/// What one client does at once: a statement, or a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// In the whole script.
    pub number: usize,
    pub kind: Kind,
    pub seed: u64,
}

/// What goes wrong with devices, from one operation to another.
#[derive(Clone, Debug)]
pub struct Weather {
    pub from: u64,
    pub until: u64,
    /// Of the volume; else of the logs.
    pub on_disk: bool,
    pub trouble: Trouble,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    Full,
    Slow,
    Reads,
    Writes,
    Flushes,
    Flips,
}

/// What a step is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    Changes,
    Transactions,
    Reads,
    Maintenance,
    Catalogue,
    Rest,
}

macro_rules! kinds {
    ($($sort:ident: $($kind:ident $name:literal $weight:literal),*;)*) => {
        /// Kinds of steps.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($($kind,)*)*
        }

        impl Kind {
            /// Each, as a command line names it, and how often it comes; 0: only where a command line asks for it.
            pub const ALL: &[(Self, &str, u64, Sort)] = &[$($((Self::$kind, $name, $weight, Sort::$sort),)*)*];
        }
    };
}

kinds! {
    Changes: Insert "insert" 10, Upsert "upsert" 5, Update "update" 10, UpdateMany "update-many" 6,
        Delete "delete" 6, DeleteMany "delete-many" 3, Copy "copy" 5, InsertSelect "insert-select" 4;
    Transactions: Transaction "transaction" 24, Transfer "transfer" 10, ForUpdate "for-update" 0,
        SkipLocked "skip-locked" 0, LockTable "lock-table" 0;
    Reads: Read "read" 22, RepeatableRead "repeatable-read" 8, Balances "balances" 6, View "view" 0,
        Temporary "temporary" 0;
    Maintenance: Checkpoint "checkpoint" 7, Release "release" 6, Analyze "analyze" 2, Vacuum "vacuum" 1,
        Reindex "reindex" 0;
    Catalogue: Truncate "truncate" 2, Columns "columns" 4, Rename "rename" 3, Constraints "constraints" 6,
        CreateAs "create-as" 4, CreateIndex "create-index" 3, DropIndex "drop-index" 3, AddColumn "add-column" 3,
        DropColumn "drop-column" 3, SharedConstraint "shared-constraint" 2, ColumnType "column-type" 0,
        Concurrently "concurrently" 0, Sequence "sequence" 0;
    Rest: Cancel "cancel" 6, Settings "settings" 2, Pause "pause" 4;
}

impl Kind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, ..)| *known == name).map(|(kind, ..)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, ..)| name)
    }
}

/// How often each kind of step comes in one seed's script. Some seeds have none of a kind, or much of it: what happens
/// only where something else does not is found so.
///
/// After Groce et al., Swarm testing (2012).
struct Mixture(Vec<(Kind, u64)>);

impl Mixture {
    /// `is_small`: of a few kinds at most.
    fn draw(random: &mut Random, is_small: bool) -> Self {
        let is_even = random.chance(0.2);
        let sorts: [u64; 6] = std::array::from_fn(|_| if is_even { 1 } else { [0, 1, 1, 4][random.below(4) as usize] });
        let come = Kind::ALL.iter().filter(|(_, _, weight, _)| *weight > 0);
        let weighed = come.map(|(kind, _, weight, sort)| {
            let times = if is_even { 1 } else { [0, 1, 1, 3][random.below(4) as usize] };
            (*kind, weight * times * sorts[*sort as usize])
        });
        let mut all: Vec<(Kind, u64)> = weighed.collect();
        // Some have a few kinds and nothing else.
        if is_small || random.chance(0.3) {
            let mut kept: Vec<usize> = (0..all.len()).collect();
            random.shuffle(&mut kept);
            kept.truncate(random.range(if is_small { 1..4 } else { 2..6 }) as usize);
            all.iter_mut().enumerate().for_each(|(at, (_, weight))| *weight *= u64::from(kept.contains(&at)));
        }
        // Whatever else there is, rows come to be.
        let total: u64 = all.iter().map(|(_, weight)| weight).sum();
        all[0].1 = all[0].1.max(1 + total / 10);
        Self(all)
    }

    fn any(&self, random: &mut Random) -> Kind {
        let total: u64 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut left = random.below(total);
        for (kind, weight) in &self.0 {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *kind,
            }
        }
        unreachable!("the weights add up")
    }
}

/// What a command line says about a script.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Steps, and after them cuts and weather, that are left out: by number.
    pub without: BTreeSet<usize>,
    /// Steps of each client are of these kinds, if any are given: client by client.
    pub only: Vec<Kind>,
    /// Kinds that no step is of.
    pub never: Vec<Kind>,
    /// Steps of a client; `None`: the seed's choice.
    pub steps: Option<u64>,
    /// Nothing goes wrong.
    pub is_calm: bool,
    /// What is wrong with the engine.
    pub fault: Fault,
}

impl Script {
    pub fn new(seed: u64, choices: &Choices) -> Self {
        let mut random = Random::new(seed);
        let setup = Setup::draw(&mut random);
        let clients = match choices.only.len() {
            0 => random.range(2..6) as usize,
            count => count,
        };
        let focus = Focus::draw(&mut random, Tables { owners: clients });
        // In some, each client has a mixture of its own: one reads, another one alters, and they do little else.
        let is_apart = random.chance(0.3);
        let count = if is_apart { clients } else { 1 };
        let mixtures: Vec<Mixture> = (0..count).map(|_| Mixture::draw(&mut random, is_apart)).collect();
        let most = if random.chance(0.3) { 48 } else { 24 };
        let each = random.range(6..most);
        let each = choices.steps.unwrap_or(each);
        let mut number = 0;
        let mut next = || {
            number += 1;
            number - 1
        };
        let mut steps = vec![Vec::new(); clients];
        for (client, steps) in steps.iter_mut().enumerate() {
            for _ in 0..each {
                let mixture = &mixtures[client % mixtures.len()];
                let (kind, seed) = (mixture.any(&mut random), random.next_u64());
                let kind = choices.only.get(client).copied().unwrap_or(kind);
                let step = Step { number: next(), kind, seed };
                if !choices.without.contains(&step.number) && !choices.never.contains(&kind) {
                    steps.push(step);
                }
            }
        }
        let count = match random.below(6) {
            0 => 0,
            1 => CUTS_MANY,
            _ => random.range(1..CUTS_MAX),
        };
        let mut cuts: Vec<Cut> = Vec::new();
        for _ in 0..count {
            cuts.push(Cut::draw(&mut random, cuts.last()));
        }
        let mut weather: Vec<Vec<Weather>> = (0..=count).map(|_| Weather::draw(&mut random)).collect();
        cuts.retain(|_| !choices.without.contains(&next()));
        weather.iter_mut().for_each(|all| all.retain(|_| !choices.without.contains(&next())));
        if choices.is_calm {
            cuts.clear();
            weather.clear();
        }
        Self { seed, setup, focus, steps, cuts, weather }
    }

    /// How many numbers of steps, cuts and weather there are.
    pub fn parts(seed: u64, choices: &Choices) -> usize {
        let whole = Self::new(seed, &Choices { without: BTreeSet::new(), ..choices.clone() });
        let steps: usize = whole.steps.iter().map(Vec::len).sum();
        steps + whole.cuts.len() + whole.weather.iter().map(Vec::len).sum::<usize>()
    }
}

/// A number of operations: small ones as probable as large ones.
fn early(random: &mut Random) -> u64 {
    let span = 1 << random.range(3..13);
    random.below(span.min(SPAN)) + 1
}

impl Cut {
    /// The end of a world, after one that ended so.
    fn draw(random: &mut Random, before: Option<&Self>) -> Self {
        // What a process that was killed has left unflushed, the next one finds; and loses, if the power goes before it
        // has flushed that: while it is being opened, or as soon as somebody has been told of it.
        if before.is_some_and(|before| before.is_kill) && random.chance(0.75) {
            let is_early = random.chance(0.5);
            let (counted, most) = match random.below(3) {
                0 => (Counted::Flushes, 8),
                _ if is_early => (Counted::Logs, 8),
                _ => (Counted::Logs, 2),
            };
            let loses_logs = random.chance(0.3);
            return Self { at: random.below(most) + 1, counted, is_early, is_kill: false, loses_logs };
        }
        // Of the logs' operations, and of flushes, there are some for each transaction.
        let few = if random.chance(0.3) { 8 } else { 120 };
        let (counted, at) = match random.below(10) {
            0 => (Counted::Logs, random.below(2 * few) + 1),
            1 => (Counted::Flushes, random.below(few) + 1),
            2 => (Counted::LogFlushes, random.below(few) + 1),
            // There are two or three for each publication.
            3 => (Counted::VolumeFlushes, random.below(few.min(24)) + 1),
            // One or two for each step.
            4 | 5 => (Counted::Answers, random.below(few.min(60)) + 1),
            6 | 7 => (Counted::News, random.below(few.min(12)) + 1),
            _ => (Counted::All, early(random)),
        };
        // Before a flush of a log a process leaves most that is not durable.
        let (kills, losses) = match counted {
            Counted::LogFlushes => (0.7, 0.3),
            // What was told too early is gone with the logs.
            Counted::Answers | Counted::News => (0.1, 0.7),
            _ => (0.3, 0.3),
        };
        let (is_early, is_kill) = (random.chance(0.5), random.chance(kills));
        Self { at, counted, is_early, is_kill, loses_logs: random.chance(losses) }
    }
}

impl Weather {
    fn draw(random: &mut Random) -> Vec<Self> {
        if random.chance(0.6) {
            return Vec::new();
        }
        let troubles = [
            Trouble::Full,
            Trouble::Slow,
            Trouble::Slow,
            Trouble::Reads,
            Trouble::Writes,
            Trouble::Flushes,
            Trouble::Flips,
        ];
        let mut all = Vec::new();
        for _ in 0..random.range(1..3) {
            let trouble = troubles[random.below(troubles.len() as u64) as usize];
            let from = early(random);
            // A log is not read before it is opened again.
            let on_disk = matches!(trouble, Trouble::Reads | Trouble::Flips) || random.chance(0.5);
            all.push(Self { from, until: from + early(random), on_disk, trouble });
        }
        all
    }
}
