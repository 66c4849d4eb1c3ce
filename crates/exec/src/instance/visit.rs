//! What happens when a page is there: inner pages route the work that waits for
//! them to children, leaves answer it.

use std::sync::Arc;

use saki_base::PageRef;
use saki_page::{CacheReader, InnerPage, LeafPage, PageExpectation};

use super::emit::{Row, entry_row, hit, keep, read_into};
use super::state::{Instance, ProbeExpansion};
use super::visits::{Visit, Work};
use crate::error::ExecError;
use crate::execution_state::{ExecutionState, Expansion};
use crate::plan::JoinKind;
use crate::rows::entry::EntryReader;

/// Visits for one probe that are asked for at once; more are expanded as they are needed.
const EAGER_CHILDREN_MAX: usize = 64;
/// Inner children of a page fetched ahead that are fetched ahead too, if there are no more.
const AHEAD_CHILDREN_MAX: usize = 16;

impl Instance {
    /// A page that has arrived, of the last step first.
    pub(super) fn next_arrived(&mut self) -> Option<(usize, u32)> {
        let floor = self.floor();
        for step in (floor..self.steps.len()).rev() {
            let arrived = &mut self.steps[step].arrived;
            let visit = if self.newest_first { arrived.pop_back() } else { arrived.pop_front() };
            if let Some(visit) = visit {
                return Some((step, visit));
            }
        }
        self.newest_first = false;
        None
    }

    /// Does the work that waits for a visit's page. A page that was evicted in the meantime is wanted again.
    pub(super) fn process(&mut self, step: usize, visit: u32, reader: &CacheReader) -> Result<(), ExecError> {
        let on_page = self.steps[step].visits.page(visit);
        let found = reader.find(on_page.page).map_err(|error| self.execution.page_error(step, error))?;
        let Some(bytes) = found else {
            self.newest_first = true;
            self.steps[step].wanted.push_back(visit);
            return Ok(());
        };
        let mut work = std::mem::take(&mut self.work);
        self.steps[step].visits.take(visit, &mut work);
        self.steps[step].counts.visits += 1;
        let execution = Arc::clone(&self.execution);
        let tree = execution.tree_access(step).expect("outer rows have no pages").tree;
        let expected = PageExpectation { page_size: reader.cache().page_size(), tree };
        let result = if on_page.overflow {
            self.overflow_page(step, on_page, &bytes, expected, &work)
        } else if on_page.level > 0 {
            InnerPage::open(&bytes, expected)
                .map_err(|error| execution.malformed(step, on_page.page, error))
                .and_then(|view| self.inner_page(&execution, step, on_page, &view, &work))
        } else {
            LeafPage::open(&bytes, expected)
                .map_err(|error| execution.malformed(step, on_page.page, error))
                .and_then(|view| self.leaf_page(&execution, step, on_page, &view, &work))
        };
        work.clear();
        self.work = work;
        result
    }

    fn inner_page(
        &mut self,
        execution: &ExecutionState,
        step: usize,
        visit: Visit,
        view: &InnerPage<'_>,
        work: &[Work],
    ) -> Result<(), ExecError> {
        if u16::from(view.level()) != visit.level {
            let reason = format!("level {} where its parent promises {}", view.level(), visit.level);
            return Err(execution.malformed(step, visit.page, reason));
        }
        let level = visit.level - 1;
        for &piece in work {
            match piece {
                Work::Probes { batch, start, end } => self.route(step, view, level, batch, start, end),
                Work::Range(range) => self.expand_range(execution, view, level, range),
                Work::Ahead => self.go_ahead(step, view, level),
                Work::Large { .. } => {
                    return Err(execution.malformed(step, visit.page, "a piece of a row was expected"));
                }
            }
            self.work_done(step, piece);
        }
        Ok(())
    }

    /// Sends consecutive sorted probes on to the children that may answer them: neighbours that share a child stay
    /// together.
    fn route(&mut self, step: usize, view: &InnerPage<'_>, level: u16, batch: u32, start: u32, end: u32) {
        let mut group_start = start;
        let mut group_child = usize::MAX;
        let send = |this: &mut Self, child: usize, start: u32, end: u32| {
            if start < end {
                this.want(step, view.child(child), level, false, Work::Probes { batch, start, end });
            }
        };
        for probe in start..end {
            let key = self.batches[batch as usize].as_ref().expect("alive while work waits").key(probe);
            let children = view.children_with_prefix(key);
            let children = children.start..children.end.min(view.count());
            if children.start != group_child {
                send(self, group_child, group_start, probe);
                (group_child, group_start) = (children.start, probe);
            }
            if children.len() <= 1 {
                continue;
            }
            // The probe's matches go on in the next children: close the group and open one at the last child.
            send(self, group_child, group_start, probe + 1);
            let single = Work::Probes { batch, start: probe, end: probe + 1 };
            let last = children.end - 1;
            if children.len() <= EAGER_CHILDREN_MAX {
                for child in children.start + 1..last {
                    self.want(step, view.child(child), level, false, single);
                }
            } else {
                let rest = (children.start + 1..last).map(|child| view.child(child)).collect();
                self.batches[batch as usize].as_mut().expect("alive while work waits").outstanding += 1;
                self.steps[step].expansions.push(ProbeExpansion { children: rest, next: 0, level, work: single });
            }
            (group_child, group_start) = (last, probe);
        }
        send(self, group_child, group_start, end);
    }

