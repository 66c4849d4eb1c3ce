//! What a partition holds, and how work comes to wait and batches come and go.

use std::collections::VecDeque;
use std::sync::Arc;

use saki_base::PageRef;

use super::held::HeldBack;
use super::probes::{ProbeBatch, ProbeScratch};
use super::under_way::{LargeRows, Overlaid, OverlaidBatch};
use super::visits::{Visits, Work};
use crate::error::ExecError;
use crate::execution_state::ExecutionState;
use crate::metrics::StageCounts;
use crate::plan::Source;
use crate::rows::registers::RegisterBatch;
use crate::stream::{Input, Output};

/// Visits and steps share a token's lower half.
pub(super) const VISIT_BITS: u32 = 26;

/// Children of an inner page that one probe still has to visit.
pub(super) struct ProbeExpansion {
    pub children: Vec<PageRef>,
    pub next: usize,
    pub level: u16,
    pub work: Work,
}

/// The work of one step (0: the source).
pub(super) struct Step {
    pub visits: Visits,
    pub wanted: VecDeque<u32>,
    pub arrived: VecDeque<u32>,
    pub expansions: Vec<ProbeExpansion>,
    /// Batches that are being looked up in what lies over the tree.
    pub overlaid: Vec<OverlaidBatch>,
    /// Rows that left this step and wait for the next.
    pub forming: RegisterBatch,
    /// Probe batches at this step.
    pub batches: u32,
    pub counts: StageCounts,
}

impl Step {
    pub fn is_idle(&self) -> bool {
        self.visits.is_empty() && self.expansions.is_empty() && self.batches == 0
    }
}

/// Children of the source's inner pages, taken and not yet wanted.
#[derive(Default)]
pub(super) struct Taken {
    pub children: Vec<PageRef>,
    pub next: usize,
    pub level: u16,
    pub range: u32,
}

/// One partition of an execution.
pub(crate) struct Instance {
    pub(super) id: u32,
    pub(super) execution: Arc<ExecutionState>,
    pub(super) output: Arc<Output>,
    pub(super) input: Option<Arc<Input>>,
    pub(super) steps: Vec<Step>,
    pub(super) batches: Vec<Option<ProbeBatch>>,
    pub(super) vacant_batches: Vec<u32>,
    /// Emptied batches by step, for their memory.
    pub(super) spare: Vec<Vec<ProbeBatch>>,
    pub(super) large: LargeRows,
    /// Pages were evicted before they were looked at: those that came last are looked at first, since the oldest would
    /// be read again and again.
    pub(super) newest_first: bool,
    pub(super) overlaid: Overlaid,
    pub(super) taken: Taken,
    pub(super) source_ended: bool,
    /// Overlays are open, and the upper pages of the stages' trees have been asked for.
    pub(super) started: bool,
    /// Inner pages of the source that this partition owes an expansion for.
    pub(super) inner_claims: usize,
    pub(super) in_flight: usize,
    pub(super) held: HeldBack,
    pub(super) window: usize,
    /// Bytes of probe batches and large rows.
    pub(super) live_bytes: usize,
    pub(super) failed: Option<ExecError>,
    pub(super) probe_scratch: ProbeScratch,
    pub(super) work: Vec<Work>,
    pub(super) key: Vec<u8>,
    pub(super) text: Vec<u8>,
}

impl Instance {
    pub(crate) fn new(execution: Arc<ExecutionState>, output: Arc<Output>, input: Option<Arc<Input>>) -> Self {
        let outer = matches!(execution.pipeline.source, Source::Rows { .. });
        let step = |registers| Step {
            visits: Visits::default(),
            wanted: VecDeque::new(),
            arrived: VecDeque::new(),
            expansions: Vec::new(),
            overlaid: Vec::new(),
            forming: RegisterBatch::new(registers, outer),
            batches: 0,
            counts: StageCounts::default(),
        };
        let steps: Vec<Step> = execution.registers.iter().map(|registers| step(registers.as_slice())).collect();
        Self {
            id: 0,
            spare: steps.iter().map(|_| Vec::new()).collect(),
            steps,
            output,
            input,
            batches: Vec::new(),
            vacant_batches: Vec::new(),
            large: LargeRows::default(),
            newest_first: false,
            overlaid: Overlaid::default(),
            taken: Taken::default(),
            source_ended: false,
            started: false,
            inner_claims: 0,
            in_flight: 0,
            held: HeldBack::default(),
            window: 0,
            live_bytes: 0,
            failed: None,
            probe_scratch: ProbeScratch::default(),
            work: Vec::new(),
            key: Vec::new(),
            text: Vec::new(),
            execution,
        }
    }

    /// The reactor's name for this partition, part of every token.
    pub(crate) fn assign(&mut self, id: u32) {
        self.id = id;
    }

    /// Lets work wait for a page.
    pub(super) fn want(&mut self, step: usize, page: PageRef, level: u16, overflow: bool, work: Work) {
        if let Work::Probes { batch, .. } = work {
            self.batches[batch as usize].as_mut().expect("a batch with work is alive").outstanding += 1;
        }
        let step = &mut self.steps[step];
        if let Some(visit) = step.visits.join(page, level, overflow, work) {
            debug_assert!(visit < 1 << VISIT_BITS, "more visits than a token can name");
            step.wanted.push_back(visit);
        }
    }

    /// Sends a batch's probes to the root.
    pub(super) fn enter_tree(&mut self, step: usize, index: u32) {
        let access = &self.execution.pipeline.stages[step - 1].access;
        let probes = self.batches[index as usize].as_ref().expect("nothing of it has been done").probes();
        let all = Work::Probes { batch: index, start: 0, end: probes };
        if let (Some(root), true) = (access.root, probes > 0) {
            self.want(step, root, access.height.saturating_sub(1), false, all);
        }
        self.work_done(step, all);
    }

    /// Keeps an emptied batch's memory.
    pub(super) fn recycle(&mut self, step: usize, index: u32, mut batch: ProbeBatch) {
        self.live_bytes -= batch.charged_bytes;
        batch.rows.clear();
        self.vacant_batches.push(index);
        self.steps[step].batches -= 1;
        if self.spare[step].len() < 16 {
            self.spare[step].push(batch);
        }
    }
}
