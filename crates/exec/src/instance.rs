//! One partition of a run: the state machine that a reactor turns.
//!
//! ```text
//!            source                  depth 1                        depth 2
//!   ranges ─► wanted ─► in flight ─► forming ─► probe batch ─► wanted ─► in flight ─► forming ─► output
//!             (visits)   (pages)      (rows)    (sorted keys)  (visits)   (pages)      (rows)
//! ```
//!
//! # Order of work
//! Deeper depths go first: pages that arrived, then pages wanted, then rows that can be turned into probes;
//! the source comes last. So live rows stay few, and what is closest to the output leaves first.
//! Rows are turned into probes when there are enough for a good sort, or when the depth below has nothing left
//! to ask the device for: a busy device makes batches large by itself, an idle one makes them small and quick.
//!
//! # Bounds
//! - requests in flight: the window (`max_in_flight`, half of the cache) and the governor;
//! - memory: over the budget, only the deepest depth that has anything under way goes on; that depth
//!   drains into the output, so a full budget stops the source and never fails the run;
//! - output: a full queue stops everything until the consumer takes a batch.
//!
//! # Invariants
//! - A visit is in exactly one of: `wanted`, in flight, `arrived`.
//! - A probe batch lives while `outstanding > 0`; each piece of work that waits for a page counts one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use saki_base::PageRef;
use saki_page::{Arrival, CacheReader, PagePort, Request};

use crate::error::ExecError;
use crate::large::LargeRows;
use crate::metrics::StageCounts;
use crate::overlaid::{Overlaid, OverlaidBatch};
use crate::plan::{BatchFilter, Execution, Source};
use crate::probes::{ProbeBatch, ProbeScratch};
use crate::run::Run;
use crate::slots::SlotBatch;
use crate::source::{Expansion, Take};
use crate::stream::{Input, Output, Popped};
use crate::visits::{Visits, Work};

/// Rows that are turned into probes at once, at most: enough that sorting them brings neighbours together.
const PROBES_MAX: usize = 4096;
/// Arrived pages processed between two looks at the device.
const ARRIVALS_PER_TURN: usize = 16;
/// Pages found in the cache, or batches built, between two looks at the device.
const STEPS_PER_TURN: usize = 64;
/// Visits for one probe that are asked for at once; more are expanded as they are needed.
pub(crate) const EAGER_CHILDREN_MAX: usize = 64;
/// Inner children of a page fetched ahead that are fetched ahead too, if there are no more.
pub(crate) const AHEAD_CHILDREN_MAX: usize = 16;

/// Visits and depths share a token's lower half.
const VISIT_BITS: u32 = 26;

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
enum Step {
    /// A request was sent.
    Asked,
    /// Something else was done: a cached page processed, probes built, children taken.
    Worked,
    /// The device takes no more now.
    Refused,
    /// As many requests are in flight as this run may have.
    Full,
    /// There is nothing to ask for.
    Nothing,
}

/// Children of an inner page that one probe still has to visit.
pub(crate) struct ProbeExpansion {
    pub children: Vec<PageRef>,
    pub next: usize,
    pub level: u16,
    pub work: Work,
}

/// The work of one depth (0: the source).
pub(crate) struct Depth {
    pub visits: Visits,
    pub wanted: VecDeque<u32>,
    pub arrived: VecDeque<u32>,
    pub expansions: Vec<ProbeExpansion>,
    /// Batches that are being looked up in what lies over the tree.
    pub overlaid: Vec<OverlaidBatch>,
    /// Rows that left this depth and wait for the next.
    pub forming: SlotBatch,
    /// Probe batches at this depth.
    pub batches: u32,
    pub counts: StageCounts,
}

impl Depth {
    fn is_idle(&self) -> bool {
        self.visits.is_empty() && self.expansions.is_empty() && self.batches == 0
    }
}

/// Children of the source's inner pages, taken and not yet wanted.
#[derive(Default)]
struct Taken {
    children: Vec<PageRef>,
    next: usize,
    level: u16,
    range: u32,
}

