//! The workload that MPDB was measured with: the loop of TPC-C's New-Order over three tables, over workers and logs.
//!
//! A transaction repeats 5 to 15 times: read an item, read its stock, update the stock, add an order line. Keys, rows
//! and their sizes are TPC-C's, and so is the rule for quantities; one line in a hundred is supplied by another
//! warehouse where there is one. Each worker has a warehouse of its own by default.

mod check;
mod disk;
mod hot;
mod options;
mod work;

use saki_mvcc::{Database, Durability};
use saki_report::{Common, Report};
use serde_json::json;

use self::disk::DiskLimit;
use crate::driver::{Measured, Span, drive, joined};
use crate::engine::{Engine, Home};
use crate::{ChartData, Outcome};

pub use check::Sums;
pub use options::Options;
pub use work::{Ledger, NewOrders, Scale, Tables, load};

/// One measurement to make.
#[derive(Clone, Copy)]
struct Point {
    engine: Engine,
    batched: bool,
    /// Whether to reopen the database afterwards and check that everything is there.
    recover: bool,
}

pub fn run(common: &Common, options: &Options) -> Result<Outcome, String> {
    let mut report = Report::new("neworder", common);
    configure(&mut report, options);
    let limit = DiskLimit::measure(common, &mut report)?;
    let mut chart = ChartData::new("New-Order", "workers", "transactions acknowledged a second");
    println!(
        "{:>7} {:>5} {:22} {:>12} {:>12} {:>8} {:>8}",
        "workers", "logs", "how", "acked/s", "p99 ms", "MB/s", "aborts"
    );
    for point in points(common, options) {
        let measured = Bench { common, options }.measure(point, limit, &mut report)?;
        summarise(&mut report, &mut chart, point, &measured);
        println!(
            "{:>7} {:>5} {:22} {:>12.0} {:>12.3} {:>8.1} {:>8.4}",
            point.engine.workers,
            point.engine.logs,
            point.how(),
            measured.rate(),
            measured.latency(None).value_at_quantile(0.99) as f64 / 1e6,
            measured.log.written_bytes as f64 / 1e6 / measured.seconds,
            measured.abort_share(),
        );
    }
    ratios(&mut report, options);
    if !options.no_hot {
        hot::run(common, options, &mut report)?;
    }
    report.note(
        "rates count a transaction when its client could be told: not before it is durable, unless acknowledged early",
    );
    Ok(Outcome { report, charts: vec![chart] })
}

fn configure(report: &mut Report, options: &Options) {
    report.configure("threads", &options.threads);
    report.configure("logs", options.logs);
    report.configure("warehouses", options.warehouses);
    report.configure("items", options.items);
    report.configure("single_log", options.single_log || options.all);
    report.configure("no_speculation", options.no_speculation || options.all);
    report.configure("log_memory", options.log_memory || options.all);
    report.configure("batched", options.batched);
    report.configure("durability", if options.relaxed { "relaxed" } else { "sync" });
    report.configure("isolation", "serializable");
    report.configure("seconds", options.seconds);
    report.configure("warmup_seconds", options.warmup);
    report.configure("clients", options.clients);
    report.configure("hot_rows", &options.hot_rows);
}

/// The main line first, then the baselines.
fn points(common: &Common, options: &Options) -> Vec<Point> {
    let engine = |workers: usize| {
        let engine = Engine::of(workers);
        let niceness = options.niceness.unwrap_or(engine.niceness);
        Engine { logs: options.logs.unwrap_or(workers), niceness, ..engine }
    };
    let main = |workers: usize| Point { engine: engine(workers), batched: options.batched, recover: common.small };
    let mut points: Vec<Point> = options.threads.iter().map(|workers| main(*workers)).collect();
    if let Some(last) = points.last_mut() {
        last.recover = true;
    }
    let mut baselines = |wanted: bool, vary: &dyn Fn(Point) -> Option<Point>| {
        if wanted || options.all {
            points.extend(options.threads.iter().filter_map(|workers| vary(main(*workers))));
        }
    };
    let with = |point: Point, engine: Engine| Some(Point { engine, recover: common.small, ..point });
    baselines(true, &|point| (point.engine.workers == 1).then_some(Point { batched: !point.batched, ..point }));
    baselines(options.single_log, &|point| {
        if point.engine.workers == 1 { None } else { with(point, Engine { logs: 1, ..point.engine }) }
    });
    baselines(options.no_speculation, &|point| with(point, Engine { speculation: false, ..point.engine }));
    baselines(options.log_memory, &|point| with(point, Engine { log_memory: true, ..point.engine }));
    points
}

impl Point {
    /// For people.
    fn how(&self) -> String {
        let mut words = vec![if self.batched { "batched" } else { "one by one" }];
        words.extend((!self.engine.speculation).then_some("no speculation"));
        words.extend(self.engine.log_memory.then_some("log in memory"));
        words.join(", ")
    }
}

