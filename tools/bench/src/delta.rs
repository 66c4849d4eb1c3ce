//! What queries pay for rows in the delta: the 22 queries of TPC-H while a part of lineitem and orders is changed and
//! not merged, beside the same queries on an unchanged database.
//!
//! Orders are drawn uniformly; of most the row and its lines are updated, of some both are deleted. The two databases
//! take turns, query by query, run by run; of each query the fastest run counts. Afterwards the changes are merged, and
//! every query has to give the rows that it gave before.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use saki::plot::{Axis, Chart, Series};
use saki::tpch::{QUERIES, Query};
use saki_report::{Common, Report, figure};
use saki_sql::{Database, OpenOptions, Pace, Session};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::data::tpch::{Wanted, lines, open, prepare, result_hash, rows_of, runtime, text};
use crate::plot::save;

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// Orders, with their lines, that change: so many of a thousand
    #[arg(long, default_value_t = 10)]
    per_mille: u32,
    /// Queries to run
    #[arg(long, value_delimiter = ',', default_values_t = 1..=22)]
    queries: Vec<usize>,
    /// Runs of each query that count
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Threads of the engine
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Bytes of a delta beyond which it would be merged by itself.
const DELTA_BYTES: u64 = 4 << 30;

/// A query on both databases.
struct Row {
    query: usize,
    base: f64,
    changed: f64,
    hash: String,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.changed / self.base
    }
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("delta", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    let repeat = if common.small { 1 } else { options.repeat };
    report.configure("scale", scale);
    report.configure("per_mille", options.per_mille);
    report.configure("repeat", repeat);
    report.configure("threads", options.threads);
    let path = prepare(&Wanted { scale, page_bytes: options.page_size, path: None }, common, &runtime)?;
    let base = open(&path, None, &mut report)?;
    let copy = Copy::new(&path, &common.data.join(format!("tpch-{scale}-changed.saki")))?;
    let changed = copy.open()?;
    let (unchanged, session) = (session(&base, options)?, session(&changed, options)?);
    let rows = change(&session, &runtime, options.per_mille)?;
    report.configure("rows_changed", rows);
    println!("{}: {rows} rows changed", changed.device_name());
    println!("{:>6}{:>12}{:>12}{:>8}", "query", "base ms", "delta ms", "ratio");
    let mut measured = Vec::new();
    for query in QUERIES.iter().filter(|query| options.queries.contains(&query.number)) {
        let row = turns(query, [&unchanged, &session], repeat, &runtime, &mut report)?;
        println!(
            "{:>6}{:>12}{:>12}{:>8}",
            format!("Q{}", row.query),
            ms(row.base),
            ms(row.changed),
            figure(row.ratio())
        );
        let document =
            json!({"query": row.query, "base_seconds": row.base, "delta_seconds": row.changed, "ratio": row.ratio()});
        report.row(document);
        measured.push(row);
    }
    changed.checkpoint(&Pace::full()).map_err(text)?;
    for row in &measured {
        let query = QUERIES.iter().find(|query| query.number == row.query).ok_or("no such query")?;
        let (_, hash) = timed(query, &session, &runtime)?;
        report.check(hash == row.hash, || format!("Q{}: other rows after the merge", row.query));
    }
    summarise(&measured, &mut report);
    if let Some(plot) = &common.plot {
        draw(&measured, scale, options.per_mille, plot)?;
    }
    drop((session, changed));
    copy.remove();
    Ok(report)
}

fn ms(seconds: f64) -> String {
    figure(seconds * 1e3)
}

/// A database file of which rows may change.
struct Copy(PathBuf);

impl Copy {
    fn new(from: &Path, to: &Path) -> Result<Self, String> {
        let copy = Self(to.to_owned());
        copy.remove();
        std::fs::copy(from, to).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(copy)
    }

    fn logs(&self) -> PathBuf {
        self.0.with_extension("log")
    }

