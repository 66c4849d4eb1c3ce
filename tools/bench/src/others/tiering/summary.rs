//! Ratios between policies, and the plot.

use std::path::Path;

use saki::plot::{Axis, Chart, Series};
use saki_report::Report;
use saki_sql::PolicyKind;

use super::runs::Run;
use crate::plot::save;

/// The runs on one storage with one way to read tables.
struct Group<'r> {
    runs: Vec<&'r Run>,
}

impl<'r> Group<'r> {
    fn all(runs: &'r [Run]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for run in runs {
            match groups.iter_mut().find(|group| group.runs[0].way == run.way) {
                Some(group) => group.runs.push(run),
                None => groups.push(Self { runs: vec![run] }),
            }
        }
        groups
    }

    fn at(&self, share: u64, policy: PolicyKind) -> Option<&'r Run> {
        self.runs.iter().find(|run| run.share == share && run.policy == policy).copied()
    }

    fn shares(&self) -> Vec<u64> {
        let mut shares: Vec<u64> = self.runs.iter().map(|run| run.share).filter(|share| *share > 0).collect();
        shares.dedup();
        shares
    }

    /// What `plan` has of what another policy has, at a share.
    fn ratio(&self, of: impl Fn(&Run) -> f64, other: PolicyKind, share: u64) -> Option<f64> {
        Some(of(self.at(share, PolicyKind::Plan)?) / of(self.at(share, other)?))
    }

    fn best(&self, of: impl Fn(&Run) -> f64, other: PolicyKind) -> Option<f64> {
        self.shares().iter().filter_map(|share| self.ratio(&of, other, *share)).min_by(f64::total_cmp)
    }

    /// How much longer `plan` takes than the best of all others, where that is worst.
    fn worst(&self) -> Option<f64> {
        let none = self.at(0, PolicyKind::None)?.total();
        let of_share = |share: u64| {
            let others = self.runs.iter().filter(|run| run.share == share && run.policy != PolicyKind::Plan);
            let least = others.map(|run| run.total()).fold(none, f64::min);
            Some(self.at(share, PolicyKind::Plan)?.total() / least)
        };
        self.shares().into_iter().filter_map(of_share).max_by(f64::total_cmp)
    }
}

pub fn summarise(runs: &[Run], report: &mut Report) {
    let groups = Group::all(runs);
    let mut named: Vec<(String, Option<f64>)> = Vec::new();
    for group in &groups {
        let way = &group.runs[0].way;
        let prefix = match way.access_path.as_str() {
            "rows" => String::new(),
            other => format!("{other}_"),
        };
        // The first storage is the one that figures are about unless they say another.
        let suffix = if way.storage == runs[0].way.storage { String::new() } else { format!("_{}", way.storage) };
        let name = |figure: &str| format!("{prefix}{figure}{suffix}");
        named.push((name("plan_over_static_best"), group.best(Run::total, PolicyKind::Static)));
        named.push((name("plan_over_best_policy"), group.worst()));
        named.push((name("q5_best"), group.best(|run| run.of_query(5), PolicyKind::Static)));
        named.push((name("plan_over_lru_30"), group.ratio(Run::total, PolicyKind::Lru, 30)));
        named.push((name("slow_reads_ratio_50"), group.ratio(|run| run.slow_reads as f64, PolicyKind::Static, 50)));
        let written = |run: &Run| run.fast_written as f64;
        let over_lru = group.shares().into_iter().filter_map(|share| group.ratio(written, PolicyKind::Lru, share));
        named.push((name("fast_writes_over_lru"), over_lru.max_by(f64::total_cmp)));
    }
    named.push((
        "plan_over_best_policy_worst".to_owned(),
        groups.iter().filter_map(Group::worst).max_by(f64::total_cmp),
    ));
    let warm = runs.iter().filter_map(|run| run.warm_share).min_by(f64::total_cmp);
    named.push(("restart_warm_share".to_owned(), warm));
    for (name, value) in named {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            report.summarise(name, value);
        }
    }
}

/// Seconds by share, of the first storage read the first way, as the paper's figures have it.
pub fn draw(runs: &[Run], scale: f64, path: &Path) -> Result<(), String> {
    let groups = Group::all(runs);
    let Some(group) = groups.first() else { return Ok(()) };
    let way = &group.runs[0].way;
    let mut chart = Chart::new("Nine queries of TPC-H on a slow and a fast device")
        .subtitle(format!("scale factor {scale}, {}, tables read by {}", way.storage, way.access_path))
        .x(Axis::linear("fast device, % of what is read cold"))
        .y(Axis::linear("seconds").from_zero());
    for policy in PolicyKind::ALL {
        let points: Vec<_> = match policy {
            PolicyKind::None => {
                let none = group.at(0, policy).map_or(f64::NAN, Run::total);
                group.shares().into_iter().map(|share| (share as f64, none)).collect()
            }
            _ => {
                let of_policy = group.runs.iter().filter(|run| run.policy == policy);
                of_policy.map(|run| (run.share as f64, run.total())).collect()
            }
        };
        if !points.is_empty() {
            chart = chart.series(Series::new(policy.name(), points));
        }
    }
    save(&chart, path)
}
