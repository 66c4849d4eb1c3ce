//! What the partitions of a scan have in common: the scan with its options, resolved to positions and conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use saki_page::IoShare;
use saki_vector::Expr;

use super::ColumnScan;
use super::filter::{Condition, fallible};
use super::reader::SegmentReader;
use crate::plan::{ExecutionOptions, VisitOrder};

/// The share of segments with a row that passes from which on all columns are asked for ahead.
const EAGER_SHARE: f64 = 0.5;

/// A scan, ready to run.
pub(super) struct ScanSetup {
    pub reader: Arc<SegmentReader>,
    pub scan: ColumnScan,
    pub options: ExecutionOptions,
    pub share: Arc<IoShare>,
    /// Columns of the table that are read: a *position* counts these.
    pub columns: Vec<usize>,
    /// Positions of the output columns.
    pub output: Vec<usize>,
    pub conditions: Vec<Condition>,
    /// Segments filtered, and those of them that had a row left.
    filtered: AtomicU64,
    survived: AtomicU64,
}

impl ScanSetup {
    pub(super) fn new(reader: Arc<SegmentReader>, scan: ColumnScan, options: &ExecutionOptions) -> Self {
        let mut options = options.clone();
        if options.order == VisitOrder::InOrder {
            options.partitions = 1;
            options.max_in_flight = 1;
        }
        options.partitions = options.partitions.max(1);
        let columns = columns_read(&scan);
        let position = |column: usize| columns.iter().position(|other| *other == column).expect("every column is read");
        let conditions = conditions(&scan, position);
        Self {
            output: scan.output.iter().map(|column| position(*column)).collect(),
            share: IoShare::new(options.max_in_flight.max(1)),
            filtered: AtomicU64::new(0),
            survived: AtomicU64::new(0),
            conditions,
            columns,
            reader,
            scan,
            options,
        }
    }

    /// Segments that may be in the queue.
    pub(super) fn ahead_max(&self) -> usize {
        if self.options.order == VisitOrder::InOrder { 1 } else { usize::MAX }
    }

    /// Bytes that may be asked for ahead: the rest is for what partitions work on.
    pub(super) fn ahead_bytes(&self) -> usize {
        self.options.memory_bytes / 2
    }

    /// Positions of the columns to ask for before a segment is filtered by `conditions`.
    pub(super) fn asked_ahead(&self, conditions: &[usize]) -> Vec<usize> {
        if conditions.is_empty() || self.is_eager() {
            let mut wanted = self.positions_of(conditions);
            wanted.extend(&self.output);
            return wanted;
        }
        self.positions_of(conditions)
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
