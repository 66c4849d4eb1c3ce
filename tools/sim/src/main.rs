//! The whole database from one seed: the real store, logs, merges and SQL, with all of their threads, over simulated
//! devices and a simulated clock; clients that do what a script says, beside each other; power cuts; and a model that
//! knows what may be seen.
//!
//! ```text
//!   seed ─► script ─┬─► clients (threads) ─► sessions ─► sql ─► store ─► devices ─► station: faults, power
//!                   │        │                                              │
//!                   │        ▼                                              ▼ the power goes
//!                   │      model ◄── everything is looked at ◄── restart ◄──┘
//!                   └─► threads: who runs next, what time it is
//! ```
//!
//! A seed is a process: `saki-sim seeds` starts one for each. Equal seeds are equal runs of one program, to the last
//! operation of the devices, wherever it was built and wherever it runs.
//!
//! After TigerBeetle's VOPR and FoundationDB's simulation (Zhou et al., 2021).
#![deny(unsafe_code)]

mod change;
mod children;
mod client;
mod model;
mod run;
mod script;
mod setup;
mod simulation;
mod station;
mod tables;
mod threads;
mod verify;
mod world;

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use saki_base::Random;
use saki_base::planted::{self, Fault};

use crate::children::{Seeds, shrink};
use crate::run::Run;
use crate::script::{Choices, Kind, Scene};

#[global_allocator]
static ALLOCATOR: threads::Interrupting = threads::Interrupting;

/// How many seeds are run where nothing else is said.
const SEEDS: u64 = 200;

#[derive(Parser)]
#[command(about = "The whole database from one seed", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one seed in this process.
    Run {
        seed: u64,
        #[command(flatten)]
        choices: ChoiceArguments,
        /// Tell everything as it happens.
        #[arg(long)]
        trace: bool,
    },
    /// Run many seeds, each in a process of its own.
    Seeds {
        #[command(flatten)]
        range: RangeArguments,
        /// Run each twice: both runs have to be the same.
        #[arg(long)]
        twice: bool,
        #[command(flatten)]
        choices: ChoiceArguments,
    },
    /// Run every pair of kinds of steps beside each other.
    Pairs {
        /// For each pair.
        #[command(flatten)]
        range: RangeArguments,
        /// Only so many of the pairs; the first seed says which.
        #[arg(long)]
        sample: Option<usize>,
    },
    /// Plant one fault after the other into the engine: each has to be found within so many seeds.
    Prove {
        #[command(flatten)]
        range: RangeArguments,
        /// Only these faults.
        #[arg(long, value_delimiter = ',', value_parser = fault)]
        faults: Vec<Fault>,
        /// What every seed is bent to: shown, built or halves.
        #[arg(long, value_parser = scene)]
        scene: Option<Scene>,
    },
    /// Find a small part of a failing seed's script that fails as well.
    Shrink {
        seed: u64,
        #[command(flatten)]
        choices: ChoiceArguments,
    },
}

/// Which seeds are run.
#[derive(Args, Clone, Copy, Debug)]
struct RangeArguments {
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many [default: 200; of pairs, 1 each]
    #[arg(long)]
    count: Option<u64>,
    /// Processes at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

impl RangeArguments {
    fn seeds(&self, count: u64) -> Range<u64> {
        self.first..self.first.saturating_add(self.count.unwrap_or(count))
    }
}

/// What is left out of a script, or put in.
#[derive(Args, Clone, Debug, Default)]
struct ChoiceArguments {
    /// Numbers of steps, cuts and weather to leave out: 3,7-10.
    #[arg(long, default_value = "")]
    without: String,
    /// Kinds of all steps, one for each client: read,checkpoint.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Kinds of steps to leave out.
    #[arg(long, value_delimiter = ',')]
    never: Vec<String>,
    /// Steps of each client.
    #[arg(long)]
    steps: Option<u64>,
    /// No power cuts, and no trouble with devices.
    #[arg(long)]
    calm: bool,
    /// What the seed is bent to: shown, built or halves.
    #[arg(long, value_parser = scene)]
    scene: Option<Scene>,
    /// A fault that is planted into the engine (`saki_base::planted`).
    #[arg(long, value_parser = fault)]
    fault: Option<Fault>,
}

impl ChoiceArguments {
    fn choices(&self) -> Result<Choices, String> {
        let mut without = BTreeSet::new();
        for part in self.without.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is no number of a step"));
            without.extend(number(first)?..=number(last)?);
        }
        let kind = |name: &String| Kind::named(name).ok_or_else(|| format!("{name:?} is no kind of step"));
        let only = self.only.iter().map(kind).collect::<Result<_, _>>()?;
        let never = self.never.iter().map(kind).collect::<Result<_, _>>()?;
        let fault = self.fault.unwrap_or(Fault::None);
        Ok(Choices { without, only, never, steps: self.steps, is_calm: self.calm, scene: self.scene, fault })
    }
}

