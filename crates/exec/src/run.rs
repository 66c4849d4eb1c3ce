//! A run: one execution of a pipeline, shared by its partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use arrow_schema::SchemaRef;
use saki_base::PageSize;
use saki_page::IoShare;

use crate::entry::EntryReader;
use crate::error::ExecError;
use crate::instance::Instance;
use crate::metrics::RunMetrics;
use crate::plan::{Execution, Pipeline, RunOptions, Source, TreeAccess};
use crate::reactor::Executor;
use crate::slots::{Slot, slot_schema, slots_at};
use crate::source::RangeSource;
use crate::stream::{Input, InputSender, Output, PipelineStream};

/// One execution of a pipeline.
pub struct Run {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) options: RunOptions,
    pub(crate) metrics: RunMetrics,
    pub(crate) share: Arc<IoShare>,
    /// Readers of entries, by depth; `None` for a `Rows` source.
    pub(crate) readers: Vec<Option<EntryReader>>,
    /// Slots and their Arrow schema, by depth.
    pub(crate) slots: Vec<Vec<Slot>>,
    pub(crate) schemas: Vec<SchemaRef>,
    pub(crate) source: RangeSource,
    pub(crate) page_size: PageSize,
    /// Rows the limit still allows; `i64::MAX` without one.
    remaining: AtomicI64,
    stopped: AtomicBool,
    executor: Arc<Executor>,
}

impl Run {
    pub(crate) fn new(executor: Arc<Executor>, pipeline: Arc<Pipeline>, mut options: RunOptions) -> Arc<Self> {
        if options.execution == Execution::InOrder {
            options.partitions = 1;
            options.max_in_flight = 1;
        }
        options.partitions = options.partitions.max(1);
        options.batch_rows = options.batch_rows.max(1);
        let depths = pipeline.stages.len() + 1;
        let mut readers = Vec::with_capacity(depths);
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
            metrics: RunMetrics::new(depths),
            share: IoShare::new(options.max_in_flight.max(1)),
            readers,
            slots: (0..depths).map(|depth| slots_at(&pipeline, depth)).collect(),
            schemas: (0..depths).map(|depth| slot_schema(&pipeline, depth)).collect(),
            source,
            page_size: executor.page_size(),
            remaining: AtomicI64::new(pipeline.limit.map_or(i64::MAX, |limit| limit.min(i64::MAX as usize) as i64)),
            stopped: AtomicBool::new(false),
            pipeline,
            options,
            executor,
        })
    }

    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    pub fn metrics(&self) -> &RunMetrics {
        &self.metrics
    }

    /// Schema of [`crate::OutputBatch::slots`].
    pub fn output_schema(&self) -> &SchemaRef {
        self.schemas.last().expect("one per depth")
    }

    /// Starts partition `partition` of a run over key ranges. Partitions beyond
    /// `options().partitions` are empty.
    pub fn open(self: &Arc<Self>, partition: usize) -> PipelineStream {
        let reactor = self.executor.reactor(partition);
        let output = Output::new(reactor.waker());
        if partition >= self.options.partitions {
            output.finish();
        } else {
            self.source.register(reactor.waker());
            reactor.start(Instance::new(Arc::clone(self), Arc::clone(&output), None));
        }
        PipelineStream { output, run: Arc::clone(self) }
    }

    /// Starts a partition whose outer rows the caller sends.
    pub fn open_with_input(self: &Arc<Self>, partition: usize) -> (InputSender, PipelineStream) {
        let reactor = self.executor.reactor(partition);
        let output = Output::new(reactor.waker());
        let input = Input::new(reactor.waker());
        reactor.start(Instance::new(Arc::clone(self), Arc::clone(&output), Some(Arc::clone(&input))));
        (InputSender { input, done: false }, PipelineStream { output, run: Arc::clone(self) })
    }

    /// Ends all partitions as soon as they look.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Claims up to `rows` rows of the limit; fewer are granted when it is reached, and the run stops.
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

    pub(crate) fn page_error(&self, depth: usize, error: saki_page::PageError) -> ExecError {
        ExecError::Page { tree: self.tree_name(depth), error }
    }

    /// Reads the entries of a depth's tree.
    pub(crate) fn entry_reader(&self, depth: usize) -> &EntryReader {
        self.readers[depth].as_ref().expect("a depth with pages reads entries")
    }

    /// The tree of a depth; `None` for outer rows.
    pub(crate) fn tree_access(&self, depth: usize) -> Option<&TreeAccess> {
        match (depth, &self.pipeline.source) {
            (0, Source::Ranges { access, .. }) => Some(access),
            (0, Source::Rows { .. }) => None,
            (depth, _) => Some(&self.pipeline.stages[depth - 1].access),
        }
    }

    pub(crate) fn tree_name(&self, depth: usize) -> String {
        self.tree_access(depth).map_or("outer rows".into(), |access| access.name.clone())
    }
}
