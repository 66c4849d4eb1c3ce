//! The plan node that runs a [`Chain`]: a table scan ("PageScanExec") or fused index joins ("IndexJoinExec").
//!
//! All partitions of one execution share one run of the pipeline. A chain over a child plan feeds
//! the child's batches into the run and gathers the output from them; both go on inside one
//! stream, so that dropping it stops everything.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, DataFusionError, Result, ScalarValue, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
};
use saki_exec::Run;

use crate::catalog::Table;
use crate::chain::{Chain, ChainFilter, ColumnRef, Lowered, Origin};
use crate::column_test::ColumnTest;
use crate::cost::Estimate;
use crate::query_env::QueryEnv;
use crate::stream::{FedStream, OutputStream};

/// Leaves below which a scan is not worth more than one partition.
const LEAVES_FOR_PARTITIONS: f64 = 16.0;
/// Rows from which even a chain with a small origin is.
const ROWS_FOR_PARTITIONS: f64 = 1000.0;

/// What a scan reads, in terms of its table: enough to look the table up by key instead.
#[derive(Clone, Debug)]
pub struct ScanInfo {
    pub table: Arc<Table>,
    /// Table column of each output column.
    pub columns: Vec<usize>,
    pub tests: Vec<ColumnTest>,
    /// Conditions that are no tests; column `i` is table column `i`.
    pub rest: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows the scan would yield.
    pub rows: f64,
}

impl ScanInfo {
    /// The same for other values of parameters; `None` where one of them asks for another plan.
    pub fn rebound(&self, values: &[ScalarValue]) -> Option<Self> {
        let tests = self.tests.iter().map(|test| test.rebound(&self.table, values)).collect::<Option<_>>()?;
        Some(Self { tests, ..self.clone() })
    }
}

/// A chain as a plan node.
pub struct PipelineExec {
    pub env: Arc<QueryEnv>,
    pub chain: Chain,
    /// What the node yields, in order.
    pub output: Vec<ColumnRef>,
    pub child: Option<Arc<dyn ExecutionPlan>>,
    pub estimate: Estimate,
    /// Present while the node is a plain scan.
    pub scan: Option<Arc<ScanInfo>>,
    /// Path in words, for EXPLAIN.
    pub path: String,
    lowered: Lowered,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    run: OnceLock<Arc<Run>>,
    metrics: ExecutionPlanMetricsSet,
}

/// The parts of a node that are chosen; the rest follows from them.
#[derive(Clone)]
pub struct PipelineParts {
    pub env: Arc<QueryEnv>,
    pub chain: Chain,
    pub output: Vec<ColumnRef>,
    pub schema: SchemaRef,
    pub child: Option<Arc<dyn ExecutionPlan>>,
    pub estimate: Estimate,
    pub scan: Option<Arc<ScanInfo>>,
    pub path: String,
}

impl PipelineParts {
    /// Parts in which the rows come.
    fn partitions(&self) -> usize {
        match (&self.child, &self.chain.origin) {
            (Some(child), _) => child.properties().output_partitioning().partition_count(),
            (None, Origin::Ranges { access, ranges, .. }) => {
                let whole = ranges.iter().any(|range| range.low.is_none() && range.high.is_none());
                let leaves = access.tree.leaf_pages as f64;
                let few_rows = self.estimate.rows < ROWS_FOR_PARTITIONS;
                let small = few_rows && (leaves < LEAVES_FOR_PARTITIONS || !whole);
                if small { 1 } else { self.env.settings.scan_partitions() }
            }
            (None, Origin::Rows { .. }) => 1,
        }
    }
}

