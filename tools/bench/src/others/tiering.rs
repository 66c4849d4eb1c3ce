//! The paper's nine queries of TPC-H in sequence, on a slow device and a fast one of some share of what they read:
//! policies side by side.
//!
//! Every run begins cold, on the same database, which nobody has read since it was opened: what a policy knows it has
//! seen in this run, but for the static placement, which has seen the whole sequence once before. The slow device is
//! modeled, the fast one is what the file lies on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use saki::plot::{Axis, Chart, Series};
use saki::tpch::QUERIES;
use saki_base::{CHUNK_BYTES, DeviceId};
use saki_io::{DeviceProfile, ModelOptions, ProfilePoint};
use saki_report::{Common, Report, figure};
use saki_sql::{Database, DeviceClass, DeviceSpec, OpenOptions, PolicyKind, Session};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::data::tpch::{Wanted, lines, prepare, result_hash, rows_of, runtime, text};
use crate::plot::save;

#[derive(Args)]
pub struct Options {
    /// Scale factor
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Page size in bytes
    #[arg(long, default_value_t = saki_sql::PAGE_BYTES_DEFAULT)]
    page_size: u32,
    /// The slow device: three striped disks unless told otherwise
    #[arg(long, default_value = "modeled:hdd,servers=3,bandwidth=450MB")]
    model: String,
    /// Shares of the bytes that the queries read cold which the fast device has room for, in percent
    #[arg(long, value_delimiter = ',', default_values_t = (0..=10_u64).map(|tens| tens * 10))]
    shares: Vec<u64>,
    /// How tables are read: rows is the paper's way
    #[arg(long, default_value = "rows")]
    access_path: String,
    /// Memory for pages, and as much for columns, in bytes
    #[arg(long, default_value_t = 32 << 20)]
    cache_bytes: usize,
}

/// The paper's.
const QUERY_NUMBERS: [usize; 9] = [3, 4, 5, 7, 8, 9, 10, 20, 21];
const POLICIES: [PolicyKind; 5] =
    [PolicyKind::None, PolicyKind::Static, PolicyKind::Lru, PolicyKind::Heat, PolicyKind::Plan];
const SLOW: DeviceId = DeviceId(0);

/// The sequence under one policy.
struct Run {
    policy: PolicyKind,
    share: u64,
    /// Of each query.
    seconds: Vec<f64>,
    slow_reads: u64,
    fast_written: u64,
    /// Chunks that were read, wherever they lay.
    chunks: u64,
    hashes: Vec<String>,
}

impl Run {
    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    fn of_query(&self, number: usize) -> f64 {
        QUERY_NUMBERS.iter().position(|query| *query == number).map_or(f64::NAN, |place| self.seconds[place])
    }
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("tiering", common);
    let runtime = runtime();
    let scale = if common.small { 0.01 } else { options.sf };
    let shares = if common.small { vec![50] } else { options.shares.clone() };
    let model = if common.small { "modeled:latency=200us,iops=20000,bandwidth=1GB" } else { &options.model };
    for (name, value) in [("model", model), ("access_path", &options.access_path)] {
        report.configure(name, value);
    }
    report.configure("scale", scale);
    report.configure("cache_bytes", options.cache_bytes);
    let from = prepare(&Wanted { scale, page_bytes: options.page_size, path: None }, common, &runtime)?;
    let bench = Bench { path: common.data.join(format!("tiering-{scale}.saki")), model, options, runtime: &runtime };
    bench.make(&from)?;
    println!("{:>8}{:>8}{:>12}{:>12}{:>14}", "policy", "share", "seconds", "slow reads", "fast MiB");
    let none = bench.run(PolicyKind::None, 0, 0)?;
    show(&none, &mut report);
    let mut runs = Vec::new();
    for share in shares {
        for policy in POLICIES.into_iter().filter(|policy| *policy != PolicyKind::None) {
            let run = bench.run(policy, share, none.chunks * share / 100)?;
            report.check(run.hashes == none.hashes, || format!("{policy} at {share} %: other rows"));
            show(&run, &mut report);
            runs.push(run);
        }
    }
    summarise(&none, &runs, &mut report);
    if let Some(path) = &common.plot {
        draw(&none, &runs, scale, path)?;
    }
    bench.remove();
    Ok(report)
}

