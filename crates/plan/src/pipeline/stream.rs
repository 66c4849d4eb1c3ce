//! Streams of plan nodes over the executor's streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::interleave;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::Stream;
use saki_catalog::InPlan;
use saki_exec::{InputSender, OuterRows, OutputBatch, PipelineStream};

use crate::access::chain::OutputColumn;

/// A pipeline's output as record batches of a plan's schema.
pub struct OutputStream {
    inner: PipelineStream,
    columns: Vec<OutputColumn>,
    schema: SchemaRef,
    metrics: BaselineMetrics,
}

impl OutputStream {
    pub fn new(inner: PipelineStream, columns: Vec<OutputColumn>, schema: SchemaRef, metrics: BaselineMetrics) -> Self {
        Self { inner, columns, schema, metrics }
    }

    fn assemble(&self, output: &OutputBatch) -> Result<RecordBatch> {
        let rows = output.outer.as_ref().map_or(output.registers.num_rows(), |outer| outer.indices.len());
        let gatherer = output.outer.as_ref().map(Gatherer::new);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            arrays.push(match (column, &gatherer) {
                (OutputColumn::Register(register), _) => Arc::clone(output.registers.column(*register)),
                (OutputColumn::Outer(column), Some(gatherer)) => gatherer.column(*column)?,
                (OutputColumn::Outer(column), None) => {
                    return datafusion::common::internal_err!("outer column {column} of a pipeline without outer rows");
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

/// Gathers columns of the outer batches that output rows refer to.
struct Gatherer<'a> {
    batches: &'a [RecordBatch],
    indices: Vec<(usize, usize)>,
}

impl<'a> Gatherer<'a> {
    fn new(outer: &'a OuterRows) -> Self {
        let indices = outer.indices.iter().map(|(batch, row)| (*batch as usize, *row as usize)).collect();
        Self { batches: &outer.batches, indices }
    }

    fn column(&self, column: usize) -> Result<ArrayRef> {
        let arrays: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        Ok(interleave(&arrays, &self.indices)?)
    }
}

impl Stream for OutputStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.inner.poll_next(cx));
        let timer = self.metrics.elapsed_compute().timer();
        let batch = item.map(|output| self.assemble(&output.in_plan()?));
        timer.done();
        self.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for OutputStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A child's batches going into a pipeline, and the pipeline's output coming out.
pub struct FedStream {
    input: Option<(SendableRecordBatchStream, InputSender)>,
    output: OutputStream,
}

impl FedStream {
    pub fn new(input: SendableRecordBatchStream, sender: InputSender, output: OutputStream) -> Self {
        Self { input: Some((input, sender)), output }
    }

    /// Feeds what the pipeline has room for.
    fn feed(&mut self, cx: &mut Context<'_>) -> Result<()> {
        while let Some((input, sender)) = &mut self.input {
            match sender.poll_ready(cx) {
                Poll::Pending => return Ok(()),
                // Nobody wants more: a limit has been reached, or the run has failed and the output says why.
                Poll::Ready(Err(_)) => self.input = None,
                Poll::Ready(Ok(())) => match input.as_mut().poll_next(cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Some(batch)) => {
                        let batch = batch?;
                        if batch.num_rows() > 0 {
                            sender.send(batch);
                        }
                    }
                    Poll::Ready(None) => {
                        if let Some((_, sender)) = self.input.take() {
                            sender.finish();
                        }
                    }
                },
            }
        }
        Ok(())
    }
}

impl Stream for FedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.feed(cx) {
            self.input = None;
            return Poll::Ready(Some(Err(error)));
        }
        Pin::new(&mut self.output).poll_next(cx)
    }
}

impl RecordBatchStream for FedStream {
    fn schema(&self) -> SchemaRef {
        self.output.schema()
    }
}
