//! The 22 queries of TPC-H, hot or cold, in one execution mode or several, against DuckDB on its native tables.
//!
//! Hot: once to warm up, then several times at once. Cold: before every run our caches are emptied and reads bypass the
//! system's (O_DIRECT); DuckDB gets a new instance and the system forgets its file. The engines take turns query by
//! query, run by run, with as many threads. Of hot runs the fastest counts, of cold ones the median. Every mode has to
//! give the same rows, and DuckDB as many (`tools/peers/peers tpch` compares the values).

mod scan;
mod summary;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use saki::tpch::{QUERIES, Query};
use saki_sql::Session;
use tokio::runtime::Runtime;

use self::scan::scan_share;
use self::summary::{Row, Seconds, Summary};
use crate::data::rival::{Rival, export};
use crate::data::tpch::{Wanted, lines, open, prepare, result_hash, rows_of, runtime, text};
use saki_report::{Common, Report};

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// An existing TPC-H database
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Execution modes: out_of_order, in_order. DuckDB is compared with the first
    #[arg(long, value_delimiter = ',', default_values_t = ["out_of_order"].map(String::from))]
    modes: Vec<String>,
    /// Queries to run
    #[arg(long, value_delimiter = ',', default_values_t = 1..=22)]
    queries: Vec<usize>,
    /// A device to resemble, such as cloud-volume
    #[arg(long)]
    model: Option<String>,
    /// Start every run with nothing cached
    #[arg(long)]
    cold: bool,
    /// Runs of each query that count
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Threads of either engine
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Do not compare with DuckDB
    #[arg(long)]
    alone: bool,
    /// Further settings of our session, such as access_path=rows
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Show where the time goes in so many queries of the worst ratios, in both engines
    #[arg(long, value_name = "QUERIES", num_args = 0..=1, default_missing_value = "3", default_value_t = 0)]
    profile: usize,
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("tpch", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    report.configure("scale", scale);
    report.configure("cold", options.cold);
    report.configure("repeat", options.repeat);
    report.configure("threads", options.threads);
    let path = prepare(&Wanted { scale, page_bytes: options.page_size, path: options.db.clone() }, common, &runtime)?;
    let database = open(&path, options.model.as_deref(), &mut report)?;
    let mut rival = None;
    if !options.alone {
        let tables = common.data.join(format!("tpch-{scale}"));
        export(&database, &tables, &runtime)?;
        rival = Rival::start_or_note("duckdb", &tables, &common.data, options.threads, &mut report);
    }
    let modes = options.modes.iter().map(|name| Mode::new(name, Session::new(&database), options));
    let modes = modes.collect::<Result<Vec<_>, _>>()?;
    let summary = Summary { cold: options.cold, device: database.device_name() };
    summary.print_title(rival.as_ref());
    let mut rows: Vec<Row> = Vec::new();
    for query in QUERIES.iter().filter(|query| options.queries.contains(&query.number)) {
        let measured = Turns { runtime: &runtime, query, options }.take(&modes, rival.as_mut(), &mut report)?;
        measured.iter().for_each(|row| summary.print(row));
        rows.extend(measured);
    }
    rows.iter().for_each(|row| report.row(row.to_json(&summary)));
    summary.summarise(&rows, &mut report);
    summary.of_database(&rows, &database, &path, options.threads, &mut report)?;
    if options.cold {
        scan_share(&database, &modes[0].session, &runtime, &mut report)?;
    }
    if let Some(plot) = &common.plot {
        summary.plot(&rows, scale, plot)?;
    }
    for row in summary.worst(&rows.iter().collect::<Vec<_>>()).into_iter().take(options.profile) {
        profile(&runtime, row, &modes[0].session, rival.as_mut())?;
    }
    Ok(report)
}

/// A way of ours to run queries.
struct Mode {
    name: String,
    session: Session,
}

impl Mode {
    fn new(name: &str, session: Session, options: &Options) -> Result<Self, String> {
        session.set("execution", name).map_err(text)?;
        session.set("partitions", &options.threads.to_string()).map_err(text)?;
        // Both engines plan every run.
        session.set("plan_cache", "off").map_err(text)?;
        // So that what planning takes is seen by itself: with a limit, a query's first rows come with its plan.
        session.set("query_memory", "unlimited").map_err(text)?;
        for setting in &options.settings {
            let (name, value) = setting.split_once('=').ok_or_else(|| format!("{setting} is no NAME=VALUE"))?;
            session.set(name, value).map_err(text)?;
        }
        Ok(Self { name: name.into(), session })
    }
}

/// The runs of one query, in turns.
struct Turns<'a> {
    runtime: &'a Runtime,
    query: &'a Query,
    options: &'a Options,
}

impl Turns<'_> {
    fn take(&self, modes: &[Mode], mut rival: Option<&mut Rival>, report: &mut Report) -> Result<Vec<Row>, String> {
        let mut rows: Vec<Row> = modes.iter().map(|mode| Row::new(self.query.number, &mode.name)).collect();
        let mut hash: Option<String> = None;
        let warming = usize::from(!self.options.cold);
        for turn in 0..self.options.repeat + warming {
            for (mode, row) in modes.iter().zip(&mut rows) {
                let (seconds, found) = match self.run(&mode.session) {
                    Ok(run) => run,
                    Err(error) => {
                        report.check(false, || format!("Q{} {}: {error}", self.query.number, mode.name));
                        continue;
                    }
                };
                row.rows = found.len();
                let found = result_hash(&found);
                let expected = hash.get_or_insert_with(|| found.clone());
                report.check(*expected == found, || {
                    format!("Q{} {}: other rows than before", self.query.number, mode.name)
                });
                row.hash = found;
                if turn >= warming {
                    row.ours.push(seconds);
                }
            }
            if let Some(rival) = rival.as_deref_mut() {
                let answer = rival.run(self.query.sql.trim_end().trim_end_matches(';'), self.options.cold)?;
                if let Some(how) = &answer.cold {
                    report.configure("duckdb_cold_by", how);
                }
                let row = &mut rows[0];
                report.check(answer.rows == row.rows, || {
                    format!("Q{}: {} rows, {} has {}", self.query.number, row.rows, rival.name, answer.rows)
                });
                if turn >= warming {
                    row.theirs.push(answer.seconds);
                }
            }
        }
        Ok(rows)
    }

    /// Runs the query once.
    fn run(&self, session: &Session) -> Result<(Seconds, Vec<String>), String> {
        if self.options.cold {
            session.database().drop_caches();
        }
        self.runtime.block_on(async {
            let started = Instant::now();
            let results = session.execute(self.query.sql).await.map_err(text)?;
            let planning = started.elapsed().as_secs_f64();
            let mut batches = Vec::new();
            for result in results {
                batches.extend(result.collect().await.map_err(text)?);
            }
            let seconds = Seconds { planning, whole: started.elapsed().as_secs_f64() };
            Ok((seconds, lines(&batches)?))
        })
    }
}

/// Prints both engines' plans with what was measured in them.
fn profile(runtime: &Runtime, row: &Row, session: &Session, rival: Option<&mut Rival>) -> Result<(), String> {
    let Some(query) = QUERIES.iter().find(|query| query.number == row.query) else { return Ok(()) };
    let ours = runtime.block_on(rows_of(session, &format!("EXPLAIN ANALYZE {}", query.sql)))?;
    println!("\nQ{}\n{}", query.number, lines(&ours)?.join("\n"));
    if let Some(rival) = rival {
        let theirs = rival.profile(query.sql.trim_end().trim_end_matches(';'))?;
        println!("{}\n{theirs}", rival.name);
    }
    Ok(())
}
