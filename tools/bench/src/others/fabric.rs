//! The fabric between two processes, measured in a crate of its own, and drawn here.

use saki::plot::{Axis, Chart, Series};
use saki_nodes::Options;
use saki_report::{Common, Report};

use crate::plot::save;

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let outcome = saki_nodes::run(common, options)?;
    if let Some(path) = &common.plot {
        let (x, y) = (Axis::log("bytes of a page"), Axis::log("verified pages per second"));
        let chart = Chart::new("Pages of another process").x(x.whole()).y(y);
        let lines = outcome.lines.iter();
        let chart = lines.fold(chart, |chart, (name, points)| chart.series(Series::new(name, points.clone())));
        save(&chart, path)?;
    }
    Ok(outcome.report)
}
