//! The paper's nine queries of TPC-H in sequence, on a slow device and a fast one that has room for some share of what
//! they read cold: policies side by side, by kind of slow device and by how tables are read.
//!
//! The sequence runs twice under each policy, and the second time is measured: memory is empty again, the policy knows
//! what it has seen, and its copies are where the first time has left them. The static placement is by the first
//! time as a whole, and in place before the second. The slow device is modeled, the fast one is what its file lies on.

mod prediction;
mod runs;
mod summary;

use clap::Args;
use saki_io::ModelOptions;
use saki_report::{Common, Report, figure};
use saki_sql::PolicyKind;
use serde_json::json;

use self::prediction::Prediction;
use self::runs::{Bench, Run, Way, text};
use crate::data::tpch::{Wanted, prepare, runtime};

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// Slow devices, by their kinds: disks (three, striped), cloud (network block storage), objects (30 ms)
    #[arg(long, value_delimiter = ',', default_value = "disks,cloud,objects")]
    storage: Vec<String>,
    /// Shares of the bytes that the queries read cold which the fast device has room for, in percent
    #[arg(long, value_delimiter = ',', default_values_t = (0..=10_u64).map(|tens| tens * 10))]
    shares: Vec<u64>,
    /// How tables are read: rows is the paper's way, lookups the same with every join by an index that can be
    #[arg(long, value_delimiter = ',', default_value = "rows,lookups,auto")]
    access_path: Vec<String>,
    /// Policies
    #[arg(long, value_delimiter = ',', default_value = "static,lru,heat,plan")]
    policies: Vec<PolicyKind>,
    /// Memory for pages, and as much for columns, in bytes; if not given, a fifth of what the queries read cold
    #[arg(long)]
    cache_bytes: Option<usize>,
}

/// The model of a kind of storage.
fn model_of(storage: &str) -> Result<&'static str, String> {
    Ok(match storage {
        // The paper's: three striped disks.
        "disks" => "hdd,servers=3,bandwidth=450MB",
        "cloud" => "cloud-volume,iops=10000,bandwidth=250MB",
        "objects" => "latency=30ms,iops=5500,bandwidth=1GB",
        // Of runs that only show that the benchmark works.
        "quick" => "latency=200us,iops=20000,bandwidth=1GB",
        other => return Err(format!("there is no storage {other}; there are disks, cloud, objects, quick")),
    })
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("tiering", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    let shares = if common.small { vec![50] } else { options.shares.clone() };
    let storages = if common.small { vec!["quick".to_owned()] } else { options.storage.clone() };
    report.configure("scale", scale);
    report.configure("policies", options.policies.iter().map(|policy| policy.name()).collect::<Vec<_>>());
    let from = prepare(&Wanted { scale, page_bytes: options.page_size, path: None }, common, &runtime)?;
    let mut bench = Bench::new(common.data.join(format!("tiering-{scale}.saki")), &from, &runtime)?;
    let mut all = Vec::new();
    for storage in &storages {
        let model = model_of(storage)?;
        report.configure(&format!("model_{storage}"), model.parse::<ModelOptions>().map_err(text)?.to_string());
        for access_path in &options.access_path {
            let way = Way { storage: storage.clone(), model, access_path: access_path.clone() };
            bench.cache_bytes = match options.cache_bytes {
                Some(bytes) => bytes,
                None => bench.read_cold(&way)? / 5,
            };
            report.configure(&format!("cache_bytes_{access_path}"), bench.cache_bytes);
            all.extend(side_by_side(&bench, &way, &shares, &options.policies, &mut report)?);
        }
    }
    for (prediction, access_path) in [("columns", "columns"), ("lookups", "lookups")] {
        let way =
            Way { storage: storages[0].clone(), model: model_of(&storages[0])?, access_path: access_path.to_owned() };
        Prediction::of(&bench, &way)?.report(prediction, &mut report);
    }
    summary::summarise(&all, &mut report);
    if let Some(path) = &common.plot {
        summary::draw(&all, scale, path)?;
    }
    Ok(report)
}

/// All policies at all shares, and none.
fn side_by_side(
    bench: &Bench<'_>,
    way: &Way,
    shares: &[u64],
    policies: &[PolicyKind],
    report: &mut Report,
) -> Result<Vec<Run>, String> {
    println!("\n{}, {}", way.storage, way.access_path);
    println!("{:>8}{:>8}{:>12}{:>12}{:>14}{:>14}", "policy", "share", "seconds", "slow reads", "slow MiB", "fast MiB");
    let none = bench.run(way, PolicyKind::None, 0, 0)?;
    show(&none, report);
    let mut runs = Vec::new();
    for share in shares.iter().copied().filter(|share| *share > 0) {
        for policy in policies {
            let run = bench.run(way, *policy, share, none.chunks * share / 100)?;
            report.check(run.hashes == none.hashes, || format!("{policy} at {share} %: other rows"));
            report.check(run.distrusted == 0, || format!("{policy} at {share} %: a copy was not what it should be"));
            show(&run, report);
            runs.push(run);
        }
    }
    runs.insert(0, none);
    Ok(runs)
}

fn show(run: &Run, report: &mut Report) {
    let (policy, share) = (run.policy.name(), run.share);
    println!(
        "{policy:>8}{share:>8}{:>12}{:>12}{:>14}{:>14}",
        figure(run.total()),
        run.slow_reads,
        run.slow_bytes >> 20,
        run.fast_written >> 20,
    );
    report.row(json!({
        "storage": run.way.storage, "access_path": run.way.access_path, "policy": policy, "share": share,
        "seconds": run.total(), "seconds_by_query": run.seconds, "slow_reads": run.slow_reads,
        "slow_bytes": run.slow_bytes, "fast_written_bytes": run.fast_written, "fast_reads": run.fast_reads,
        "warm_share": run.warm_share,
    }));
}
