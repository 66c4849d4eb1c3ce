//! Merging changed rows into lineitem: how long, beside what the device gives; and what queries notice of it.
//!
//! Rows drawn at uniform keys are updated (one column that is in no key), deleted and inserted, and merged into the
//! primary tree, the indexes and the column segments, twice: once as fast as it goes, with nothing else running, and
//! once at the pace for beside queries, while a query is repeated that was timed alone before. A count and a sum after
//! each merge tell whether it did what it should.

mod changes;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::{Decimal128Type, Int64Type};
use clap::Args;
use saki::plot::{Axis, Chart, Series};
use saki::tpch;
use saki_base::PageSize;
use saki_io::DeviceProfile;
use saki_report::{Common, Report};
use saki_sql::{CreateOptions, Database, MergeReport, Pace, Session};
use serde_json::json;
use tokio::runtime::Runtime;

use self::changes::Changes;
use crate::data::tpch::{rows_of, runtime, text};
use crate::plot::save;

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 5.0)]
    sf: f64,
    /// Rows that change, about
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// Without column segments
    #[arg(long)]
    no_columns: bool,
    /// Keep the database
    #[arg(long)]
    keep: bool,
}

/// What is asked again and again beside a merge: a scan of some columns, as a report would.
const QUERY: &str = "SELECT l_returnflag, count(*), sum(l_extendedprice) FROM lineitem \
                     WHERE l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1996-01-01' GROUP BY l_returnflag";
/// How long the query is repeated alone.
const ALONE: Duration = Duration::from_secs(10);

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("merge", common);
    let (scale, rows) = if common.small { (0.01, 3_000) } else { (options.sf, options.rows) };
    report.configure("scale", scale);
    report.configure("rows", rows);
    report.configure("page_bytes", options.page_size);
    report.configure("columns", !options.no_columns);
    let runtime = runtime();
    let path = common.data.join(format!("merge-{scale}.saki"));
    let database = load(&path, scale, options, &runtime)?;
    let profile = database.calibrate(&mut |_| {}).map_err(text)?;
    let mut bench = Bench { database: &database, runtime: &runtime, profile, rows, report: &mut report };
    bench.merge_alone()?;
    let timed = bench.merge_beside_queries(if common.small { Duration::from_millis(200) } else { ALONE })?;
    if common.small {
        let faults = database.check(&mut |_| {}).map_err(text)?.faults;
        faults.iter().for_each(|fault| report.check(false, || fault.to_string()));
    }
    report.configure("device", database.device_name());
    if let Some(path) = &common.plot {
        plot(path, &timed, scale)?;
    }
    drop(database);
    if !options.keep {
        std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(report)
}

/// A new database with lineitem alone.
fn load(path: &Path, scale: f64, options: &Options, runtime: &Runtime) -> Result<Arc<Database>, String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", path.display()));
        }
        _ => {}
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let page_size = PageSize::new(options.page_size).map_err(|error| error.to_string())?;
    let database = Database::create(path, CreateOptions { page_size, ..CreateOptions::default() }).map_err(text)?;
    let table = tpch::table("lineitem").ok_or("TPC-H has no lineitem")?;
    runtime.block_on(tpch::load(&database, table, scale, true, |_| {})).map_err(text)?;
    if options.no_columns {
        runtime.block_on(rows_of(&Session::new(&database), "ALTER TABLE lineitem SET (columns = off)"))?;
    }
    Ok(database)
}

/// Seconds since the queries began, and what each took, of those alone and those beside the merge.
struct Timed {
    alone: Vec<(f64, f64)>,
    beside: Vec<(f64, f64)>,
}

struct Bench<'b> {
    database: &'b Arc<Database>,
    runtime: &'b Runtime,
    profile: DeviceProfile,
    rows: u64,
    report: &'b mut Report,
}