impl PipelineExec {
    pub fn new(parts: PipelineParts) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&parts.schema)),
            Partitioning::UnknownPartitioning(parts.partitions()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self::with_properties(parts, Arc::new(properties))
    }

    fn with_properties(parts: PipelineParts, properties: Arc<PlanProperties>) -> Self {
        let PipelineParts { env, chain, output, schema, child, estimate, scan, path } = parts;
        let lowered = chain.lower(&output, &env.view);
        let (run, metrics) = (OnceLock::new(), ExecutionPlanMetricsSet::new());
        Self { env, chain, output, child, estimate, scan, path, lowered, schema, properties, run, metrics }
    }

    /// The same node, to be run again as `env` sees its tables and parameters, over the same child and conditions, renewed.
    pub fn renewed(
        &self,
        env: &Arc<QueryEnv>,
        child: Option<Arc<dyn ExecutionPlan>>,
        conditions: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let mut parts = self.parts();
        parts.env = Arc::clone(env);
        parts.chain.snapshot = Arc::clone(&env.view) as _;
        parts.chain.rebind(&env.parameters).ok_or_else(unfit)?;
        for (filter, condition) in parts.chain.filters.iter_mut().zip(conditions) {
            filter.condition = condition;
        }
        parts.child = child;
        Ok(Self::with_properties(parts, Arc::clone(&self.properties)))
    }

    pub fn parts(&self) -> PipelineParts {
        PipelineParts {
            env: Arc::clone(&self.env),
            chain: self.chain.clone(),
            output: self.output.clone(),
            schema: Arc::clone(&self.schema),
            child: self.child.clone(),
            estimate: self.estimate,
            scan: self.scan.clone(),
            path: self.path.clone(),
        }
    }

    /// The run, once the node has been executed.
    pub fn run(&self) -> Option<&Arc<Run>> {
        self.run.get()
    }

    /// Links that are joins, not the second half of an index lookup.
    pub fn joins(&self) -> usize {
        self.chain.links.iter().filter(|link| !link.completes_previous).count()
    }

    /// The table and column an output column is read from.
    pub fn source_column(&self, output: usize) -> Option<(&Arc<Table>, usize)> {
        let column = *self.output.get(output)?;
        let access = self.chain.access(column.depth)?;
        Some((&access.table, access.table_column(column.column)))
    }

    /// The same node with a condition on its output, if it can take it.
    pub fn filtered(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<PipelineParts> {
        let mut parts = self.parts();
        let filter = ChainFilter { condition: Arc::clone(condition), columns: self.output.clone() };
        let filter = only_used(filter)?;
        parts.chain.add_filter(filter).then_some(parts)
    }
}

/// Reduces a filter's columns to those its condition names.
pub fn only_used(filter: ChainFilter) -> Option<ChainFilter> {
    let mut used: Vec<usize> = Vec::new();
    let visited = filter.condition.apply(|node| {
        if let Some(column) = node.downcast_ref::<Column>()
            && !used.contains(&column.index())
        {
            used.push(column.index());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.ok()?;
    let columns = used.iter().map(|index| filter.columns.get(*index).copied()).collect::<Option<Vec<_>>>()?;
    let position = |index: usize| used.iter().position(|u| *u == index).unwrap_or(0);
    Some(ChainFilter { condition: crate::chain::renumber(&filter.condition, &position), columns })
}

impl fmt::Debug for PipelineExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name()).field("path", &self.path).field("output", &self.output).finish_non_exhaustive()
    }
}

impl DisplayAs for PipelineExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::explain::describe_line(self, f)
    }
}

