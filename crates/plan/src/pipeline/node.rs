//! The plan node that runs a [`Chain`]: a table scan ("PageScanExec") or fused index joins ("IndexJoinExec").
//!
//! All partitions of the node share one execution of the pipeline. A chain over a child plan feeds
//! the child's batches into it and gathers the output from them; both go on inside one
//! stream, so that dropping it stops everything.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{Distribution, ExecutionPlan, Partitioning, PlanProperties};
use saki_catalog::{ColumnTest, Table, guesses};
use saki_exec::Execution;

use super::stream::{FedStream, OutputStream};
use super::{explain, foresee};
use crate::access::chain::{Chain, ChainFilter, ColumnRef, Lowered, Origin, only_used};
use crate::access::conditions;
use crate::access::scan::ScanInfo;
use crate::cost::Estimate;
use crate::node::{
    Forecast, Outer, PlainScan, Plan, Progress, QueryEnv, Renewal, SakiNode, column_index, partitions_of, read_alike,
};

/// Leaves below which a scan is not worth more than one partition.
const LEAVES_FOR_PARTITIONS: f64 = 16.0;
/// Rows from which even a chain with a small origin is.
const ROWS_FOR_PARTITIONS: f64 = 1000.0;

/// A chain as a plan node.
pub struct PipelineExec {
    pub env: Arc<QueryEnv>,
    pub chain: Chain,
    /// What the node yields, in order.
    pub output: Vec<ColumnRef>,
    pub child: Option<Plan>,
    pub estimate: Estimate,
    /// Present while the node is a plain scan.
    pub scan: Option<Arc<ScanInfo>>,
    /// Path in words, for EXPLAIN.
    pub path: String,
    lowered: Lowered,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    execution: OnceLock<Arc<Execution>>,
    metrics: ExecutionPlanMetricsSet,
}

/// The parts of a node that are chosen; the rest follows from them.
#[derive(Clone)]
pub struct PipelineParts {
    pub env: Arc<QueryEnv>,
    pub chain: Chain,
    pub output: Vec<ColumnRef>,
    pub schema: SchemaRef,
    pub child: Option<Plan>,
    pub estimate: Estimate,
    pub scan: Option<Arc<ScanInfo>>,
    pub path: String,
}

impl PipelineParts {
    /// Parts in which the rows come.
    fn partitions(&self) -> usize {
        match (&self.child, &self.chain.origin) {
            (Some(child), _) => partitions_of(child),
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
            read_alike(&parts.schema, &parts.output.iter().map(Some).collect::<Vec<_>>()),
            Partitioning::UnknownPartitioning(parts.partitions()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self::with_properties(parts, Arc::new(properties))
    }

    fn with_properties(parts: PipelineParts, properties: Arc<PlanProperties>) -> Self {
        let PipelineParts { env, chain, output, schema, child, estimate, scan, path } = parts;
        let lowered = chain.lower(&output, &env.snapshot);
        let (execution, metrics) = (OnceLock::new(), ExecutionPlanMetricsSet::new());
        Self { env, chain, output, child, estimate, scan, path, lowered, schema, properties, execution, metrics }
    }

    fn parts(&self) -> PipelineParts {
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

    /// The execution, once the node has been executed.
    pub fn execution(&self) -> Option<&Arc<Execution>> {
        self.execution.get()
    }

    /// Links that are joins, not the second half of an index lookup.
    pub fn joins(&self) -> usize {
        self.chain.links.iter().filter(|link| !link.completes_previous).count()
    }

    /// The table and column an output column is read from.
    pub fn source_column(&self, output: usize) -> Option<(&Arc<Table>, usize)> {
        let column = *self.output.get(output)?;
        let access = self.chain.access(column.step)?;
        Some((&access.table, access.table_column(column.column)))
    }

    /// The same node with a condition on its output, if it can take it.
    fn filtered(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<PipelineParts> {
        let mut parts = self.parts();
        let filter = ChainFilter { condition: Arc::clone(condition), columns: self.output.clone() };
        let filter = only_used(filter)?;
        parts.chain.add_filter(filter).then_some(parts)
    }
}

impl fmt::Debug for PipelineExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name()).field("path", &self.path).field("output", &self.output).finish_non_exhaustive()
    }
}

impl SakiNode for PipelineExec {
    fn name(&self) -> &'static str {
        if self.joins() == 0 { "PageScanExec" } else { "IndexJoinExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn text_tables(&self) -> Vec<&Arc<Table>> {
        let mut tables: Vec<&Arc<Table>> = Vec::new();
        for (table, column) in (0..self.output.len()).filter_map(|output| self.source_column(output)) {
            if table.column_type(column).1.fixed_width().is_none() && !tables.iter().any(|it| Arc::ptr_eq(it, table)) {
                tables.push(table);
            }
        }
        tables
    }

    fn children(&self) -> Vec<&Plan> {
        self.child.iter().collect()
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        Ok(Self::new(PipelineParts { child: children.into_iter().next(), ..self.parts() }).into_plan())
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.chain.filters.iter().map(|filter| &filter.condition).collect()
    }

