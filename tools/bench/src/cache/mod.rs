//! Hit ratios of page replacement policies, each over the same traces and
//! cache sizes, beside the optimum: what a policy that knew the future would
//! reach (Belady). A policy better than the optimum is a fault of the benchmark.

mod trace;

use std::collections::{BinaryHeap, HashMap};
use std::path::PathBuf;

use clap::Args;
use saki_base::PageAddress;
use saki_page::replacement::{Clock, Replacement, S3Fifo, TwoQueue, hit_ratio};
use serde_json::json;

use self::trace::Trace;
use saki_report::{Common, Report};

#[derive(Args)]
pub struct Options {
    /// Also a recorded trace: one page address a line
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Leaves of the largest tree in the made traces
    #[arg(long, default_value_t = 20_000)]
    leaves: u64,
    /// Visits of each made trace
    #[arg(long, default_value_t = 2_000_000)]
    length: usize,
    /// Cache sizes, as percent of the different pages visited
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0])]
    sizes: Vec<f64>,
}

const POLICIES: [&str; 3] = ["s3-fifo", "clock", "2q"];

fn policy(name: &str, frames: usize) -> Box<dyn Replacement> {
    match name {
        "s3-fifo" => Box::new(S3Fifo::new(frames)),
        "clock" => Box::new(Clock::default()),
        _ => Box::new(TwoQueue::new(frames)),
    }
}

pub fn run(common: &Common, options: &Options) -> Result<Report, String> {
    let mut report = Report::new("cache", common);
    let scale = if common.small { 20 } else { 1 };
    let (leaves, length) = (options.leaves / scale, options.length / scale as usize);
    report.configure("leaves", leaves);
    report.configure("length", length);
    let mut traces = Trace::made(common.seed, leaves.max(1), length);
    for path in &options.trace {
        traces.push(Trace::read(path)?);
    }
    println!("{:24}{:>10}{:>10}{:>10}{:>10}{:>10}", "trace", "cache", "optimum", "s3-fifo", "clock", "2q");
    // Of every policy, its shares of the optimum.
    let mut shares: HashMap<&str, Vec<f64>> = HashMap::new();
    for trace in &traces {
        let distinct = trace.distinct();
        for percent in &options.sizes {
            let frames = ((distinct as f64 * percent / 100.0) as usize).max(8);
            let optimum = optimal_hit_ratio(&trace.visits, frames);
            print!("{:24}{:>9}%{optimum:>10.3}", trace.name, percent);
            let mut row = json!({
                "trace": trace.name, "hash": trace.hash(), "visits": trace.visits.len(), "distinct": distinct,
                "cache_percent": percent, "frames": frames, "optimum": optimum,
            });
            for name in POLICIES {
                let ratio = hit_ratio(&mut *policy(name, frames), frames, trace.visits.iter().copied());
                report.check((0.0..=optimum + 1e-9).contains(&ratio), || {
                    format!("{name} hits {ratio} of {}, the optimum {optimum}", trace.name)
                });
                print!("{ratio:>10.3}");
                row[name] = json!(ratio);
                shares.entry(name).or_default().push(ratio / optimum.max(1e-9));
            }
            println!();
            report.row(row);
        }
    }
    for (name, shares) in shares {
        let key = name.replace('-', "_");
        report.summarise(format!("{key}_of_optimum_mean"), shares.iter().sum::<f64>() / shares.len() as f64);
        report.summarise(format!("{key}_of_optimum_min"), shares.iter().copied().fold(f64::INFINITY, f64::min));
    }
    Ok(report)
}

/// Share of the visits that hit when the page given up is always the one whose next visit is farthest away.
fn optimal_hit_ratio(visits: &[PageAddress], frames: usize) -> f64 {
    // When each visit's page is visited again.
    let mut next = vec![usize::MAX; visits.len()];
    let mut seen: HashMap<PageAddress, usize> = HashMap::new();
    for (time, address) in visits.iter().enumerate().rev() {
        next[time] = seen.insert(*address, time).unwrap_or(usize::MAX);
    }
    // Resident pages by next visit, farthest first. Entries that a hit has made old stay until they come up.
    let mut resident: HashMap<PageAddress, usize> = HashMap::with_capacity(frames);
    let mut farthest: BinaryHeap<(usize, PageAddress)> = BinaryHeap::new();
    let mut hits = 0_u64;
    for (time, address) in visits.iter().enumerate() {
        hits += u64::from(resident.contains_key(address));
        // A page that is not visited again need not stay; giving it up at once is part of the optimum.
        if next[time] == usize::MAX {
            resident.remove(address);
            continue;
        }
        resident.insert(*address, next[time]);
        farthest.push((next[time], *address));
        while resident.len() > frames {
            let (when, victim) = farthest.pop().expect("every resident page is in the heap");
            if resident.get(&victim) == Some(&when) {
                resident.remove(&victim);
            }
        }
    }
    hits as f64 / visits.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimum_of_a_loop_is_known() {
        // Ten pages round and round in five frames: four of them stay for good, one place is for the passing.
        let visits: Vec<_> = (0..10_000_u64).map(|time| PageAddress(time % 10)).collect();
        let ratio = optimal_hit_ratio(&visits, 5);
        assert!((0.44..=0.5).contains(&ratio), "{ratio}");
        assert_eq!(optimal_hit_ratio(&visits, 10), (10_000.0 - 10.0) / 10_000.0);
    }
}