fn show(run: &Run, report: &mut Report) {
    let mebibytes = run.fast_written >> 20;
    println!(
        "{:>8}{:>8}{:>12}{:>12}{:>14}",
        run.policy.name(),
        run.share,
        figure(run.total()),
        run.slow_reads,
        mebibytes
    );
    report.row(json!({
        "policy": run.policy.name(), "share": run.share, "seconds": run.total(), "by_query": run.seconds,
        "slow_reads": run.slow_reads, "fast_written_bytes": run.fast_written,
    }));
}

/// What all runs have in common.
struct Bench<'b> {
    path: PathBuf,
    model: &'b str,
    options: &'b Options,
    runtime: &'b Runtime,
}

impl Bench<'_> {
    fn make(&self, from: &Path) -> Result<(), String> {
        self.remove();
        std::fs::copy(from, &self.path).map_err(|error| format!("{}: {error}", self.path.display()))?;
        // Costs and policies go by what the model does.
        let model: ModelOptions = self.model.parse().map_err(|error: saki_io::ModelError| error.to_string())?;
        let profile = profile_of(&model, self.options.page_size).ok_or("the model is of no use")?;
        let database = self.open()?;
        database.volume().store_device_profile(profile.to_json().as_bytes()).map_err(|error| error.to_string())
    }

    fn fast(&self) -> PathBuf {
        self.path.with_extension("fast")
    }

    fn remove(&self) {
        // What is not there need not go.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.fast());
        let _ = std::fs::remove_dir_all(self.path.with_extension("log"));
        let _ = std::fs::remove_file(self.path.with_extension("copies"));
    }

    fn open(&self) -> Result<Arc<Database>, String> {
        let cache_bytes = self.options.cache_bytes;
        let options = OpenOptions {
            cache_bytes,
            column_cache_bytes: cache_bytes,
            model: Some(self.model.to_owned()),
            tier_policy: PolicyKind::None,
            ..OpenOptions::default()
        };
        Database::open(&self.path, options).map_err(text)
    }

    /// The sequence, on a fast device with room for so many chunks.
    fn run(&self, policy: PolicyKind, share: u64, chunks: u64) -> Result<Run, String> {
        let database = self.open()?;
        if chunks > 0 {
            let bytes = Some((chunks + 1) * CHUNK_BYTES as u64);
            let fast = DeviceSpec { path: self.fast(), bytes, class: DeviceClass::Fast };
            database.add_device(&fast).map_err(text)?;
        }
        let session = Session::new(&database);
        session.set("access_path", &self.options.access_path).map_err(text)?;
        if policy == PolicyKind::Static {
            self.sequence(&session)?;
            database.set_tier_policy(policy).map_err(text)?;
            while database.tier().step() {}
        } else {
            database.set_tier_policy(policy).map_err(text)?;
        }
        database.drop_caches();
        let before = slow_reads(&database);
        let (seconds, hashes) = self.sequence(&session)?.into_iter().unzip();
        let slow_reads = slow_reads(&database) - before;
        let fast_written = database.devices().iter().skip(1).map(|device| device.written_bytes).sum();
        let mut chunks_read = 0;
        database.volume().chunk_reads(|_, _| chunks_read += 1);
        drop(session);
        if chunks > 0 {
            database.set_tier_policy(PolicyKind::None).map_err(text)?;
            database.remove_device(&self.fast().display().to_string()).map_err(text)?;
            let _ = std::fs::remove_file(self.fast());
        }
        Ok(Run { policy, share, seconds, slow_reads, fast_written, chunks: chunks_read, hashes })
    }

    /// Each query's seconds, and what its rows are.
    fn sequence(&self, session: &Session) -> Result<Vec<(f64, String)>, String> {
        let queries = QUERY_NUMBERS.iter().filter_map(|number| QUERIES.iter().find(|query| query.number == *number));
        let timed = |sql: &str| {
            let began = Instant::now();
            let batches = self.runtime.block_on(rows_of(session, sql))?;
            let seconds = began.elapsed().as_secs_f64();
            Ok((seconds, result_hash(&lines(&batches)?)))
        };
        queries.map(|query| timed(query.sql)).collect()
    }
}