    fn open(&self) -> Result<Arc<Database>, String> {
        let log_directory = Some(self.logs());
        let options = OpenOptions { delta_bytes: DELTA_BYTES, log_directory, ..OpenOptions::default() };
        Database::open(&self.0, options).map_err(text)
    }

    fn remove(&self) {
        // What is not there need not go.
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(self.logs());
    }
}

fn session(database: &Arc<Database>, options: &Options) -> Result<Session, String> {
    let session = Session::new(database);
    session.set("partitions", &options.threads.to_string()).map_err(text)?;
    Ok(session)
}

/// Changes orders and their lines; how many rows.
fn change(session: &Session, runtime: &Runtime, per_mille: u32) -> Result<u64, String> {
    // A multiplication spreads neighbours: keys are dense in eights.
    let chosen =
        |key: &str, from: u32, to: u32| format!("({key} * 7919) % 1000 >= {from} AND ({key} * 7919) % 1000 < {to}");
    let deleted = per_mille / 5;
    let mut rows = 0;
    for sql in [
        format!("DELETE FROM lineitem WHERE {}", chosen("l_orderkey", 0, deleted)),
        format!("DELETE FROM orders WHERE {}", chosen("o_orderkey", 0, deleted)),
        format!("UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE {}", chosen("l_orderkey", deleted, per_mille)),
        format!("UPDATE orders SET o_totalprice = o_totalprice + 1 WHERE {}", chosen("o_orderkey", deleted, per_mille)),
    ] {
        for result in runtime.block_on(session.execute(&sql)).map_err(text)? {
            if let saki_sql::StatementResult::Done { rows: concerned, .. } = result {
                rows += concerned;
            }
        }
    }
    Ok(rows)
}

/// Runs a query on both, in turns; the first run of each is to warm up.
fn turns(
    query: &Query,
    [base, changed]: [&Session; 2],
    repeat: usize,
    runtime: &Runtime,
    report: &mut Report,
) -> Result<Row, String> {
    let mut row = Row { query: query.number, base: f64::INFINITY, changed: f64::INFINITY, hash: String::new() };
    for turn in 0..=repeat {
        let (seconds, _) = timed(query, base, runtime)?;
        let (changed_seconds, hash) = timed(query, changed, runtime)?;
        if turn == 0 {
            row.hash = hash;
            continue;
        }
        report.check(hash == row.hash, || format!("Q{}: other rows than before", query.number));
        row.base = row.base.min(seconds);
        row.changed = row.changed.min(changed_seconds);
    }
    Ok(row)
}

/// What a run took, and what its rows are.
fn timed(query: &Query, session: &Session, runtime: &Runtime) -> Result<(f64, String), String> {
    let began = Instant::now();
    let batches = runtime.block_on(rows_of(session, query.sql))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok((seconds, result_hash(&lines(&batches)?)))
}

fn summarise(rows: &[Row], report: &mut Report) {
    let total = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
    let (base, changed) = (total(|row| row.base), total(|row| row.changed));
    report.summarise("base_seconds", base);
    report.summarise("delta_seconds", changed);
    report.summarise("delta_over_base", changed / base);
    if let Some(worst) = rows.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio())) {
        report.summarise("worst_delta_over_base", worst.ratio());
        println!("worst: Q{}", worst.query);
    }
}

fn draw(rows: &[Row], scale: f64, per_mille: u32, path: &Path) -> Result<(), String> {
    let points = |of: fn(&Row) -> f64| rows.iter().map(|row| (row.query as f64, of(row) * 1e3)).collect();
    let chart = Chart::new("TPC-H with rows in the delta")
        .subtitle(format!("scale factor {scale}, {per_mille} of 1000 orders and their lines changed"))
        .x(Axis::linear("query"))
        .y(Axis::log("milliseconds"))
        .series(Series::new("all in the base", points(|row| row.base)))
        .series(Series::new("with the delta", points(|row| row.changed)));
    save(&chart, path)
}