impl ExecutionPlan for PipelineExec {
    fn name(&self) -> &'static str {
        if self.joins() == 0 { "PageScanExec" } else { "IndexJoinExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.child.iter().collect()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        // In order there is one page at a time, so one partition.
        let single = self.env.settings.scan_partitions() == 1;
        let wanted = if single { Distribution::SinglePartition } else { Distribution::UnspecifiedDistribution };
        self.child.iter().map(|_| wanted.clone()).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.child.iter().map(|_| false).collect()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        datafusion::physical_plan::execution_plan::apply_expression_roots(
            self.chain.filters.iter().map(|filter| &filter.condition),
            f,
        )
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut parts = self.parts();
        parts.child = children.into_iter().next();
        Ok(Arc::new(Self::new(parts)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(self.parts())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.output_partitioning().partition_count();
        let run = self.run.get_or_init(|| {
            let options = self.env.settings.run_options(partitions);
            self.env.executor.run(Arc::clone(&self.lowered.pipeline), options)
        });
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let columns = self.lowered.output.clone();
        let schema = Arc::clone(&self.schema);
        Ok(match &self.child {
            None => Box::pin(OutputStream::new(run.open(partition), columns, schema, metrics)),
            Some(child) => {
                let input = child.execute(partition, context)?;
                let (sender, output) = run.open_with_input(partition);
                Box::pin(FedStream::new(input, sender, OutputStream::new(output, columns, schema, metrics)))
            }
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let share = match args.partition() {
            Some(_) => self.properties.output_partitioning().partition_count().max(1) as f64,
            None => 1.0,
        };
        let untouched = |scan: &Arc<ScanInfo>| {
            scan.tests.is_empty() && scan.rest.is_empty() && self.chain.limit.is_none() && self.chain.filters.is_empty()
        };
        let rows = self.estimate.rows / share;
        let num_rows = match &self.scan {
            // The tree's root counts its entries.
            Some(scan)
                if args.partition().is_none() && untouched(scan) && self.env.view.delta(&scan.table).is_none() =>
            {
                Precision::Exact(scan.table.root.entries as usize)
            }
            _ => Precision::Inexact(rows.ceil() as usize),
        };
        let columns = (0..self.output.len()).map(|output| self.column_statistics(output, rows)).collect();
        Ok(Arc::new(Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics: columns }))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn fetch(&self) -> Option<usize> {
        self.chain.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut parts = self.parts();
        parts.chain.limit = limit;
        if let Some(limit) = limit {
            parts.estimate.rows = parts.estimate.rows.min(limit as f64);
        }
        parts.scan = None;
        Some(Arc::new(Self::new(parts)))
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut output = Vec::new();
        let mut positions = Vec::new();
        for item in projection.expr() {
            let Some(column) = item.expr.downcast_ref::<Column>() else { return Ok(None) };
            output.push(self.output[column.index()]);
            positions.push(column.index());
        }
        Ok(Some(Arc::new(self.projected(output, &positions, projection.schema()))))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let Some(child) = &self.child else { return Ok(FilterDescription::new()) };
        if self.chain.limit.is_some() {
            return Ok(FilterDescription::all_unsupported(&parent_filters, &self.children()));
        }
        // Conditions reach the child by name: only columns that keep theirs may pass.
        let child_schema = child.schema();
        let allowed: HashSet<usize> = (0..self.output.len())
            .filter(|index| {
                let column = self.output[*index];
                self.chain.is_outer(column)
                    && child_schema.index_of(self.schema.field(*index).name()).ok() == Some(column.column)
            })
            .collect();
        let description = ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, allowed, child)?;
        Ok(FilterDescription::new().with_child(description))
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut parts: Option<PipelineParts> = None;
        let mut taken = Vec::with_capacity(pushed.parent_filters.len());
        for filter in &pushed.parent_filters {
            if matches!(filter.any(), PushedDown::Yes) {
                taken.push(PushedDown::Yes);
                continue;
            }
            let dynamic = phase == FilterPushdownPhase::Post;
            if dynamic && !self.env.settings.dynamic_filters {
                taken.push(PushedDown::No);
                continue;
            }
            let base = match &parts {
                Some(parts) => Self::new(parts.clone()).filtered(&filter.filter),
                None => self.filtered(&filter.filter),
            };
            taken.push(if base.is_some() { PushedDown::Yes } else { PushedDown::No });
            if let Some(mut filtered) = base {
                if !dynamic {
                    filtered.estimate.rows = (filtered.estimate.rows / 3.0).max(1.0);
                }
                parts = Some(filtered);
            }
        }
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(taken);
        Ok(match parts {
            Some(mut parts) => {
                parts.scan = None;
                propagation.with_updated_node(Arc::new(Self::new(parts)) as Arc<dyn ExecutionPlan>)
            }
            None => propagation,
        })
    }
}

impl PipelineExec {
    /// The node with other output columns, taken from `positions` of the present ones.
    pub fn projected(&self, output: Vec<ColumnRef>, positions: &[usize], schema: SchemaRef) -> Self {
        let mut parts = self.parts();
        parts.output = output;
        parts.schema = Arc::new(Schema::new_with_metadata(schema.fields().clone(), self.schema.metadata().clone()));
        parts.scan = self.scan.as_ref().map(|scan| {
            let columns = positions.iter().map(|position| scan.columns[*position]).collect();
            Arc::new(ScanInfo { columns, ..ScanInfo::clone(scan) })
        });
        Self::new(parts)
    }

    fn column_statistics(&self, output: usize, rows: f64) -> ColumnStatistics {
        let Some((table, column)) = self.source_column(output) else { return ColumnStatistics::new_unknown() };
        let known = table.column_statistics(column);
        let distinct = known.distinct.min(rows).max(1.0);
        ColumnStatistics::new_unknown()
            .with_distinct_count(Precision::Inexact(distinct as usize))
            .with_null_count(Precision::Inexact((known.null_fraction * rows) as usize))
    }
}

/// A plan was taken for parameters that it cannot serve.
pub fn unfit() -> DataFusionError {
    DataFusionError::Internal("a plan was kept for other parameters".into())
}

/// A failed run as a plan's error.
pub fn run_error(error: saki_exec::ExecError) -> DataFusionError {
    crate::database::exec_error(error).into()
}
