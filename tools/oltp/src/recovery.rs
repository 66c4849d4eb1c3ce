//! Recovery: logs of some size, replayed into empty tables by one thread each.
//!
//! The logs are made by running a workload until they are long enough: New-Order (updates and inserts) or updates of
//! the Yahoo! benchmark's rows (updates only, beside the load). Every table is the same before and after, by the
//! checksums of all rows. A database is opened twice: the first time its memory is new to the process, which on a
//! virtual machine may be slow.

use std::ops::ControlFlow;
use std::time::Instant;

use clap::{Args, ValueEnum};
use saki_base::checksum;
use saki_mvcc::{Database, Direction, Isolation, KeyRange, RecoveryReport};
use saki_report::{Common, Report};
use serde_json::json;

use crate::driver::{LogWork, Span, Work, drive, joined};
use crate::engine::{Engine, Home, settle};
use crate::neworder::{self, NewOrders};
use crate::ycsb::{self, Choice, Letter, Shape, YcsbWork};
use crate::{ChartData, Outcome};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Logs, and threads that read them
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// What made the logs
    #[arg(long, value_delimiter = ',', default_values_t = [Workload::Neworder, Workload::Updates])]
    pub workloads: Vec<Workload>,
    /// Bytes of all logs together
    #[arg(long, default_value_t = 1_000_000_000)]
    pub bytes: u64,
    /// Rows of the table that is updated
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    Neworder,
    Updates,
}

impl Workload {
    const fn name(self) -> &'static str {
        match self {
            Self::Neworder => "neworder",
            Self::Updates => "updates",
        }
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

pub fn run(common: &Common, options: &Options) -> Result<Outcome, String> {
    let mut report = Report::new("recovery", common);
    let bytes = if common.small { options.bytes.min(8_000_000) } else { options.bytes };
    let rows = if common.small { options.rows.min(10_000) } else { options.rows };
    report.configure("bytes", bytes);
    report.configure("rows", rows);
    report.configure("threads", &options.threads);
    report.configure("workloads", options.workloads.iter().map(|workload| workload.name()).collect::<Vec<_>>());
    let mut chart = ChartData::new("Recovery", "logs, and threads that read them", "MB of log a second");
    println!(
        "{:10} {:>5} {:>8} {:>8} {:>10} {:>12}",
        "workload", "logs", "opening", "seconds", "MB/s/core", "records/s"
    );
    for workload in &options.workloads {
        for logs in &options.threads {
            let bench = Bench { common, workload: *workload, logs: *logs, bytes, rows };
            bench.measure(&mut report, &mut chart)?;
        }
    }
    report.note("seconds are of the whole opening: reading, replaying, and making secondary indexes");
    report.note("the first opening takes its memory from the system, which may be slow in a virtual machine");
    Ok(Outcome { report, charts: vec![chart] })
}

struct Bench<'a> {
    common: &'a Common,
    workload: Workload,
    logs: usize,
    bytes: u64,
    rows: u64,
}

/// How many rows a table has, and a checksum of all of them that does not depend on their order.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Content {
    table: String,
    rows: u64,
    checksum: u64,
}

