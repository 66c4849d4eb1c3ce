//! Each native operator against the one of DataFusion's that it replaces: the 22 queries of TPC-H, hot, with
//! one kind of operator exchanged at a time.
//!
//! The variants take turns query by query, and have to give the same rows. Of each variant's runs the fastest counts.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use saki::tpch::QUERIES;
use saki_sql::Session;
use serde_json::json;

use crate::data::tpch::{Wanted, lines, open, prepare, result_hash, rows_of, runtime, text};
use saki_report::{Common, Report};

/// Name, and what is set: everything native comes first, the others are compared with it.
const VARIANTS: [(&str, &[(&str, &str)]); 6] = [
    ("native", &[]),
    ("datafusion_filter", &[("native_filter", "off")]),
    ("datafusion_aggregate", &[("native_aggregate", "off")]),
    ("datafusion_join", &[("native_join", "off")]),
    ("datafusion_all", &[("operators", "datafusion")]),
    ("row_pages", &[("operators", "datafusion"), ("access_path", "rows")]),
];

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// An existing TPC-H database
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Queries to run
    #[arg(long, value_delimiter = ',', default_values_t = 1..=22)]
    queries: Vec<usize>,
    /// Runs of each query and variant that count
    #[arg(long, default_value_t = 3)]
    repeat: usize,
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("operators", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    report.configure("scale", scale);
    report.configure("repeat", options.repeat);
    let wanted = Wanted { scale, page_bytes: saki_sql::PAGE_BYTES_DEFAULT, path: options.db.clone() };
    let database = open(&prepare(&wanted, common, &runtime)?, None, &mut report)?;
    let sessions = VARIANTS.iter().map(|(_, settings)| session(Session::new(&database), settings));
    let sessions = sessions.collect::<Result<Vec<_>, _>>()?;
    println!("{}, hot; milliseconds", database.device_name());
    println!("{:>6}{}", "query", VARIANTS.iter().map(|(name, _)| format!("{name:>22}")).collect::<String>());
    let mut totals = [0.0; VARIANTS.len()];
    for query in QUERIES.iter().filter(|query| options.queries.contains(&query.number)) {
        let mut fastest = [f64::INFINITY; VARIANTS.len()];
        let mut expected: Option<String> = None;
        for turn in 0..=options.repeat {
            for ((session, seconds), (name, _)) in sessions.iter().zip(&mut fastest).zip(&VARIANTS) {
                let started = Instant::now();
                let batches = runtime.block_on(rows_of(session, query.sql))?;
                // The first turn warms up.
                if turn > 0 {
                    *seconds = seconds.min(started.elapsed().as_secs_f64());
                }
                let hash = result_hash(&lines(&batches)?);
                let same = *expected.get_or_insert_with(|| hash.clone()) == hash;
                report.check(same, || format!("Q{} {name}: other rows than native operators give", query.number));
            }
        }
        println!("{:>6}{}", format!("Q{}", query.number), fastest.map(|s| format!("{:>22.1}", s * 1e3)).concat());
        for ((total, seconds), (name, _)) in totals.iter_mut().zip(fastest).zip(&VARIANTS) {
            *total += seconds;
            report.row(json!({"query": query.number, "variant": name, "seconds": seconds}));
        }
    }
    println!("{:>6}{}", "all", totals.map(|s| format!("{:>22.1}", s * 1e3)).concat());
    for (total, (name, _)) in totals.iter().zip(&VARIANTS).skip(1) {
        report.summarise(format!("{name}_over_native"), total / totals[0]);
    }
    Ok(report)
}

fn session(session: Session, settings: &[(&str, &str)]) -> Result<Session, String> {
    for (name, value) in settings {
        session.set(name, value).map_err(text)?;
    }
    Ok(session)
}
