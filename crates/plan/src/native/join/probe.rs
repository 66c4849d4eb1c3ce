//! One partition of a join's probe side on its way through the table.
//!
//! A batch is looked up in slices, so short that a slice's pairs are a few batches of output, however many partners
//! rows have: where they turn out to be more, the slice ends early. What is found by ranges are runs of partners, few
//! bytes for each row, whose pairs are made when they are wanted. Joined rows are put together in chunks of a batch;
//! between two of them the thread may go to others, and the query may end. Rows of the build side that are wanted
//! whatever the probe side has come last, from the partition that ends last.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{BooleanArray, UInt32Array};
use datafusion::common::{JoinType, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;
use saki_vector::join::{JoinTable, Matches, Runs};
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
    looked_up: Option<LookedUp>,
    slice_rows: usize,
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

/// Rows whose partners are known, on their way to become joined rows.
struct LookedUp {
    batch: Batch,
    /// Where the partners are found by ranges; else they are among the matches.
    runs: Option<Runs>,
    /// The first of the matches that has not been joined.
    next: usize,
    /// Which rows are in a pair, if that matters.
    found: Option<Vec<bool>>,
}

/// What comes of a step.
enum Step {
    Gives(Batch),
    /// Nothing yet.
    Works,
    /// There is nothing to do without more input.
    Waits,
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
            looked_up: None,
            slice_rows: batch_rows,
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
            let step = self.step().in_plan()?;
            timer.done();
            match step {
                Step::Gives(batch) => {
                    self.metrics.record_output(batch.rows);
                    return Ok(Some(batch));
                }
                Step::Works => {
                    tokio::task::coop::consume_budget().await;
                    continue;
                }
                Step::Waits => {}
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

    /// A chunk of what needs no more input.
    fn step(&mut self) -> saki_vector::Result<Step> {
        if let Some(batch) = self.ready.pop_front() {
            return Ok(Step::Gives(batch));
        }
        if let Some(looked_up) = self.looked_up.take() {
            self.join_some(looked_up)?;
            return Ok(Step::Works);
        }
        if let Some(mut current) = self.current.take() {
            let rows = self.slice_rows.min(current.batch.rows - current.next);
            if rows > 0 {
                current.next += if rows == current.batch.rows {
                    self.probe(&current.batch, &current.keys)?
                } else {
                    let keys: Vec<Column> = current.keys.iter().map(|key| key.slice(current.next, rows)).collect();
                    self.probe(&current.batch.slice(current.next, rows), &keys)?
                };
                self.current = Some(current);
                return Ok(Step::Works);
            }
        }
        Ok(self.next_of_rest()?.map_or(Step::Waits, Step::Gives))
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
        let keeps_probe = matches!(self.work.kind, JoinType::Right | JoinType::Full);
        let has_residual = self.work.residual.is_some();
        let runs = self.build.table.runs(keys, slice.rows)?;
        if self.by_existence() && !has_residual {
            let found = match runs {
                Some(runs) => BooleanArray::new(runs.found(), None),
                None => self.build.table.probe_semi(keys, slice.rows)?,
            };
            self.finish_probe_rows(slice, &found)?;
            return Ok(slice.rows);
        }
        let notes = (has_residual || runs.is_some()) && (self.by_existence() || keeps_probe);
        let rows = match runs {
            Some(_) => slice.rows,
            None => self.look_up(slice.rows, keys, keeps_probe && !has_residual)?,
        };
        let batch = if rows == slice.rows { slice.clone() } else { slice.slice(0, rows) };
        self.looked_up = Some(LookedUp { batch, runs, next: 0, found: notes.then(|| vec![false; rows]) });
        Ok(rows)
    }

    /// Whether the output has probe rows once, for what is found of them.
    fn by_existence(&self) -> bool {
        matches!(self.work.kind, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
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
        self.adapt_slices(rows);
        Ok(rows)
    }

    /// Puts a chunk of the pairs found together; once there are no more, what is to be said of rows without a partner.
    fn join_some(&mut self, mut looked_up: LookedUp) -> saki_vector::Result<()> {
        let skips_found = self.by_existence();
        let (chunk, has_more) = match &mut looked_up.runs {
            Some(runs) => {
                self.matches.clear();
                let found = looked_up.found.as_deref().filter(|_| skips_found);
                let skips = |row: usize| found.is_some_and(|found| found[row]);
                let has_more = runs.pairs(self.batch_rows, skips, &mut self.matches);
                (0..self.matches.probe.len(), has_more)
            }
            None if self.work.residual.is_none() && self.every_row_once(looked_up.batch.rows) => {
                let build = self.matches.build_rows();
                self.build.table.mark(&self.matches.build);
                return self.emit(&build, &ProbeRows::All(&looked_up.batch));
            }
            None => {
                let until = self.matches.probe.len().min(looked_up.next + self.batch_rows);
                (looked_up.next..until, until < self.matches.probe.len())
            }
        };
        looked_up.next = chunk.end;
        self.join_pairs(&looked_up.batch, chunk, looked_up.found.as_mut())?;
        if has_more {
            self.looked_up = Some(looked_up);
        } else if let Some(found) = looked_up.found {
            self.finish_probe_rows(&looked_up.batch, &BooleanArray::from(found))?;
        }
        Ok(())
    }

    /// Puts pairs together, but for those that the residual condition rules out; `found` notes which probe rows are in
    /// one.
    fn join_pairs(
        &mut self,
        batch: &Batch,
        chunk: Range<usize>,
        found: Option<&mut Vec<bool>>,
    ) -> saki_vector::Result<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        let mut build = build_rows(&self.matches.build[chunk.clone()]);
        let mut probe = UInt32Array::from_iter_values(self.matches.probe[chunk].iter().copied());
        if let Some(residual) = &self.work.residual
            && let Some(kept) = self.kept(residual, batch, &build, &probe)?
        {
            build = filter_rows(&build, &kept)?;
            probe = filter_rows(&probe, &kept)?;
        }
        self.build.table.mark(build.values());
        if let Some(found) = found {
            probe.values().iter().for_each(|row| found[*row as usize] = true);
        }
        self.emit(&build, &ProbeRows::Some(batch, &probe))
    }

    /// Whether the pairs are all rows of the slice, in order.
    fn every_row_once(&self, rows: usize) -> bool {
        let probe = &self.matches.probe;
        let in_order = || probe.iter().enumerate().all(|(row, probe)| row == *probe as usize);
        probe.len() == rows && (self.build.table.is_unique() || in_order())
    }

    /// Aims at a few batches of pairs for each slice.
    fn adapt_slices(&mut self, rows: usize) {
        let partners = self.matches.probe.len().div_ceil(rows.max(1)).max(1);
        self.slice_rows = (PAIRS * self.batch_rows / partners).clamp(1, self.batch_rows);
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
