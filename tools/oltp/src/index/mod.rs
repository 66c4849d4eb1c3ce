//! Ordered indexes side by side: ours, and what crates offer.

mod chart;
mod keys;
mod structures;
mod workload;

use std::collections::BTreeMap;
use std::sync::RwLock;

pub use chart::charts;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;

use keys::Key;
use saki_report::{Common, Report};
use structures::{Congee, Ours, Shared, Structure};
use workload::{Run, Workload};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Entries of each structure [default: 10000000, or 20000 if small]
    #[arg(long)]
    pub entries: Option<u64>,
    /// Operations of each thread and round [default: 1000000, or 5000 if small]
    #[arg(long)]
    pub operations: Option<u64>,
    /// Runs of a workload, of which the median counts; of `insert` there is one
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Bytes of keys: 8, 32
    #[arg(long, value_delimiter = ',', default_value = "8,32")]
    pub key_bytes: Vec<usize>,
    /// Structures to measure
    #[arg(long, value_delimiter = ',', default_value = "ours,tree-index,skip-map,congee,b-tree-map")]
    pub structures: Vec<Name>,
    #[arg(long, value_delimiter = ',', default_value = "insert,read,many,scan50,mixed")]
    pub workloads: Vec<Workload>,
    /// Threads that work at a time
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    pub threads: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    Ours,
    /// `scc::TreeIndex`
    TreeIndex,
    /// `crossbeam_skiplist::SkipMap`
    SkipMap,
    /// `congee`, an adaptive radix tree for keys of 8 bytes
    Congee,
    /// `std::collections::BTreeMap` behind a `RwLock`
    BTreeMap,
}

/// Runs every workload on every structure.
///
/// # Errors
/// The options ask for what there is not.
pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("index", common);
    let bench = Bench {
        options,
        run: Run {
            entries: options.entries.unwrap_or(if common.small { 20_000 } else { 10_000_000 }).max(1000),
            operations: options.operations.unwrap_or(if common.small { 5000 } else { 1_000_000 }),
            seed: common.seed,
        },
    };
    report.configure("entries", bench.run.entries);
    report.configure("operations", bench.run.operations);
    for &bytes in &options.key_bytes {
        let rates = match bytes {
            8 => bench.all::<u64>(&mut report),
            32 => bench.all::<[u8; 32]>(&mut report),
            _ => return Err(format!("keys of {bytes} bytes: only 8 and 32 are there")),
        };
        summarise(&mut report, bytes, &rates);
    }
    Ok(report)
}

/// Operations per second per core.
type Rates = Vec<(Name, Workload, usize, f64)>;

struct Bench<'o> {
    options: &'o Options,
    run: Run,
}

impl Bench<'_> {
    fn all<K: Key>(&self, report: &mut Report) -> Rates
    where
        Shared<scc::TreeIndex<K, u64>>: Structure<K>,
    {
        let mut rates = Vec::new();
        for &name in &self.options.structures {
            match name {
                Name::Ours => self.one::<K, Ours>(name, report, &mut rates),
                Name::TreeIndex => self.one::<K, Shared<scc::TreeIndex<K, u64>>>(name, report, &mut rates),
                Name::SkipMap => self.one::<K, Shared<crossbeam_skiplist::SkipMap<K, u64>>>(name, report, &mut rates),
                Name::BTreeMap => self.one::<K, Shared<RwLock<BTreeMap<K, u64>>>>(name, report, &mut rates),
                Name::Congee if K::BYTES == 8 => self.one::<u64, Shared<Congee>>(name, report, &mut rates),
                Name::Congee => {}
            }
        }
        rates
    }

    fn one<K: Key, S: Structure<K>>(&self, name: Name, report: &mut Report, rates: &mut Rates) {
        // Memory that the system gives out for the first time is slow: this has the allocator keep some.
        self.run.measure(&S::empty(), Workload::Insert, 1);
        for &threads in &self.options.threads {
            let structure = S::empty();
            for workload in std::iter::once(Workload::Insert).chain(self.options.workloads.iter().copied()) {
                let is_repeated = workload == Workload::Insert && self.is_built(&structure);
                if is_repeated || workload == Workload::Many && name != Name::Ours {
                    continue;
                }
                let rounds = if workload == Workload::Insert { 1 } else { self.options.rounds.max(1) };
                let outcomes: Vec<_> = (0..rounds).map(|_| self.run.measure(&structure, workload, threads)).collect();
                let mut rounds: Vec<f64> = outcomes.iter().map(|outcome| outcome.per_core(threads)).collect();
                rounds.sort_by(f64::total_cmp);
                let (per_core, best) = (rounds[rounds.len() / 2], rounds[rounds.len() - 1]);
                let what = format!("{name:?}, {} bytes, {workload:?}, {threads} threads", K::BYTES);
                eprintln!("  {what}: {per_core:.0} operations per second per core, at best {best:.0}");
                let wrong: u64 = outcomes.iter().map(|outcome| outcome.wrong).sum();
                report.check(wrong == 0, || format!("{what}: {wrong} wrong"));
                report.row(json!({
                    "structure": name, "key_bytes": K::BYTES, "workload": workload, "threads": threads,
                    "operations": outcomes[0].operations, "per_core": per_core, "best": best, "rounds": rounds,
                }));
                rates.push((name, workload, threads, per_core));
            }
            let verified = structure.verify();
            report.check(verified.is_ok(), || format!("{name:?}: {}", verified.unwrap_err()));
        }
    }

    fn is_built<K: Key, S: Structure<K>>(&self, structure: &S) -> bool {
        use structures::{Access, Worker};
        structure.worker().access().get(K::of(0)).is_some()
    }
}

/// The figures of one thread, for 8-byte keys by their plain names.
fn summarise(report: &mut Report, bytes: usize, rates: &Rates) {
    let rate = |is_wanted: &dyn Fn(Name) -> bool, workload| {
        let of_one = rates.iter().filter(|(name, of, threads, _)| is_wanted(*name) && *of == workload && *threads == 1);
        of_one.map(|(.., rate)| *rate).reduce(f64::max)
    };
    let suffix = if bytes == 8 { String::new() } else { format!("_{bytes}") };
    let workloads = [
        ("reads", Workload::Read),
        ("reads_many", Workload::Many),
        ("scan50", Workload::Scan50),
        ("mixed", Workload::Mixed),
        ("inserts", Workload::Insert),
    ];
    for (name, workload) in workloads {
        let Some(ours) = rate(&|name| name == Name::Ours, workload) else { continue };
        report.summarise(format!("{name}_per_core{suffix}"), ours);
        if let Some(best) = rate(&|name| name != Name::Ours, workload) {
            report.summarise(format!("{name}_over_best_crate{suffix}"), ours / best);
        }
    }
}
