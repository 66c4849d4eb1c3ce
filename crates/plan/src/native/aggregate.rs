//! Grouped aggregation: every input partition fills groups of its own, which are then put together in parts.
//!
//! ```text
//!   input 0 ─► Aggregator ─┐           ┌─► part 0 ─► output 0
//!   input 1 ─► Aggregator ─┼─► merge ──┼─► part 1 ─► output 1
//!   input 2 ─► Aggregator ─┘           └─► part 2 ─► output 2
//!   a task each              once          finished by whoever reads it
//! ```

use std::fmt;
use std::sync::Arc;

use arrow_array::BooleanArray;
use arrow_schema::{Schema, SchemaRef};
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, MetricBuilder, Time};
use futures::future::BoxFuture;
use futures::{StreamExt, TryFutureExt, stream};
use parking_lot::Mutex;
use saki_catalog::InPlan;
use saki_vector::aggregate::{Aggregation, Aggregator, Call, Part, merge};
use saki_vector::{Batch, Column, Expr};

use super::offer::offered;
use super::shared::{Once, for_each_input};
use super::translate::{evaluate_all, translate};
use crate::node::{
    DynamicKeys, Native, NativeStream, NodeBase, Plan, Renewal, SakiNode, column_index, native_input, partitions_of,
};

/// One aggregate as the plan has it.
#[derive(Clone, Debug)]
pub struct PlannedCall {
    pub call: Call,
    /// `None`: COUNT(*).
    pub argument: Option<Arc<dyn PhysicalExpr>>,
    /// FILTER (WHERE …).
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    pub text: String,
}

/// Groups of its input's rows, and aggregates of them. Its columns are those of the groups, then one for each call.
#[derive(Debug)]
pub struct NativeAggregateExec {
    input: Plan,
    group_by: Vec<Arc<dyn PhysicalExpr>>,
    calls: Vec<PlannedCall>,
    work: Arc<Work>,
    groups: Once<Groups>,
    base: NodeBase,
}

/// The translated work on a batch.
#[derive(Debug)]
struct Work {
    aggregation: Aggregation,
    keys: Vec<Expr>,
    arguments: Vec<Option<Expr>>,
    /// Empty if no call has a filter.
    filters: Vec<Option<Expr>>,
}

/// What all partitions have found.
struct Groups {
    /// One for each output partition, taken by it.
    parts: Vec<Mutex<Option<Part>>>,
    /// Given back with the groups.
    _memory: Vec<MemoryReservation>,
}

impl NativeAggregateExec {
    pub fn new(
        input: Plan,
        group_by: Vec<Arc<dyn PhysicalExpr>>,
        calls: Vec<PlannedCall>,
        schema: SchemaRef,
        statistics: Arc<Statistics>,
    ) -> Result<Self> {
        let work = Arc::new(Work::new(&input.schema(), &group_by, &calls)?);
        let partitions = if group_by.is_empty() { 1 } else { partitions_of(&input) };
        let base = NodeBase::new(schema, partitions, EmissionType::Final, statistics);
        Ok(Self { input, group_by, calls, work, groups: Once::default(), base })
    }

    /// Whether all its functions are known for the types they have here.
    pub fn is_supported(&self) -> bool {
        self.work.aggregation.is_supported()
    }

    fn with_input(&self, input: Plan) -> Result<Self> {
        let (group_by, calls) = (self.group_by.clone(), self.calls.clone());
        Self::new(input, group_by, calls, self.schema(), Arc::clone(&self.base.statistics))
    }
}

impl Work {
    fn new(input: &Schema, group_by: &[Arc<dyn PhysicalExpr>], calls: &[PlannedCall]) -> Result<Self> {
        let each = |expr: &Option<Arc<dyn PhysicalExpr>>| expr.as_ref().map(|expr| translate(expr, input)).transpose();
        let types = group_by.iter().map(|expr| expr.data_type(input)).collect::<Result<_>>()?;
        let filtered = calls.iter().filter(|_| calls.iter().any(|planned| planned.filter.is_some()));
        Ok(Self {
            aggregation: Aggregation { keys: types, calls: calls.iter().map(|planned| planned.call.clone()).collect() },
            keys: group_by.iter().map(|expr| translate(expr, input)).collect::<Result<_>>()?,
            arguments: calls.iter().map(|planned| each(&planned.argument)).collect::<Result<_>>()?,
            filters: filtered.map(|planned| each(&planned.filter)).collect::<Result<_>>()?,
        })
    }

