//! What a partition does where something lies over a tree.
//!
//! ```text
//!   source   leaf ─► entries that match ─► those not hidden ─┐
//!            overlay's own entries of the ranges ────────────┴─► rows
//!
//!   stage    probes ─► overlay's own entries ─► rows
//!               └─► those that are left ─► tree ─► matches not hidden ─► rows
//! ```
//!
//! A batch of probes is looked up in the overlay before it enters the tree. Probes by the whole key are decided there
//! and then where the overlay hides the key: the others meet nothing in the tree that is hidden. Of semi and anti
//! joins, probes that have found a match go no further. Reading an overlay is done in steps as short as a few pages, so
//! that bounds on memory and output hold as they do for pages.

use std::ops::Range;
use std::sync::Arc;

use saki_base::key::prefix_successor;
use saki_page::LeafPage;

use super::emit::{Row, entry_row, hit, read_into};
use super::state::Instance;
use super::under_way::{OverlaidBatch, Scratch};
use super::visits::{Visit, Work};
use crate::error::ExecError;
use crate::execution_state::ExecutionState;
use crate::overlay::{Budget, EntryKeys, visit_entries};
use crate::plan::{JoinKind, Stage};
use crate::rows::entry::EntryReader;

/// Probes by the whole key have one match at most, in the tree or over it.
fn names_whole_key(stage: &Stage) -> bool {
    stage.key.len() == stage.access.key.columns().len()
}

fn wants_one(stage: &Stage) -> bool {
    matches!(stage.kind, JoinKind::Semi | JoinKind::Anti)
}

