//! What the headers of all logs together say: which incarnations there were, what is needed, and, once all is read, how
//! far it reaches.

use std::collections::BTreeMap;

use super::scan::{ExtentAt, Scanned};
use super::seen::Seen;
use crate::error::LogError;
use crate::format::Incarnation;
use crate::options::Range;

/// See the module's introduction.
pub struct Plan {
    incarnations: BTreeMap<u32, Incarnation>,
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
        let mut incarnations: BTreeMap<u32, Incarnation> = BTreeMap::new();
        for (scanned, ExtentAt { slot, header }) in
            logs.iter().flat_map(|log| log.extents.iter().map(move |at| (log, at)))
        {
            let incarnation = incarnations.entry(header.incarnation.number).or_insert(header.incarnation);
            if *incarnation != header.incarnation {
                return Err(LogError::Inconsistent {
                    log: scanned.log,
                    device: scanned.device.name(),
                    extent: header.sequence,
                    offset: slot * scanned.extent_bytes,
                    expected: format!("{incarnation:?}"),
                    found: format!("{:?}", header.incarnation),
                });
            }
        }
        let headers = logs.iter().flat_map(|log| &log.extents);
        let cut = headers.map(|extent| extent.header.cut).max().unwrap_or(0);
        let plan = Self { incarnations, after: range.after.unwrap_or(cut).max(cut), through: range.through };
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

    /// The greatest timestamp that headers tell of; `None` if there are none.
    pub fn newest(&self, logs: &[Scanned]) -> Option<u64> {
        let headers = logs.iter().flat_map(|log| &log.extents);
        headers.map(|extent| (extent.header.incarnation.first - 1).max(extent.header.cut)).max()
    }

    /// The extents of a log to read.
    pub fn needed<'a>(&self, scanned: &'a Scanned) -> &'a [ExtentAt] {
        let oldest = scanned.oldest();
        &scanned.extents[scanned.extents.partition_point(|extent| extent.header.sequence < oldest)..]
    }

    /// The last timestamp of an incarnation that counts.
    pub fn incarnation_ends(&self, number: u32) -> u64 {
        self.kept_from(number + 1)
    }

    /// What this incarnation and all later ones were built on, at the least: one that went back to an earlier moment
    /// made void what was later, whichever incarnation it was of.
    fn kept_from(&self, number: u32) -> u64 {
        let kept = self.incarnations.range(number..).map(|(_, incarnation)| incarnation.recovered_through).min();
        kept.unwrap_or(u64::MAX).min(self.through)
    }

    pub fn is_last(&self, number: u32) -> bool {
        self.last_incarnation().number == number
    }

    /// The last incarnation there was; before the first, one that left nothing.
    pub fn last_incarnation(&self) -> Incarnation {
        let none = Incarnation { number: 0, recovered_through: 0, first: 1 };
        self.incarnations.last_key_value().map_or(none, |(_, incarnation)| *incarnation)
    }

    /// How far `seen` reaches; all through `proven` was durable, all through `after` is not needed.
    pub fn reach(&self, seen: &Seen, proven: u64, after: u64) -> Reach {
        let ends_at = |horizon: u64, missing| Reach { horizon: horizon.min(self.through.max(after)), missing };
        let mut horizon = after;
        for incarnation in self.incarnations.values() {
            // What this incarnation was built on must be there, as far as it is asked for.
            if horizon < self.kept_from(incarnation.number) {
                return ends_at(horizon, Some(horizon + 1));
            }
            horizon = horizon.max(incarnation.first - 1);
            let end = self.incarnation_ends(incarnation.number);
            horizon = horizon.max(end.min(seen.first_missing(horizon + 1) - 1));
        }
        let missing = (horizon < proven.min(self.through)).then_some(horizon + 1);
        ends_at(horizon, missing)
    }
}
