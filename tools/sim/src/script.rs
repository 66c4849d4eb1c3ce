//! What a seed says: how the database is made, who does what in it, and what goes wrong with its devices.

use std::collections::BTreeSet;

use saki_base::Random;
use saki_base::planted::Fault;

/// Restarts by power cuts, at most.
const CUTS_MAX: u64 = 4;
/// A cut, or a trouble's beginning, comes within so many operations of the devices, most often.
const SPAN: u64 = 3_000;

/// All that a seed decides beforehand. What each step does follows from its own seed and from what is there then.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub setup: Setup,
    /// By client, in order.
    pub steps: Vec<Vec<Step>>,
    /// At which operation the power goes, restart by restart.
    pub cuts: Vec<u64>,
    /// By restart.
    pub weather: Vec<Vec<Weather>>,
}

/// How the database is made and opened.
#[derive(Clone, Debug)]
pub struct Setup {
    pub page_bytes: u32,
    pub logs: usize,
    pub log_extent_bytes: u64,
    pub segment_rows: u32,
    pub delta_bytes: u64,
    pub log_bytes: u64,
    pub columns: bool,
    pub indexes: bool,
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

macro_rules! kinds {
    ($($kind:ident $name:literal $weight:literal,)*) => {
        /// Kinds of steps.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// Each, as a command line names it, and how often it comes.
            pub const ALL: &[(Self, &str, u64)] = &[$((Self::$kind, $name, $weight),)*];
        }
    };
}

kinds! {
    Insert "insert" 10,
    Upsert "upsert" 5,
    Update "update" 10,
    UpdateMany "update-many" 6,
    Delete "delete" 6,
    DeleteMany "delete-many" 3,
    Copy "copy" 4,
    InsertSelect "insert-select" 3,
    Truncate "truncate" 2,
    Transaction "transaction" 24,
    Read "read" 22,
    RepeatableRead "repeatable-read" 8,
    Transfer "transfer" 10,
    Balances "balances" 6,
    Cancel "cancel" 6,
    Checkpoint "checkpoint" 7,
    Analyze "analyze" 2,
    Vacuum "vacuum" 1,
    CreateIndex "create-index" 3,
    DropIndex "drop-index" 3,
    AddColumn "add-column" 2,
    DropColumn "drop-column" 2,
    Pause "pause" 4,
}

impl Kind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
    }

    fn draw(random: &mut Random) -> Self {
        let total: u64 = Self::ALL.iter().map(|(.., weight)| weight).sum();
        let mut left = random.below(total);
        for (kind, _, weight) in Self::ALL {
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
        let each = random.range(6..24);
        let each = choices.steps.unwrap_or(each);
        let mut number = 0;
        let mut next = || {
            number += 1;
            number - 1
        };
        let mut steps = vec![Vec::new(); clients];
        for (client, steps) in steps.iter_mut().enumerate() {
            for _ in 0..each {
                let (kind, seed) = (Kind::draw(&mut random), random.next_u64());
                let kind = choices.only.get(client).copied().unwrap_or(kind);
                let step = Step { number: next(), kind, seed };
                if !choices.without.contains(&step.number) && !choices.never.contains(&kind) {
                    steps.push(step);
                }
            }
        }
        let count = if random.chance(0.25) { 0 } else { random.range(1..CUTS_MAX) };
        let mut cuts: Vec<u64> = (0..count).map(|_| early(&mut random)).collect();
        let mut weather: Vec<Vec<Weather>> = (0..=count).map(|_| Weather::draw(&mut random)).collect();
        cuts.retain(|_| !choices.without.contains(&next()));
        weather.iter_mut().for_each(|all| all.retain(|_| !choices.without.contains(&next())));
        if choices.is_calm {
            cuts.clear();
            weather.clear();
        }
        Self { seed, setup, steps, cuts, weather }
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

impl Setup {
    fn draw(random: &mut Random) -> Self {
        Self {
            page_bytes: 4096 << random.below(3),
            logs: random.range(1..4) as usize,
            log_extent_bytes: 32 << 10 << random.below(3),
            segment_rows: random.range(3..60) as u32,
            // Now and then merges come by themselves.
            delta_bytes: if random.chance(0.5) { 4 << 10 << random.below(4) } else { 64 << 20 },
            log_bytes: 1 << 20,
            columns: random.chance(0.8),
            indexes: random.chance(0.7),
        }
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