struct Bench<'a> {
    common: &'a Common,
    options: &'a Options,
}

impl Bench<'_> {
    fn measure(&self, point: Point, limit: DiskLimit, report: &mut Report) -> Result<Measured, String> {
        let Self { common, options } = *self;
        let engine = point.engine;
        let (database, home) = engine.create(common, "neworder")?;
        let tables = Tables::create(&database)?;
        let scale = self.scale(engine.workers);
        work::load(&database, &tables, scale, common.seed)?;
        let before = Sums::of(&database, &tables)?;
        let mut works = self.works(&tables, scale, point);
        let durability = if options.relaxed { Durability::Relaxed } else { Durability::Sync };
        let span = if common.small {
            Span::new(0.05, 0.3, durability)
        } else {
            Span::new(options.warmup, options.seconds, durability)
        };
        let what = format!("{} workers, {} logs, {}", engine.workers, engine.logs, point.how());
        let measured = drive(&database, &mut works, &["new_order"], span, &what)?;
        let ledger = works.iter().fold(Ledger::default(), |sum, work| sum.plus(work.ledger()));
        drop(works);
        let after = Sums::of(&database, &tables)?;
        check::agree(report, &what, &before, &after, &ledger, scale);
        if point.recover {
            self.recover(&engine, database, &home, &after, &what, report)?;
        }
        let disk = limit.bytes_per_second / 1e6;
        let written = measured.log.written_bytes as f64 / 1e6 / measured.seconds.max(1e-9);
        let facts = json!({
            "what": "neworder", "batched": point.batched, "warehouses": scale.warehouses,
            "share_of_disk": if engine.log_memory { 0.0 } else { written / disk },
        });
        report.row(joined(joined(facts, engine.to_json()), measured.to_json()));
        Ok(measured)
    }

    fn scale(&self, workers: usize) -> Scale {
        let items = if self.common.small { self.options.items.min(1_000) } else { self.options.items };
        Scale { warehouses: self.options.warehouses.unwrap_or(workers as i32), items }
    }

    fn works<'t>(&self, tables: &'t Tables, scale: Scale, point: Point) -> Vec<NewOrders<'t>> {
        let workers = point.engine.workers;
        let work = |worker| NewOrders::new(tables, scale, worker, workers, point.batched, self.common.seed);
        (0..workers).map(work).collect()
    }

    /// That durability is real: what was there is there again after a restart.
    fn recover(
        &self,
        engine: &Engine,
        database: Database,
        home: &Home,
        before: &Sums,
        what: &str,
        report: &mut Report,
    ) -> Result<(), String> {
        database.close().map_err(|error| error.to_string())?;
        let database = engine.open(home)?;
        let after = Sums::of(&database, &Tables::create(&database)?)?;
        report.check(*before == after, || format!("{what}: {before:?} before the restart, {after:?} after it"));
        Ok(())
    }
}

fn summarise(report: &mut Report, chart: &mut ChartData, point: Point, measured: &Measured) {
    let Point { engine: Engine { workers, logs, log_memory, speculation, .. }, batched, .. } = point;
    let is_main_batch = report.configuration["batched"] == json!(batched);
    let rate = measured.rate();
    let key = match (is_main_batch, log_memory, speculation) {
        (false, ..) => format!("{}_tps_{workers}", if batched { "batched" } else { "one_by_one" }),
        (true, true, _) => format!("log_memory_tps_{workers}"),
        (true, false, false) => format!("no_speculation_tps_{workers}"),
        (true, false, true) if logs == 1 && workers > 1 => format!("single_log_tps_{workers}"),
        (true, false, true) => {
            report.summarise(format!("executed_tps_{workers}"), measured.executed_rate());
            let p99 = measured.latency(None).value_at_quantile(0.99) as f64 / 1e6;
            report.summarise(format!("p99_ms_{workers}"), p99);
            format!("tps_{workers}")
        }
    };
    chart.point(&key.replace(&format!("_{workers}"), ""), workers as f64, rate);
    report.summarise(key, rate);
    measured.note_sharing(report, &format!("{workers} workers, {logs} logs, {}", point.how()));
}

fn ratios(report: &mut Report, options: &Options) {
    for workers in options.threads.iter().filter(|workers| **workers > 1) {
        for (series, suffix) in [("tps", ""), ("log_memory_tps", "_log_memory")] {
            let rate = |workers: usize| report.summary.get(&format!("{series}_{workers}")).copied();
            if let (Some(one), Some(many)) = (rate(1), rate(*workers)) {
                report.summarise(format!("scaling_{workers}{suffix}"), many / one.max(1e-9));
            }
        }
    }
}
