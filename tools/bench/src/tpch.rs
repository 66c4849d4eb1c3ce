//! The 22 queries of TPC-H, each cold and hot, in one execution mode or several.
//!
//! Cold: the page cache is empty and reads bypass the system's. Hot: at once again.
//! Every mode, cold or hot, has to give the same rows.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use saki::tpch::QUERIES;
use serde_json::json;

use crate::report::{Common, Report};
use crate::tpch_data::{Wanted, lines, open, prepare, result_hash, rows_of, runtime, text};

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
    /// Execution modes: out_of_order, in_order
    #[arg(long, value_delimiter = ',', default_values_t = ["out_of_order"].map(String::from))]
    modes: Vec<String>,
    /// Queries to run
    #[arg(long, value_delimiter = ',', default_values_t = 1..=22)]
    queries: Vec<usize>,
    /// A device to resemble, such as cloud-volume
    #[arg(long)]
    model: Option<String>,
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("tpch", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    report.configure("scale", scale);
    let path = prepare(&Wanted { scale, page_bytes: options.page_size, path: options.db.clone() }, common, &runtime)?;
    let database = open(&path, options.model.as_deref(), &mut report)?;
    println!(
        "{}\n{:>6}  {:14}{:>10}{:>10}{:>8}  hash",
        database.device_name(),
        "query",
        "mode",
        "cold s",
        "hot s",
        "rows"
    );
    let mut first_hashes: Vec<Option<String>> = vec![None; QUERIES.len() + 1];
    for mode in &options.modes {
        let session = database.session();
        session.set("execution", mode).map_err(text)?;
        let mut sums = [0.0; 2];
        for query in QUERIES.iter().filter(|query| options.queries.contains(&query.number)) {
            let mut seconds = [0.0; 2];
            let (mut hash, mut rows) = (String::new(), 0);
            database.drop_caches();
            for (temperature, taken) in ["cold", "hot"].iter().zip(&mut seconds) {
                let started = Instant::now();
                let batches = runtime.block_on(rows_of(&session, query.sql));
                *taken = started.elapsed().as_secs_f64();
                let found = match batches {
                    Ok(batches) => lines(&batches)?,
                    Err(error) => {
                        report.check(false, || format!("Q{} {mode} {temperature}: {error}", query.number));
                        continue;
                    }
                };
                (hash, rows) = (result_hash(&found), found.len());
                let expected = first_hashes[query.number].get_or_insert_with(|| hash.clone());
                report.check(*expected == hash, || {
                    format!("Q{} {mode} {temperature}: other rows than before", query.number)
                });
            }
            println!(
                "{:>6}  {mode:14}{:>10.3}{:>10.3}{rows:>8}  {hash}",
                format!("Q{}", query.number),
                seconds[0],
                seconds[1]
            );
            sums[0] += seconds[0];
            sums[1] += seconds[1];
            report.row(json!({
                "query": query.number, "mode": mode, "device": database.device_name(), "rows": rows, "hash": hash,
                "cold_seconds": seconds[0], "hot_seconds": seconds[1],
            }));
        }
        report.summarise(format!("{mode}_cold_seconds"), sums[0]);
        report.summarise(format!("{mode}_hot_seconds"), sums[1]);
    }
    Ok(report)
}