    fn foresee(&self, forecast: &mut Forecast) {
        foresee::of_chain(&self.env, &self.chain, self.child.as_ref(), self.estimate.rows, forecast);
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), explain::summary(&self.chain, &self.path, self.estimate))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let execution = self.execution.get_or_init(|| {
            let options = self.env.settings.execution_options(self.partitions());
            self.env.executor.run(Arc::clone(&self.lowered.pipeline), options)
        });
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let columns = self.lowered.output.clone();
        let schema = Arc::clone(&self.schema);
        Ok(match &self.child {
            None => Box::pin(OutputStream::new(execution.open(partition), columns, schema, metrics)),
            Some(child) => {
                let input = child.execute(partition, context)?;
                let (sender, output) = execution.open_with_input(partition);
                Box::pin(FedStream::new(input, sender, OutputStream::new(output, columns, schema, metrics)))
            }
        })
    }

    fn metrics(&self) -> Option<&ExecutionPlanMetricsSet> {
        Some(&self.metrics)
    }

    fn statistics(&self, args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let share = args.partition().map_or(1, |_| self.partitions().max(1)) as f64;
        let untouched = |scan: &Arc<ScanInfo>| {
            scan.tests.is_empty() && scan.rest.is_empty() && self.chain.limit.is_none() && self.chain.filters.is_empty()
        };
        let rows = self.estimate.rows / share;
        let num_rows = match &self.scan {
            // The tree's root counts its entries.
            Some(scan)
                if args.partition().is_none() && untouched(scan) && self.env.snapshot.delta(&scan.table).is_none() =>
            {
                Precision::Exact(scan.table.root.entries as usize)
            }
            _ => Precision::Inexact(rows.ceil() as usize),
        };
        let columns = (0..self.output.len()).map(|output| self.column_statistics(output, rows)).collect();
        Ok(Arc::new(Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics: columns }))
    }

    fn required_distribution(&self) -> Distribution {
        // In order there is one page at a time, so one partition.
        match self.env.settings.scan_partitions() {
            1 => Distribution::SinglePartition,
            _ => Distribution::UnspecifiedDistribution,
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.chain.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Plan> {
        let mut parts = self.parts();
        parts.chain.limit = limit;
        if let Some(limit) = limit {
            parts.estimate.rows = parts.estimate.rows.min(limit as f64);
        }
        parts.scan = None;
        Some(Self::new(parts).into_plan())
    }

    fn swapped_with(&self, projection: &ProjectionExec) -> Result<Option<Plan>> {
        let positions = projection.expr().iter().map(|item| column_index(&item.expr)).collect::<Option<Vec<_>>>();
        Ok(positions.map(|positions| self.projected(&positions, projection.schema()).into_plan()))
    }

    fn gather_filters(&self, filters: Vec<Arc<dyn PhysicalExpr>>) -> Result<FilterDescription> {
        let Some(child) = &self.child else { return Ok(FilterDescription::new()) };
        if self.chain.limit.is_some() {
            return Ok(FilterDescription::all_unsupported(&filters, &self.children()));
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
        let description = ChildFilterDescription::from_child_with_allowed_indices(&filters, allowed, child)?;
        Ok(FilterDescription::new().with_child(description))
    }

    fn take_filters(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
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
                    filtered.estimate.rows = guesses::filtered(filtered.estimate.rows);
                }
                parts = Some(filtered);
            }
        }
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(taken);
        Ok(match parts {
            Some(parts) => propagation.with_updated_node(Self::new(PipelineParts { scan: None, ..parts }).into_plan()),
            None => propagation,
        })
    }

    fn renewed(&self, children: Vec<Plan>, renewal: &mut Renewal<'_>) -> Result<Plan> {
        let env = renewal.env();
        let mut parts = self.parts();
        parts.env = Arc::clone(env);
        parts.chain.snapshot = Arc::clone(&env.snapshot) as _;
        parts.chain.rebind(&env.parameters).ok_or_else(conditions::unfit)?;
        for filter in &mut parts.chain.filters {
            filter.condition = renewal.expr(&filter.condition)?;
        }
        parts.child = children.into_iter().next();
        Ok(Self::with_properties(parts, Arc::clone(&self.properties)).into_plan())
    }

    /// Conditions that change while a query runs are state of several nodes at once.
    fn is_renewable(&self) -> bool {
        !self.chain.filters.iter().any(|filter| conditions::is_dynamic(&filter.condition))
    }

    fn renews_subqueries(&self) -> bool {
        true
    }

    fn open_tests(&self) -> Vec<(&Arc<Table>, &ColumnTest)> {
        self.chain.open_tests().collect()
    }

    fn as_scan(&self) -> Option<PlainScan> {
        let scan = self.scan.as_ref().filter(|_| self.chain.limit.is_none())?;
        Some(PlainScan { env: Arc::clone(&self.env), scan: ScanInfo::clone(scan), estimate: self.estimate })
    }

    fn as_outer(&self) -> Option<Outer> {
        self.chain.limit.is_none().then(|| Outer {
            chain: self.chain.clone(),
            columns: self.output.clone(),
            child: self.child.clone(),
            estimate: self.estimate,
            path: self.path.clone(),
        })
    }

    fn progress(&self) -> Option<Progress> {
        let stages = &self.execution()?.metrics().stages;
        let visits_done = stages.iter().map(|stage| stage.visits.load(Ordering::Relaxed)).sum();
        Some(Progress { visits_done, visits_estimated: (self.estimate.rows as u64).max(visits_done) })
    }

    fn write_details(&self, analyzed: bool, indent: &str, out: &mut String) {
        let metrics = self.execution().filter(|_| analyzed).map(|execution| execution.metrics());
        explain::write_stages(&self.chain, metrics, indent, out);
    }
}

impl PipelineExec {
    /// The node with the columns at `positions` alone.
    pub fn projected(&self, positions: &[usize], schema: SchemaRef) -> Self {
        let mut parts = self.parts();
        parts.output = positions.iter().map(|position| self.output[*position]).collect();
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
