//! Bulk load: how long, how much memory, how large the result.
//!
//! Each load runs in a process of its own (`saki-bench load-one`), because the
//! system remembers one peak of memory per process. Loading five times the data
//! must not take more memory; the result must pass `check` and have the rows that
//! the generator made.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use saki::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::data::tpch::{load, runtime};
use saki_report::{Common, Report};

#[derive(Args)]
pub struct Options {
    /// Scale factors; the ratio of peaks is of the last to the first
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 5.0])]
    scales: Vec<f64>,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// Keep the databases
    #[arg(long)]
    keep: bool,
}

/// One load, in this process.
#[derive(Args)]
pub struct OneOptions {
    #[arg(long)]
    db: PathBuf,
    #[arg(long)]
    scale: f64,
    #[arg(long)]
    page_size: u32,
    #[arg(long)]
    check: bool,
}

/// What one load tells the process that began it.
#[derive(Serialize, Deserialize)]
struct Outcome {
    seconds: f64,
    peak_mib: f64,
    user_seconds: f64,
    system_seconds: f64,
    device: String,
    file_mb: f64,
    rows: Vec<(String, u64)>,
    /// Tree, entries, bytes / 10^6.
    trees: Vec<(String, u64, f64)>,
    faults: Vec<String>,
}

/// Runs all loads, each in a process of its own.
pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("load", common);
    let scales = if common.small { vec![0.01, 0.05] } else { options.scales.clone() };
    report.configure("scales", &scales);
    report.configure("page_bytes", options.page_size);
    report.configure("load_memory_bytes", saki_sql::OpenOptions::default().load_memory_bytes);
    println!("{:>7}{:>10}{:>10}{:>10}{:>12}{:>14}", "scale", "seconds", "peak MiB", "user s", "file MB", "lineitem MB");
    let mut peaks = Vec::new();
    for (position, scale) in scales.iter().enumerate() {
        let outcome = in_own_process(*scale, options, common, position == 0)?;
        let lineitem = outcome.trees.iter().find(|(name, ..)| name == "lineitem").map_or(0.0, |(.., mb)| *mb);
        println!(
            "{scale:>7}{:>10.1}{:>10.0}{:>10.1}{:>12.0}{lineitem:>14.0}",
            outcome.seconds, outcome.peak_mib, outcome.user_seconds, outcome.file_mb
        );
        outcome.faults.iter().for_each(|fault| report.check(false, || format!("scale factor {scale}: {fault}")));
        for (name, rows) in expected_rows(*scale) {
            let found = outcome.rows.iter().find(|(table, _)| table == name).map_or(0, |(_, rows)| *rows);
            report.check(rows == found, || format!("{name} has {found} rows, TPC-H {rows} at scale factor {scale}"));
        }
        if position == 0 {
            report.summarise("seconds", outcome.seconds);
            report.summarise("lineitem_mb", lineitem);
        }
        peaks.push(outcome.peak_mib);
        report.row(json!({ "scale": scale, "outcome": outcome }));
    }
    let ratio = peaks.last().unwrap_or(&0.0) / peaks.first().unwrap_or(&1.0);
    report.summarise("peak_mib_ratio_sf5_sf1", ratio);
    if scales != [1.0, 5.0] {
        report.note(format!("scale factors {scales:?} stand where the names of the summary say SF 1 and SF 5"));
    }
    Ok(report)
}

/// Row counts that the specification fixes.
fn expected_rows(scale: f64) -> Vec<(&'static str, u64)> {
    let of = |rows: f64| (rows * scale).round() as u64;
    vec![
        ("customer", of(150e3)),
        ("orders", of(1.5e6)),
        ("part", of(200e3)),
        ("partsupp", of(800e3)),
        ("supplier", of(10e3)),
        ("nation", 25),
    ]
}

fn in_own_process(scale: f64, options: &Options, common: &Common, check: bool) -> Result<Outcome, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = common.data.join(format!("load-{scale}.saki"));
    remove(&path)?;
    let mut command = Command::new(program);
    command.args(["load-one", "--scale", &scale.to_string(), "--page-size", &options.page_size.to_string(), "--db"]);
    command.arg(&path).args(check.then_some("--check"));
    // The answer is the last line of the output; what goes wrong is printed by the process itself.
    let output = command.stderr(std::process::Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !options.keep {
        remove(&path)?;
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    match answer.lines().last().map(serde_json::from_str) {
        Some(Ok(outcome)) if output.status.success() => Ok(outcome),
        _ => Err(format!("loading scale factor {scale} failed ({})", output.status)),
    }
}

fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

/// The other end of [`in_own_process`].
pub fn run_one(options: &OneOptions) -> Result<(), String> {
    let runtime = runtime();
    let loaded = load(&options.db, options.scale, options.page_size, true, &runtime)?;
    // Before the check, which has memory of its own.
    let usage = Usage::now();
    let database = &loaded.database;
    let megabytes = |pages: u64| pages as f64 * f64::from(options.page_size) / 1e6;
    let mut trees = Vec::new();
    for table in database.generation().catalog.tables() {
        trees.push((table.name.clone(), table.root.entries, megabytes(table.root.pages())));
        trees.extend(
            table.indexes.iter().map(|index| (index.name.clone(), index.root.entries, megabytes(index.root.pages()))),
        );
    }
    let mut faults = Vec::new();
    if options.check {
        let checked = database.check(&mut |_| {}).map_err(|error| error.to_string())?;
        faults.extend(checked.faults.iter().map(ToString::to_string));
    }
    let outcome = Outcome {
        seconds: loaded.elapsed.as_secs_f64(),
        peak_mib: usage.resident_max as f64 / 1_048_576.0,
        user_seconds: usage.user.as_secs_f64(),
        system_seconds: usage.system.as_secs_f64(),
        device: database.device_name(),
        file_mb: std::fs::metadata(&options.db).map_or(0.0, |metadata| metadata.len() as f64 / 1e6),
        rows: loaded.rows.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect(),
        trees,
        faults,
    };
    println!("{}", serde_json::to_string(&outcome).expect("plain numbers and text"));
    Ok(())
}
