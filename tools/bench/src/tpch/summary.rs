//! What the runs of TPC-H's queries come to: a line each, the ratios, the chart.

use std::collections::BTreeSet;
use std::path::Path;

use saki::plot::{Axis, Chart, Series};
use saki_sql::Database;
use serde_json::{Value, json};

use crate::data::rival::Rival;
use crate::data::tpch::{load_seconds, text};
use crate::plot::save;
use saki_report::{Report, figure};

/// What one run of ours took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seconds {
    /// Until the plan was there.
    pub planning: f64,
    /// Until the last row was.
    pub whole: f64,
}

/// A query in one mode.
#[derive(Clone, Debug)]
pub struct Row {
    pub query: usize,
    pub mode: String,
    pub rows: usize,
    /// Of the rows, whatever their order.
    pub hash: String,
    pub ours: Vec<Seconds>,
    /// Of the other engine; none in modes that it is not compared with.
    pub theirs: Vec<f64>,
}

impl Row {
    pub fn new(query: usize, mode: &str) -> Self {
        Self { query, mode: mode.into(), rows: 0, hash: String::new(), ours: Vec::new(), theirs: Vec::new() }
    }

    pub fn to_json(&self, summary: &Summary) -> Value {
        let ours = summary.of_ours(self);
        json!({
            "query": self.query, "mode": self.mode, "device": summary.device, "rows": self.rows, "hash": self.hash,
            "seconds": ours.whole, "planning_seconds": ours.planning, "duckdb_seconds": summary.of_theirs(self),
            "over_duckdb": summary.ratio(self),
            "all_seconds": self.ours.iter().map(|run| run.whole).collect::<Vec<_>>(),
            "all_duckdb_seconds": self.theirs,
        })
    }
}

/// How runs are summed up.
pub struct Summary {
    pub cold: bool,
    pub device: String,
}

impl Summary {
    pub fn print_title(&self, rival: Option<&Rival>) {
        let temperature = self.temperature();
        println!("{}, {temperature}; {}", self.device, rival.map_or("alone", |rival| &rival.name));
        println!(
            "{:>6}  {:14}{:>10}{:>10}{:>12}{:>10}{:>8}{:>8}  hash",
            "query", "mode", "plan ms", "run ms", "all ms", "DuckDB ms", "ratio", "rows"
        );
    }

    pub fn print(&self, row: &Row) {
        let ours = self.of_ours(row);
        let milliseconds = |seconds: f64| figure(seconds * 1e3);
        println!(
            "{:>6}  {:14}{:>10}{:>10}{:>12}{:>10}{:>8}{:>8}  {}",
            format!("Q{}", row.query),
            row.mode,
            milliseconds(ours.planning),
            milliseconds(ours.whole - ours.planning),
            milliseconds(ours.whole),
            self.of_theirs(row).map_or_else(String::new, milliseconds),
            self.ratio(row).map_or_else(String::new, figure),
            row.rows,
            row.hash
        );
    }

    /// Sums over the queries, mode by mode, and the ratios to the other engine.
    pub fn summarise(&self, rows: &[Row], report: &mut Report) {
        let temperature = self.temperature();
        let modes: BTreeSet<&str> = rows.iter().map(|row| row.mode.as_str()).collect();
        for mode in modes {
            let sum = |of: fn(Seconds) -> f64| {
                rows.iter().filter(|row| row.mode == mode).map(|row| of(self.of_ours(row))).sum::<f64>()
            };
            report.summarise(format!("{mode}_{temperature}_seconds"), sum(|seconds| seconds.whole));
            report.summarise(format!("{mode}_planning_seconds"), sum(|seconds| seconds.planning));
        }
        let compared: Vec<&Row> = rows.iter().filter(|row| self.ratio(row).is_some()).collect();
        let ours: f64 = compared.iter().map(|row| self.of_ours(row).whole).sum();
        let theirs: f64 = compared.iter().filter_map(|row| self.of_theirs(row)).sum();
        if let Some((worst, ratio)) = self.worst(&compared).first().and_then(|row| Some((row.query, self.ratio(row)?)))
        {
            report.summarise(format!("duckdb_{temperature}_seconds"), theirs);
            report.summarise(format!("{temperature}_over_duckdb"), ours / theirs);
            report.summarise(format!("worst_{temperature}_over_duckdb"), ratio);
            report.summarise(format!("worst_{temperature}_query"), worst as f64);
        }
    }