impl Bench<'_> {
    /// As fast as it goes.
    fn merge_alone(&mut self) -> Result<(), String> {
        let mut changes = Changes::draw(self.database, self.runtime, self.rows, 1)?;
        let before = self.sums()?;
        let merged = self.database.merge("lineitem", &mut changes, &Pace::full()).map_err(text)?;
        self.checked("full pace", &changes, &merged, before)?;
        let seconds = merged.duration.as_secs_f64();
        let page_bytes = self.database.page_size().bytes();
        let written = merged.bytes_written as f64 / seconds / self.profile.write_bandwidth();
        let read = merged.pages_read as f64 / seconds / self.profile.best_iops(page_bytes as u32);
        self.report.summarise("merge_seconds", seconds);
        self.report.summarise("merge_rows_per_second", merged.rows as f64 / seconds);
        self.report.summarise("merge_written_mb_per_second", merged.bytes_written as f64 / seconds / 1e6);
        self.report.summarise("merge_share_of_write_bandwidth", written);
        self.report.summarise("merge_share_of_random_reads", read);
        self.report.configure(
            "profile",
            json!({
                "write_mb_per_second": self.profile.write_bandwidth() / 1e6,
                "random_reads_per_second": self.profile.best_iops(page_bytes as u32),
            }),
        );
        Ok(())
    }

    /// At the pace for it, beside a query that is repeated; it is timed alone first.
    fn merge_beside_queries(&mut self, alone: Duration) -> Result<Timed, String> {
        let mut changes = Changes::draw(self.database, self.runtime, self.rows, 2)?;
        let before = self.sums()?;
        let session = Session::new(self.database);
        let began = Instant::now();
        let quiet = self.queries(&session, &|| began.elapsed() >= alone)?;
        let done = AtomicBool::new(false);
        let database = self.database;
        let (merged, beside) = std::thread::scope(|scope| {
            let merge = scope.spawn(|| {
                let merged = database.merge("lineitem", &mut changes, &Pace::beside_queries());
                done.store(true, Ordering::Release);
                merged
            });
            let beside = self.queries(&session, &|| done.load(Ordering::Acquire));
            (merge.join(), beside)
        });
        let merged = merged.map_err(|_| "the merge panicked")?.map_err(text)?;
        let beside = beside?;
        self.checked("beside queries", &changes, &merged, before)?;
        self.report.summarise("beside_queries_merge_seconds", merged.duration.as_secs_f64());
        self.report.summarise("query_ms_alone", median(&quiet) * 1e3);
        self.report.summarise("query_ms_beside_merge", median(&beside) * 1e3);
        self.report.summarise("query_slowdown_beside_merge", median(&beside) / median(&quiet));
        Ok(Timed { alone: quiet, beside })
    }

    /// Repeats the query, at least once, until it is enough.
    fn queries(&self, session: &Session, enough: &dyn Fn() -> bool) -> Result<Vec<(f64, f64)>, String> {
        let began = Instant::now();
        let mut timed = Vec::new();
        while timed.is_empty() || !enough() {
            let start = Instant::now();
            self.runtime.block_on(rows_of(session, QUERY))?;
            timed.push((start.duration_since(began).as_secs_f64(), start.elapsed().as_secs_f64()));
        }
        Ok(timed)
    }

    /// Records a merge, and checks that the table is what it should be.
    fn checked(
        &mut self,
        name: &str,
        changes: &Changes,
        merged: &MergeReport,
        (rows, quantity): (i64, i128),
    ) -> Result<(), String> {
        let found = self.sums()?;
        let expected = (rows + changes.rows_added, quantity + changes.quantity_added);
        self.report.check(found == expected, || format!("{name}: rows and quantity are {found:?}, not {expected:?}"));
        let all =
            merged.rows == changes.len() as u64 && merged.inserted + merged.updated + merged.deleted == merged.rows;
        self.report.check(all, || format!("{name}: {} changes, {merged:?}", changes.len()));
        println!(
            "{name}: {} rows in {:.2} s; {} pages read, {:.0} MB written",
            merged.rows,
            merged.duration.as_secs_f64(),
            merged.pages_read,
            merged.bytes_written as f64 / 1e6
        );
        self.report.row(json!({
            "merge": name,
            "rows": merged.rows,
            "inserted": merged.inserted,
            "updated": merged.updated,
            "deleted": merged.deleted,
            "pages_read": merged.pages_read,
            "pages_written": merged.pages_written,
            "seconds": merged.duration.as_secs_f64(),
        }));
        Ok(())
    }

    /// Rows, and the sum of quantities, unscaled.
    fn sums(&self) -> Result<(i64, i128), String> {
        let sql = "SELECT count(*), sum(l_quantity) FROM lineitem";
        let batches = self.runtime.block_on(rows_of(&Session::new(self.database), sql))?;
        let batch = batches.iter().find(|batch| batch.num_rows() > 0).ok_or("no sums")?;
        let rows = batch.column(0).as_primitive_opt::<Int64Type>().ok_or("a count that is no bigint")?;
        let quantity = batch.column(1).as_primitive_opt::<Decimal128Type>().ok_or("a sum that is no decimal")?;
        Ok((rows.value(0), quantity.value(0)))
    }
}

fn median(timed: &[(f64, f64)]) -> f64 {
    let mut seconds: Vec<f64> = timed.iter().map(|(_, seconds)| *seconds).collect();
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// What the query takes over time, alone and beside the merge.
fn plot(path: &Path, timed: &Timed, scale: f64) -> Result<(), String> {
    let milliseconds = |timed: &[(f64, f64)]| timed.iter().map(|(at, seconds)| (*at, seconds * 1e3)).collect();
    let chart = Chart::new("A query beside a merge")
        .subtitle(format!("TPC-H lineitem, scale factor {scale}"))
        .x(Axis::linear("seconds"))
        .y(Axis::log("milliseconds a query"))
        .series(Series::new("alone", milliseconds(&timed.alone)))
        .series(Series::new("beside a merge", milliseconds(&timed.beside)));
    save(&chart, path)
}