    /// Tells the source which children of an inner page a range overlaps.
    fn expand_range(&mut self, execution: &ExecutionState, view: &InnerPage<'_>, level: u16, range: u32) {
        let bounds = execution.range(range);
        let overlapping = view.child_range(bounds.low.as_deref(), bounds.high.as_deref());
        let children: Vec<PageRef> = overlapping.map(|child| view.child(child)).collect();
        self.inner_claims -= 1;
        execution.source.expanded(Expansion { children, next: 0, level, range });
    }

    /// Fetches the inner children of an upper page ahead, too, if they are few.
    fn go_ahead(&mut self, step: usize, view: &InnerPage<'_>, level: u16) {
        if level > 0 && view.count() <= AHEAD_CHILDREN_MAX {
            for child in 0..view.count() {
                self.want(step, view.child(child), level, false, Work::Ahead);
            }
        }
    }

    fn leaf_page(
        &mut self,
        execution: &ExecutionState,
        step: usize,
        visit: Visit,
        view: &LeafPage<'_>,
        work: &[Work],
    ) -> Result<(), ExecError> {
        let reader = execution.entry_reader(step);
        let overlaid = self.hides_entries(step);
        for &piece in work {
            if overlaid {
                self.answer_overlaid(execution, step, visit, view, piece)?;
                self.work_done(step, piece);
                continue;
            }
            let answered = match piece {
                Work::Probes { batch, start, end } => self.answer(execution, step, view, reader, batch, start..end),
                Work::Range(range) => self.scan(execution, view, reader, range),
                Work::Large { .. } | Work::Ahead => Err("an inner or overflow page was expected".into()),
            };
            answered.map_err(|reason| execution.malformed(step, visit.page, reason))?;
            self.work_done(step, piece);
        }
        Ok(())
    }

    /// Looks consecutive probes up in a leaf.
    fn answer(
        &mut self,
        execution: &ExecutionState,
        step: usize,
        view: &LeafPage<'_>,
        reader: &EntryReader,
        batch: u32,
        probes: std::ops::Range<u32>,
    ) -> Result<(), String> {
        let stage = &execution.pipeline.stages[step - 1];
        let once = matches!(stage.kind, JoinKind::Semi | JoinKind::Anti);
        for probe in probes {
            let batch_index = batch as usize;
            let live = self.batches[batch_index].as_ref().expect("alive while work waits");
            let row = live.row(probe);
            if once && live.matched[row] {
                continue;
            }
            let first = view.lower_bound(live.key(probe));
            let end = view.upper_bound_prefix(live.key(probe), first);
            for entry in first..end {
                if reader.needs_key() {
                    view.key_into(entry, &mut self.key);
                }
                let bytes = match entry_row(view, entry, reader) {
                    Row::Here(bytes) => bytes,
                    Row::Elsewhere(place) => {
                        self.fetch_large(step, Work::Probes { batch, start: probe, end: probe + 1 }, place)?;
                        continue;
                    }
                };
                if !reader.matches(&self.key, bytes, &mut self.text)? {
                    continue;
                }
                let Self { batches, steps, key, text, .. } = &mut *self;
                let live = batches[batch_index].as_mut().expect("alive while work waits");
                hit(stage, reader, live, row, &mut steps[step], key, bytes, text)?;
                if once {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the entries of a range from a leaf of the source.
    fn scan(
        &mut self,
        execution: &ExecutionState,
        view: &LeafPage<'_>,
        reader: &EntryReader,
        range: u32,
    ) -> Result<(), String> {
        let bounds = execution.range(range);
        let first = bounds.low.as_ref().map_or(0, |low| view.lower_bound(low));
        let end = bounds.high.as_ref().map_or(view.count(), |high| view.lower_bound(high));
        for entry in first..end {
            if reader.needs_key() {
                view.key_into(entry, &mut self.key);
            }
            match entry_row(view, entry, reader) {
                Row::Here(bytes) => {
                    let Self { steps, key, text, .. } = &mut *self;
                    read_into(reader, key, bytes, &mut steps[0], text)?;
                }
                Row::Elsewhere(place) => self.fetch_large(0, Work::Range(range), place)?,
            }
        }
        Ok(())
    }

    /// A large row of the source or of a probe has been put together.
    pub(super) fn large_row(&mut self, step: usize, work: Work, key: &[u8], bytes: &[u8]) -> Result<(), String> {
        let execution = Arc::clone(&self.execution);
        let reader = execution.entry_reader(step);
        let Self { batches, steps, text, .. } = &mut *self;
        match work {
            Work::Probes { batch, start, .. } => {
                if !reader.matches(key, bytes, text)? {
                    return Ok(());
                }
                let stage = &execution.pipeline.stages[step - 1];
                let live = batches[batch as usize].as_mut().expect("alive while work waits");
                let row = live.row(start);
                hit(stage, reader, live, row, &mut steps[step], key, bytes, text)
            }
            _ => read_into(reader, key, bytes, &mut steps[0], text),
        }
    }

    /// A piece of work has been answered or passed on; with its last one, a batch ends.
    pub(super) fn work_done(&mut self, step: usize, work: Work) {
        let Work::Probes { batch: index, .. } = work else { return };
        let batch = self.batches[index as usize].as_mut().expect("alive while work waits");
        batch.outstanding -= 1;
        if batch.outstanding > 0 {
            return;
        }
        let batch = self.batches[index as usize].take().expect("just seen");
        let stage = &self.execution.pipeline.stages[step - 1];
        if matches!(stage.kind, JoinKind::Left | JoinKind::Anti) {
            let forming = &mut self.steps[step];
            for row in (0..batch.rows.rows).filter(|&row| !batch.matched[row]) {
                keep(stage, &batch, row, forming);
                forming.forming.columns[stage.keep.len()..].iter_mut().for_each(|column| column.push_null());
            }
        }
        self.recycle(step, index, batch);
    }
}