impl Bench<'_> {
    fn measure(&self, report: &mut Report, chart: &mut ChartData) -> Result<(), String> {
        let engine = Engine::of(self.logs);
        let (database, home) = engine.create(self.common, "recovery")?;
        let changes = match self.workload {
            Workload::Neworder => self.run_new_orders(&database)?,
            Workload::Updates => self.run_updates(&database)?,
        };
        let written = LogWork::of(&database);
        let before = contents(&database)?;
        let records = written.records;
        database.close().map_err(|error| error.to_string())?;
        for opening in ["first", "second"] {
            let cpu_before = cpu_seconds();
            let (after, seconds, recovery, cpu_after) = open(&engine, &home)?;
            let cpu = cpu_after - cpu_before;
            let what = format!("{}, {} logs, {opening} opening", self.workload, self.logs);
            report.check(before == after, || format!("{what}: {before:?} before, {after:?} after"));
            let bytes = written.written_bytes as f64;
            let per_core = bytes / 1e6 / seconds / self.logs as f64;
            println!(
                "{:10} {:>5} {opening:>8} {seconds:>8.2} {per_core:>10.1} {:>12.0}",
                self.workload.name(),
                self.logs,
                recovery.records as f64 / seconds,
            );
            let facts = json!({
                "what": "recovery", "workload": self.workload.name(), "opening": opening, "seconds": seconds,
                "cpu_seconds": cpu, "mb_per_cpu_second": bytes / 1e6 / cpu.max(1e-2),
                "replay_seconds": recovery.duration.as_secs_f64(), "log_mb": bytes / 1e6,
                "read_mb": recovery.bytes_read as f64 / 1e6,
                "payload_mb": recovery.payload_bytes as f64 / 1e6, "records": recovery.records,
                "records_appended": records, "voids": recovery.voids, "changes_at_least": changes,
                "mb_per_s": bytes / 1e6 / seconds, "mb_per_s_per_core": per_core,
                "records_per_s": recovery.records as f64 / seconds,
                "changes_per_s": changes as f64 / seconds,
            });
            report.row(joined(facts, engine.to_json()));
            let name = self.workload.name();
            report.summarise(format!("{name}_{opening}_mb_per_s_per_core_{}", self.logs), per_core);
            report.summarise(format!("{name}_{opening}_mb_per_cpu_second_{}", self.logs), bytes / 1e6 / cpu.max(1e-2));
            report
                .summarise(format!("{name}_{opening}_records_per_s_{}", self.logs), recovery.records as f64 / seconds);
            chart.point(&format!("{name}, {opening} opening"), self.logs as f64, bytes / 1e6 / seconds);
            report.summarise(
                format!("{name}_{opening}_changes_per_s_per_core_{}", self.logs),
                changes as f64 / seconds / self.logs as f64,
            );
            if self.workload == Workload::Updates && opening == "first" {
                // The last one stays: of the most logs. New-Orders leave patches of some 50 bytes, which say more in
                // changes.
                report.summarise("mb_per_s_per_core", per_core);
            }
        }
        Ok(())
    }

    /// Until the logs are long enough; how many changes were made at least.
    fn run_new_orders(&self, database: &Database) -> Result<u64, String> {
        let items = if self.common.small { 1_000 } else { 100_000 };
        let scale = neworder::Scale { warehouses: self.logs as i32, items };
        let tables = neworder::Tables::create(database)?;
        neworder::load(database, &tables, scale, self.common.seed)?;
        let work = |worker| NewOrders::new(&tables, scale, worker, self.logs, true, self.common.seed);
        let mut works: Vec<_> = (0..self.logs).map(work).collect();
        self.fill_logs(database, &mut works)?;
        let lines: u64 = works.iter().map(|work| work.ledger().lines).sum();
        // A line is a new row and an updated one.
        Ok(scale.items as u64 * (1 + scale.warehouses as u64) + 2 * lines)
    }

    /// As above.
    fn run_updates(&self, database: &Database) -> Result<u64, String> {
        const OPERATIONS: usize = 10;
        let (table, values) = ycsb::create(database)?;
        ycsb::load(database, &table, &values, self.rows, self.common.seed)?;
        let shape = Shape {
            letter: Letter::F,
            choice: Choice::Uniform,
            operations: OPERATIONS,
            batched: false,
            rows: self.rows,
            workers: self.logs,
        };
        let work = |worker| YcsbWork::new(&table, &values, shape, worker, 0, self.common.seed);
        let mut works: Vec<_> = (0..self.logs).map(work).collect();
        let before = LogWork::of(database).records;
        self.fill_logs(database, &mut works)?;
        // Half of the operations of workload F change a row.
        let transactions = LogWork::of(database).records - before;
        Ok(self.rows + transactions * OPERATIONS as u64 / 2)
    }

    fn fill_logs<W: Work>(&self, database: &Database, works: &mut [W]) -> Result<(), String> {
        drive(database, works, &["transaction"], Span::of_log(self.bytes), "filling the logs")?;
        settle(database)
    }
}

/// Opens the database, and reads all of it: contents, seconds of the opening, what the logs say of it, and the
/// processor time of the process when it was open.
fn open(engine: &Engine, home: &Home) -> Result<(Vec<Content>, f64, RecoveryReport, f64), String> {
    let started = Instant::now();
    let database = engine.open(home)?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = cpu_seconds();
    let recovery = database.recovery().clone();
    let contents = contents(&database)?;
    database.close().map_err(|error| error.to_string())?;
    Ok((contents, seconds, recovery, cpu))
}

/// Processor time of this process and its threads, past ones included: what a busy machine does not change much.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may hold anything.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

fn contents(database: &Database) -> Result<Vec<Content>, String> {
    let mut runner = database.runner().map_err(|error| error.to_string())?;
    let transaction = runner.begin(Isolation::Snapshot);
    let content = |table: saki_mvcc::Table| {
        let mut content = Content { table: table.name().into(), rows: 0, checksum: 0 };
        transaction.scan(&table, &KeyRange::all(), Direction::Forward, |found| {
            content.rows += 1;
            // Of the key too, turned, so that a row's key and body cannot change places.
            let row = checksum(found.key).rotate_left(1) ^ checksum(found.body);
            content.checksum = content.checksum.wrapping_add(row);
            ControlFlow::Continue(())
        });
        content
    };
    Ok(database.tables().into_iter().map(content).collect())
}