    /// The first mode's queries: the worst ratio first; without another engine, the slowest.
    pub fn worst<'r>(&self, rows: &[&'r Row]) -> Vec<&'r Row> {
        let first = rows.first().map(|row| row.mode.as_str());
        let mut rows: Vec<&Row> = rows.iter().copied().filter(|row| Some(row.mode.as_str()) == first).collect();
        let badness = |row: &Row| self.ratio(row).unwrap_or(self.of_ours(row).whole);
        rows.sort_by(|left, right| badness(right).total_cmp(&badness(left)));
        rows
    }

    /// Figures of single queries and of the database itself.
    pub fn of_database(
        &self,
        rows: &[Row],
        database: &Database,
        path: &Path,
        threads: usize,
        report: &mut Report,
    ) -> Result<(), String> {
        let generation = database.generation();
        let q6 = rows.iter().find(|row| row.query == 6);
        if let (Some(q6), Some(lineitem), false) = (q6, generation.catalog.get("lineitem"), self.cold) {
            let rate = lineitem.rows() / self.of_ours(q6).whole / threads as f64;
            report.summarise("hot_q6_rows_per_second_per_core", rate);
        }
        if let Some(lineitem) = generation.catalog.get("lineitem")
            && let Some(segments) = generation.segments(lineitem).map_err(text)?
        {
            let bytes: u64 = segments.segments.iter().map(|segment| segment.bytes()).sum();
            report.summarise("segments_mb_lineitem", bytes as f64 / 1e6);
        }
        if let Some(seconds) = load_seconds(path) {
            report.summarise("load_seconds", seconds);
        }
        Ok(())
    }

    /// A pair of bars for each query.
    pub fn plot(&self, rows: &[Row], scale: f64, path: &Path) -> Result<(), String> {
        let first = rows.first().map(|row| row.mode.clone());
        let rows: Vec<&Row> = rows.iter().filter(|row| Some(&row.mode) == first.as_ref()).collect();
        let temperature = self.temperature();
        let number = |row: &&Row| row.query as f64;
        let ours = rows.iter().map(|row| (number(row), self.of_ours(row).whole * 1e3)).collect();
        let theirs = rows.iter().filter_map(|row| Some((number(row), self.of_theirs(row)? * 1e3))).collect();
        let chart = Chart::new(format!("TPC-H, {temperature}"))
            .subtitle(format!("scale factor {scale}; {}", self.device))
            .x(Axis::linear("query").whole())
            .y(Axis::linear("milliseconds").from_zero())
            .series(Series::new("saki", ours).bars())
            .series(Series::new("DuckDB", theirs).bars());
        save(&chart, path)
    }

    fn temperature(&self) -> &'static str {
        if self.cold { "cold" } else { "hot" }
    }

    /// The run that counts: of hot ones the fastest, of cold ones the median.
    fn of_ours(&self, row: &Row) -> Seconds {
        self.counting(&row.ours, |run| run.whole).unwrap_or_default()
    }

    fn of_theirs(&self, row: &Row) -> Option<f64> {
        self.counting(&row.theirs, |seconds| *seconds)
    }

    fn counting<T: Copy>(&self, runs: &[T], seconds: impl Fn(&T) -> f64) -> Option<T> {
        let mut runs = runs.to_vec();
        runs.sort_by(|left, right| seconds(left).total_cmp(&seconds(right)));
        runs.get(if self.cold { runs.len() / 2 } else { 0 }).copied()
    }

    fn ratio(&self, row: &Row) -> Option<f64> {
        Some(self.of_ours(row).whole / self.of_theirs(row)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(query: usize, ours: [f64; 3], theirs: [f64; 3]) -> Row {
        let ours = ours.map(|whole| Seconds { planning: 0.0, whole }).to_vec();
        Row { ours, theirs: theirs.to_vec(), ..Row::new(query, "out_of_order") }
    }

    #[test]
    fn hot_runs_count_by_the_fastest_and_cold_ones_by_the_median() {
        let one = row(1, [3.0, 1.0, 5.0], [1.0, 2.0, 1.5]);
        let summary = |cold| Summary { cold, device: String::new() };
        assert_eq!(summary(false).ratio(&one), Some(1.0));
        assert_eq!(summary(true).ratio(&one), Some(2.0));
    }

    #[test]
    fn the_worst_query_is_that_of_the_worst_ratio() {
        let summary = Summary { cold: false, device: String::new() };
        let rows = [row(1, [9.0; 3], [9.0; 3]), row(2, [2.0; 3], [1.0; 3]), row(3, [1.0; 3], [2.0; 3])];
        let worst = summary.worst(&rows.iter().collect::<Vec<_>>());
        assert_eq!(worst.iter().map(|row| row.query).collect::<Vec<_>>(), [2, 1, 3]);
        let slow = Row { theirs: Vec::new(), ..row(4, [0.5; 3], [0.0; 3]) };
        assert_eq!(summary.ratio(&slow), None);
    }
}
