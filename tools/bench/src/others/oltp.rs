//! The write side's benchmarks, which live in a crate of their own: drawn and reported like the others.

use std::path::{Path, PathBuf};

use saki::plot::{Axis, Chart, Series};
use saki_oltp::{Benchmark, ChartData};
use saki_report::{Common, Report};

use crate::plot::save;

pub fn run(common: &Common, benchmark: &Benchmark) -> Result<Report, String> {
    let outcome = saki_oltp::run(common, benchmark)?;
    if let Some(path) = &common.plot {
        for (number, chart) in outcome.charts.iter().enumerate() {
            save(&drawn(chart), &numbered(path, number))?;
        }
    }
    Ok(outcome.report)
}

fn drawn(data: &ChartData) -> Chart {
    let axis = |label: &str, is_log: bool| if is_log { Axis::log(label) } else { Axis::linear(label).from_zero() };
    let mut xs = data.series.iter().flat_map(|(_, points)| points.iter().map(|(x, _)| *x));
    let x = if xs.all(|x| x.fract() == 0.0) {
        axis(&data.x_label, data.x_log).whole()
    } else {
        axis(&data.x_label, data.x_log)
    };
    let chart = Chart::new(&data.title).x(x).y(axis(&data.y_label, data.y_log));
    data.series.iter().fold(chart, |chart, (name, points)| chart.series(Series::new(name, points.clone())))
}

/// The first chart has the name that was asked for, the others a number before the extension.
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{}", number + 1);
    let numbered = path.with_file_name(name);
    path.extension().map_or(numbered.clone(), |extension| numbered.with_extension(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_get_names_of_their_own() {
        let path = Path::new("plots/neworder.png");
        assert_eq!(numbered(path, 0), path);
        assert_eq!(numbered(path, 1), Path::new("plots/neworder-2.png"));
    }
}