/// Requests to the slow device: chunks that are copied are among them.
fn slow_reads(database: &Database) -> u64 {
    database.devices().iter().filter(|device| device.entry.number == SLOW).map(|device| device.reads.requests).sum()
}

/// The profile that measuring a model would find.
fn profile_of(model: &ModelOptions, page_bytes: u32) -> Option<DeviceProfile> {
    let latency = (model.latency_min + model.latency_max).as_secs_f64() / 2.0;
    let by_servers = model.servers.map_or(f64::INFINITY, |servers| f64::from(servers) / latency.max(1e-9));
    let bandwidth = model.bandwidth.unwrap_or(2e9);
    let best = model.iops.unwrap_or(1e6).min(by_servers);
    let point = |bytes: u32, depth: u32| {
        let iops = best.min(f64::from(depth) / latency.max(1e-9)).min(bandwidth / f64::from(bytes));
        ProfilePoint { bytes, depth, iops, latency_mean: latency, latency_p99: latency }
    };
    let points = [4096, page_bytes, 1 << 20].into_iter().flat_map(|bytes| [1, 64].map(|depth| point(bytes, depth)));
    DeviceProfile::from_points("modeled".to_owned(), points.collect(), bandwidth)
}

fn summarise(none: &Run, runs: &[Run], report: &mut Report) {
    let at = |share: u64, policy: PolicyKind| runs.iter().find(|run| run.share == share && run.policy == policy);
    let mut shares: Vec<u64> = runs.iter().map(|run| run.share).collect();
    shares.dedup();
    let ratio = |of: fn(&Run) -> f64, other: PolicyKind, share: u64| {
        Some(of(at(share, PolicyKind::Plan)?) / of(at(share, other)?))
    };
    let best = |of: fn(&Run) -> f64, other| {
        shares.iter().filter_map(|share| ratio(of, other, *share)).fold(f64::INFINITY, f64::min)
    };
    report.summarise("plan_over_static_best", best(Run::total, PolicyKind::Static));
    report.summarise("q5_best", best(|run| run.of_query(5), PolicyKind::Static));
    let worst = shares.iter().filter_map(|share| {
        let others = runs.iter().filter(|run| run.share == *share && run.policy != PolicyKind::Plan);
        let least = others.map(Run::total).fold(none.total(), f64::min);
        Some(at(*share, PolicyKind::Plan)?.total() / least)
    });
    report.summarise("plan_over_best_policy_worst", worst.fold(0.0, f64::max));
    let lru = |of: fn(&Run) -> f64, share| ratio(of, PolicyKind::Lru, share);
    let named = [
        ("plan_over_lru_30", lru(Run::total, 30)),
        ("slow_reads_ratio_50", ratio(|run| run.slow_reads as f64, PolicyKind::Static, 50)),
        ("fast_writes_over_lru_30", lru(|run| run.fast_written as f64, 30)),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name, value?))).for_each(|(name, value)| {
        report.summarise(name, value);
    });
}

fn draw(none: &Run, runs: &[Run], scale: f64, path: &Path) -> Result<(), String> {
    let mut chart = Chart::new("Nine queries of TPC-H on a slow and a fast device")
        .subtitle(format!("scale factor {scale}"))
        .x(Axis::linear("fast device, % of what is read"))
        .y(Axis::linear("seconds").from_zero());
    for policy in POLICIES {
        let of_policy = runs.iter().filter(|run| run.policy == policy);
        let mut points: Vec<_> = of_policy.map(|run| (run.share as f64, run.total())).collect();
        if policy == PolicyKind::None {
            points = runs.iter().map(|run| (run.share as f64, none.total())).collect();
            points.dedup();
        }
        chart = chart.series(Series::new(policy.name(), points));
    }
    save(&chart, path)
}