fn scene(name: &str) -> Result<Scene, String> {
    Scene::named(name).ok_or_else(|| format!("there is no scene {name:?}"))
}

fn fault(name: &str) -> Result<Fault, String> {
    Fault::named(name).ok_or_else(|| {
        let known: Vec<_> = Fault::ALL.iter().map(|(_, name)| *name).collect();
        format!("no such fault; there are {}", known.join(", "))
    })
}

fn main() -> ExitCode {
    if !threads::is_supported() {
        eprintln!("saki-sim stands in for functions of glibc on Linux, and there is no other version of it yet");
        return ExitCode::FAILURE;
    }
    match start(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// `false`: something was found.
fn start(command: Command) -> Result<bool, String> {
    match command {
        Command::Run { seed, choices, trace } => run_here(seed, &choices.choices()?, trace),
        Command::Seeds { range, twice, choices } => {
            let choices = choices.choices()?;
            let seeds = range.seeds(SEEDS).map(|seed| (seed, choices.clone())).collect();
            Seeds { seeds, jobs: range.jobs, is_twice: twice }.run()
        }
        Command::Pairs { range, sample } => {
            let seeds = pairs(range.seeds(1), sample.unwrap_or(usize::MAX));
            Seeds { seeds, jobs: range.jobs, is_twice: false }.run()
        }
        Command::Prove { range, faults, scene } => {
            let all = || Fault::ALL.iter().map(|(fault, _)| *fault).collect();
            let faults = if faults.is_empty() { all() } else { faults };
            children::prove(&faults, scene, range.seeds(SEEDS), range.jobs)
        }
        Command::Shrink { seed, choices } => shrink(seed, &choices.choices()?),
    }
}

/// Seeds for every pair of kinds, or for so many, short and calm, with rows that they meet at.
fn pairs(seeds: Range<u64>, most: usize) -> Vec<(u64, Choices)> {
    let kinds: Vec<Kind> = Kind::ALL.iter().map(|(kind, ..)| *kind).collect();
    let mut all: Vec<(Kind, Kind)> = Vec::new();
    for (index, one) in kinds.iter().enumerate() {
        all.extend(kinds[index..].iter().map(|other| (*one, *other)));
    }
    if most < all.len() {
        Random::new(seeds.start).shuffle(&mut all);
        all.truncate(most);
    }
    let of_pair = |(one, other)| {
        let only = vec![one, other, Kind::Insert];
        let choices = Choices { only, steps: Some(6), is_calm: true, ..Choices::default() };
        seeds.clone().map(move |seed| (seed, choices.clone()))
    };
    all.into_iter().flat_map(of_pair).collect()
}

fn run_here(seed: u64, choices: &Choices, trace: bool) -> Result<bool, String> {
    if threads::cores().len() > 1 {
        threads::stay();
    }
    threads::prepare(seed)?;
    // Its buffer is there whether something is told meanwhile or not.
    drop(std::io::stdout().lock());
    planted::plant(choices.fault);
    let run = Run::new(seed, choices, trace);
    let outcome = simulation::simulate(&run);
    match outcome.failure {
        None => {
            println!("seed {seed}: sound, {:016x}", outcome.fingerprint);
            Ok(true)
        }
        Some(failure) => {
            if !trace {
                outcome.history.iter().for_each(|line| println!("{line}"));
            }
            println!("seed {seed}: failed, {:016x}", outcome.fingerprint);
            println!("{failure}");
            // Threads of the last world are still there.
            std::process::exit(1);
        }
    }
}
