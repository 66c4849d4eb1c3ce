//! The Yahoo! Cloud Serving Benchmark: workloads A to F, uniform and skewed.
//!
//! | | reads | writes |
//! |---|---|---|
//! | A | 50 % | 50 % update |
//! | B | 95 % | 5 % update |
//! | C | 100 % | |
//! | D | 95 % of the latest | 5 % insert |
//! | E | 95 % scans of 1 to 100 rows | 5 % insert |
//! | F | 50 % | 50 % read, then update |
//!
//! A key is a bigint of 8 bytes, the record's number; a row is one bytea of 100 bytes, which an update replaces as a
//! whole. (The original's ten fields of ten bytes have the same size; one field makes the cost of the engine visible
//! rather than that of columns.) Skewed ranks are scattered over the numbers, so that popular rows do not lie together.
//! Every value begins with a hash of its key, which every read checks.

mod work;

use std::time::Instant;

use clap::Args;
use saki_base::{DataType, Random};
use saki_mvcc::{Database, Direction, Durability, Isolation, KeyRange, Table};
use saki_report::{Common, Report};
use serde_json::json;

use crate::codec::{Key, column, define, int8_of_key};
use crate::driver::{Measured, Span, drive, joined};
use crate::engine::{Engine, fill, on_workers, settle, share};
use crate::progress::Progress;
use crate::zipf::{THETA, Zipf};
use crate::{ChartData, Outcome};

pub use work::{Choice, Letter, Shape, Values, YcsbWork};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rows
    #[arg(long, default_value_t = 10_000_000)]
    pub rows: u64,
    /// Workers
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Workloads
    #[arg(long, value_delimiter = ',', default_values_t = ['c', 'b', 'a', 'f', 'd', 'e'])]
    pub workloads: Vec<char>,
    /// Operations of a transaction of workload C
    #[arg(long, default_value_t = 10)]
    pub operations: usize,
    /// Operations of a transaction of the other workloads
    #[arg(long, default_value_t = 1)]
    pub mixed_operations: usize,
    /// Acknowledge commits before they are durable
    #[arg(long)]
    pub relaxed: bool,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seconds before each measurement
    #[arg(long, default_value_t = 0.5)]
    pub warmup: f64,
}

/// One measurement to make.
#[derive(Clone, Copy)]
struct Point {
    letter: Letter,
    is_skewed: bool,
    batched: bool,
    workers: usize,
}

impl Point {
    fn choice(&self) -> &'static str {
        match (self.letter, self.is_skewed) {
            (Letter::D, _) => "latest",
            (_, true) => "zipf",
            (_, false) => "uniform",
        }
    }

    /// By which the summary knows it.
    fn name(&self) -> String {
        let batched = if self.batched { "_batched" } else { "" };
        format!("{}_{}{batched}", self.letter.name(), self.choice())
    }
}

pub fn run(common: &Common, options: &Options) -> Result<Outcome, String> {
    let mut report = Report::new("ycsb", common);
    let rows = if common.small { options.rows.min(20_000) } else { options.rows };
    report.configure("rows", rows);
    report.configure("row_bytes", work::VALUE_BYTES);
    report.configure("threads", &options.threads);
    report.configure("workloads", &options.workloads);
    report.configure("operations", options.operations);
    report.configure("mixed_operations", options.mixed_operations);
    report.configure("theta", THETA);
    report.configure("isolation", "serializable");
    report.configure("durability", if options.relaxed { "relaxed" } else { "sync" });
    report.configure("seconds", options.seconds);
    report.configure("warmup_seconds", options.warmup);
    let zipf = Zipf::new(rows, THETA);
    let letters = options.workloads.iter().map(|letter| Letter::of(*letter)).collect::<Result<Vec<_>, _>>()?;
    let mut chart = ChartData::new("YCSB", "workers", "operations acknowledged a second");
    println!(
        "{:18} {:>7} {:>14} {:>10} {:>10} {:>8}",
        "workload", "workers", "operations/s", "p50 us", "p99 us", "aborts"
    );
    for workers in &options.threads {
        let mut bench = Bench::open(common, options, rows, *workers, &zipf)?;
        for letter in &letters {
            // Workload D has a choice of its own.
            let choices = if *letter == Letter::D { &[true][..] } else { &[false, true] };
            for is_skewed in choices.iter().copied() {
                let point = Point { letter: *letter, is_skewed, batched: false, workers: *workers };
                bench.measure(point, &mut report, &mut chart)?;
                if *letter == Letter::C {
                    bench.measure(Point { batched: true, ..point }, &mut report, &mut chart)?;
                }
            }
        }
        bench.check(&mut report)?;
    }
    ratios(&mut report, options);
    report.note("a value is one bytea of 100 bytes, replaced as a whole by an update");
    Ok(Outcome { report, charts: vec![chart] })
}

