//! One partition of a join's probe side on its way through the table.
//!
//! A batch is looked up in slices, so short that a slice's pairs are a few batches of output, however many partners
//! rows have: where they turn out to be more, the slice ends early. A slice's joined rows are put together in chunks of
//! a batch. Rows of the build side that are wanted whatever the probe side has come last, from the partition that ends
//! last.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{BooleanArray, UInt32Array};
use datafusion::common::{JoinType, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;
use saki_vector::join::{JoinTable, Matches};
use saki_vector::{Batch, Column};

use super::work::{ProbeRows, Residual, Work};
use crate::native::translate::evaluate_all;
use crate::node::NativeStream;
use saki_catalog::InPlan;

/// Batches of pairs that are found at a time, about.
const PAIRS: usize = 4;

/// The build side, complete.
pub struct BuildSide {
    table: Arc<JoinTable>,
    /// Probe partitions that have not ended.
    probing: AtomicUsize,
    /// Given back with the table.
    _memory: MemoryReservation,
}

impl BuildSide {
    pub fn new(table: Arc<JoinTable>, probe_partitions: usize, memory: MemoryReservation) -> Self {
        Self { table, probing: AtomicUsize::new(probe_partitions), _memory: memory }
    }
}

/// One partition being probed.
pub struct Prober {
    work: Arc<Work>,
    build: Arc<BuildSide>,
    input: Option<NativeStream>,
    /// Rows of an output batch.
    batch_rows: usize,
    current: Option<Current>,
    /// Rows of a slice.
    step: usize,
    matches: Matches,
    ready: VecDeque<Batch>,
    rest: VecDeque<Rest>,
    metrics: BaselineMetrics,
}

/// The input batch that is being looked up.
struct Current {
    batch: Batch,
    keys: Vec<Column>,
    /// The first row that has not been looked up.
    next: usize,
}

/// Build rows that come out on their own at the end.
struct Rest {
    rows: Vec<u32>,
    next: usize,
    mark: bool,
}

impl Prober {
    pub fn new(
        work: Arc<Work>,
        build: Arc<BuildSide>,
        input: NativeStream,
        batch_rows: usize,
        metrics: BaselineMetrics,
    ) -> Self {
        let skips = build.table.rows() == 0 && work.empty_without_build();
        Self {
            work,
            build,
            input: (!skips).then_some(input),
            batch_rows,
            current: None,
            step: batch_rows,
            matches: Matches::default(),
            ready: VecDeque::new(),
            rest: VecDeque::new(),
            metrics,
        }
    }

    /// The next batch of joined rows.
    pub async fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            let time = self.metrics.elapsed_compute().clone();
            let timer = time.timer();
            let output = self.joined().in_plan()?;
            timer.done();
            if let Some(batch) = output {
                self.metrics.record_output(batch.rows);
                return Ok(Some(batch));
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            match input.next().await {
                Some(batch) => {
                    let batch = batch?;
                    let keys = evaluate_all(&self.work.probe_keys, &batch).in_plan()?;
                    self.current = Some(Current { batch, keys, next: 0 });
                    tokio::task::coop::consume_budget().await;
                }
                None => {
                    self.input = None;
                    if self.build.probing.fetch_sub(1, Ordering::AcqRel) == 1 {
                        self.rest = rest(&self.work, &self.build.table);
                    }
                }
            }
        }
    }

    /// A batch that needs no more input.
    fn joined(&mut self) -> saki_vector::Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if let Some(mut current) = self.current.take() {
                let rows = self.step.min(current.batch.rows - current.next);
                if rows == 0 {
                    continue;
                }
                current.next += if rows == current.batch.rows {
                    self.probe(&current.batch, &current.keys)?
                } else {
                    let keys: Vec<Column> = current.keys.iter().map(|key| key.slice(current.next, rows)).collect();
                    self.probe(&current.batch.slice(current.next, rows), &keys)?
                };
                self.current = Some(current);
                continue;
            }
            return self.next_of_rest();
        }
    }

    fn next_of_rest(&mut self) -> saki_vector::Result<Option<Batch>> {
        let Some(rest) = self.rest.front_mut() else { return Ok(None) };
        let until = rest.rows.len().min(rest.next + self.batch_rows);
        let rows = UInt32Array::from_iter_values(rest.rows[rest.next..until].iter().copied());
        let (mark, ended) = (rest.mark, until == rest.rows.len());
        rest.next = until;
        if ended {
            self.rest.pop_front();
        }
        let (work, table) = (&self.work, &self.build.table);
        work.assemble(&work.output, table, &rows, &ProbeRows::Absent, mark).map(Some)
    }

    /// Looks up a slice, or as many of its rows as make enough pairs: how many.
    fn probe(&mut self, slice: &Batch, keys: &[Column]) -> saki_vector::Result<usize> {
        let by_existence = matches!(self.work.kind, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
        let keeps_probe = matches!(self.work.kind, JoinType::Right | JoinType::Full);
        let has_residual = self.work.residual.is_some();
        if by_existence && !has_residual {
            let found = self.build.table.probe_semi(keys, slice.rows)?;
            self.finish_probe_rows(slice, &found)?;
            return Ok(slice.rows);
        }
        let rows = self.look_up(slice.rows, keys, keeps_probe && !has_residual)?;
        let looked_up = if rows == slice.rows { Cow::Borrowed(slice) } else { Cow::Owned(slice.slice(0, rows)) };
        let mut found = (has_residual && (by_existence || keeps_probe)).then(|| vec![false; rows]);
        self.join_pairs(&looked_up, found.as_mut())?;
        if let Some(found) = found {
            self.finish_probe_rows(&looked_up, &BooleanArray::from(found))?;
        }
        Ok(rows)
    }

    /// Finds the pairs of a slice's rows, or of as many of them as make enough: how many; `outer`: and the rows that
    /// are in none.
    fn look_up(&mut self, rows: usize, keys: &[Column], outer: bool) -> saki_vector::Result<usize> {
        self.matches.clear();
        let (table, pairs_max) = (&self.build.table, PAIRS * self.batch_rows);
        let rows = match outer {
            true => table.probe_outer(keys, rows, pairs_max, &mut self.matches)?,
            false => table.probe(keys, rows, pairs_max, &mut self.matches)?,
        };
        self.adapt_step(rows);
        Ok(rows)
    }

    /// Puts the pairs found together, but for those that the residual condition rules out; `found` notes which probe
    /// rows are in one.
    fn join_pairs(&mut self, batch: &Batch, mut found: Option<&mut Vec<bool>>) -> saki_vector::Result<()> {
        if self.work.residual.is_none() && self.every_row_once(batch.rows) {
            let build = self.matches.build_rows();
            self.build.table.mark(&self.matches.build);
            return self.emit(&build, &ProbeRows::All(batch));
        }
        for start in (0..self.matches.probe.len()).step_by(self.batch_rows) {
            let until = self.matches.probe.len().min(start + self.batch_rows);
            let mut build = build_rows(&self.matches.build[start..until]);
            let mut probe = UInt32Array::from_iter_values(self.matches.probe[start..until].iter().copied());
            if let Some(residual) = &self.work.residual
                && let Some(kept) = self.kept(residual, batch, &build, &probe)?
            {
                build = filter_rows(&build, &kept)?;
                probe = filter_rows(&probe, &kept)?;
            }
            self.build.table.mark(build.values());
            if let Some(found) = &mut found {
                probe.values().iter().for_each(|row| found[*row as usize] = true);
            }
            self.emit(&build, &ProbeRows::Some(batch, &probe))?;
        }
        Ok(())
    }

    /// Whether the pairs are all rows of the slice, in order.
    fn every_row_once(&self, rows: usize) -> bool {
        let probe = &self.matches.probe;
        let in_order = || probe.iter().enumerate().all(|(row, probe)| row == *probe as usize);
        probe.len() == rows && (self.build.table.is_unique() || in_order())
    }

    /// Aims at a few batches of pairs for each slice.
    fn adapt_step(&mut self, rows: usize) {
        let partners = self.matches.probe.len().div_ceil(rows.max(1)).max(1);
        self.step = (PAIRS * self.batch_rows / partners).clamp(1, self.batch_rows);
    }

    /// The pairs that fulfil the residual condition; `None`: all.
    fn kept(
        &self,
        residual: &Residual,
        batch: &Batch,
        build: &UInt32Array,
        probe: &UInt32Array,
    ) -> saki_vector::Result<Option<BooleanArray>> {
        let (work, table) = (&self.work, &self.build.table);
        let pairs = work.assemble(&residual.columns, table, build, &ProbeRows::Some(batch, probe), false)?;
        residual.condition.select(&pairs)
    }

    /// Puts pairs out, of joins that yield pairs.
    fn emit(&mut self, build: &UInt32Array, probe: &ProbeRows<'_>) -> saki_vector::Result<()> {
        if !matches!(self.work.kind, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) {
            return Ok(());
        }
        let batch = self.work.assemble(&self.work.output, &self.build.table, build, probe, false)?;
        if batch.rows > 0 {
            self.ready.push_back(batch);
        }
        Ok(())
    }

    /// Puts out what a join says of probe rows, once it is known which of them have a partner.
    fn finish_probe_rows(&mut self, batch: &Batch, found: &BooleanArray) -> saki_vector::Result<()> {
        let output = match self.work.kind {
            JoinType::RightSemi => self.work.probe_rows(batch, None)?.filter(found)?,
            JoinType::RightAnti => self.work.probe_rows(batch, None)?.filter(&not(found))?,
            JoinType::RightMark => self.work.probe_rows(batch, Some(found))?,
            _ => {
                let alone = (0..batch.rows as u32).filter(|row| !found.value(*row as usize));
                let alone = UInt32Array::from_iter_values(alone);
                let nobody = UInt32Array::new_null(alone.len());
                return self.emit(&nobody, &ProbeRows::Some(batch, &alone));
            }
        };
        if output.rows > 0 {
            self.ready.push_back(output);
        }
        Ok(())
    }
}

/// What the build side yields at the end.
fn rest(work: &Work, table: &JoinTable) -> VecDeque<Rest> {
    let wanted: &[bool] = match work.kind {
        JoinType::Left | JoinType::Full | JoinType::LeftAnti => &[false],
        JoinType::LeftSemi => &[true],
        JoinType::LeftMark => &[true, false],
        _ => &[],
    };
    let rest = wanted.iter().map(|mark| Rest { rows: table.marked(*mark, 0, 1), next: 0, mark: *mark });
    rest.filter(|rest| !rest.rows.is_empty()).collect()
}

/// Build rows of pairs, NULL where there is none.
fn build_rows(rows: &[u32]) -> UInt32Array {
    Matches { build: rows.to_vec(), probe: Vec::new() }.build_rows()
}

fn filter_rows(rows: &UInt32Array, kept: &BooleanArray) -> saki_vector::Result<UInt32Array> {
    let filtered = arrow::compute::filter(rows, kept)?;
    Ok(arrow_array::cast::AsArray::as_primitive(&filtered).clone())
}

fn not(found: &BooleanArray) -> BooleanArray {
    BooleanArray::new(!found.values(), None)
}
