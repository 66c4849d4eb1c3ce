//! What the headers of all logs together say: which runs there were, what is needed, and, once all is read, how far it reaches.

use std::collections::BTreeMap;

use super::scan::{Scanned, SegmentAt};
use super::seen::Seen;
use crate::error::LogError;
use crate::format::Run;
use crate::options::Range;

/// See the module's introduction.
pub struct Plan {
    runs: BTreeMap<u32, Run>,
    /// Nothing up to here is needed.
    pub after: u64,
    /// Nothing later is applied.
    pub through: u64,
}

/// How far the logs reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// All that count through this timestamp are there.
    pub horizon: u64,
    /// The first that was durable and is not there.
    pub missing: Option<u64>,
}

impl Plan {
    pub fn new(logs: &[Scanned], range: Range) -> Result<Self, LogError> {
        let mut runs: BTreeMap<u32, Run> = BTreeMap::new();
        for (scanned, SegmentAt { slot, header }) in
            logs.iter().flat_map(|log| log.segments.iter().map(move |at| (log, at)))
        {
            let run = runs.entry(header.run.number).or_insert(header.run);
            if *run != header.run {
                return Err(LogError::Inconsistent {
                    log: scanned.log,
                    device: scanned.device.name(),
                    segment: header.sequence,
                    offset: slot * scanned.segment_bytes,
                    expected: format!("{run:?}"),
                    found: format!("{:?}", header.run),
                });
            }
        }
        let headers = logs.iter().flat_map(|log| &log.segments);
        let cut = headers.map(|segment| segment.header.cut).max().unwrap_or(0);
        let plan = Self { runs, after: range.after.unwrap_or(cut).max(cut), through: range.through };
        plan.check_cut(cut, range)?;
        Ok(plan)
    }

    /// What the logs were cut through must be elsewhere.
    pub fn check_cut(&self, cut: u64, range: Range) -> Result<(), LogError> {
        match range.after {
            Some(after) if after < cut => Err(LogError::CutBeyond { cut, after }),
            _ => Ok(()),
        }
    }

    /// The segments of a log to read.
    pub fn needed<'a>(&self, scanned: &'a Scanned) -> &'a [SegmentAt] {
        let oldest = scanned.oldest();
        &scanned.segments[scanned.segments.partition_point(|segment| segment.header.sequence < oldest)..]
    }

    /// The last timestamp of a run that counts.
    pub fn run_ends(&self, number: u32) -> u64 {
        let next = self.runs.range(number + 1..).next();
        next.map_or(u64::MAX, |(_, run)| run.recovered_through).min(self.through)
    }

    pub fn is_last(&self, number: u32) -> bool {
        self.last_run().number == number
    }

    /// The last run there was; before the first, one that left nothing.
    pub fn last_run(&self) -> Run {
        let none = Run { number: 0, recovered_through: 0, first: 1 };
        self.runs.last_key_value().map_or(none, |(_, run)| *run)
    }

    /// How far `seen` reaches; all through `proven` was durable, all through `after` is not needed.
    pub fn reach(&self, seen: &Seen, proven: u64, after: u64) -> Reach {
        let ends_at = |horizon: u64, missing| Reach { horizon: horizon.min(self.through.max(after)), missing };
        let mut horizon = after;
        for run in self.runs.values() {
            // What this run was built on must be there, as far as it is asked for.
            if horizon < run.recovered_through.min(self.through) {
                return ends_at(horizon, Some(horizon + 1));
            }
            horizon = horizon.max(run.first - 1);
            let end = self.run_ends(run.number);
            horizon = horizon.max(end.min(seen.first_missing(horizon + 1) - 1));
        }
        let missing = (horizon < proven.min(self.through)).then_some(horizon + 1);
        ends_at(horizon, missing)
    }
}