/// A filled database.
struct Bench<'a> {
    common: &'a Common,
    options: &'a Options,
    zipf: &'a Zipf,
    database: Database,
    table: Table,
    values: Values,
    rows: u64,
    /// By each worker.
    inserted: Vec<u64>,
    _home: crate::engine::Home,
}

impl<'a> Bench<'a> {
    fn open(
        common: &'a Common,
        options: &'a Options,
        rows: u64,
        workers: usize,
        zipf: &'a Zipf,
    ) -> Result<Self, String> {
        let (database, home) = Engine::of(workers).create(common, "ycsb")?;
        let (table, values) = create(&database)?;
        load(&database, &table, &values, rows, common.seed)?;
        Ok(Self { common, options, zipf, database, table, values, rows, inserted: vec![0; workers], _home: home })
    }

    fn measure(&mut self, point: Point, report: &mut Report, chart: &mut ChartData) -> Result<(), String> {
        let Self { common, options, .. } = *self;
        let operations = if point.letter == Letter::C { options.operations } else { options.mixed_operations };
        let choice = match (point.letter, point.is_skewed) {
            (Letter::D, _) => Choice::Latest(self.zipf),
            (_, true) => Choice::Skewed(self.zipf),
            (_, false) => Choice::Uniform,
        };
        let shape = Shape {
            letter: point.letter,
            choice,
            operations: operations.max(1),
            batched: point.batched,
            rows: self.rows,
            workers: point.workers,
        };
        let seed = common.seed ^ (report.rows.len() as u64) << 32;
        let work = |worker| YcsbWork::new(&self.table, &self.values, shape, worker, self.inserted[worker], seed);
        let mut works: Vec<_> = (0..point.workers).map(work).collect();
        let durability = if options.relaxed { Durability::Relaxed } else { Durability::Sync };
        let span = if common.small {
            Span::new(0.01, 0.1, durability)
        } else {
            Span::new(options.warmup, options.seconds, durability)
        };
        let what = format!("{} with {} workers", point.name(), point.workers);
        let measured = drive(&self.database, &mut works, &["transaction"], span, &what)?;
        let missing = work::Faults::sum(works.iter().map(YcsbWork::faults));
        let inserted = works.iter().map(YcsbWork::insert_steps).collect();
        drop(works);
        self.inserted = inserted;
        report.check(missing.absent == 0, || format!("{what}: {} rows were not found", missing.absent));
        report.check(missing.wrong == 0, || format!("{what}: {} values were not their keys'", missing.wrong));
        let facts = json!({
            "what": "ycsb", "workload": point.letter.name(), "choice": point.choice(), "batched": point.batched,
            "workers": point.workers, "operations": operations,
            "operations_per_s": measured.rate() * operations as f64,
        });
        report.row(joined(facts, measured.to_json()));
        summarise(report, chart, point, &measured, operations as f64);
        measured.note_sharing(report, &what);
        Ok(())
    }

