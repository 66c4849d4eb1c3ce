//! Hash joins: all rows of the left side become a table, and every partition of the right side goes through it.
//!
//! ```text
//!   left 0 ─► JoinBuild ─┐
//!   left 1 ─► JoinBuild ─┼─► JoinTable ─┬─► DynamicKeys ─► the scan of the right side
//!   a task each            once         └─► right 0 ─► Prober ─► output 0
//!                                           right 1 ─► Prober ─► output 1
//! ```
//!
//! Neither side is distributed anew. The right side is asked for nothing before the table is complete: what it does may rest on the
//! keys published. Only columns that are used later are gathered.

mod probe;
mod work;

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, Statistics};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{EmissionType, apply_expression_roots};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::future::BoxFuture;
use futures::{StreamExt, TryFutureExt, stream};
use saki_vector::join::{JoinBuild, JoinTable};

use self::probe::{BuildSide, Prober};
use self::work::Work;
use super::keys::DynamicKeys;
use super::node::{NodeBase, partitions_of, statistics_of};
use super::shared::{Once, busy, for_each_input};
use super::stream::vector_error;
use super::translate::{comparable, is_native};
use super::{Native, NativeStream, native_input, surface_stream};

/// A join as it was planned.
#[derive(Clone, Debug)]
pub struct JoinPlan {
    /// What the table is made of.
    pub left: Arc<dyn ExecutionPlan>,
    pub right: Arc<dyn ExecutionPlan>,
    pub on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    pub filter: Option<JoinFilter>,
    pub kind: JoinType,
    pub nulls_equal: bool,
    pub output: Vec<ColumnIndex>,
    pub schema: SchemaRef,
    pub statistics: Arc<Statistics>,
    /// Where the values of each key are published, if anybody waits for them.
    pub keys: Vec<Option<Arc<DynamicKeys>>>,
}

impl JoinPlan {
    /// A hash join of DataFusion, if it is one that can run here.
    pub fn of(join: &HashJoinExec) -> Result<Option<Self>> {
        let (left, right) = (join.left().schema(), join.right().schema());
        if join.fetch().is_some() {
            return Ok(None);
        }
        let mut nullable = false;
        for (build, probe) in join.on() {
            let (build_type, probe_type) = (build.data_type(&left)?, probe.data_type(&right)?);
            if !comparable(&build_type, &probe_type) || !is_native(&build_type) {
                return Ok(None);
            }
            nullable |= build.nullable(&left)? || probe.nullable(&right)?;
        }
        // NOT IN differs from NOT EXISTS where there are NULLs.
        if join.null_aware && nullable {
            return Ok(None);
        }
        let (_, all) = datafusion::physical_plan::joins::utils::build_join_schema(&left, &right, join.join_type());
        let output = match &join.projection {
            Some(projection) => projection.iter().map(|column| all[*column].clone()).collect(),
            None => all,
        };
        let plan = Self {
            left: Arc::clone(join.left()),
            right: Arc::clone(join.right()),
            on: join.on().to_vec(),
            filter: join.filter().cloned(),
            kind: *join.join_type(),
            nulls_equal: join.null_equality() == NullEquality::NullEqualsNull,
            output,
            schema: join.schema(),
            statistics: statistics_of(join)?,
            keys: vec![None; join.on().len()],
        };
        // For NOT IN, DataFusion does not choose which side becomes the table.
        Ok(Some(if join.null_aware && plan.right_is_smaller()? { plan.swapped() } else { plan }))
    }

    fn right_is_smaller(&self) -> Result<bool> {
        let rows = |side: &Arc<dyn ExecutionPlan>| -> Result<Option<usize>> {
            Ok(statistics_of(side.as_ref())?.num_rows.get_value().copied())
        };
        Ok(matches!((rows(&self.left)?, rows(&self.right)?), (Some(left), Some(right)) if right < left))
    }

    /// The same rows, with the table made of the other side.
    fn swapped(self) -> Self {
        let side = |column: ColumnIndex| ColumnIndex { side: column.side.negate(), ..column };
        Self {
            left: self.right,
            right: self.left,
            on: self.on.into_iter().map(|(left, right)| (right, left)).collect(),
            filter: self.filter.map(|filter| filter.swap()),
            kind: self.kind.swap(),
            output: self.output.into_iter().map(side).collect(),
            ..self
        }
    }

    /// Whether rows of the right side whose keys the left side does not have can be left out.
    pub fn filters_probe(&self) -> bool {
        let kind = matches!(
            self.kind,
            JoinType::Inner
                | JoinType::Left
                | JoinType::LeftSemi
                | JoinType::LeftAnti
                | JoinType::LeftMark
                | JoinType::RightSemi
        );
        kind && !self.nulls_equal
    }

    /// The same join with only some of its columns.
    #[must_use]
    pub fn projected(&self, columns: &[usize], schema: SchemaRef, statistics: Arc<Statistics>) -> Self {
        let output = columns.iter().map(|column| self.output[*column].clone()).collect();
        Self { output, schema, statistics, ..self.clone() }
    }
}

/// A join by hash table.
#[derive(Debug)]
pub struct NativeHashJoinExec {
    pub plan: JoinPlan,
    work: Arc<Work>,
    built: Once<BuildSide>,
    base: NodeBase,
}

impl NativeHashJoinExec {
    pub fn new(plan: JoinPlan) -> Result<Self> {
        let work = Arc::new(Work::new(&plan)?);
        let emission = if work.marks_build() { EmissionType::Both } else { EmissionType::Incremental };
        let (schema, statistics) = (Arc::clone(&plan.schema), Arc::clone(&plan.statistics));
        let base = NodeBase::new(schema, partitions_of(&plan.right), emission, statistics);
        Ok(Self { plan, work, built: Once::default(), base })
    }

