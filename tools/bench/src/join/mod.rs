//! The three-table join over selectivities, cold and hot, as planned, against DuckDB and PostgreSQL.
//!
//! The engines take turns over the same customers, other ones each time, and have to give one answer. Cold: our caches
//! are empty and reads bypass the system's (O_DIRECT); DuckDB begins a new instance, PostgreSQL's server starts again,
//! and the system forgets their files. What counts of a selectivity is the median, over the turns, of our time over the
//! best rival's.

mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use saki::experiment::{Join, Mode};
use saki_sql::{Database, Session};
use tokio::runtime::Runtime;

use self::summary::{Cell, Turn, plot, summarise};
use crate::data::rival::{Rival, export};
use crate::data::tpch::{Wanted, lines, open, prepare, rows_of, runtime, text};
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
    /// Percent of the customers
    #[arg(long, value_delimiter = ',', default_values_t = [0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])]
    percent: Vec<f64>,
    /// Other engines: duckdb, postgresql
    #[arg(long, value_delimiter = ',', default_values_t = ["duckdb", "postgresql"].map(String::from))]
    rivals: Vec<String>,
    /// Turns, each over other customers
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Threads of each engine
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// A rival that has taken so long at one selectivity is not asked again for it: it is not the best.
const RIVAL_SECONDS_MAX: f64 = 10.0;

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("join", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    report.configure("scale", scale);
    report.configure("repeat", options.repeat);
    report.configure("threads", options.threads);
    let path = prepare(&Wanted { scale, page_bytes: options.page_size, path: options.db.clone() }, common, &runtime)?;
    let database = open(&path, None, &mut report)?;
    let tables = common.data.join(format!("tpch-{scale}"));
    export(&database, &tables, &runtime)?;
    let mut rivals = Vec::new();
    for engine in &options.rivals {
        rivals.extend(Rival::start_or_note(engine, &tables, &common.data, options.threads, &mut report));
    }
    let session = Session::new(&database);
    Mode::Auto.apply(&session).map_err(text)?;
    session.set("partitions", &options.threads.to_string()).map_err(text)?;
    let names: Vec<String> = std::iter::once("saki".into()).chain(rivals.iter().map(|r| r.name.clone())).collect();
    println!("{}\n{}", database.device_name(), Cell::title(&names));
    let mut cells = Vec::new();
    for percent in options.percent.iter().filter(|percent| !common.small || **percent >= 1.0) {
        let mut cell = Cell::new(*percent, &names);
        for turn in 0..options.repeat {
            let join = Join::new(percent / 100.0, common.seed + turn as u64);
            let taken = take_turn(&join, &session, &database, &runtime, &mut rivals, &cell, &mut report)?;
            cell.turns.push(taken);
        }
        println!("{cell}");
        report.row(cell.to_json());
        cells.push(cell);
    }
    summarise(&cells, &mut report);
    if let Some(path) = &common.plot {
        plot(path, &cells, scale)?;
    }
    Ok(report)
}

/// All engines over the same customers: cold, then hot.
fn take_turn(
    join: &Join,
    session: &Session,
    database: &Arc<Database>,
    runtime: &Runtime,
    rivals: &mut [Rival],
    cell: &Cell,
    report: &mut Report,
) -> Result<Turn, String> {
    let sql = join.sql();
    let mut turn = Turn::default();
    database.drop_caches();
    let mut ours = Vec::new();
    let mut run = || -> Result<f64, String> {
        let started = Instant::now();
        let batches = runtime.block_on(rows_of(session, &sql))?;
        let seconds = started.elapsed().as_secs_f64();
        ours = lines(&batches)?;
        Ok(seconds)
    };
    turn.cold.push(Some(run()?));
    turn.hot.push(Some(run()?));
    for (position, rival) in rivals.iter_mut().enumerate() {
        if cell.spent(position + 1) > RIVAL_SECONDS_MAX {
            turn.cold.push(None);
            turn.hot.push(None);
            continue;
        }
        let (cold, hot) = (rival.run(&sql, true)?, rival.run(&sql, false)?);
        if let Some(how) = &cold.cold {
            report.configure(&format!("{}_cold_by", rival.name), how);
        }
        let theirs: Vec<&str> = cold.first.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect();
        // An empty sum is NULL, which one engine prints as nothing.
        let same = ours.iter().all(|line| line.replace("NULL", "") == theirs.join("|").replace("NULL", ""));
        report.check(same, || format!("{sql}: {ours:?}, {} answers {theirs:?}", rival.name));
        turn.cold.push(Some(cold.seconds));
        turn.hot.push(Some(hot.seconds));
    }
    Ok(turn)
}
