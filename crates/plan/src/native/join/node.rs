//! The node: its plan, the work translated, and the table that its partitions share.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::metrics::{BaselineMetrics, MetricBuilder, MetricsSet, Time};
use futures::future::BoxFuture;
use futures::{StreamExt, TryFutureExt, stream};
use saki_catalog::InPlan;
use saki_vector::join::{JoinBuild, JoinTable};

use super::offer::offered_to_sides;
use super::plan::{JoinPlan, JoinRange};
use super::probe::{BuildSide, Prober};
use super::work::Work;
use crate::native::columns::ColumnSet;
use crate::native::project::NativeProjectExec;
use crate::native::shared::{Once, busy, for_each_input};
use crate::node::explain::nanos_text;
use crate::node::{
    DynamicKeys, Native, NativeStream, NodeBase, Plan, Projection, Renewal, SakiNode, column_index, native_input,
    partitions_of,
};

/// A join by a table of hashed keys, or of rows sorted by a value.
#[derive(Debug)]
pub struct NativeHashJoinExec {
    plan: JoinPlan,
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
                for (key, filter) in plan.keys.iter().enumerate() {
                    if let Some(filter) = filter {
                        filter.publish(table.key_filter(key));
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
        let table = JoinTable::build(parts, work.marks_build(), threads).in_plan()?;
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
        work.push(&mut build, &batch).in_plan()?;
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

impl SakiNode for NativeHashJoinExec {
    fn name(&self) -> &'static str {
        if self.plan.on.is_empty() { "NativeRangeJoinExec" } else { "NativeHashJoinExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.base.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.plan.left, &self.plan.right]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let mut plan = self.plan.clone();
        if let Ok([left, right]) = <[_; 2]>::try_from(children) {
            (plan.left, plan.right) = (left, right);
        }
        Ok(Self::new(plan)?.into_plan())
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let keys = self.plan.on.iter().flat_map(|(build, probe)| [build, probe]);
        let range = self.plan.range.iter();
        let range =
            range.flat_map(|range| std::iter::once(&range.value).chain(range.bounds.iter().map(|(_, bound)| bound)));
        keys.chain(range).chain(self.plan.filter.iter().map(JoinFilter::expression)).collect()
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} on ", self.name(), self.plan.kind)?;
        let keys = self.plan.on.iter().map(|(build, probe)| format!("{build} = {probe}"));
        let bounds = |range: &JoinRange| -> Vec<String> {
            range.bounds.iter().map(|(op, bound)| format!("{} {op} {bound}", range.value)).collect()
        };
        f.write_str(&keys.chain(self.plan.range.iter().flat_map(bounds)).collect::<Vec<_>>().join(", "))?;
        if let Some(filter) = &self.plan.filter {
            write!(f, ", where {}", filter.expression())?;
        }
        if self.plan.keys.iter().any(Option::is_some) {
            f.write_str(", keys to scan")?;
        }
        Ok(())
    }

    fn base(&self) -> Option<&NodeBase> {
        Some(&self.base)
    }

    fn native(&self) -> Option<&dyn Native> {
        Some(self)
    }

    fn holds_rows(&self) -> bool {
        true
    }

    fn renewed(&self, children: Vec<Plan>, renewal: &mut Renewal<'_>) -> Result<Plan> {
        let mut plan = self.plan.clone();
        if let Ok([left, right]) = <[_; 2]>::try_from(children) {
            (plan.left, plan.right) = (left, right);
        }
        for keys in plan.keys.iter_mut().flatten() {
            *keys = renewal.keys(keys);
        }
        let (work, base) = (Arc::clone(&self.work), self.base.renewed());
        Ok(Self { plan, work, built: Once::default(), base }.into_plan())
    }

    fn with_keys(&self, column: usize, keys: &Arc<DynamicKeys>) -> Result<Option<Plan>> {
        let plan = offered_to_sides(&self.plan, column, keys)?;
        plan.map(|plan| Ok(Self::new(plan)?.into_plan())).transpose()
    }

    /// Only columns that are used need to be gathered.
    fn projected(&self, projection: &Projection) -> Result<Option<Plan>> {
        let Projection { exprs, schema, statistics, computes } = projection;
        let (schema, statistics) = (Arc::clone(schema), Arc::clone(statistics));
        if let Some(columns) = exprs.iter().map(column_index).collect::<Option<Vec<_>>>() {
            return Ok(Some(Self::new(self.plan.projected(&columns, schema, statistics))?.into_plan()));
        }
        if !computes {
            return Ok(None);
        }
        let used = ColumnSet::of(exprs);
        let narrow = used.schema(&self.schema())?;
        let plan = self.plan.projected(used.columns(), narrow, Arc::clone(&self.plan.statistics));
        let exprs = exprs.iter().map(|expr| used.renumber(expr)).collect();
        let input = Self::new(plan)?.into_plan();
        Ok(Some(NativeProjectExec::new(input, None, exprs, schema, statistics)?.into_plan()))
    }

    fn measured(&self, metrics: &MetricsSet) -> Option<String> {
        let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize());
        let (rows, bytes, time) = (sum("build_rows"), sum("build_bytes"), nanos_text(sum("build_time") as u64));
        Some(format!("build=[rows={rows} bytes={bytes} cpu={time}]"))
    }
}