impl Instance {
    /// Opens what lies over the trees; on the thread that will read it.
    pub(super) fn open_overlays(&mut self) -> Result<(), ExecError> {
        let open = |step| self.execution.tree_access(step)?.overlay.as_ref().map(|overlay| overlay.reader());
        self.overlaid.readers = (0..self.steps.len()).map(|step| open(step).transpose()).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Whether something lies over the tree of a step.
    pub(super) fn is_overlaid(&self, step: usize) -> bool {
        matches!(self.overlaid.readers.get(step), Some(Some(_)))
    }

    /// Whether entries of a step's tree may be hidden from the work that reaches them.
    pub(super) fn hides_entries(&self, step: usize) -> bool {
        self.is_overlaid(step) && (step == 0 || !names_whole_key(&self.execution.pipeline.stages[step - 1]))
    }

    /// Reads some of the overlay's own entries of the source's ranges; `false` if none are left for this partition.
    pub(super) fn read_source_overlay(&mut self) -> Result<bool, ExecError> {
        if !self.is_overlaid(0) {
            return Ok(false);
        }
        let claimed = self.overlaid.range.take().or_else(|| Some((self.execution.source.claim_overlay()?, None)));
        let Some((range, after)) = claimed else { return Ok(false) };
        let execution = Arc::clone(&self.execution);
        let bounds = execution.range(range);
        let entries = execution.entry_reader(0);
        let Self { overlaid, steps, text, .. } = self;
        let reader = overlaid.readers[0].as_deref_mut().expect("just seen");
        let low = after.map(successor).or_else(|| bounds.low.clone());
        let visited = visit_entries(reader, low.as_deref(), bounds.high.as_deref(), &mut Budget::new(), |key, row| {
            read_into(entries, key, row, &mut steps[0], text)?;
            Ok(true)
        })?;
        steps[0].counts.overlay_entries += visited.entries as u64;
        overlaid.range = visited.left_at.map(|key| (range, Some(key)));
        Ok(true)
    }

    /// Looks some probes up in the overlay of their step; `false` if there are none. A batch that is through enters
    /// the tree.
    pub(super) fn look_over(&mut self, step: usize) -> Result<bool, ExecError> {
        let Some(mut under_way) = self.steps[step].overlaid.pop() else { return Ok(false) };
        let execution = Arc::clone(&self.execution);
        let stage = &execution.pipeline.stages[step - 1];
        let mut scratch = std::mem::take(&mut self.overlaid.scratch);
        let done = self.look_batch_over(&execution, step, stage, &mut under_way, &mut scratch);
        self.overlaid.scratch = scratch;
        if !done? {
            self.steps[step].overlaid.push(under_way);
            return Ok(true);
        }
        let batch = self.batches[under_way.batch as usize].as_mut().expect("alive while work waits");
        let (whole, once) = (names_whole_key(stage), wants_one(stage));
        batch.retain(|probe, row, matched| !(whole && under_way.hidden[probe] || once && matched[row]));
        self.enter_tree(step, under_way.batch);
        Ok(true)
    }

    /// `true`: all probes of the batch have been looked up.
    fn look_batch_over(
        &mut self,
        execution: &ExecutionState,
        step: usize,
        stage: &Stage,
        under_way: &mut OverlaidBatch,
        scratch: &mut Scratch,
    ) -> Result<bool, ExecError> {
        let entries = execution.entry_reader(step);
        let Self { overlaid, batches, steps, text, .. } = self;
        let reader = overlaid.readers[step].as_deref_mut().expect("a stage with an overlay reads it");
        let batch = batches[under_way.batch as usize].as_mut().expect("alive while work waits");
        let forming = &mut steps[step];
        let (whole, once) = (names_whole_key(stage), wants_one(stage));
        if whole && under_way.hidden.len() < batch.probes() as usize {
            under_way.hidden.resize(batch.probes() as usize, false);
            reader.hide(&batch.entry_keys(), &mut under_way.hidden)?;
            forming.counts.hidden += under_way.hidden.iter().filter(|hidden| **hidden).count() as u64;
        }
        let mut budget = Budget::new();
        // The last probe found nothing: nor will one with the same key.
        let mut barren = false;
        while under_way.probe < batch.probes() {
            let (probe, after) = (under_way.probe, under_way.after.take());
            let row = batch.row(probe);
            let again = barren && batch.key(probe) == batch.key(probe - 1);
            if again || whole && !under_way.hidden[probe as usize] || once && batch.matched[row] {
                under_way.probe += 1;
                continue;
            }
            scratch.low.clear();
            scratch.low.extend_from_slice(batch.key(probe));
            scratch.high.clone_from(&scratch.low);
            let high = prefix_successor(&mut scratch.high).then_some(scratch.high.as_slice());
            let fresh = after.is_none();
            let low = after.map(successor);
            let low = low.as_deref().unwrap_or(&scratch.low);
            let visited = visit_entries(reader, Some(low), high, &mut budget, |key, bytes| {
                if !entries.matches(key, bytes, text)? {
                    return Ok(true);
                }
                hit(stage, entries, batch, row, forming, key, bytes, text)?;
                Ok(!once)
            })?;
            forming.counts.overlay_entries += visited.entries as u64;
            barren = fresh && visited.entries == 0;
            under_way.after = visited.left_at;
            if under_way.after.is_none() {
                under_way.probe += 1;
            }
            if budget.is_spent() {
                break;
            }
        }
        Ok(under_way.probe >= batch.probes())
    }

    /// Answers work from a leaf, some of whose entries may be hidden.
    pub(super) fn answer_overlaid(
        &mut self,
        execution: &ExecutionState,
        step: usize,
        visit: Visit,
        leaf: &LeafPage<'_>,
        piece: Work,
    ) -> Result<(), ExecError> {
        let reader = execution.entry_reader(step);
        let mut scratch = std::mem::take(&mut self.overlaid.scratch);
        scratch.entries.clear();
        scratch.matches.clear();
        let found = match piece {
            Work::Probes { batch, start, end } => {
                self.match_probes(execution, step, leaf, batch, start..end, &mut scratch)
            }
            Work::Range(range) => self.match_range(execution, leaf, reader, range, &mut scratch),
            Work::Large { .. } | Work::Ahead => Err("an inner or overflow page was expected".into()),
        };
        let answered = found
            .map_err(|reason| execution.malformed(step, visit.page, reason))
            .and_then(|()| self.hide(step, leaf, &mut scratch))
            .and_then(|()| {
                let emitted = self.emit_matches(execution, step, leaf, reader, piece, &scratch);
                emitted.map_err(|reason| execution.malformed(step, visit.page, reason))
            });
        self.overlaid.scratch = scratch;
        answered
    }

    fn hide(&mut self, step: usize, leaf: &LeafPage<'_>, scratch: &mut Scratch) -> Result<(), ExecError> {
        let Scratch { entries, hidden, .. } = scratch;
        hidden.clear();
        hidden.resize(entries.len(), false);
        if entries.is_empty() {
            return Ok(());
        }
        let reader = self.overlaid.readers[step].as_deref_mut().expect("hidden entries come of an overlay");
        reader.hide(&EntryKeys::of_page(*leaf, entries), hidden)?;
        self.steps[step].counts.hidden += hidden.iter().filter(|hidden| **hidden).count() as u64;
        Ok(())
    }

    /// The entries of a leaf that consecutive probes match. Neighbours with one key share them.
    fn match_probes(
        &mut self,
        execution: &ExecutionState,
        step: usize,
        leaf: &LeafPage<'_>,
        batch: u32,
        probes: Range<u32>,
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        let reader = execution.entry_reader(step);
        let once = wants_one(&execution.pipeline.stages[step - 1]);
        let Self { batches, key, text, .. } = self;
        let live = batches[batch as usize].as_ref().expect("alive while work waits");
        let mut last = (0..0, 0);
        for probe in probes {
            if once && live.matched[live.row(probe)] {
                continue;
            }
            let first = leaf.lower_bound(live.key(probe));
            let range = first..leaf.upper_bound_prefix(live.key(probe), first);
            if range != last.0 {
                last = (range.clone(), scratch.entries.len());
                for entry in range {
                    if may_match(leaf, entry, reader, key, text)? {
                        scratch.entries.push(entry as u32);
                    }
                }
            }
            scratch.matches.extend((last.1..scratch.entries.len()).map(|position| (probe, position as u32)));
        }
        Ok(())
    }

    /// The entries of a leaf that a range of the source selects.
    fn match_range(
        &mut self,
        execution: &ExecutionState,
        leaf: &LeafPage<'_>,
        reader: &EntryReader,
        range: u32,
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        let bounds = execution.range(range);
        let first = bounds.low.as_ref().map_or(0, |low| leaf.lower_bound(low));
        let end = bounds.high.as_ref().map_or(leaf.count(), |high| leaf.lower_bound(high));
        for entry in first..end {
            if may_match(leaf, entry, reader, &mut self.key, &mut self.text)? {
                scratch.entries.push(entry as u32);
            }
        }
        scratch.matches.extend((0..scratch.entries.len() as u32).map(|position| (0, position)));
        Ok(())
    }

    /// Makes rows of the matches that are not hidden.
    fn emit_matches(
        &mut self,
        execution: &ExecutionState,
        step: usize,
        leaf: &LeafPage<'_>,
        reader: &EntryReader,
        piece: Work,
        scratch: &Scratch,
    ) -> Result<(), String> {
        for &(probe, position) in &scratch.matches {
            if scratch.hidden[position as usize] {
                continue;
            }
            let entry = scratch.entries[position as usize] as usize;
            if reader.needs_key() {
                leaf.key_into(entry, &mut self.key);
            }
            let whom = match piece {
                Work::Probes { batch, .. } => Work::Probes { batch, start: probe, end: probe + 1 },
                other => other,
            };
            let bytes = match entry_row(leaf, entry, reader) {
                Row::Here(bytes) => bytes,
                Row::Elsewhere(place) => {
                    self.fetch_large(step, whom, place)?;
                    continue;
                }
            };
            let Self { batches, steps, key, text, .. } = &mut *self;
            let Work::Probes { batch, .. } = piece else {
                reader.append(key, bytes, &mut steps[0].forming.columns, text)?;
                steps[0].forming.rows += 1;
                continue;
            };
            let live = batches[batch as usize].as_mut().expect("alive while work waits");
            let row = live.row(probe);
            hit(&execution.pipeline.stages[step - 1], reader, live, row, &mut steps[step], key, bytes, text)?;
        }
        Ok(())
    }
}

/// Whether an entry's predicates hold, or cannot be tested before its row has come from overflow pages.
fn may_match(
    leaf: &LeafPage<'_>,
    entry: usize,
    reader: &EntryReader,
    key: &mut Vec<u8>,
    text: &mut Vec<u8>,
) -> Result<bool, String> {
    if !reader.has_tests() {
        return Ok(true);
    }
    if reader.needs_key() {
        leaf.key_into(entry, key);
    }
    match entry_row(leaf, entry, reader) {
        Row::Here(bytes) => reader.matches(key, bytes, text),
        Row::Elsewhere(_) => Ok(true),
    }
}

/// The least key after this one.
fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
