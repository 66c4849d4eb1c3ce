//! What the runs of the join come to: a line each, the ratios, the plot.

use std::fmt;
use std::path::Path;

use saki::experiment::{JoinRun, Mode, Reading};
use saki::plot::{Axis, Chart, Series};
use serde_json::{Value, json};

use super::counts::Counts;
use super::device_limit::Limit;
use crate::plot::save;
use saki_report::{Report, figure};

/// One mode at one selectivity on one device.
#[derive(Clone, Debug)]
pub struct Cell {
    pub device: String,
    pub percent: f64,
    pub mode: Mode,
    /// Of the whole join; scaled if the run was cut, or at least so many.
    pub seconds: f64,
    pub cut: bool,
    pub scaled: bool,
    /// Of every run, in the order of repetitions.
    pub all_seconds: Vec<f64>,
    /// Of the run that is the median by time.
    pub reading: Reading,
    pub lines: Option<i64>,
    pub counts: Counts,
    pub limit: Limit,
}

impl Cell {
    /// The median of `runs`. One in order that was cut is scaled to `whole_pages`, if they are known.
    pub fn new(device: &str, percent: f64, runs: &[JoinRun], counts: Counts, whole_pages: Option<u64>) -> Self {
        let mut by_time: Vec<&JoinRun> = runs.iter().collect();
        by_time.sort_by(|left, right| left.reading.seconds.total_cmp(&right.reading.seconds));
        let run = by_time[by_time.len() / 2];
        let (cut, mode) = (run.answer.is_none(), run.mode);
        let pages = whole_pages.filter(|pages| cut && mode == Mode::InOrder && *pages > run.reading.pages_read);
        Self {
            device: device.into(),
            percent,
            mode,
            seconds: pages.map_or(run.reading.seconds, |pages| run.seconds(pages)),
            cut,
            scaled: pages.is_some(),
            all_seconds: runs.iter().map(|run| run.reading.seconds).collect(),
            reading: run.reading,
            lines: run.answer.map(|answer| answer.rows),
            counts,
            limit: Limit::default(),
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "device": self.device, "percent": self.percent, "mode": self.mode.name(), "seconds": self.seconds,
            "cut": self.cut, "scaled": self.scaled, "all_seconds": self.all_seconds, "lines": self.lines,
            "measured_seconds": self.reading.seconds, "pages_read": self.reading.pages_read,
            "pages_per_second": self.reading.pages_per_second(), "depth_mean": self.reading.depth_mean,
            "depth_max": self.reading.depth_max, "user_seconds": self.reading.user_seconds,
            "system_seconds": self.reading.system_seconds, "visits": self.counts.visits, "probes": self.counts.probes,
            "device_limit": self.limit,
        })
    }

    /// The median, over repetitions, of this mode's time over the better of two others' over the same customers.
    fn over_best(&self, index: &Self, hash: &Self) -> f64 {
        // A mode that was run less often was slow, and as slow over other customers. One that was
        // cut took as long at least, which is all that is needed of the slower one.
        let of = |cell: &Self, repetition: usize| *cell.all_seconds.get(repetition).unwrap_or(&cell.seconds);
        let ratio = |(repetition, seconds): (usize, &f64)| seconds / of(index, repetition).min(of(hash, repetition));
        let mut ratios: Vec<f64> = self.all_seconds.iter().enumerate().map(ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }

    /// Microseconds of user time for each page that was looked at.
    fn user_us_per_visit(&self) -> Option<f64> {
        let visits = self.counts.visits.max(self.reading.pages_read as f64);
        // Processor time is counted in steps of 10 ms: too coarse for short runs.
        (self.reading.user_seconds > 0.2 && visits > 0.0).then(|| self.reading.user_seconds * 1e6 / visits)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match (self.cut, self.scaled) {
            (true, true) => "~",
            (true, false) => ">",
            _ => "",
        };
        let lines = self.lines.map_or_else(|| "cut".into(), |lines| lines.to_string());
        let optional = |value: Option<f64>| value.map_or_else(String::new, figure);
        write!(
            f,
            "{:>10}{:>14}{:>11}{:>12}{:>11}{:>10}{:>10}  {lines}",
            self.percent,
            self.mode.name(),
            format!("{mark}{}", figure(self.seconds)),
            self.reading.pages_read,
            figure(self.reading.pages_per_second()),
            figure(self.reading.depth_mean),
            optional(self.user_us_per_visit())
        )
    }
}

