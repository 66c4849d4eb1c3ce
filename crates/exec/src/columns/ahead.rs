//! The queue of segments that the partitions of a scan share: zone maps are asked, columns asked for, before anybody
//! needs them.
//!
//! ```text
//!   segments of the table ─► next ─► [ reading | reading | here | … ] ─► a partition takes the first that is here
//!                             pruned                                      (or waits for the first)
//! ```
//!
//! Look-ahead belongs to the scan and not to a partition: nobody ends up with segments that others could
//! work on. It grows only as far as the device is slower than the partitions: with enough segments here, none is added.

use std::collections::VecDeque;

use super::filter::Verdict;
use super::metrics::ScanCounts;
use super::segment::{Origin, ScanSegment};
use super::setup::ScanSetup;

/// Segments in the queue at most.
const SEGMENTS_MAX: usize = 64;
/// Segments for each partition that are here already: with so many, none is added.
const HERE_PER_PARTITION: usize = 2;

/// What is in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Share {
    Segments,
    Overlay,
    Both,
}

/// Segments asked for and not taken.
pub(super) struct Ahead {
    share: Share,
    queue: VecDeque<ScanSegment>,
    /// The next segment of the table to look at, and then the next part of what lies over it.
    next: usize,
    next_part: usize,
}

impl Ahead {
    pub fn new(share: Share) -> Self {
        Self { share, queue: VecDeque::new(), next: 0, next_part: 0 }
    }

    /// The next segment to work on; `None` after the last.
    pub fn take(&mut self, setup: &ScanSetup, counts: &mut ScanCounts) -> Option<ScanSegment> {
        self.fill(setup, counts);
        let here = self.queue.iter().position(ScanSegment::has_come).unwrap_or(0);
        self.queue.remove(here)
    }

    fn fill(&mut self, setup: &ScanSetup, counts: &mut ScanCounts) {
        let partitions = setup.options.partitions;
        // With a limit, the first segments may be enough.
        let segments_max = if setup.scan.limit.is_some() { partitions } else { SEGMENTS_MAX };
        let mut requests = Vec::new();
        let mut loading: usize = self.queue.iter().map(|segment| segment.loading_bytes).sum();
        let mut here = self.queue.iter().filter(|segment| segment.has_come()).count();
        while self.queue.len() < segments_max.min(setup.ahead_max())
            && here < HERE_PER_PARTITION * partitions
            && (loading < setup.ahead_bytes() || self.queue.is_empty())
        {
            let segment = self.next_segment(setup, counts).or_else(|| self.next_part(setup));
            let Some(mut segment) = segment else { break };
            for position in setup.asked_ahead(&segment.conditions) {
                segment.ask(setup, position, &mut requests, counts);
            }
            loading += segment.loading_bytes;
            here += usize::from(segment.loading_bytes == 0);
            self.queue.push_back(segment);
        }
        setup.reader.request(requests);
    }

    /// The next segment that zones do not rule out, with the conditions that they do not decide.
    fn next_segment(&mut self, setup: &ScanSetup, counts: &mut ScanCounts) -> Option<ScanSegment> {
        if self.share == Share::Overlay {
            return None;
        }
        loop {
            let index = self.next;
            let segment = setup.scan.table.segments.get(index)?;
            self.next += 1;
            counts.segments += 1;
            let mut left = Vec::with_capacity(setup.conditions.len());
            let ruled_out = setup.conditions.iter().enumerate().find(|(index, condition)| {
                let verdict = condition.verdict(segment);
                if verdict == Verdict::Unknown {
                    left.push(*index);
                }
                verdict == Verdict::NoRow
            });
            match ruled_out {
                None if segment.rows == 0 => counts.segments_pruned += 1,
                None => {
                    counts.rows_in += u64::from(segment.rows);
                    return Some(ScanSegment::new(Origin::Segment(index), left, setup.columns.len()));
                }
                Some((_, condition)) if condition.is_keys() => counts.segments_pruned_by_keys += 1,
                Some(_) => counts.segments_pruned += 1,
            }
        }
    }

    /// The next part of what lies over the segments: zones know nothing of it.
    fn next_part(&mut self, setup: &ScanSetup) -> Option<ScanSegment> {
        if self.share == Share::Segments {
            return None;
        }
        let part = self.next_part;
        let parts = setup.scan.overlay.as_ref().map_or(0, |overlay| overlay.parts());
        self.next_part += usize::from(part < parts);
        let conditions = (0..setup.conditions.len()).collect();
        (part < parts).then(|| ScanSegment::new(Origin::Overlay(part), conditions, setup.columns.len()))
    }
}
