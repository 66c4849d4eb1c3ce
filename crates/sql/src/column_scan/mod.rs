//! The plan node that reads a table's column segments ("ColumnScanExec").
//!
//! ```text
//!   conditions ─► Expr, over the table's columns ─┐
//!   keys of joins above ─► DynamicKeys ───────────┼─► source: a scan of segments, or lookups ─► batches
//!   output columns, limit ────────────────────────┘           (decided when the keys are known)
//! ```
//!
//! Its rows are native; a node that wants record batches gets these instead. All partitions share one
//! [`Source`], which is chosen when the first of them is polled and all keys that were promised are known: the build
//! sides of the joins above are complete then, and how many keys there really are decides between reading on and looking them up.

mod condition;
mod cost;
mod explain;
mod lookup;
mod source;
mod statistics;

use std::fmt;
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, apply_expression_roots};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use saki_columns::SegmentTable;

use crate::catalog::Table;
use crate::chain::renumber;
use crate::column_test::{self, ColumnTest};
use crate::cost::Estimate;
use crate::native::{DynamicKeys, Native, NativeStream, surface_stream};
use crate::pipeline_exec::{ScanInfo, unfit};
use crate::query_env::QueryEnv;

pub use cost::ColumnPath;
use source::Source;

/// What a node reads: the parts that are chosen; the rest follows from them.
#[derive(Clone)]
pub struct ColumnScanParts {
    pub env: Arc<QueryEnv>,
    pub segments: Arc<SegmentTable>,
    /// Table, output columns, conditions, and the rows that are expected.
    pub scan: Arc<ScanInfo>,
    pub estimate: Estimate,
    pub limit: Option<usize>,
    /// Conditions from joins above: a column of the table, and the keys that it needs to have a partner.
    pub keys: Vec<(usize, Arc<DynamicKeys>)>,
}

/// A scan of column segments as a plan node.
pub struct ColumnScanExec {
    parts: ColumnScanParts,
    source: Arc<Source>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnScanExec {
    /// # Errors
    /// When a condition cannot be evaluated on columns.
    pub fn new(parts: ColumnScanParts) -> Result<Self> {
        // Segments are what partitions share.
        let partitions = parts.env.settings.scan_partitions().min(parts.segments.segments.len()).max(1);
        // What is newer than the segments comes as a partition of its own: within each, keys ascend.
        let has_apart = partitions > 1 && parts.env.view.delta(&parts.scan.table).is_some();
        let partitions = partitions + usize::from(has_apart);
        let table = parts.scan.table.schema();
        let fields: Vec<_> = parts.scan.columns.iter().map(|column| table.field(*column).clone()).collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(Schema::new(fields))),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let source = Arc::new(Source::new(&parts, partitions, has_apart)?);
        Ok(Self { parts, source, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() })
    }

    pub fn env(&self) -> &Arc<QueryEnv> {
        &self.parts.env
    }

    pub fn estimate(&self) -> Estimate {
        self.parts.estimate
    }

    /// What is scanned.
    pub fn scan(&self) -> &Arc<ScanInfo> {
        &self.parts.scan
    }

    /// What is scanned, as long as nothing but its conditions decides which rows it has.
    pub fn whole_scan(&self) -> Option<&Arc<ScanInfo>> {
        (self.parts.limit.is_none() && self.parts.keys.is_empty()).then_some(&self.parts.scan)
    }

    /// What the scan did, on lines of their own.
    pub fn write_measured(&self, indent: &str, out: &mut String) {
        explain::write_measured(self, indent, out);
    }

    /// The same scan, without rows whose output column `column` is not among `keys`; `None` if it stops at a limit, which other
    /// rows would then reach.
    pub fn with_keys(&self, column: usize, keys: &Arc<DynamicKeys>) -> Result<Option<Self>> {
        if self.parts.limit.is_some() {
            return Ok(None);
        }
        let mut parts = self.parts.clone();
        parts.keys.push((parts.scan.columns[column], Arc::clone(keys)));
        Self::new(parts).map(Some)
    }