/// The ratios of `docs/performance.md`.
pub fn summarise(cells: &[Cell], report: &mut Report) {
    let cell = |device: &str, percent: f64, mode: Mode| {
        cells.iter().find(|cell| cell.device == device && cell.percent == percent && cell.mode == mode)
    };
    let speedup = |device: &str, percent: f64| {
        let both = cell(device, percent, Mode::InOrder).zip(cell(device, percent, Mode::OutOfOrder));
        both.map(|(in_order, out_of_order)| in_order.seconds / out_of_order.seconds)
    };
    if let Some(local) = cell("local", 1.0, Mode::OutOfOrder) {
        report.summarise("device_share", local.reading.pages_per_second() / local.limit.best_iops);
        if let Some(user) = local.user_us_per_visit() {
            report.summarise("user_us_per_visit", user);
        }
        if let Some(speedup) = speedup("local", 1.0) {
            report.summarise("speedup_local", speedup);
            report.summarise("speedup_local_share", speedup / (local.limit.best_iops / local.limit.depth_one_iops));
        }
    }
    for device in ["cloud", "array"] {
        if let Some(speedup) = speedup(device, 1.0) {
            report.summarise(format!("speedup_{device}"), speedup);
        }
    }
    if let Some(auto) = cell("local", 0.001, Mode::Auto) {
        report.summarise("latency_ms_0_001", auto.seconds * 1e3);
    }
    if let Some(auto) = cell("local", 0.1, Mode::Auto) {
        report.summarise("seconds_0_1", auto.seconds);
    }
    let mut worst: Option<f64> = None;
    for auto in cells.iter().filter(|cell| cell.mode == Mode::Auto) {
        let forced = [Mode::OutOfOrder, Mode::HashJoin].map(|mode| cell(&auto.device, auto.percent, mode));
        let [Some(index), Some(hash)] = forced else { continue };
        let ratio = auto.over_best(index, hash);
        report.summarise(format!("auto_over_best_{}_{}", auto.device, auto.percent), ratio);
        worst = Some(worst.unwrap_or(0.0).max(ratio));
    }
    if let Some(worst) = worst {
        report.summarise("auto_over_best_max", worst);
    }
    let cut = cells.iter().filter(|cell| cell.cut);
    for cell in cut {
        let what = if cell.scaled { "scaled by the pages it had read" } else { "counted as that long at least" };
        report.note(format!(
            "{} on {}, {} %: cut after {:.0} s, {what}",
            cell.mode.name(),
            cell.device,
            cell.percent,
            cell.reading.seconds
        ));
    }
}

/// Seconds over selectivity: a colour for each device, in order dashed.
pub fn plot(path: &Path, cells: &[Cell], scale: f64) -> Result<(), String> {
    let mut chart = Chart::new("Three-table join, cold: in order and out of order")
        .subtitle(format!("customer, orders, lineitem; TPC-H scale factor {scale}; O_DIRECT, empty page cache"))
        .note("In-order runs are cut after a minute and scaled by the pages they had read.")
        .x(Axis::log("customers selected, percent"))
        .y(Axis::log("seconds"));
    for (color, device) in ["local", "cloud", "array"].into_iter().enumerate() {
        for mode in [Mode::InOrder, Mode::OutOfOrder, Mode::HashJoin, Mode::Auto] {
            let of = cells.iter().filter(|cell| cell.device == device && cell.mode == mode);
            let points: Vec<_> = of.map(|cell| (cell.percent, cell.seconds)).collect();
            // The other two matter where the fastest device makes them rivals.
            let shown = device == "local" || matches!(mode, Mode::InOrder | Mode::OutOfOrder);
            if points.is_empty() || !shown {
                continue;
            }
            let series = Series::new(format!("{device}, {}", mode.name()), points);
            chart = chart.series(match mode {
                Mode::InOrder => series.color(color).dashed(),
                Mode::OutOfOrder => series.color(color),
                Mode::HashJoin => series.color(3),
                Mode::Auto => series.color(4).dashed(),
            });
        }
    }
    save(&chart, path)
}
