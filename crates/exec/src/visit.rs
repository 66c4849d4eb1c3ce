//! What happens when a page is there: inner pages route the work that waits for
//! them to children, leaves answer it.

use saki_base::PageRef;
use saki_page::{CacheReader, InnerView, LeafValue, LeafView, PageExpectation};

use crate::entry::EntryReader;
use crate::error::ExecError;
use crate::instance::{AHEAD_CHILDREN_MAX, Depth, EAGER_CHILDREN_MAX, Instance, ProbeExpansion};
use crate::plan::{JoinKind, KeyRange, Source, Stage, TreeAccess};
use crate::probes::ProbeBatch;
use crate::run::Run;
use crate::source::Expansion;
use crate::visits::{Visit, Work};

/// The value of an entry, as far as it is at hand.
pub(crate) enum Row<'p> {
    Here(&'p [u8]),
    /// On overflow pages, and needed.
    Elsewhere(saki_page::OverflowRef),
}

impl Instance {
    /// Does the work that waits for a visit's page. A page that was evicted in the meantime is wanted again.
    pub(crate) fn process(&mut self, depth: usize, visit: u32, reader: &CacheReader) -> Result<(), ExecError> {
        let on_page = self.depths[depth].visits.page(visit);
        let found = reader.find(on_page.page).map_err(|error| self.run.page_error(depth, error))?;
        let Some(bytes) = found else {
            self.depths[depth].wanted.push_back(visit);
            return Ok(());
        };
        let mut work = std::mem::take(&mut self.work);
        self.depths[depth].visits.take(visit, &mut work);
        self.depths[depth].counts.visits += 1;
        let run = std::sync::Arc::clone(&self.run);
        let expected = PageExpectation { page_size: reader.cache().page_size(), tree: tree_at(&run, depth).tree };
        let result = if on_page.overflow {
            self.overflow_page(depth, on_page, &bytes, expected, &work)
        } else if on_page.level > 0 {
            InnerView::open(&bytes, expected)
                .map_err(|error| malformed(&run, depth, on_page.page, error))
                .and_then(|view| self.inner_page(&run, depth, on_page, &view, &work))
        } else {
            LeafView::open(&bytes, expected)
                .map_err(|error| malformed(&run, depth, on_page.page, error))
                .and_then(|view| self.leaf_page(&run, depth, on_page, &view, &work))
        };
        work.clear();
        self.work = work;
        result
    }

    fn inner_page(
        &mut self,
        run: &Run,
        depth: usize,
        visit: Visit,
        view: &InnerView<'_>,
        work: &[Work],
    ) -> Result<(), ExecError> {
        if u16::from(view.level()) != visit.level {
            let reason = format!("level {} where its parent promises {}", view.level(), visit.level);
            return Err(malformed(run, depth, visit.page, reason));
        }
        let level = visit.level - 1;
        for &piece in work {
            match piece {
                Work::Probes { batch, start, end } => self.route(depth, view, level, batch, start, end),
                Work::Range(range) => self.expand_range(run, view, level, range),
                Work::Ahead => self.go_ahead(depth, view, level),
                Work::Large { .. } => return Err(malformed(run, depth, visit.page, "a piece of a row was expected")),
            }
            self.work_done(depth, piece);
        }
        Ok(())
    }

    /// Sends a run of sorted probes on to the children that may answer them: neighbours that share a child stay together.
    fn route(&mut self, depth: usize, view: &InnerView<'_>, level: u16, batch: u32, start: u32, end: u32) {
        let mut run_start = start;
        let mut run_child = usize::MAX;
        let send = |this: &mut Self, child: usize, start: u32, end: u32| {
            if start < end {
                this.want(depth, view.child(child), level, false, Work::Probes { batch, start, end });
            }
        };
        for probe in start..end {
            let key = self.batches[batch as usize].as_ref().expect("alive while work waits").key(probe);
            let children = view.children_with_prefix(key);
            let children = children.start..children.end.min(view.count());
            if children.start != run_child {
                send(self, run_child, run_start, probe);
                (run_child, run_start) = (children.start, probe);
            }
            if children.len() <= 1 {
                continue;
            }
            // The probe's matches go on in the next children: close the run and open one at the last child.
            send(self, run_child, run_start, probe + 1);
            let single = Work::Probes { batch, start: probe, end: probe + 1 };
            let last = children.end - 1;
            if children.len() <= EAGER_CHILDREN_MAX {
                for child in children.start + 1..last {
                    self.want(depth, view.child(child), level, false, single);
                }
            } else {
                let rest = (children.start + 1..last).map(|child| view.child(child)).collect();
                self.batches[batch as usize].as_mut().expect("alive while work waits").outstanding += 1;
                self.depths[depth].expansions.push(ProbeExpansion { children: rest, next: 0, level, work: single });
            }
            (run_child, run_start) = (last, probe);
        }
        send(self, run_child, run_start, end);
    }

