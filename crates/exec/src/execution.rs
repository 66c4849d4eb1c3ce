//! Running pipelines: an execution, and the stream of rows out of each of its partitions.

use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_schema::SchemaRef;

use crate::blocking::wait_for;
use crate::error::ExecError;
use crate::execution_state::ExecutionState;
use crate::instance::Instance;
use crate::metrics::ExecutionMetrics;
use crate::plan::{ExecutionOptions, Pipeline};
use crate::reactor::Executor;
use crate::rows::registers::OutputBatch;
use crate::stream::{Input, InputSender, Output};

impl Executor {
    /// Prepares to run a pipeline; nothing is read before its partitions are opened.
    pub fn run(self: &Arc<Self>, pipeline: Arc<Pipeline>, options: ExecutionOptions) -> Arc<Execution> {
        self.begin_execution();
        let state = ExecutionState::new(self.page_size(), pipeline, options);
        Arc::new(Execution { state, executor: Arc::clone(self) })
    }
}

/// One execution of a pipeline.
pub struct Execution {
    state: Arc<ExecutionState>,
    executor: Arc<Executor>,
}

impl Execution {
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.state.pipeline
    }

    pub fn options(&self) -> &ExecutionOptions {
        &self.state.options
    }

    pub fn metrics(&self) -> &ExecutionMetrics {
        &self.state.metrics
    }

    /// Schema of [`crate::OutputBatch::registers`].
    pub fn output_schema(&self) -> &SchemaRef {
        self.state.schemas.last().expect("one per step")
    }

    /// Starts partition `partition` of an execution over key ranges. Partitions beyond
    /// `options().partitions` are empty.
    pub fn open(self: &Arc<Self>, partition: usize) -> PipelineStream {
        let reactor = self.executor.reactor(partition);
        let output = Output::new(reactor.waker());
        if partition >= self.state.options.partitions {
            output.finish();
        } else {
            self.state.source.register(reactor.waker());
            reactor.start(Instance::new(Arc::clone(&self.state), Arc::clone(&output), None));
        }
        PipelineStream { output, execution: Arc::clone(self) }
    }

    /// Starts a partition whose outer rows the caller sends.
    pub fn open_with_input(self: &Arc<Self>, partition: usize) -> (InputSender, PipelineStream) {
        let reactor = self.executor.reactor(partition);
        let output = Output::new(reactor.waker());
        let input = Input::new(reactor.waker());
        reactor.start(Instance::new(Arc::clone(&self.state), Arc::clone(&output), Some(Arc::clone(&input))));
        (InputSender { input, done: false }, PipelineStream { output, execution: Arc::clone(self) })
    }
}

/// The rows of one partition, in no order. Dropping it cancels the partition.
pub struct PipelineStream {
    output: Arc<Output>,
    execution: Arc<Execution>,
}

impl PipelineStream {
    /// The next batch; `None` after the last.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<OutputBatch, ExecError>>> {
        self.output.poll_pop(context)
    }

    /// The next batch, for callers outside of an async runtime.
    pub fn next_blocking(&mut self) -> Option<Result<OutputBatch, ExecError>> {
        wait_for(|context| self.poll_next(context))
    }

    /// The execution this partition belongs to.
    pub fn execution(&self) -> &Arc<Execution> {
        &self.execution
    }
}

impl Drop for PipelineStream {
    fn drop(&mut self) {
        self.output.cancel();
    }
}