    /// The same scan of the same segments, to be run again as `env` sees them and its parameters; `rest` are its conditions that are no
    /// tests, renewed, and `keys` gives the new ones for the old.
    pub fn renewed(
        &self,
        env: &Arc<QueryEnv>,
        rest: Vec<Arc<dyn PhysicalExpr>>,
        mut keys: impl FnMut(&Arc<DynamicKeys>) -> Arc<DynamicKeys>,
    ) -> Result<Self> {
        let mut parts = self.parts.clone();
        parts.env = Arc::clone(env);
        for (_, slot) in &mut parts.keys {
            *slot = keys(slot);
        }
        let is_same = self.open_tests().next().is_none()
            && rest.iter().zip(&parts.scan.rest).all(|(new, old)| Arc::ptr_eq(new, old));
        let source = if is_same {
            self.source.renewed(&parts)
        } else {
            let scan = parts.scan.rebound(&env.parameters).ok_or_else(unfit)?;
            parts.scan = Arc::new(ScanInfo { rest, ..scan });
            self.source.with_conditions(&parts)?
        };
        let (source, properties) = (Arc::new(source), Arc::clone(&self.properties));
        Ok(Self { parts, source, properties, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// The tests that parameters give their values, each with its table.
    pub fn open_tests(&self) -> impl Iterator<Item = (&Arc<Table>, &ColumnTest)> {
        let scan = &self.parts.scan;
        scan.tests.iter().filter(|test| test.parameter.is_some()).map(|test| (&scan.table, test))
    }

    /// The same scan with other output columns, taken from `positions` of the present ones.
    fn projected(&self, positions: &[usize]) -> Result<Self> {
        let mut parts = self.parts.clone();
        let columns = positions.iter().map(|position| parts.scan.columns[*position]).collect();
        parts.scan = Arc::new(ScanInfo { columns, ..ScanInfo::clone(&parts.scan) });
        Self::new(parts)
    }

    /// The same scan with a condition on its output.
    fn filtered(&self, condition: &Arc<dyn PhysicalExpr>) -> Result<Self> {
        let mut parts = self.parts.clone();
        let mut scan = ScanInfo::clone(&parts.scan);
        let over_table = renumber(condition, &|output| scan.columns[output]);
        let type_of = |column: usize| scan.table.columns.get(column).map(|column| column.data_type);
        column_test::split(&over_table, &type_of, &mut scan.tests, &mut scan.rest);
        scan.rows = (scan.rows / 3.0).max(1.0);
        parts.estimate.rows = scan.rows;
        parts.scan = Arc::new(scan);
        Self::new(parts)
    }
}

impl Native for ColumnScanExec {
    fn native(&self, partition: usize, context: Arc<TaskContext>) -> Result<NativeStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(Arc::clone(&self.source).open(partition, context, metrics))
    }
}

impl fmt::Debug for ColumnScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name()).field("scan", &self.parts.scan).finish_non_exhaustive()
    }
}

impl DisplayAs for ColumnScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        explain::describe(self, f)
    }
}

impl ExecutionPlan for ColumnScanExec {
    fn name(&self) -> &'static str {
        "ColumnScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.parts.scan.rest.iter(), f)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(self.parts.clone())?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(surface_stream(self.native(partition, context)?, self.schema()))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let partitions = args.partition().map_or(1, |_| self.properties.output_partitioning().partition_count());
        Ok(Arc::new(statistics::of_scan(&self.parts, partitions)))
    }

    fn fetch(&self) -> Option<usize> {
        self.parts.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut parts = self.parts.clone();
        parts.limit = limit;
        if let Some(limit) = limit {
            parts.estimate.rows = parts.estimate.rows.min(limit as f64);
        }
        Some(Arc::new(Self::new(parts).ok()?))
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut positions = Vec::with_capacity(projection.expr().len());
        for item in projection.expr() {
            let Some(column) = item.expr.downcast_ref::<Column>() else { return Ok(None) };
            // A scan's columns have the table's names.
            if column.name() != item.alias {
                return Ok(None);
            }
            positions.push(column.index());
        }
        Ok(Some(Arc::new(self.projected(&positions)?)))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        _: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        Ok(FilterDescription::new())
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // Conditions that change while the query runs cannot be used: rows are tested by translated ones. What joins know comes as keys.
        let takes = phase == FilterPushdownPhase::Pre && self.parts.limit.is_none();
        let mut filtered: Option<Self> = None;
        for filter in pushed.parent_filters.iter().filter(|_| takes) {
            filtered = Some(filtered.as_ref().unwrap_or(self).filtered(&filter.filter)?);
        }
        let taken = if takes { PushedDown::Yes } else { PushedDown::No };
        let propagation =
            FilterPushdownPropagation::with_parent_pushdown_result(vec![taken; pushed.parent_filters.len()]);
        Ok(match filtered {
            Some(node) => propagation.with_updated_node(Arc::new(node) as Arc<dyn ExecutionPlan>),
            None => propagation,
        })
    }
}