/// One partition of a run.
pub(crate) struct Instance {
    id: u32,
    pub(crate) run: Arc<Run>,
    output: Arc<Output>,
    input: Option<Arc<Input>>,
    pub(crate) depths: Vec<Depth>,
    pub(crate) batches: Vec<Option<ProbeBatch>>,
    vacant_batches: Vec<u32>,
    /// Emptied batches by depth, for their memory.
    spare: Vec<Vec<ProbeBatch>>,
    pub(crate) large: LargeRows,
    pub(crate) overlaid: Overlaid,
    taken: Taken,
    source_ended: bool,
    /// Overlays are open, and the upper pages of the stages' trees have been asked for.
    started: bool,
    /// Inner pages of the source that this partition owes an expansion for.
    pub(crate) inner_claims: usize,
    in_flight: usize,
    window: usize,
    /// Bytes of probe batches and large rows.
    pub(crate) live_bytes: usize,
    failed: Option<ExecError>,
    probe_scratch: ProbeScratch,
    pub(crate) work: Vec<Work>,
    pub(crate) key: Vec<u8>,
    pub(crate) text: Vec<u8>,
}

impl Instance {
    pub(crate) fn new(run: Arc<Run>, output: Arc<Output>, input: Option<Arc<Input>>) -> Self {
        let outer = matches!(run.pipeline.source, Source::Rows { .. });
        let depth = |slots| Depth {
            visits: Visits::default(),
            wanted: VecDeque::new(),
            arrived: VecDeque::new(),
            expansions: Vec::new(),
            overlaid: Vec::new(),
            forming: SlotBatch::new(slots, outer),
            batches: 0,
            counts: StageCounts::default(),
        };
        let depths: Vec<Depth> = run.slots.iter().map(|slots| depth(slots.as_slice())).collect();
        Self {
            id: 0,
            spare: depths.iter().map(|_| Vec::new()).collect(),
            depths,
            output,
            input,
            batches: Vec::new(),
            vacant_batches: Vec::new(),
            large: LargeRows::default(),
            overlaid: Overlaid::default(),
            taken: Taken::default(),
            source_ended: false,
            started: false,
            inner_claims: 0,
            in_flight: 0,
            window: 0,
            live_bytes: 0,
            failed: None,
            probe_scratch: ProbeScratch::default(),
            work: Vec::new(),
            key: Vec::new(),
            text: Vec::new(),
            run,
        }
    }

    /// The reactor's name for this partition, part of every token.
    pub(crate) fn assign(&mut self, id: u32) {
        self.id = id;
    }

