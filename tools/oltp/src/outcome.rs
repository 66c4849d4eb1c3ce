//! How a benchmark ends.

use saki_report::Report;

use crate::chart::ChartData;

/// What a benchmark found, and curves of it.
pub struct Outcome {
    pub report: Report,
    pub charts: Vec<ChartData>,
}
