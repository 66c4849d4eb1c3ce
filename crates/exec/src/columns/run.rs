//! One execution of a scan, shared by its partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use saki_page::IoShare;
use saki_vector::Expr;

use super::ahead::{Ahead, Share};
use super::filter::{Condition, fallible};
use super::metrics::ScanMetrics;
use super::reader::SegmentReader;
use super::segment::ScanSegment;
use super::stream::ColumnStream;
use super::{ColumnScan, metrics::ScanCounts};
use crate::plan::{Execution, RunOptions};

/// The share of segments with a row that passes from which on all columns are asked for ahead.
const EAGER_SHARE: f64 = 0.5;

/// One execution of a scan.
pub struct ColumnScanRun {
    pub(super) reader: Arc<SegmentReader>,
    pub(super) scan: ColumnScan,
    pub(super) options: RunOptions,
    pub(super) metrics: ScanMetrics,
    pub(super) share: Arc<IoShare>,
    /// Columns of the table that are read: a *position* counts these.
    pub(super) columns: Vec<usize>,
    /// Positions of the output columns.
    pub(super) output: Vec<usize>,
    pub(super) conditions: Vec<Condition>,
    ahead: Mutex<Ahead>,
    /// Of the partition that has the overlay's rows, if that is one of its own.
    apart: Option<Mutex<Ahead>>,
    /// Segments filtered, and those of them that had a row left.
    filtered: AtomicU64,
    survived: AtomicU64,
    /// Rows the limit still allows; `i64::MAX` without one.
    remaining: AtomicI64,
    stopped: AtomicBool,
}

impl ColumnScanRun {
    pub(super) fn new(reader: Arc<SegmentReader>, scan: ColumnScan, options: &RunOptions) -> Arc<Self> {
        let mut options = options.clone();
        if options.execution == Execution::InOrder {
            options.partitions = 1;
            options.max_in_flight = 1;
        }
        options.partitions = options.partitions.max(1);
        let columns = columns_read(&scan);
        let position = |column: usize| columns.iter().position(|other| *other == column).expect("every column is read");
        let conditions = conditions(&scan, position);
        let remaining = scan.limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let is_apart = scan.overlay_apart && scan.overlay.is_some();
        let share = if is_apart { Share::Segments } else { Share::Both };
        Arc::new(Self {
            output: scan.output.iter().map(|column| position(*column)).collect(),
            share: IoShare::new(options.max_in_flight.max(1)),
            metrics: ScanMetrics::default(),
            ahead: Mutex::new(Ahead::new(share)),
            apart: is_apart.then(|| Mutex::new(Ahead::new(Share::Overlay))),
            filtered: AtomicU64::new(0),
            survived: AtomicU64::new(0),
            remaining: AtomicI64::new(remaining),
            stopped: AtomicBool::new(remaining == 0),
            conditions,
            columns,
            reader,
            scan,
            options,
        })
    }

    /// Opens a partition; each may be polled by a thread of its own. Those beyond [`Self::partitions`] are empty.
    pub fn open(self: &Arc<Self>, partition: usize) -> ColumnStream {
        ColumnStream::new(Arc::clone(self), partition)
    }

    /// Partitions that may have rows: `options().partitions`, and one more for an overlay that is apart.
    pub fn partitions(&self) -> usize {
        self.options.partitions + usize::from(self.apart.is_some())
    }

    pub fn scan(&self) -> &ColumnScan {
        &self.scan
    }

    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    pub fn metrics(&self) -> &ScanMetrics {
        &self.metrics
    }

    pub(super) fn take(self: &Arc<Self>, partition: usize, counts: &mut ScanCounts) -> Option<ScanSegment> {
        let apart = self.apart.as_ref().filter(|_| partition >= self.options.partitions);
        apart.unwrap_or(&self.ahead).lock().take(self, counts)
    }

    /// Segments that may be in the queue.
    pub(super) fn ahead_max(&self) -> usize {
        if self.options.execution == Execution::InOrder { 1 } else { usize::MAX }
    }

    /// Bytes that may be asked for ahead: the rest is for what partitions work on.
    pub(super) fn ahead_bytes(&self) -> usize {
        self.options.memory_bytes / 2
    }

    /// Positions of the columns to ask for before the segment is filtered.
    pub(super) fn asked_ahead(&self, segment: &ScanSegment) -> Vec<usize> {
        if segment.conditions.is_empty() || self.is_eager() {
            let mut wanted = self.positions_of(&segment.conditions);
            wanted.extend(&self.output);
            return wanted;
        }
        self.positions_of(&segment.conditions)
    }

    fn positions_of(&self, conditions: &[usize]) -> Vec<usize> {
        conditions.iter().flat_map(|condition| self.conditions[*condition].positions.iter().copied()).collect()
    }

    /// Whether reading all columns at once wastes little.
    fn is_eager(&self) -> bool {
        let filtered = self.filtered.load(Ordering::Relaxed);
        let survived = self.survived.load(Ordering::Relaxed);
        filtered > 0 && survived as f64 >= EAGER_SHARE * filtered as f64
    }

    /// Notes whether a segment had a row left.
    pub(super) fn note_filtered(&self, survived: bool) {
        self.filtered.fetch_add(1, Ordering::Relaxed);
        self.survived.fetch_add(u64::from(survived), Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends all partitions as soon as they look.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Claims up to `rows` rows of the limit; fewer are granted when it is reached, and the run stops.
    pub(super) fn claim(&self, rows: usize) -> usize {
        if self.scan.limit.is_none() {
            return rows;
        }
        let before = self.remaining.fetch_sub(rows as i64, Ordering::AcqRel);
        if before <= rows as i64 {
            self.stop();
        }
        (rows as i64).min(before.max(0)) as usize
    }
}

/// Every column that a condition or the output names, once: those of conditions first.
fn columns_read(scan: &ColumnScan) -> Vec<usize> {
    let mut columns = Vec::new();
    scan.filter.iter().for_each(|condition| condition.columns(&mut columns));
    for column in scan.keys.iter().map(|(column, _)| column).chain(&scan.output) {
        if !columns.contains(column) {
            columns.push(*column);
        }
    }
    columns
}

/// The conditions; those on the same columns are one, so that a column passes through the processor's cache once.
fn conditions(scan: &ColumnScan, position: impl Fn(usize) -> usize) -> Vec<Condition> {
    let mut groups: Vec<(Vec<usize>, Vec<Expr>)> = Vec::new();
    for expr in &scan.filter {
        let mut named = Vec::new();
        expr.columns(&mut named);
        named.sort_unstable();
        match groups.iter_mut().find(|(columns, exprs)| *columns == named && !fallible(&exprs[0]) && !fallible(expr)) {
            Some((_, exprs)) => exprs.push(expr.clone()),
            None => groups.push((named, vec![expr.clone()])),
        }
    }
    let table = &scan.table.columns;
    let mut conditions: Vec<_> =
        groups.into_iter().map(|(_, exprs)| Condition::of_exprs(exprs, table, &position)).collect();
    conditions.extend(scan.keys.iter().map(|(column, keys)| Condition::of_keys(*column, Arc::clone(keys), &position)));
    conditions
}