    /// Tells the source which children of an inner page a range overlaps.
    fn expand_range(&mut self, run: &Run, view: &InnerView<'_>, level: u16, range: u32) {
        let bounds = range_at(run, range);
        let overlapping = view.child_range(bounds.low.as_deref(), bounds.high.as_deref());
        let children: Vec<PageRef> = overlapping.map(|child| view.child(child)).collect();
        self.inner_claims -= 1;
        run.source.expanded(Expansion { children, next: 0, level, range });
    }

    /// Fetches the inner children of an upper page ahead, too, if they are few.
    fn go_ahead(&mut self, depth: usize, view: &InnerView<'_>, level: u16) {
        if level > 0 && view.count() <= AHEAD_CHILDREN_MAX {
            for child in 0..view.count() {
                self.want(depth, view.child(child), level, false, Work::Ahead);
            }
        }
    }

    fn leaf_page(
        &mut self,
        run: &Run,
        depth: usize,
        visit: Visit,
        view: &LeafView<'_>,
        work: &[Work],
    ) -> Result<(), ExecError> {
        let reader = run.entry_reader(depth);
        let overlaid = self.hides_entries(depth);
        for &piece in work {
            if overlaid {
                self.answer_overlaid(run, depth, visit, view, piece)?;
                self.work_done(depth, piece);
                continue;
            }
            let answered = match piece {
                Work::Probes { batch, start, end } => self.answer(run, depth, view, reader, batch, start..end),
                Work::Range(range) => self.scan(run, view, reader, range),
                Work::Large { .. } | Work::Ahead => Err("an inner or overflow page was expected".into()),
            };
            answered.map_err(|reason| malformed(run, depth, visit.page, reason))?;
            self.work_done(depth, piece);
        }
        Ok(())
    }

    /// Looks a run of probes up in a leaf.
    fn answer(
        &mut self,
        run: &Run,
        depth: usize,
        view: &LeafView<'_>,
        reader: &EntryReader,
        batch: u32,
        probes: std::ops::Range<u32>,
    ) -> Result<(), String> {
        let stage = &run.pipeline.stages[depth - 1];
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
                        self.fetch_large(depth, Work::Probes { batch, start: probe, end: probe + 1 }, place)?;
                        continue;
                    }
                };
                if !reader.matches(&self.key, bytes, &mut self.text)? {
                    continue;
                }
                let Self { batches, depths, key, text, .. } = &mut *self;
                let live = batches[batch_index].as_mut().expect("alive while work waits");
                hit(stage, reader, live, row, &mut depths[depth], key, bytes, text)?;
                if once {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the entries of a range from a leaf of the source.
    fn scan(&mut self, run: &Run, view: &LeafView<'_>, reader: &EntryReader, range: u32) -> Result<(), String> {
        let bounds = range_at(run, range);
        let first = bounds.low.as_ref().map_or(0, |low| view.lower_bound(low));
        let end = bounds.high.as_ref().map_or(view.count(), |high| view.lower_bound(high));
        for entry in first..end {
            if reader.needs_key() {
                view.key_into(entry, &mut self.key);
            }
            match entry_row(view, entry, reader) {
                Row::Here(bytes) => {
                    let Self { depths, key, text, .. } = &mut *self;
                    read_into(reader, key, bytes, &mut depths[0], text)?;
                }
                Row::Elsewhere(place) => self.fetch_large(0, Work::Range(range), place)?,
            }
        }
        Ok(())
    }

    /// A large row of the source or of a probe has been put together.
    pub(crate) fn large_row(&mut self, depth: usize, work: Work, key: &[u8], bytes: &[u8]) -> Result<(), String> {
        let run = std::sync::Arc::clone(&self.run);
        let reader = run.entry_reader(depth);
        let Self { batches, depths, text, .. } = &mut *self;
        match work {
            Work::Probes { batch, start, .. } => {
                if !reader.matches(key, bytes, text)? {
                    return Ok(());
                }
                let stage = &run.pipeline.stages[depth - 1];
                let live = batches[batch as usize].as_mut().expect("alive while work waits");
                let row = live.row(start);
                hit(stage, reader, live, row, &mut depths[depth], key, bytes, text)
            }
            _ => read_into(reader, key, bytes, &mut depths[0], text),
        }
    }

    /// A piece of work has been answered or passed on; with its last one, a batch ends.
    pub(crate) fn work_done(&mut self, depth: usize, work: Work) {
        let Work::Probes { batch: index, .. } = work else { return };
        let batch = self.batches[index as usize].as_mut().expect("alive while work waits");
        batch.outstanding -= 1;
        if batch.outstanding > 0 {
            return;
        }
        let batch = self.batches[index as usize].take().expect("just seen");
        let stage = &self.run.pipeline.stages[depth - 1];
        if matches!(stage.kind, JoinKind::Left | JoinKind::Anti) {
            let forming = &mut self.depths[depth];
            for row in (0..batch.rows.rows).filter(|&row| !batch.matched[row]) {
                keep(stage, &batch, row, forming);
                forming.forming.columns[stage.keep.len()..].iter_mut().for_each(|column| column.push_null());
            }
        }
        self.recycle(depth, index, batch);
    }
}