    /// The same node, to be run again over the same inputs, renewed; `keys` gives the new ones for the old.
    pub fn renewed(
        &self,
        left: &Arc<dyn ExecutionPlan>,
        right: &Arc<dyn ExecutionPlan>,
        mut keys: impl FnMut(&Arc<DynamicKeys>) -> Arc<DynamicKeys>,
    ) -> Self {
        let mut plan = self.plan.clone();
        (plan.left, plan.right) = (Arc::clone(left), Arc::clone(right));
        for slot in plan.keys.iter_mut().flatten() {
            *slot = keys(slot);
        }
        Self { plan, work: Arc::clone(&self.work), built: Once::default(), base: self.base.renewed() }
    }

    /// The table, once for all output partitions.
    fn built(&self, context: Arc<TaskContext>) -> BoxFuture<'static, Result<Arc<BuildSide>>> {
        self.built.result(|| {
            let (plan, work) = (self.plan.clone(), Arc::clone(&self.work));
            let metrics = &self.base.metrics;
            let time = MetricBuilder::new(metrics).subset_time("build_time", 0);
            let (rows, bytes) = (
                MetricBuilder::new(metrics).counter("build_rows", 0),
                MetricBuilder::new(metrics).gauge("build_bytes", 0),
            );
            async move {
                let (table, memory) = build(&plan, &work, &context, &time).await?;
                rows.add(table.rows());
                bytes.add(table.memory_bytes());
                for (key, slot) in plan.keys.iter().enumerate() {
                    if let Some(slot) = slot {
                        slot.publish(table.key_filter(key));
                    }
                }
                Ok(BuildSide::new(table, partitions_of(&plan.right), memory))
            }
        })
    }
}

/// Collects the left side, all its partitions side by side.
async fn build(
    plan: &JoinPlan,
    work: &Arc<Work>,
    context: &Arc<TaskContext>,
    time: &Time,
) -> Result<(Arc<JoinTable>, MemoryReservation)> {
    let partitions = partitions_of(&plan.left);
    let inputs = (0..partitions).map(|part| native_input(&plan.left, part, Arc::clone(context)));
    let reserve = || MemoryConsumer::new("NativeHashJoinExec").register(context.memory_pool());
    let collect = |input| collect(Arc::clone(work), input, reserve(), time.clone());
    let collected = for_each_input(inputs.collect::<Result<Vec<_>>>()?, collect).await?;
    let (parts, memory): (Vec<JoinBuild>, Vec<MemoryReservation>) = collected.into_iter().unzip();
    let threads = context.session_config().target_partitions();
    let (work, time, total) = (Arc::clone(work), time.clone(), reserve());
    busy(move || {
        let _timer = time.timer();
        let table = JoinTable::build(parts, work.marks_build(), threads).map_err(vector_error)?;
        drop(memory);
        total.try_resize(table.memory_bytes())?;
        Ok((table, total))
    })
    .await
}

async fn collect(
    work: Arc<Work>,
    mut input: NativeStream,
    memory: MemoryReservation,
    time: Time,
) -> Result<(JoinBuild, MemoryReservation)> {
    let mut build = work.new_build();
    while let Some(batch) = input.next().await {
        let batch = batch?;
        let timer = time.timer();
        work.push(&mut build, &batch).map_err(vector_error)?;
        timer.done();
        memory.try_resize(build.memory_bytes())?;
        tokio::task::coop::consume_budget().await;
    }
    Ok((build, memory))
}

impl Native for NativeHashJoinExec {
    fn native(&self, partition: usize, context: Arc<TaskContext>) -> Result<NativeStream> {
        let metrics = BaselineMetrics::new(&self.base.metrics, partition);
        let batch_rows = context.session_config().batch_size();
        let (right, work, built) =
            (Arc::clone(&self.plan.right), Arc::clone(&self.work), self.built(Arc::clone(&context)));
        let batches = async move {
            let built = built.await?;
            let input = native_input(&right, partition, context)?;
            let prober = Prober::new(work, built, input, batch_rows, metrics);
            Ok(stream::try_unfold(prober, async |mut prober| Ok(prober.next().await?.map(|batch| (batch, prober)))))
        };
        Ok(Box::pin(batches.try_flatten_stream()))
    }
}

impl DisplayAs for NativeHashJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} on ", self.name(), self.plan.kind)?;
        for (position, (build, probe)) in self.plan.on.iter().enumerate() {
            write!(f, "{}{build} = {probe}", if position == 0 { "" } else { ", " })?;
        }
        if let Some(filter) = &self.plan.filter {
            write!(f, ", where {}", filter.expression())?;
        }
        if self.plan.keys.iter().any(Option::is_some) {
            f.write_str(", keys to scan")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for NativeHashJoinExec {
    fn name(&self) -> &'static str {
        "NativeHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.base.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan.left, &self.plan.right]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let keys = self.plan.on.iter().flat_map(|(build, probe)| [build, probe]);
        apply_expression_roots(keys.chain(self.plan.filter.iter().map(JoinFilter::expression)), f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan = self.plan.clone();
        if let Ok([left, right]) = <[_; 2]>::try_from(children) {
            (plan.left, plan.right) = (left, right);
        }
        Ok(Arc::new(Self::new(plan)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(surface_stream(self.native(partition, context)?, self.schema()))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.base.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(self.base.statistics(args))
    }
}

/// The column of one side that an output column is.
pub fn output_of(plan: &JoinPlan, output: usize, side: JoinSide) -> Option<usize> {
    plan.output.get(output).filter(|column| column.side == side).map(|column| column.index)
}
