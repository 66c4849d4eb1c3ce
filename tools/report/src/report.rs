//! What a benchmark says: rows, ratios, and what went wrong.
//!
//! Every report carries what is needed to read it later: the program's
//! version, the configuration, the machine, and for every row the device by
//! name. A *check* is a fact that has to hold for the figures to mean anything
//! (a right answer, a verified page): a broken one makes the run fail.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::machine::machine;

/// What every benchmark takes.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Write the report to this file.
    #[arg(long, value_name = "FILE", global = true)]
    pub json: Option<PathBuf>,
    /// Draw the result into this file (.png or .svg).
    #[arg(long, value_name = "FILE", global = true)]
    pub plot: Option<PathBuf>,
    /// A quick run that only shows that the benchmark works; its figures mean little.
    #[arg(long, global = true)]
    pub small: bool,
    /// Everything random is drawn from this.
    #[arg(long, default_value_t = 1, global = true)]
    pub seed: u64,
    /// Directory for the files and databases that benchmarks make.
    #[arg(long, value_name = "DIRECTORY", default_value = "bench-data", global = true)]
    pub data: PathBuf,
}

/// The outcome of one benchmark.
#[derive(Serialize)]
pub struct Report {
    pub benchmark: &'static str,
    pub version: &'static str,
    pub optimised: bool,
    pub small: bool,
    pub seed: u64,
    pub machine: Value,
    pub configuration: Map<String, Value>,
    pub rows: Vec<Value>,
    /// Ratios and figures by the names that `docs/performance.md` uses.
    pub summary: BTreeMap<String, f64>,
    /// What a reader must know of how the figures came about.
    pub notes: Vec<String>,
    /// Checks that failed.
    pub faults: Vec<String>,
    pub checks: u64,
}

impl Report {
    pub fn new(benchmark: &'static str, common: &Common) -> Self {
        let optimised = !cfg!(debug_assertions);
        let mut report = Self {
            benchmark,
            version: env!("CARGO_PKG_VERSION"),
            optimised,
            small: common.small,
            seed: common.seed,
            machine: machine(),
            configuration: Map::new(),
            rows: Vec::new(),
            summary: BTreeMap::new(),
            notes: Vec::new(),
            faults: Vec::new(),
            checks: 0,
        };
        if !optimised {
            report.note("built without optimisation: the figures say nothing about speed");
        }
        report
    }

    /// Records a choice that shapes the figures.
    pub fn configure(&mut self, name: &str, value: impl Serialize) {
        self.configuration.insert(name.into(), json!(value));
    }

    pub fn row(&mut self, row: Value) {
        self.rows.push(row);
    }

    /// A figure that others quote.
    pub fn summarise(&mut self, name: impl Into<String>, value: f64) {
        self.summary.insert(name.into(), value);
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// A fact without which the figures are worth nothing.
    pub fn check(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        self.checks += 1;
        if !holds {
            let fault = fault();
            eprintln!("WRONG: {fault}");
            self.faults.push(fault);
        }
    }

    /// Prints the summary, writes the JSON, and fails if a check did.
    pub fn finish(self, common: &Common) -> Result<(), String> {
        println!("\n{} (saki-bench {})", self.benchmark, self.version);
        let width = self.summary.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in &self.summary {
            println!("  {name:width$}  {}", figure(*value));
        }
        for note in &self.notes {
            println!("  note: {note}");
        }
        if let Some(path) = &common.json {
            let text = serde_json::to_string_pretty(&self).expect("a report is plain numbers and text");
            std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
        }
        match self.faults.len() {
            0 => {
                println!("  {} checks passed", self.checks);
                Ok(())
            }
            count => Err(format!("{count} of {} checks failed, so the figures are void", self.checks)),
        }
    }
}

/// A number with as many digits as mean something.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.6}"),
    }
}
