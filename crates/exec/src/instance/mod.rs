//! One partition of an execution: the state machine that a reactor turns.
//!
//! ```text
//!            source                  step 1                        step 2
//!   ranges ─► wanted ─► in flight ─► forming ─► probe batch ─► wanted ─► in flight ─► forming ─► output
//!             (visits)   (pages)      (rows)    (sorted keys)  (visits)   (pages)      (rows)
//! ```
//!
//! # Order of work
//! Later steps go first: pages that arrived, then pages wanted, then rows that can be turned into probes;
//! the source comes last. So live rows stay few, and what is closest to the output leaves first.
//! Rows are turned into probes when there are enough for a good sort, or when the next step has nothing left
//! to ask the device for: a busy device makes batches large by itself, an idle one makes them small and quick.
//!
//! # Bounds
//! - requests in flight: the window (`max_in_flight`, half of the cache) and the governor;
//! - memory: over the budget, only the last step that has anything under way goes on; that step
//!   drains into the output, so a full budget stops the source and never fails the execution;
//! - output: a full queue stops everything until the consumer takes a batch.
//!
//! # Invariants
//! - A visit is in exactly one of: `wanted`, held back, in flight, `arrived`.
//! - A probe batch lives while `outstanding > 0`; each piece of work that waits for a page counts one.

mod emit;
mod held;
mod large;
mod overlaid;
mod probes;
mod state;
mod under_way;
mod visit;
mod visits;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use saki_page::{Arrival, CacheReader, PagePort, Request};

use crate::error::ExecError;
use crate::execution_state::{Expansion, Take};
use crate::plan::{BatchFilter, Source, VisitOrder};
use crate::rows::registers::RegisterBatch;
use crate::stream::Popped;
use held::Held;
use probes::ProbeBatch;
pub(crate) use state::Instance;
use state::{Step, VISIT_BITS};
use under_way::OverlaidBatch;
use visits::Work;

/// Rows that are turned into probes at once, at most: enough that sorting them brings neighbours together.
const PROBES_MAX: usize = 4096;
/// Arrived pages processed between two looks at the device.
const ARRIVALS_PER_TURN: usize = 16;
/// Pages found in the cache, or batches built, between two looks at the device.
const ATTEMPTS_PER_TURN: usize = 64;
/// What a turn ended with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// There is more to do at once.
    More,
    /// Nothing to do before an arrival or a wake-up.
    Waiting,
    /// The governor or the cache refused a request, and nothing of this partition is in flight.
    Refused,
    Done,
}

/// What an attempt to give the device work came to.
enum Attempt {
    /// A request was sent.
    Asked,
    /// Something else was done: a cached page processed, probes built, children taken.
    Worked,
    /// The device takes no more now.
    Refused,
    /// As many requests are in flight as this execution may have.
    Full,
    /// There is nothing to ask for.
    Nothing,
}

