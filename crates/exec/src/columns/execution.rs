//! One execution of a scan, shared by its partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;

use super::ColumnScan;
use super::ahead::{Ahead, Share};
use super::metrics::{ScanCounts, ScanMetrics};
use super::reader::SegmentReader;
use super::segment::ScanSegment;
use super::setup::ScanSetup;
use crate::plan::ExecutionOptions;

impl SegmentReader {
    /// Prepares to run a scan; nothing is read before one of its partitions is polled.
    pub fn run(self: &Arc<Self>, scan: ColumnScan, options: &ExecutionOptions) -> Arc<ScanExecution> {
        ScanExecution::new(ScanSetup::new(Arc::clone(self), scan, options))
    }
}

/// One execution of a scan.
pub struct ScanExecution {
    pub(super) setup: ScanSetup,
    pub(super) metrics: ScanMetrics,
    ahead: Mutex<Ahead>,
    /// Of the partition that has the overlay's rows, if that is one of its own.
    apart: Option<Mutex<Ahead>>,
    /// Rows the limit still allows; `i64::MAX` without one.
    remaining: AtomicI64,
    stopped: AtomicBool,
}

impl ScanExecution {
    fn new(setup: ScanSetup) -> Arc<Self> {
        let remaining = setup.scan.limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let is_apart = setup.scan.overlay_apart && setup.scan.overlay.is_some();
        let share = if is_apart { Share::Segments } else { Share::Both };
        Arc::new(Self {
            setup,
            metrics: ScanMetrics::default(),
            ahead: Mutex::new(Ahead::new(share)),
            apart: is_apart.then(|| Mutex::new(Ahead::new(Share::Overlay))),
            remaining: AtomicI64::new(remaining),
            stopped: AtomicBool::new(remaining == 0),
        })
    }

    /// Partitions that may have rows: `options().partitions`, and one more for an overlay that is apart.
    pub fn partitions(&self) -> usize {
        self.setup.options.partitions + usize::from(self.apart.is_some())
    }

    pub fn scan(&self) -> &ColumnScan {
        &self.setup.scan
    }

    pub fn options(&self) -> &ExecutionOptions {
        &self.setup.options
    }

    pub fn metrics(&self) -> &ScanMetrics {
        &self.metrics
    }

    pub(super) fn take(&self, partition: usize, counts: &mut ScanCounts) -> Option<ScanSegment> {
        let apart = self.apart.as_ref().filter(|_| partition >= self.setup.options.partitions);
        apart.unwrap_or(&self.ahead).lock().take(&self.setup, counts)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends all partitions as soon as they look.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Claims up to `rows` rows of the limit; fewer are granted when it is reached, and the execution stops.
    pub(super) fn claim(&self, rows: usize) -> usize {
        if self.setup.scan.limit.is_none() {
            return rows;
        }
        let before = self.remaining.fetch_sub(rows as i64, Ordering::AcqRel);
        if before <= rows as i64 {
            self.stop();
        }
        (rows as i64).min(before.max(0)) as usize
    }
}
