//! A partition of a scan: on the thread that polls it, from segments to batches.
//!
//! ```text
//!   take ─► waiting ─► filter ─┬─ no row left: the other columns are never asked for
//!                              ├─ columns not here ─► parked ─┐
//!                              └──────────────────────────────┴─► emitting ─► batch, batch, …
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use arrow_select::filter::FilterBuilder;
use saki_vector::{Batch, Column};

use super::execution::ScanExecution;
use super::filter::{Observations, apply};
use super::metrics::ScanCounts;
use super::segment::{Origin, ScanSegment};
use super::selection::{Part, Selection};
use crate::blocking::wait_for;
use crate::error::ExecError;

/// Segments that have been filtered and wait for their other columns, at most.
const PARKED_MAX: usize = 8;
/// Rows that are worth a batch of their own: fewer wait for those of the next segments.
const BATCH_ROWS_MIN: usize = 2048;
/// Segments without a row that are gone through before others get the thread.
const SEGMENTS_PER_POLL: usize = 8;

/// The rows of one partition, in no order. Dropping it ends the partition.
pub struct ColumnStream {
    execution: Arc<ScanExecution>,
    partition: usize,
    observations: Observations,
    counts: ScanCounts,
    /// Taken, and its columns have not all come.
    waiting: Option<ScanSegment>,
    parked: VecDeque<(ScanSegment, Selection)>,
    emitting: Option<Emitting>,
    /// Small batches to be put together, and their rows.
    small: (Vec<Batch>, usize),
    /// No segment is left to be taken.
    exhausted: bool,
    ended: bool,
    waiting_since: Option<Instant>,
}

impl ScanExecution {
    /// Opens a partition; each may be polled by a thread of its own. Those beyond [`Self::partitions`] are empty.
    pub fn open(self: &Arc<Self>, partition: usize) -> ColumnStream {
        ColumnStream::new(Arc::clone(self), partition)
    }
}

/// A segment whose rows are being handed on.
struct Emitting {
    columns: Vec<Column>,
    selection: Selection,
    next_slice: usize,
}

impl ColumnStream {
    fn new(execution: Arc<ScanExecution>, partition: usize) -> Self {
        Self {
            partition,
            observations: Observations::new(execution.setup.conditions.len()),
            counts: ScanCounts::default(),
            waiting: None,
            parked: VecDeque::new(),
            emitting: None,
            small: (Vec::new(), 0),
            exhausted: false,
            ended: partition >= execution.partitions(),
            waiting_since: None,
            execution,
        }
    }

    /// The execution this partition belongs to.
    pub fn execution(&self) -> &Arc<ScanExecution> {
        &self.execution
    }

    /// The next batch, with the output columns; `None` after the last. After an error there is nothing more.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Batch, ExecError>>> {
        if let Some(since) = self.waiting_since.take() {
            self.counts.wait_nanos += since.elapsed().as_nanos() as u64;
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let item = match self.advance(context) {
            Ok(Some(Poll::Pending)) => {
                self.waiting_since = Some(Instant::now());
                return Poll::Pending;
            }
            Ok(Some(Poll::Ready(batch))) => Some(Ok(batch)),
            Ok(None) => None,
            Err(error) => {
                self.execution.stop();
                Some(Err(error))
            }
        };
        if !matches!(item, Some(Ok(_))) {
            self.end();
        }
        Poll::Ready(item)
    }

    /// The next batch, for callers outside of an async runtime.
    pub fn next_blocking(&mut self) -> Option<Result<Batch, ExecError>> {
        wait_for(|context| self.poll_next(context))
    }