    fn update(&self, aggregator: &mut Aggregator, batch: &Batch) -> saki_vector::Result<()> {
        let keys = evaluate_all(&self.keys, batch)?;
        let arguments = self.arguments.iter().map(|expr| expr.as_ref().map(|expr| expr.evaluate(batch)).transpose());
        let arguments = arguments.collect::<saki_vector::Result<Vec<Option<Column>>>>()?;
        let filters = self.filters.iter().map(|filter| match filter {
            Some(filter) => filter.select(batch),
            None => Ok(None),
        });
        let filters = filters.collect::<saki_vector::Result<Vec<Option<BooleanArray>>>>()?;
        aggregator.update_filtered(&keys, &arguments, &filters, batch.rows)
    }

    /// All groups of one input.
    async fn consume(
        self: Arc<Self>,
        mut input: NativeStream,
        memory: MemoryReservation,
        time: Time,
    ) -> Result<(Aggregator, MemoryReservation)> {
        let mut aggregator = Aggregator::new(&self.aggregation);
        while let Some(batch) = input.next().await {
            let batch = batch?;
            let timer = time.timer();
            self.update(&mut aggregator, &batch).in_plan()?;
            timer.done();
            memory.try_resize(aggregator.memory_bytes())?;
            // The input may never have to wait: let others run, and be stopped, all the same.
            tokio::task::coop::consume_budget().await;
        }
        Ok((aggregator, memory))
    }
}

impl NativeAggregateExec {
    /// The groups of all inputs, once for all output partitions.
    fn groups(&self, context: Arc<TaskContext>) -> BoxFuture<'static, Result<Arc<Groups>>> {
        self.groups.result(|| {
            let (input, work, partitions) = (Arc::clone(&self.input), Arc::clone(&self.work), self.base.partitions());
            let time = MetricBuilder::new(&self.base.metrics).elapsed_compute(0);
            async move {
                let inputs = (0..partitions_of(&input)).map(|part| native_input(&input, part, Arc::clone(&context)));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                let consume = |input| {
                    let memory = MemoryConsumer::new("NativeAggregateExec").register(context.memory_pool());
                    Arc::clone(&work).consume(input, memory, time.clone())
                };
                let (aggregators, memory) = for_each_input(inputs, consume).await?.into_iter().unzip();
                let timer = time.timer();
                let parts = merge(aggregators, partitions).in_plan()?;
                timer.done();
                Ok(Groups { parts: parts.into_iter().map(|part| Mutex::new(Some(part))).collect(), _memory: memory })
            }
        })
    }
}

impl Native for NativeAggregateExec {
    fn native(&self, partition: usize, context: Arc<TaskContext>) -> Result<NativeStream> {
        let metrics = BaselineMetrics::new(&self.base.metrics, partition);
        let groups = self.groups(context);
        let batches = async move {
            let groups = groups.await?;
            let timer = metrics.elapsed_compute().timer();
            let part = groups.parts.get(partition).and_then(|part| part.lock().take());
            let batches = part.map_or_else(|| Ok(Vec::new()), Part::finish).in_plan()?;
            timer.done();
            Ok(stream::iter(batches).map(move |batch| {
                // The memory of groups is counted until the last batch has gone.
                let _held = &groups;
                metrics.record_output(batch.rows);
                Ok(batch)
            }))
        };
        Ok(Box::pin(batches.try_flatten_stream()))
    }
}

impl SakiNode for NativeAggregateExec {
    fn name(&self) -> &'static str {
        "NativeAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.base.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(self.with_input(input)?.into_plan())
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        let calls = self.calls.iter().flat_map(|planned| planned.argument.iter().chain(&planned.filter));
        self.group_by.iter().chain(calls).collect()
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        for (position, planned) in self.calls.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{}", planned.text)?;
        }
        for (position, expr) in self.group_by.iter().enumerate() {
            let before = match position {
                0 if self.calls.is_empty() => "by ",
                0 => " by ",
                _ => ", ",
            };
            write!(f, "{before}{expr}")?;
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

    fn renewed(&self, children: Vec<Plan>, _: &mut Renewal<'_>) -> Result<Plan> {
        let node = Self {
            input: children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input)),
            group_by: self.group_by.clone(),
            calls: self.calls.clone(),
            work: Arc::clone(&self.work),
            groups: Once::default(),
            base: self.base.renewed(),
        };
        Ok(node.into_plan())
    }

    fn with_keys(&self, column: usize, keys: &Arc<DynamicKeys>) -> Result<Option<Plan>> {
        let Some(source) = self.group_by.get(column).and_then(column_index) else { return Ok(None) };
        let input = offered(&self.input, source, keys)?;
        input.map(|input| Ok(self.with_input(input)?.into_plan())).transpose()
    }
}