    /// Whether the table holds what was put there, no less and no more.
    fn check(&self, report: &mut Report) -> Result<(), String> {
        let mut runner = self.database.runner().map_err(|error| error.to_string())?;
        let transaction = runner.begin(Isolation::Snapshot);
        let (mut loaded, mut inserted, mut wrong) = (0, 0, 0_u64);
        transaction.scan(&self.table, &KeyRange::all(), Direction::Forward, |found| {
            let key = int8_of_key(found.key, 0);
            if (key as u64) < self.rows {
                loaded += 1;
            } else {
                inserted += 1;
            }
            wrong += u64::from(!self.values.is_of(key as u64, found.body));
            std::ops::ControlFlow::Continue(())
        });
        report.check(loaded == self.rows, || format!("{loaded} of the {} rows loaded are there", self.rows));
        let expected: u64 = self.inserted.iter().sum();
        report.check(inserted == expected, || format!("{inserted} of the {expected} rows inserted are there"));
        report.check(wrong == 0, || format!("{wrong} values are not their keys'"));
        Ok(())
    }
}

/// The table, and how its values are made.
///
/// # Errors
/// What the engine says.
pub fn create(database: &Database) -> Result<(Table, Values), String> {
    let definition = define("usertable", 1, &[column("ycsb_key", DataType::Int8), column("value", DataType::Bytea)]);
    let table = database.create_table(definition).map_err(|error| error.to_string())?;
    let values = Values::of(&table);
    Ok((table, values))
}

/// Fills the table, each worker a range of it.
///
/// # Errors
/// What the engine says.
pub fn load(database: &Database, table: &Table, values: &Values, rows: u64, seed: u64) -> Result<(), String> {
    let progress = Progress::new(format!("loading {rows} rows"));
    let workers = database.placement().workers().len();
    let started = Instant::now();
    on_workers(database, |worker, runner| {
        let mut random = Random::new(seed ^ (worker as u64 + 1) << 32);
        fill(runner, table, share(rows, worker, workers), &progress, |number, key, body| {
            key.extend_from_slice(Key::<8>::new().int8(number as i64).as_ref());
            values.write(number, &mut random, body);
        })
    })?;
    settle(database)?;
    progress.at(|| format!("{:.0} rows a second", rows as f64 / started.elapsed().as_secs_f64()));
    progress.done();
    Ok(())
}

fn summarise(report: &mut Report, chart: &mut ChartData, point: Point, measured: &Measured, operations: f64) {
    let rate = measured.rate() * operations;
    let latency = measured.latency(None);
    println!(
        "{:18} {:>7} {:>14.0} {:>10.2} {:>10.2} {:>8.4}",
        point.name(),
        point.workers,
        rate,
        latency.value_at_quantile(0.5) as f64 / 1e3,
        latency.value_at_quantile(0.99) as f64 / 1e3,
        measured.abort_share(),
    );
    let (name, workers) = (point.name(), point.workers);
    chart.point(&name, workers as f64, rate);
    report.summarise(format!("{name}_operations_{workers}"), rate);
    if workers == 1 && point.letter == Letter::C {
        report.summarise(format!("{}_{}_reads_per_worker", point.letter.name(), name.trim_start_matches("c_")), rate);
    }
    if point.letter == Letter::A && point.is_skewed {
        report.summarise(format!("a_zipf_abort_share_{workers}"), measured.abort_share());
    }
}

fn ratios(report: &mut Report, options: &Options) {
    for workers in options.threads.iter().filter(|workers| **workers > 1) {
        for name in ["a_zipf", "c_uniform", "c_uniform_batched"] {
            let rate = |workers: usize| report.summary.get(&format!("{name}_operations_{workers}")).copied();
            if let (Some(one), Some(many)) = (rate(1), rate(*workers)) {
                report.summarise(format!("{name}_scaling_{workers}"), many / one.max(1e-9));
            }
        }
    }
}