    /// A requested page has come, or failed to.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        let low = arrival.token as u32;
        let (depth, visit) = ((low >> VISIT_BITS) as usize, low & ((1 << VISIT_BITS) - 1));
        self.in_flight -= 1;
        match arrival.result {
            Ok(()) => self.depths[depth].arrived.push_back(visit),
            Err(error) => self.failed = Some(self.run.page_error(depth, error)),
        }
    }

    /// Ends the partition with an error.
    pub(crate) fn fail(&mut self, error: ExecError) {
        self.run.stop();
        self.output.push(Err(error));
        self.end();
    }

    /// Adds up how long the reactor slept while this partition had something in flight.
    pub(crate) fn account(&mut self, waited: bool, elapsed: Duration) {
        let depth = self.run.share.in_flight.load(Ordering::Relaxed);
        self.run.metrics.spend(depth, elapsed);
        if waited && self.in_flight > 0 {
            self.run.metrics.wait_nanos.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Works for a while. `Err` ends the run.
    pub(crate) fn turn(&mut self, port: &mut PagePort, reader: &CacheReader) -> Result<Turn, ExecError> {
        let start = Instant::now();
        let turn = self.advance(port, reader);
        let elapsed = start.elapsed();
        let metrics = &self.run.metrics;
        for (depth, stage) in self.depths.iter_mut().zip(&metrics.stages) {
            stage.add(&mut depth.counts);
        }
        metrics.cpu_nanos.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        metrics.spend(self.run.share.in_flight.load(Ordering::Relaxed), elapsed);
        metrics.memory_bytes_max.fetch_max(self.live_bytes as u64, Ordering::Relaxed);
        turn
    }

    fn advance(&mut self, port: &mut PagePort, reader: &CacheReader) -> Result<Turn, ExecError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.output.cancelled.load(Ordering::Acquire) || self.run.is_stopped() {
            self.end();
            return Ok(Turn::Done);
        }
        self.window = self.window_now(reader);
        if !std::mem::replace(&mut self.started, true) {
            self.open_overlays()?;
            self.fetch_ahead();
        }
        for _ in 0..ARRIVALS_PER_TURN {
            if !self.make_room()? {
                return Ok(Turn::Waiting);
            }
            let Some((depth, visit)) = self.next_arrived() else { break };
            self.process(depth, visit, reader)?;
        }
        for _ in 0..STEPS_PER_TURN {
            if !self.make_room()? {
                return Ok(Turn::Waiting);
            }
            match self.step(port, reader)? {
                Step::Asked | Step::Worked => {}
                Step::Refused if self.in_flight == 0 && !self.has_arrived() => return Ok(Turn::Refused),
                Step::Refused | Step::Full => return Ok(if self.has_arrived() { Turn::More } else { Turn::Waiting }),
                Step::Nothing if self.has_arrived() => return Ok(Turn::More),
                Step::Nothing if self.is_finished() => return self.finish(),
                Step::Nothing => return Ok(Turn::Waiting),
            }
        }
        Ok(Turn::More)
    }

    /// Wants the roots of all stages at once, so that the levels of one tree are read beside those of another:
    /// the first row then waits for the tallest tree, not for the sum of all. A classical engine does not.
    fn fetch_ahead(&mut self) {
        if self.run.options.execution == Execution::InOrder {
            return;
        }
        let run = Arc::clone(&self.run);
        for (depth, stage) in (1..).zip(&run.pipeline.stages) {
            if let (Some(root), 2..) = (stage.access.root, stage.access.height) {
                self.want(depth, root, stage.access.height - 1, false, Work::Ahead);
            }
        }
    }

    /// Requests this partition may have in flight: no more than its part of the cache can hold, so that
    /// pages are not evicted before they are looked at.
    fn window_now(&self, reader: &CacheReader) -> usize {
        if self.run.options.execution == Execution::InOrder {
            return 1;
        }
        let of_cache = reader.cache().frames() as usize / (2 * self.run.options.partitions);
        let window = of_cache.clamp(1, self.run.options.max_in_flight as usize);
        match self.run.pipeline.limit {
            // Few rows are wanted and nothing filters them: do not read far ahead.
            Some(limit) if self.run.pipeline.stages.is_empty() && self.source_is_plain() => window.min(limit / 16 + 2),
            _ => window,
        }
    }

    fn source_is_plain(&self) -> bool {
        matches!(&self.run.pipeline.source, Source::Ranges { predicates, filter: None, .. } if predicates.is_empty())
    }

    /// Sends a full output batch. `false`: the consumer has not taken the last ones yet.
    fn make_room(&mut self) -> Result<bool, ExecError> {
        let rows_max = self.run.pipeline.limit.unwrap_or(usize::MAX).min(self.run.options.batch_rows);
        let last = self.depths.last().expect("at least the source");
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
        let depth = self.depths.len() - 1;
        self.filter_forming(depth)?;
        let forming = &mut self.depths[depth].forming;
        let granted = self.run.claim(forming.rows);
        forming.truncate(granted);
        self.depths[depth].counts.rows += granted as u64;
        if granted > 0 {
            let batch = self.depths[depth].forming.take_output(&self.run.schemas[depth])?;
            self.output.push(Ok(batch));
        }
        self.depths[depth].forming.clear();
        Ok(())
    }

    fn filter_forming(&mut self, depth: usize) -> Result<(), ExecError> {
        let run = Arc::clone(&self.run);
        let filter: Option<&Arc<dyn BatchFilter>> = match (depth, &run.pipeline.source) {
            (0, Source::Ranges { filter, .. }) => filter.as_ref(),
            (0, Source::Rows { .. }) => None,
            (depth, _) => run.pipeline.stages[depth - 1].filter.as_ref(),
        };
        let forming = &mut self.depths[depth].forming;
        match filter {
            Some(filter) if !forming.is_empty() => forming.apply(&**filter, &run.schemas[depth]),
            _ => Ok(()),
        }
    }

    fn has_arrived(&self) -> bool {
        let floor = self.floor();
        self.depths[floor..].iter().any(|depth| !depth.arrived.is_empty())
    }

    /// The shallowest depth that may work now: 0, or within a full memory budget the deepest that has anything under way.
    fn floor(&self) -> usize {
        let forming: usize = self.depths.iter().map(|depth| depth.forming.memory_bytes()).sum();
        if self.live_bytes + forming <= self.run.options.memory_bytes / self.run.options.partitions {
            return 0;
        }
        let busy =
            |&depth: &usize| !self.depths[depth].is_idle() || (depth > 0 && !self.depths[depth - 1].forming.is_empty());
        (0..self.depths.len()).rev().find(busy).unwrap_or(0)
    }

    /// The deepest page that has arrived.
    fn next_arrived(&mut self) -> Option<(usize, u32)> {
        let floor = self.floor();
        (floor..self.depths.len())
            .rev()
            .find_map(|depth| self.depths[depth].arrived.pop_front().map(|visit| (depth, visit)))
    }

    /// Gives the device something to do, deepest first.
    fn step(&mut self, port: &mut PagePort, reader: &CacheReader) -> Result<Step, ExecError> {
        let waiting: usize = self.depths.iter().map(|depth| depth.arrived.len()).sum();
        let floor = self.floor();
        // Pages that arrived and may not be processed yet do not count against the depth that must drain.
        if self.in_flight >= self.window || (floor == 0 && self.in_flight + waiting >= 2 * self.window) {
            return Ok(Step::Full);
        }
        for depth in (floor..self.depths.len()).rev() {
            if let Some(visit) = self.depths[depth].wanted.pop_front() {
                return self.ask(depth, visit, port, reader);
            }
            if self.look_over(depth)? || self.expand_probe(depth) {
                return Ok(Step::Worked);
            }
            if depth > 0 && !self.depths[depth - 1].forming.is_empty() {
                self.build_probes(depth)?;
                return Ok(Step::Worked);
            }
        }
        if floor > 0 {
            return Ok(Step::Nothing);
        }
        self.feed()
    }

    /// Asks for a page, or processes it at once if it is there.
    fn ask(&mut self, depth: usize, visit: u32, port: &mut PagePort, reader: &CacheReader) -> Result<Step, ExecError> {
        let page = self.depths[depth].visits.page(visit).page;
        let token = u64::from(self.id) << 32 | (depth as u64) << VISIT_BITS | u64::from(visit);
        let request = port.request(&self.run.share, page, token);
        let work = &mut self.depths[depth];
        match request {
            Request::Cached => {
                work.counts.pages_cached += 1;
                self.process(depth, visit, reader)?;
                return Ok(Step::Worked);
            }
            Request::Busy => {
                work.wanted.push_front(visit);
                return Ok(Step::Refused);
            }
            Request::Queued => {
                work.counts.pages_read += 1;
                work.counts.bytes_read += reader.cache().page_size().bytes() as u64;
            }
            Request::Shared => work.counts.pages_shared += 1,
        }
        self.in_flight += 1;
        Ok(Step::Asked)
    }

    /// Lets work wait for a page.
    pub(crate) fn want(&mut self, depth: usize, page: PageRef, level: u16, overflow: bool, work: Work) {
        if let Work::Probes { batch, .. } = work {
            self.batches[batch as usize].as_mut().expect("a batch with work is alive").outstanding += 1;
        }
        let depth = &mut self.depths[depth];
        if let Some(visit) = depth.visits.join(page, level, overflow, work) {
            debug_assert!(visit < 1 << VISIT_BITS, "more visits than a token can name");
            depth.wanted.push_back(visit);
        }
    }

    /// Wants the next child of a probe that matches many pages.
    fn expand_probe(&mut self, depth: usize) -> bool {
        let Some(top) = self.depths[depth].expansions.last_mut() else { return false };
        let (page, level, work) = (top.children[top.next], top.level, top.work);
        top.next += 1;
        let done = top.next == top.children.len();
        if done {
            self.depths[depth].expansions.pop();
        }
        self.want(depth, page, level, false, work);
        if done {
            // The expansion itself counted as one piece of outstanding work.
            self.work_done(depth, work);
        }
        true
    }

    /// Turns the rows that left `depth - 1` into probes of `depth`.
    fn build_probes(&mut self, depth: usize) -> Result<(), ExecError> {
        self.filter_forming(depth - 1)?;
        let rows = self.depths[depth - 1].forming.rows;
        self.depths[depth - 1].counts.rows += rows as u64;
        if rows == 0 {
            self.depths[depth - 1].forming.clear();
            return Ok(());
        }
        let outer = self.input.is_some();
        let slots = &self.run.slots[depth - 1];
        let mut batch = self.spare[depth].pop().unwrap_or_else(|| ProbeBatch::new(SlotBatch::new(slots, outer)));
        std::mem::swap(&mut batch.rows, &mut self.depths[depth - 1].forming);
        self.start_batch(depth, batch)
    }

    /// Makes probes of a batch's rows, and sends them on their way.
    fn start_batch(&mut self, depth: usize, mut batch: ProbeBatch) -> Result<(), ExecError> {
        let run = Arc::clone(&self.run);
        let stage = &run.pipeline.stages[depth - 1];
        batch.build(stage, &mut self.probe_scratch)?;
        let probes = batch.probes();
        self.live_bytes += batch.charged_bytes;
        self.depths[depth].counts.probes += u64::from(probes);
        self.depths[depth].batches += 1;
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
        if self.is_overlaid(depth) {
            self.depths[depth].overlaid.push(OverlaidBatch::new(index));
        } else {
            self.enter_tree(depth, index);
        }
        Ok(())
    }

    /// Sends a batch's probes to the root.
    pub(crate) fn enter_tree(&mut self, depth: usize, index: u32) {
        let access = &self.run.pipeline.stages[depth - 1].access;
        let probes = self.batches[index as usize].as_ref().expect("nothing of it has been done").probes();
        let all = Work::Probes { batch: index, start: 0, end: probes };
        if let (Some(root), true) = (access.root, probes > 0) {
            self.want(depth, root, access.height.saturating_sub(1), false, all);
        }
        self.work_done(depth, all);
    }

    /// Keeps an emptied batch's memory.
    pub(crate) fn recycle(&mut self, depth: usize, index: u32, mut batch: ProbeBatch) {
        self.live_bytes -= batch.charged_bytes;
        batch.rows.clear();
        self.vacant_batches.push(index);
        self.depths[depth].batches -= 1;
        if self.spare[depth].len() < 16 {
            self.spare[depth].push(batch);
        }
    }

    /// Takes more from the source.
    fn feed(&mut self) -> Result<Step, ExecError> {
        if self.source_ended {
            return Ok(Step::Nothing);
        }
        match &self.input {
            Some(input) => match input.pop() {
                Popped::Batch(batch) => {
                    self.take_outer(batch)?;
                    Ok(Step::Worked)
                }
                Popped::Empty => Ok(Step::Nothing),
                Popped::End => {
                    self.source_ended = true;
                    Ok(Step::Worked)
                }
                Popped::Failed(reason) => Err(ExecError::Input(reason)),
            },
            None => self.feed_range(),
        }
    }

    fn feed_range(&mut self) -> Result<Step, ExecError> {
        if self.taken.next == self.taken.children.len() {
            self.taken.children.clear();
            self.taken.next = 0;
            match self.run.source.take(&mut self.taken.children) {
                Take::Children { level, range } => {
                    (self.taken.level, self.taken.range) = (level, range);
                    if level > 0 {
                        self.inner_claims += self.taken.children.len();
                    }
                }
                // Nothing else is to be done: what lies over the tree needs no page.
                Take::Wait | Take::End if self.read_source_overlay()? => return Ok(Step::Worked),
                Take::Wait => return Ok(Step::Nothing),
                Take::End => {
                    self.source_ended = true;
                    return Ok(Step::Worked);
                }
            }
        }
        let page = self.taken.children[self.taken.next];
        self.taken.next += 1;
        self.depths[0].counts.probes += 1;
        self.want(0, page, self.taken.level, false, Work::Range(self.taken.range));
        Ok(Step::Worked)
    }

    /// Makes probes of a batch of outer rows.
    fn take_outer(&mut self, batch: RecordBatch) -> Result<(), ExecError> {
        let batch = Arc::new(batch);
        let rows = batch.num_rows();
        for start in (0..rows).step_by(PROBES_MAX) {
            let forming = &mut self.depths[0].forming;
            let outer = forming.outer.as_mut().expect("a Rows source refers to outer rows");
            let end = rows.min(start + PROBES_MAX);
            (start..end).for_each(|row| outer.push(&batch, row as u32));
            forming.rows += end - start;
            if self.depths.len() > 1 {
                self.build_probes(1)?;
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        let last = self.depths.len() - 1;
        self.source_ended
            && self.depths.iter().all(Depth::is_idle)
            && self.depths[..last].iter().all(|depth| depth.forming.is_empty())
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
            self.run.source.expanded(Expansion { children: Vec::new(), next: 0, level: 0, range: 0 });
        }
        if let Some(input) = &self.input {
            input.close();
        }
        for (depth, stage) in self.depths.iter_mut().zip(&self.run.metrics.stages) {
            stage.add(&mut depth.counts);
        }
        self.output.finish();
    }
}