impl Instance {
    /// A requested page has come, or failed to.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        let low = arrival.token as u32;
        let (step, visit) = ((low >> VISIT_BITS) as usize, low & ((1 << VISIT_BITS) - 1));
        self.in_flight -= 1;
        match arrival.result {
            Ok(()) => self.steps[step].arrived.push_back(visit),
            Err(error) => self.failed = Some(self.execution.page_error(step, error)),
        }
    }

    /// Ends the partition with an error.
    pub(crate) fn fail(&mut self, error: ExecError) {
        self.execution.stop();
        self.output.push(Err(error));
        self.end();
    }

    /// Adds up how long the reactor slept while this partition had something in flight.
    pub(crate) fn account(&mut self, waited: bool, elapsed: Duration) {
        let depth = self.execution.share.in_flight();
        self.execution.metrics.spend(depth, elapsed);
        if waited && self.in_flight > 0 {
            self.execution.metrics.wait_nanos.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Works for a while. `Err` ends the execution.
    pub(crate) fn turn(&mut self, port: &mut PagePort, reader: &CacheReader) -> Result<Turn, ExecError> {
        let start = Instant::now();
        let turn = self.advance(port, reader);
        let elapsed = start.elapsed();
        let metrics = &self.execution.metrics;
        for (step, stage) in self.steps.iter_mut().zip(&metrics.stages) {
            stage.add(&mut step.counts);
        }
        metrics.cpu_nanos.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        metrics.spend(self.execution.share.in_flight(), elapsed);
        metrics.memory_bytes_max.fetch_max(self.live_bytes as u64, Ordering::Relaxed);
        turn
    }

    fn advance(&mut self, port: &mut PagePort, reader: &CacheReader) -> Result<Turn, ExecError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.output.cancelled.load(Ordering::Acquire) || self.execution.is_stopped() {
            self.end();
            return Ok(Turn::Done);
        }
        self.window = self.window_now(reader);
        self.held.begin_turn();
        if !std::mem::replace(&mut self.started, true) {
            self.open_overlays()?;
            self.fetch_ahead();
        }
        for _ in 0..ARRIVALS_PER_TURN {
            if !self.make_room()? {
                return Ok(Turn::Waiting);
            }
            let Some((step, visit)) = self.next_arrived() else { break };
            self.process(step, visit, reader)?;
        }
        for _ in 0..ATTEMPTS_PER_TURN {
            if !self.make_room()? {
                return Ok(Turn::Waiting);
            }
            match self.attempt(port, reader)? {
                Attempt::Asked | Attempt::Worked => {}
                Attempt::Refused if self.in_flight == 0 && !self.has_arrived() => return Ok(Turn::Refused),
                Attempt::Refused | Attempt::Full => {
                    return Ok(if self.has_arrived() { Turn::More } else { Turn::Waiting });
                }
                Attempt::Nothing if self.has_arrived() => return Ok(Turn::More),
                Attempt::Nothing if self.is_finished() => return self.finish(),
                Attempt::Nothing if self.in_flight == 0 && !self.held.is_empty() => return Ok(Turn::Refused),
                Attempt::Nothing => return Ok(Turn::Waiting),
            }
        }
        Ok(Turn::More)
    }

    /// Wants the roots of all stages at once, so that the levels of one tree are read beside those of another:
    /// the first row then waits for the tallest tree, not for the sum of all. A classical engine does not.
    fn fetch_ahead(&mut self) {
        if self.execution.options.order == VisitOrder::InOrder {
            return;
        }
        let execution = Arc::clone(&self.execution);
        for (step, stage) in (1..).zip(&execution.pipeline.stages) {
            if let (Some(root), 2..) = (stage.access.root, stage.access.height) {
                self.want(step, root, stage.access.height - 1, false, Work::Ahead);
            }
        }
    }

    /// Requests this partition may have in flight: no more than its part of the cache can hold, so that
    /// pages are not evicted before they are looked at.
    fn window_now(&self, reader: &CacheReader) -> usize {
        if self.execution.options.order == VisitOrder::InOrder {
            return 1;
        }
        let of_cache = reader.cache().frames() as usize / (2 * self.execution.options.partitions);
        let window = of_cache.clamp(1, self.execution.options.max_in_flight as usize);
        match self.execution.pipeline.limit {
            // Few rows are wanted and nothing filters them: do not read far ahead.
            Some(limit) if self.execution.pipeline.stages.is_empty() && self.source_is_plain() => {
                window.min(limit / 16 + 2)
            }
            _ => window,
        }
    }

    fn source_is_plain(&self) -> bool {
        let source = &self.execution.pipeline.source;
        matches!(source, Source::Ranges { predicates, filter: None, .. } if predicates.is_empty())
    }

    /// Sends a full output batch. `false`: the consumer has not taken the last ones yet.
    fn make_room(&mut self) -> Result<bool, ExecError> {
        let rows_max = self.execution.pipeline.limit.unwrap_or(usize::MAX).min(self.execution.options.batch_rows);
        let last = self.steps.last().expect("at least the source");
        if !last.forming.is_full(rows_max) {
            return Ok(true);
        }
        if self.output.is_full() {
            return Ok(false);
        }
        self.send_output()?;
        Ok(true)
    }

    fn send_output(&mut self) -> Result<(), ExecError> {
        let step = self.steps.len() - 1;
        self.filter_forming(step)?;
        let forming = &mut self.steps[step].forming;
        let granted = self.execution.claim(forming.rows);
        forming.truncate(granted);
        self.steps[step].counts.rows += granted as u64;
        if granted > 0 {
            let batch = self.steps[step].forming.take_output(&self.execution.schemas[step])?;
            self.output.push(Ok(batch));
        }
        self.steps[step].forming.clear();
        Ok(())
    }

    fn filter_forming(&mut self, step: usize) -> Result<(), ExecError> {
        let execution = Arc::clone(&self.execution);
        let filter: Option<&Arc<dyn BatchFilter>> = match (step, &execution.pipeline.source) {
            (0, Source::Ranges { filter, .. }) => filter.as_ref(),
            (0, Source::Rows { .. }) => None,
            (step, _) => execution.pipeline.stages[step - 1].filter.as_ref(),
        };
        let forming = &mut self.steps[step].forming;
        match filter {
            Some(filter) if !forming.is_empty() => forming.apply(&**filter, &execution.schemas[step]),
            _ => Ok(()),
        }
    }

    fn has_arrived(&self) -> bool {
        let floor = self.floor();
        self.steps[floor..].iter().any(|step| !step.arrived.is_empty())
    }

    /// The first step that may work now: 0, or within a full memory budget the last that has anything under
    /// way.
    fn floor(&self) -> usize {
        let forming: usize = self.steps.iter().map(|step| step.forming.memory_bytes()).sum();
        if self.live_bytes + forming <= self.execution.options.memory_bytes / self.execution.options.partitions {
            return 0;
        }
        let busy =
            |&step: &usize| !self.steps[step].is_idle() || (step > 0 && !self.steps[step - 1].forming.is_empty());
        (0..self.steps.len()).rev().find(busy).unwrap_or(0)
    }

    /// Gives the device something to do, the last step first.
    fn attempt(&mut self, port: &mut PagePort, reader: &CacheReader) -> Result<Attempt, ExecError> {
        let waiting: usize = self.steps.iter().map(|step| step.arrived.len()).sum();
        let floor = self.floor();
        // Pages that arrived and may not be processed yet do not count against the step that must drain.
        if self.in_flight >= self.window || (floor == 0 && self.in_flight + waiting >= 2 * self.window) {
            return Ok(Attempt::Full);
        }
        if let Some(held) = self.held.next() {
            return self.ask(held, true, port, reader);
        }
        if self.held.len() >= self.window {
            return Ok(Attempt::Refused);
        }
        for step in (floor..self.steps.len()).rev() {
            if let Some(visit) = self.steps[step].wanted.pop_front() {
                return self.ask((step, visit), false, port, reader);
            }
            if self.look_over(step)? || self.expand_probe(step) {
                return Ok(Attempt::Worked);
            }
            if step > 0 && !self.steps[step - 1].forming.is_empty() {
                self.build_probes(step)?;
                return Ok(Attempt::Worked);
            }
        }
        if floor > 0 {
            return Ok(Attempt::Nothing);
        }
        self.feed()
    }

    /// Asks for a page, or processes it at once if it is there. `again`: it has been refused before.
    fn ask(
        &mut self,
        (step, visit): Held,
        again: bool,
        port: &mut PagePort,
        reader: &CacheReader,
    ) -> Result<Attempt, ExecError> {
        let page = self.steps[step].visits.page(visit).page;
        let token = u64::from(self.id) << 32 | (step as u64) << VISIT_BITS | u64::from(visit);
        let request = port.request(&self.execution.share, page, token);
        let work = &mut self.steps[step];
        match request {
            Request::Cached => {
                work.counts.pages_cached += 1;
                self.process(step, visit, reader)?;
                return Ok(Attempt::Worked);
            }
            // Other devices may take more.
            Request::Busy(Some(device)) if port.devices() > 1 => {
                self.held.refused(device, (step, visit), again);
                return Ok(Attempt::Worked);
            }
            Request::Busy(_) => {
                work.wanted.push_front(visit);
                return Ok(Attempt::Refused);
            }
            Request::Queued => {
                work.counts.pages_read += 1;
                work.counts.bytes_read += reader.cache().page_size().bytes() as u64;
            }
            Request::Shared => work.counts.pages_shared += 1,
        }
        self.in_flight += 1;
        Ok(Attempt::Asked)
    }

    /// Wants the next child of a probe that matches many pages.
    fn expand_probe(&mut self, step: usize) -> bool {
        let Some(top) = self.steps[step].expansions.last_mut() else { return false };
        let (page, level, work) = (top.children[top.next], top.level, top.work);
        top.next += 1;
        let done = top.next == top.children.len();
        if done {
            self.steps[step].expansions.pop();
        }
        self.want(step, page, level, false, work);
        if done {
            // The expansion itself counted as one piece of outstanding work.
            self.work_done(step, work);
        }
        true
    }

    /// Turns the rows that left `step - 1` into probes of `step`.
    fn build_probes(&mut self, step: usize) -> Result<(), ExecError> {
        self.filter_forming(step - 1)?;
        let rows = self.steps[step - 1].forming.rows;
        self.steps[step - 1].counts.rows += rows as u64;
        if rows == 0 {
            self.steps[step - 1].forming.clear();
            return Ok(());
        }
        let outer = self.input.is_some();
        let registers = &self.execution.registers[step - 1];
        let mut batch = self.spare[step].pop().unwrap_or_else(|| ProbeBatch::new(RegisterBatch::new(registers, outer)));
        std::mem::swap(&mut batch.rows, &mut self.steps[step - 1].forming);
        self.start_batch(step, batch)
    }

    /// Makes probes of a batch's rows, and sends them on their way.
    fn start_batch(&mut self, step: usize, mut batch: ProbeBatch) -> Result<(), ExecError> {
        let execution = Arc::clone(&self.execution);
        let stage = &execution.pipeline.stages[step - 1];
        batch.build(stage, &mut self.probe_scratch)?;
        let probes = batch.probes();
        self.live_bytes += batch.charged_bytes;
        self.steps[step].counts.probes += u64::from(probes);
        self.steps[step].batches += 1;
        // Held by one piece of work until all others have been counted.
        batch.outstanding = 1;
        let index = match self.vacant_batches.pop() {
            Some(index) => {
                self.batches[index as usize] = Some(batch);
                index
            }
            None => {
                self.batches.push(Some(batch));
                (self.batches.len() - 1) as u32
            }
        };
        if self.is_overlaid(step) {
            self.steps[step].overlaid.push(OverlaidBatch::new(index));
        } else {
            self.enter_tree(step, index);
        }
        Ok(())
    }

    /// Takes more from the source.
    fn feed(&mut self) -> Result<Attempt, ExecError> {
        if self.source_ended {
            return Ok(Attempt::Nothing);
        }
        match &self.input {
            Some(input) => match input.pop() {
                Popped::Batch(batch) => {
                    self.take_outer(batch)?;
                    Ok(Attempt::Worked)
                }
                Popped::Empty => Ok(Attempt::Nothing),
                Popped::End => {
                    self.source_ended = true;
                    Ok(Attempt::Worked)
                }
                Popped::Failed(reason) => Err(ExecError::Input(reason)),
            },
            None => self.feed_range(),
        }
    }

    fn feed_range(&mut self) -> Result<Attempt, ExecError> {
        if self.taken.next == self.taken.children.len() {
            self.taken.children.clear();
            self.taken.next = 0;
            match self.execution.source.take(&mut self.taken.children) {
                Take::Children { level, range } => {
                    (self.taken.level, self.taken.range) = (level, range);
                    if level > 0 {
                        self.inner_claims += self.taken.children.len();
                    }
                }
                // Nothing else is to be done: what lies over the tree needs no page.
                Take::Wait | Take::End if self.read_source_overlay()? => return Ok(Attempt::Worked),
                Take::Wait => return Ok(Attempt::Nothing),
                Take::End => {
                    self.source_ended = true;
                    return Ok(Attempt::Worked);
                }
            }
        }
        let page = self.taken.children[self.taken.next];
        self.taken.next += 1;
        self.steps[0].counts.probes += 1;
        self.want(0, page, self.taken.level, false, Work::Range(self.taken.range));
        Ok(Attempt::Worked)
    }

    /// Makes probes of a batch of outer rows.
    fn take_outer(&mut self, batch: RecordBatch) -> Result<(), ExecError> {
        let batch = Arc::new(batch);
        let rows = batch.num_rows();
        for start in (0..rows).step_by(PROBES_MAX) {
            let forming = &mut self.steps[0].forming;
            let outer = forming.outer.as_mut().expect("a Rows source refers to outer rows");
            let end = rows.min(start + PROBES_MAX);
            (start..end).for_each(|row| outer.push(&batch, row as u32));
            forming.rows += end - start;
            if self.steps.len() > 1 {
                self.build_probes(1)?;
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        let last = self.steps.len() - 1;
        self.source_ended
            && self.steps.iter().all(Step::is_idle)
            && self.steps[..last].iter().all(|step| step.forming.is_empty())
    }

    fn finish(&mut self) -> Result<Turn, ExecError> {
        self.send_output()?;
        self.end();
        Ok(Turn::Done)
    }

    /// Lets go of everything; requests still in flight are answered to nobody.
    fn end(&mut self) {
        for _ in 0..std::mem::take(&mut self.inner_claims) {
            // Other partitions wait for the children of these pages; they belong to this one, which wants no more.
            self.execution.source.expanded(Expansion { children: Vec::new(), next: 0, level: 0, range: 0 });
        }
        if let Some(input) = &self.input {
            input.close();
        }
        for (step, stage) in self.steps.iter_mut().zip(&self.execution.metrics.stages) {
            stage.add(&mut step.counts);
        }
        self.output.finish();
    }
}
