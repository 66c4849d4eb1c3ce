//! What the partitions of an execution have in common, resolved when it is prepared.

mod source;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use arrow_schema::SchemaRef;
use saki_base::{PageRef, PageSize};
use saki_page::{IoShare, PageError};

use crate::error::ExecError;
use crate::metrics::ExecutionMetrics;
use crate::plan::{ExecutionOptions, KeyRange, Pipeline, Source, TreeAccess, VisitOrder};
use crate::rows::entry::EntryReader;
use crate::rows::registers::{Register, registers_at};
use source::RangeSource;

pub(crate) use source::{Expansion, Take};

/// An execution, as its partitions see it.
pub(crate) struct ExecutionState {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) options: ExecutionOptions,
    pub(crate) metrics: ExecutionMetrics,
    pub(crate) share: Arc<IoShare>,
    /// Readers of entries, by step; `None` for a `Rows` source.
    pub(crate) readers: Vec<Option<EntryReader>>,
    /// Registers and their Arrow schema, by step.
    pub(crate) registers: Vec<Vec<Register>>,
    pub(crate) schemas: Vec<SchemaRef>,
    pub(crate) source: RangeSource,
    pub(crate) page_size: PageSize,
    /// Rows the limit still allows; `i64::MAX` without one.
    remaining: AtomicI64,
    stopped: AtomicBool,
}

impl ExecutionState {
    pub(crate) fn new(page_size: PageSize, pipeline: Arc<Pipeline>, mut options: ExecutionOptions) -> Arc<Self> {
        if options.order == VisitOrder::InOrder {
            options.partitions = 1;
            options.max_in_flight = 1;
        }
        options.partitions = options.partitions.max(1);
        options.batch_rows = options.batch_rows.max(1);
        let steps = pipeline.stages.len() + 1;
        let mut readers = Vec::with_capacity(steps);
        let source = match &pipeline.source {
            Source::Ranges { access, ranges, predicates, fetch, .. } => {
                readers.push(Some(EntryReader::new(access, predicates, fetch)));
                RangeSource::new(access.root, access.height.saturating_sub(1), ranges.len(), options.partitions)
            }
            Source::Rows { .. } => {
                readers.push(None);
                RangeSource::new(None, 0, 0, options.partitions)
            }
        };
        for stage in &pipeline.stages {
            readers.push(Some(EntryReader::new(&stage.access, &stage.predicates, &stage.fetch)));
        }
        Arc::new(Self {
            metrics: ExecutionMetrics::new(steps),
            share: IoShare::new(options.max_in_flight.max(1)),
            readers,
            registers: (0..steps).map(|step| registers_at(&pipeline, step)).collect(),
            schemas: (0..steps).map(|step| pipeline.register_schema(step)).collect(),
            source,
            page_size,
            remaining: AtomicI64::new(pipeline.limit.map_or(i64::MAX, |limit| limit.min(i64::MAX as usize) as i64)),
            stopped: AtomicBool::new(false),
            pipeline,
            options,
        })
    }

    /// Ends all partitions as soon as they look.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Claims up to `rows` rows of the limit; fewer are granted when it is reached, and the execution stops.
    pub(crate) fn claim(&self, rows: usize) -> usize {
        if self.pipeline.limit.is_none() {
            return rows;
        }
        let before = self.remaining.fetch_sub(rows as i64, Ordering::AcqRel);
        let granted = (rows as i64).min(before.max(0));
        if before <= rows as i64 {
            self.stop();
        }
        granted as usize
    }

    pub(crate) fn page_error(&self, step: usize, error: PageError) -> ExecError {
        ExecError::Page { tree: self.tree_name(step), error }
    }

    /// Reads the entries of a step's tree.
    pub(crate) fn entry_reader(&self, step: usize) -> &EntryReader {
        self.readers[step].as_ref().expect("a step with pages reads entries")
    }

    /// The tree of a step; `None` for outer rows.
    pub(crate) fn tree_access(&self, step: usize) -> Option<&TreeAccess> {
        match (step, &self.pipeline.source) {
            (0, Source::Ranges { access, .. }) => Some(access),
            (0, Source::Rows { .. }) => None,
            (step, _) => Some(&self.pipeline.stages[step - 1].access),
        }
    }

    pub(crate) fn tree_name(&self, step: usize) -> String {
        self.tree_access(step).map_or("outer rows".into(), |access| access.name.clone())
    }

    /// A range of the source.
    pub(crate) fn range(&self, range: u32) -> &KeyRange {
        match &self.pipeline.source {
            Source::Ranges { ranges, .. } => &ranges[range as usize],
            Source::Rows { .. } => unreachable!("only range sources have ranges"),
        }
    }

    /// A page of a step's tree is not what its parent promises.
    pub(crate) fn malformed(&self, step: usize, page: PageRef, reason: impl ToString) -> ExecError {
        ExecError::Malformed { tree: self.tree_name(step), page: page.address.0, reason: reason.to_string() }
    }
}
