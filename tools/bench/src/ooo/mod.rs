//! The paper's experiment: the three-table join over selectivities, in order and
//! out of order, beside the hash join and what the planner chooses, on the local
//! device and on modeled ones.
//!
//! Every run is cold: the page cache is empty, and reads bypass the system's
//! (O_DIRECT). Repetitions take other customers, so that no cache below helps
//! either. All modes have to give one answer. A run in order that is cut at its limit is
//! scaled: by the pages that it had read, over those that the whole join
//! reads; the output marks it with `~`.

pub mod counts;
mod device_limit;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use saki::experiment::{self, Answer, Join, JoinRun, Mode};
use saki_io::DeviceProfile;
use saki_sql::Database;
use serde_json::json;
use tokio::runtime::Runtime;

use self::counts::{Counts, counts};
use self::device_limit::{Limit, device_limit};
use self::summary::{Cell, plot, summarise};
use crate::data::tpch::{Wanted, open, prepare, runtime, text};
use saki_report::{Common, Report};

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 5.0)]
    sf: f64,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// An existing TPC-H database
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Devices: local, cloud, array
    #[arg(long, value_delimiter = ',', default_values_t = ["local", "cloud", "array"].map(String::from))]
    devices: Vec<String>,
    /// Percent of the customers; above 1 only on the local device
    #[arg(long, value_delimiter = ',', default_values_t = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0])]
    percent: Vec<f64>,
    /// Modes: in_order, out_of_order, hash_join, auto
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = ["in_order", "out_of_order", "hash_join", "auto"].map(String::from)
    )]
    modes: Vec<String>,
    /// Seconds after which a run is cut
    #[arg(long, default_value_t = 60.0)]
    cut: f64,
}

/// Runs of each mode, over other customers each time; the median counts.
const REPEATS: usize = 9;
/// A mode that has taken so long at one selectivity is not run again.
const REPEAT_SECONDS_MAX: f64 = 4.0;
/// Above this the modeled devices, which resemble slow ones, would take hours.
const MODELED_PERCENT_MAX: f64 = 1.0;

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("ooo", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    report.configure("scale", scale);
    report.configure("cut_seconds", options.cut);
    let path = prepare(&Wanted { scale, page_bytes: options.page_size, path: options.db.clone() }, common, &runtime)?;
    // Out of order first: it tells how many pages a cut run would have had to read.
    let all = [Mode::OutOfOrder, Mode::InOrder, Mode::HashJoin, Mode::Auto];
    let asked = |mode: &Mode| options.modes.iter().any(|name| name.replace('_', " ") == mode.name());
    let modes: Vec<Mode> = all.into_iter().filter(asked).collect();
    let mut cells = Vec::new();
    for device in &options.devices {
        let model = match device.as_str() {
            "local" => None,
            "cloud" => Some("modeled:cloud-volume"),
            "array" => Some("modeled:disk-array"),
            other => return Err(format!("{other} is none of local, cloud, array")),
        };
        let database = open(&path, model, &mut report)?;
        // Measured before and after, because a shared disk's speed drifts: the better figure is the device's.
        let profile = database.calibrate(&mut |_| {}).map_err(text)?;
        let before = device_limit(&path, model, &database, common)?;
        println!(
            "\n{}\n{:>10}{:>14}{:>11}{:>12}{:>11}{:>10}{:>10}  lines",
            database.device_name(),
            "percent",
            "mode",
            "seconds",
            "pages",
            "pages/s",
            "depth",
            "user us"
        );
        let percents = options.percent.iter().filter(|percent| model.is_none() || **percent <= MODELED_PERCENT_MAX);
        let cut = Duration::from_secs_f64(options.cut);
        let repeats = if common.small { 2 } else { REPEATS };
        let bench = Bench { database: &database, runtime: &runtime, device, cut, repeats, seed: common.seed };
        let first = cells.len();
        for percent in percents.filter(|percent| !common.small || **percent >= 0.1) {
            cells.extend(bench.measure(*percent, &modes, &mut report)?);
        }
        let limit = match common.small {
            true => before,
            false => before.better(device_limit(&path, model, &database, common)?),
        };
        describe(device, &database, &profile, &limit, &mut report);
        cells[first..].iter_mut().for_each(|cell| cell.limit = limit);
    }
    for cell in &cells {
        report.row(cell.to_json());
    }
    summarise(&cells, &mut report);
    if let Some(path) = &common.plot {
        plot(path, &cells, scale)?;
    }
    Ok(report)
}

fn describe(device: &str, database: &Database, profile: &DeviceProfile, limit: &Limit, report: &mut Report) {
    let page_bytes = database.page_size().bytes() as u32;
    report.configure(
        &format!("device_{device}"),
        json!({
            "name": database.device_name(),
            "best_iops": limit.best_iops,
            "depth_one_iops": limit.depth_one_iops,
            "profile_best_iops": profile.best_iops(page_bytes),
            "profile_knee_depth": profile.knee_depth(page_bytes),
            "profile_sequential_mb_per_second": profile.sequential_bandwidth() / 1e6,
        }),
    );
}

/// What the cells of one device share.
struct Bench<'a> {
    database: &'a Arc<Database>,
    runtime: &'a Runtime,
    device: &'a str,
    cut: Duration,
    repeats: usize,
    seed: u64,
}

impl Bench<'_> {
    /// All modes at one selectivity, in turns: what drifts meanwhile drifts for all of them.
    fn measure(&self, percent: f64, modes: &[Mode], report: &mut Report) -> Result<Vec<Cell>, String> {
        let mut runs: Vec<Vec<JoinRun>> = vec![Vec::new(); modes.len()];
        for repetition in 0..self.repeats {
            let join = self.join(percent, repetition as u64);
            let mut answer: Option<Answer> = None;
            for (mode, runs) in modes.iter().zip(&mut runs) {
                let spent: f64 = runs.iter().map(|run| run.reading.seconds).sum();
                if spent > REPEAT_SECONDS_MAX {
                    continue;
                }
                let run = experiment::run(self.database, &join, *mode, Some(self.cut));
                let run = self.runtime.block_on(run).map_err(text)?;
                if let Some(found) = run.answer {
                    let expected = *answer.get_or_insert(found);
                    report.check(expected == found, || {
                        format!("{} {percent} %: {} answers {found:?}, others {expected:?}", self.device, mode.name())
                    });
                }
                runs.push(run);
            }
        }
        let mut cells: Vec<Cell> = Vec::new();
        for (mode, runs) in modes.iter().copied().zip(&runs) {
            let counts = match mode {
                Mode::OutOfOrder if runs[0].answer.is_some() => {
                    counts(self.database, self.runtime, mode, &self.join(percent, 0))?
                }
                _ => Counts::default(),
            };
            let whole = cells.iter().find(|cell| cell.mode == Mode::OutOfOrder && !cell.cut);
            let cell = Cell::new(self.device, percent, runs, counts, whole.map(|cell| cell.reading.pages_read));
            println!("{cell}");
            cells.push(cell);
        }
        Ok(cells)
    }

    fn join(&self, percent: f64, repetition: u64) -> Join {
        Join::new(percent / 100.0, self.seed + repetition)
    }
}