    /// Works until there is a batch, or nothing to do but wait; `None`: the end.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<Option<Poll<Batch>>, ExecError> {
        let mut segments = 0;
        loop {
            if self.execution.is_stopped() {
                return Ok(None);
            }
            if let Some(batch) = self.emit()? {
                match self.claim(batch) {
                    Some(batch) => return Ok(Some(Poll::Ready(batch))),
                    None => continue,
                }
            }
            if segments == SEGMENTS_PER_POLL {
                context.waker().wake_by_ref();
                return Ok(Some(Poll::Pending));
            }
            if self.unpark(context)? {
                continue;
            }
            match self.next_segment(context)? {
                Poll::Ready(Some(segment)) => {
                    segments += 1;
                    self.filter(segment)?;
                    self.execution.metrics.add(&mut self.counts);
                }
                Poll::Ready(None) if self.parked.is_empty() => {
                    return Ok(self.flush()?.and_then(|batch| self.claim(batch)).map(Poll::Ready));
                }
                _ => return Ok(Some(Poll::Pending)),
            }
        }
    }

    /// Takes a parked segment up again if its columns have come.
    fn unpark(&mut self, context: &mut Context<'_>) -> Result<bool, ExecError> {
        for index in 0..self.parked.len() {
            if self.parked[index].0.poll(&self.execution.setup, context)?.is_ready()
                && let Some((segment, selection)) = self.parked.remove(index)
            {
                self.begin_emitting(segment, selection)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A segment whose columns for the conditions have come; `None` if there is none left.
    fn next_segment(&mut self, context: &mut Context<'_>) -> Result<Poll<Option<ScanSegment>>, ExecError> {
        if self.waiting.is_none() {
            if self.parked.len() >= PARKED_MAX {
                return Ok(Poll::Pending);
            }
            self.waiting = if self.exhausted { None } else { self.execution.take(self.partition, &mut self.counts) };
        }
        let Some(segment) = &mut self.waiting else {
            self.exhausted = true;
            return Ok(Poll::Ready(None));
        };
        Ok(segment.poll(&self.execution.setup, context)?.map(|()| self.waiting.take()))
    }

    /// Applies the conditions, and asks for the output's columns if a row is left.
    fn filter(&mut self, mut segment: ScanSegment) -> Result<(), ExecError> {
        let rows = segment.open(&self.execution.setup)?;
        if let Origin::Overlay(_) = segment.origin {
            self.counts.rows_in += rows as u64;
            self.counts.overlay_rows += rows as u64;
        }
        let mut selection = Selection::all(rows);
        let mut hides = self.execution.setup.scan.overlay.is_some();
        for index in self.observations.order(&self.execution.setup.conditions, &segment.conditions) {
            // Errors of hidden rows are none of the query's.
            if self.execution.setup.conditions[index].is_fallible() && std::mem::take(&mut hides) {
                self.hide(segment.origin, &mut selection)?;
            }
            if selection.is_empty() {
                break;
            }
            let (tested, passed) = self.apply(index, &mut segment, &mut selection)?;
            self.observations.note(index, tested, passed);
        }
        if hides {
            self.hide(segment.origin, &mut selection)?;
        }
        if !segment.conditions.is_empty() {
            self.execution.setup.note_filtered(!selection.is_empty());
        }
        if selection.is_empty() {
            self.counts.segments_skipped += 1;
            return Ok(());
        }
        let mut requests = Vec::new();
        for position in &self.execution.setup.output {
            segment.ask(&self.execution.setup, *position, &mut requests, &mut self.counts);
        }
        self.execution.setup.reader.request(requests);
        if segment.has_come() {
            // Nothing wakes: all of it is here.
            let ready = segment.poll(&self.execution.setup, &mut Context::from_waker(Waker::noop()))?;
            debug_assert!(ready.is_ready());
            return self.begin_emitting(segment, selection);
        }
        self.parked.push_back((segment, selection));
        Ok(())
    }

    /// Leaves the rows out that what lies over the segments hides; nobody asks where no row is left.
    fn hide(&mut self, origin: Origin, selection: &mut Selection) -> Result<(), ExecError> {
        let (Some(overlay), Origin::Segment(segment), false) =
            (&self.execution.setup.scan.overlay, origin, selection.is_empty())
        else {
            return Ok(());
        };
        if let Some(positions) = overlay.hidden(segment)? {
            self.counts.hidden += positions.len() as u64;
            selection.leave_out(&positions);
        }
        Ok(())
    }

    /// Applies one condition: on encoded bytes if nobody else needs the values and that is possible.
    fn apply(
        &mut self,
        index: usize,
        segment: &mut ScanSegment,
        selection: &mut Selection,
    ) -> Result<(usize, usize), ExecError> {
        let execution = Arc::clone(&self.execution);
        let condition = &execution.setup.conditions[index];
        if let (Some(test), [position]) = (condition.test(), &condition.positions[..])
            && !execution.setup.output.contains(position)
            && let Some(kept) = segment.select(&execution.setup, *position, test)?
        {
            selection.and(kept.values());
            return Ok((selection.rows(), kept.true_count()));
        }
        let columns = condition
            .positions
            .iter()
            .map(|position| segment.column(&execution.setup, *position, &mut self.counts))
            .collect::<Result<Vec<_>, _>>()?;
        apply(condition, &columns, selection).map_err(ExecError::Vector)
    }

    fn begin_emitting(&mut self, mut segment: ScanSegment, selection: Selection) -> Result<(), ExecError> {
        let execution = Arc::clone(&self.execution);
        let columns =
            execution.setup.output.iter().map(|position| segment.column(&execution.setup, *position, &mut self.counts));
        let columns = columns.collect::<Result<_, _>>()?;
        self.emitting = Some(Emitting { columns, selection, next_slice: 0 });
        Ok(())
    }

    /// The next batch of the segment being handed on, unless that is too small and waits for more.
    fn emit(&mut self) -> Result<Option<Batch>, ExecError> {
        while let Some(emitting) = &mut self.emitting {
            let Some(batch) = emitting.next_batch()? else {
                self.emitting = None;
                break;
            };
            if batch.rows >= BATCH_ROWS_MIN || self.execution.setup.scan.limit.is_some() {
                return Ok(Some(batch));
            }
            self.small.1 += batch.rows;
            self.small.0.push(batch);
            if self.small.1 >= BATCH_ROWS_MIN {
                return self.flush();
            }
        }
        Ok(None)
    }

    /// The small batches as one.
    fn flush(&mut self) -> Result<Option<Batch>, ExecError> {
        let (batches, rows) = std::mem::take(&mut self.small);
        match &batches[..] {
            [] => Ok(None),
            [batch] => Ok(Some(batch.clone())),
            [first, ..] => {
                let column = |index: usize| {
                    let parts: Vec<&Column> = batches.iter().map(|batch| &batch.columns[index]).collect();
                    Column::concat(&parts)
                };
                let columns = (0..first.columns.len()).map(column).collect::<Result<_, _>>();
                Ok(Some(Batch::new(columns.map_err(ExecError::Vector)?, rows)))
            }
        }
    }

    /// The part of a batch that the limit still allows.
    fn claim(&mut self, batch: Batch) -> Option<Batch> {
        let rows = self.execution.claim(batch.rows);
        self.counts.rows += rows as u64;
        match rows {
            0 => None,
            rows if rows == batch.rows => Some(batch),
            rows => Some(batch.slice(0, rows)),
        }
    }

    /// Lets go of everything.
    fn end(&mut self) {
        self.ended = true;
        self.waiting = None;
        self.parked.clear();
        self.emitting = None;
        self.small = (Vec::new(), 0);
        self.execution.metrics.add(&mut self.counts);
    }
}

impl Drop for ColumnStream {
    fn drop(&mut self) {
        self.end();
    }
}

impl Emitting {
    fn next_batch(&mut self) -> Result<Option<Batch>, ExecError> {
        let Some(Part { start, rows, kept }) = self.selection.next_part(&mut self.next_slice, BATCH_ROWS_MIN) else {
            return Ok(None);
        };
        let columns = self.columns.iter().map(|column| column.slice(start, rows));
        let Some(kept) = kept else { return Ok(Some(Batch::new(columns.collect(), rows))) };
        // Which rows these are is found out once, not for each column.
        let predicate = FilterBuilder::new(&kept).optimize().build();
        let filter = |column: Column| {
            let array = predicate.filter(column.array())?;
            Ok(match column.known_bounds() {
                Some(bounds) => Column::with_bounds(array, bounds),
                None => Column::new(array),
            })
        };
        let columns = columns.map(filter).collect::<Result<Vec<_>, arrow_schema::ArrowError>>();
        let columns = columns.map_err(|error| ExecError::Vector(error.into()))?;
        Ok(Some(Batch::new(columns, predicate.count())))
    }
}
