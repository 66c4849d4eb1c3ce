//! The benchmarks between two processes, measured in a crate of their own, and drawn here.

use saki::plot::{Axis, Chart, Series};
use saki_nodes::{Options, Outcome, remote};
use saki_report::{Common, Report};

use crate::plot::save;

/// The fabric's messages and reads.
pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    draw(common, saki_nodes::run(common, options)?)
}

/// Pages over it.
pub fn run_remote(common: &Common, options: &remote::Options) -> Result<Report, String> {
    draw(common, remote::run(common, options)?)
}

fn draw(common: &Common, outcome: Outcome) -> Result<Report, String> {
    if let Some(path) = &common.plot {
        let (x, y) = (Axis::log("bytes of a page"), Axis::log("verified pages per second"));
        let chart = Chart::new("Pages of another process").x(x.whole()).y(y);
        let lines = outcome.lines.iter();
        let chart = lines.fold(chart, |chart, (name, points)| chart.series(Series::new(name, points.clone())));
        save(&chart, path)?;
    }
    Ok(outcome.report)
}