pub(crate) fn entry_row<'p>(view: &LeafView<'p>, entry: usize, reader: &EntryReader) -> Row<'p> {
    if !reader.needs_row() {
        return Row::Here(&[]);
    }
    match view.value(entry) {
        LeafValue::Inline(bytes) => Row::Here(bytes),
        LeafValue::Overflow(place) => Row::Elsewhere(place),
    }
}

/// An entry of the source: tested, and its columns appended.
pub(crate) fn read_into(
    reader: &EntryReader,
    key: &[u8],
    bytes: &[u8],
    depth: &mut Depth,
    text: &mut Vec<u8>,
) -> Result<(), String> {
    if reader.matches(key, bytes, text)? {
        reader.append(key, bytes, &mut depth.forming.columns, text)?;
        depth.forming.rows += 1;
    }
    Ok(())
}

/// An entry matches an outer row.
#[allow(clippy::too_many_arguments)]
pub(crate) fn hit(
    stage: &Stage,
    reader: &EntryReader,
    batch: &mut ProbeBatch,
    row: usize,
    depth: &mut Depth,
    key: &[u8],
    bytes: &[u8],
    text: &mut Vec<u8>,
) -> Result<(), String> {
    match stage.kind {
        JoinKind::Inner => {}
        JoinKind::Left => batch.matched[row] = true,
        JoinKind::Anti => {
            batch.matched[row] = true;
            return Ok(());
        }
        JoinKind::Semi if batch.matched[row] => return Ok(()),
        JoinKind::Semi => batch.matched[row] = true,
    }
    keep(stage, batch, row, depth);
    reader.append(key, bytes, &mut depth.forming.columns[stage.keep.len()..], text)
}

/// Starts a row of the next depth with the slots that the outer row keeps.
#[inline]
fn keep(stage: &Stage, batch: &ProbeBatch, row: usize, depth: &mut Depth) {
    let forming = &mut depth.forming;
    for (column, &slot) in forming.columns.iter_mut().zip(&stage.keep) {
        column.push_from(&batch.rows.columns[slot], row);
    }
    if let (Some(to), Some(from)) = (&mut forming.outer, &batch.rows.outer) {
        let (outer_batch, outer_row) = from.rows[row];
        to.push(&from.batches[outer_batch as usize], outer_row);
    }
    forming.rows += 1;
}

pub(crate) fn range_at(run: &Run, range: u32) -> &KeyRange {
    match &run.pipeline.source {
        Source::Ranges { ranges, .. } => &ranges[range as usize],
        Source::Rows { .. } => unreachable!("only range sources have ranges"),
    }
}

pub(crate) fn tree_at(run: &Run, depth: usize) -> &TreeAccess {
    run.tree_access(depth).expect("outer rows have no pages")
}

pub(crate) fn malformed(run: &Run, depth: usize, page: PageRef, reason: impl ToString) -> ExecError {
    ExecError::Malformed { tree: run.tree_name(depth), page: page.address.0, reason: reason.to_string() }
}
