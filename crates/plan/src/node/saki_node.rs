//! The trait of our nodes, and the one type under which they enter a plan.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::apply_expression_roots;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties};
use saki_catalog::{ColumnTest, Table};

use super::base::NodeBase;
use super::env::QueryEnv;
use super::forecast::Forecast;
use super::keys::DynamicKeys;
use super::plan::Plan;
use super::renewal::Renewal;
use super::stream::{NativeStream, from_surface, surface_stream};
use crate::access::chain::{Chain, ColumnRef};
use crate::access::scan::ScanInfo;
use crate::cost::Estimate;

/// A node of ours.
pub trait SakiNode: fmt::Debug + Send + Sync + 'static {
    // What the planner asks of any node; the docs of `ExecutionPlan` say what it makes of the answers.

    fn name(&self) -> &'static str;

    fn properties(&self) -> &Arc<PlanProperties>;

    fn children(&self) -> Vec<&Plan> {
        Vec::new()
    }

    /// The same node over other children, as if it had never run.
    fn with_children(&self, children: Vec<Plan>) -> Result<Plan>;

    /// Says what it is about to read itself.
    fn foresee(&self, _: &mut Forecast) {}

    /// All expressions that it evaluates.
    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    /// Its line of EXPLAIN.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }

    /// The rows of one partition; at most once for each. Native ones take the form of the node's schema.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.native() {
            Some(native) => Ok(surface_stream(native.native(partition, context)?, self.schema())),
            None => internal_err!("{} yields no rows", self.name()),
        }
    }

    fn metrics(&self) -> Option<&ExecutionPlanMetricsSet> {
        self.base().map(|base| &base.metrics)
    }

    fn statistics(&self, args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let unknown = || Arc::new(Statistics::new_unknown(&self.schema()));
        Ok(self.base().map_or_else(unknown, |base| base.statistics(args)))
    }

    /// How each child's rows must be spread over partitions.
    fn required_distribution(&self) -> Distribution {
        Distribution::UnspecifiedDistribution
    }

    fn benefits_from_input_partitioning(&self) -> bool {
        false
    }

    fn maintains_input_order(&self) -> bool {
        false
    }

    /// Rows after which it stops.
    fn fetch(&self) -> Option<usize> {
        None
    }

    fn with_fetch(&self, _limit: Option<usize>) -> Option<Plan> {
        None
    }

    /// The node that yields what a projection above makes of its rows; `None`: it cannot.
    fn swapped_with(&self, _projection: &ProjectionExec) -> Result<Option<Plan>> {
        Ok(None)
    }

    fn gather_filters(&self, filters: Vec<Arc<dyn PhysicalExpr>>) -> Result<FilterDescription> {
        Ok(FilterDescription::all_unsupported(&filters, &self.children()))
    }

    fn take_filters(
        &self,
        _phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        Ok(FilterPushdownPropagation::if_all(pushed))
    }

    // What we ask of ours.

    /// What it has in common with others, if it keeps that in a [`NodeBase`].
    fn base(&self) -> Option<&NodeBase> {
        None
    }

    /// The node as one whose rows are native, if they are.
    fn native(&self) -> Option<&dyn Native> {
        None
    }

    /// Whether it holds rows in memory and does not spill them.
    fn holds_rows(&self) -> bool {
        false
    }

    /// Whether it gives its thread back now and then, however long what is above takes with a row.
    fn yields(&self) -> bool {
        false
    }

    /// The node for another run, over children renewed already. What it holds of parameters, of a snapshot or of
    /// another node has to be that of the new run.
    fn renewed(&self, children: Vec<Plan>, _renewal: &mut Renewal<'_>) -> Result<Plan> {
        self.with_children(children)
    }

    /// Whether [`SakiNode::renewed`] knows all of its state.
    fn is_renewable(&self) -> bool {
        true
    }

    /// Whether [`SakiNode::renewed`] gives its expressions the results of the new run's subqueries.
    fn renews_subqueries(&self) -> bool {
        false
    }

    /// The tests that parameters give their values, each with its table.
    fn open_tests(&self) -> Vec<(&Arc<Table>, &ColumnTest)> {
        Vec::new()
    }

    /// The tables that it reads texts and bytes from, each once.
    fn text_tables(&self) -> Vec<&Arc<Table>> {
        Vec::new()
    }

    /// The node without rows whose output column `column` is not among `keys`, if a scan below can leave them out.
    fn with_keys(&self, _column: usize, _keys: &Arc<DynamicKeys>) -> Result<Option<Plan>> {
        Ok(None)
    }

    /// The node that yields a projection of its rows by itself, as native nodes can.
    fn projected(&self, _projection: &Projection) -> Result<Option<Plan>> {
        Ok(None)
    }

    /// The plain scan that it is, which can be looked up in instead.
    fn as_scan(&self) -> Option<PlainScan> {
        None
    }

    /// The chain that it is, to which lookups can be added.
    fn as_outer(&self) -> Option<Outer> {
        None
    }

    /// What it has done so far, if it counts that.
    fn progress(&self) -> Option<Progress> {
        None
    }

    /// What EXPLAIN ANALYZE says on the node's line beside rows and time.
    fn measured(&self, _metrics: &MetricsSet) -> Option<String> {
        None
    }

    /// Lines of its own in EXPLAIN, indented; with what was measured if it has run.
    fn write_details(&self, _analyzed: bool, _indent: &str, _out: &mut String) {}

    /// The node as the planner takes it.
    fn into_plan(self) -> Plan
    where
        Self: Sized,
    {
        Arc::new(SakiExec::new(self))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(self.properties().equivalence_properties().schema())
    }

    fn partitions(&self) -> usize {
        self.properties().output_partitioning().partition_count()
    }
}

/// A node that can yield its rows in native form.
pub trait Native {
    /// The rows of one partition: columns in the order and of the logical types of the node's schema. Like `execute`,
    /// at most once for each partition.
    fn native(&self, partition: usize, context: Arc<TaskContext>) -> Result<NativeStream>;
}

/// A projection that a node is asked to yield by itself.
pub struct Projection {
    /// Over the node's columns.
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
    pub schema: SchemaRef,
    pub statistics: Arc<Statistics>,
    /// Whether expressions may be native, or columns alone.
    pub computes: bool,
}

/// A scan of which nothing but its conditions decides which rows it has.
pub struct PlainScan {
    pub env: Arc<QueryEnv>,
    pub scan: ScanInfo,
    pub estimate: Estimate,
}

/// The side of a join that is looked up from.
pub struct Outer {
    pub chain: Chain,
    /// Where each column of the side is in the chain.
    pub columns: Vec<ColumnRef>,
    pub child: Option<Plan>,
    pub estimate: Estimate,
    /// How the chain's origin is read, in words.
    pub path: String,
}

/// What the pipelines of a query have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Pages visited.
    pub visits_done: u64,
    /// Rows that the planner expects of the pipelines that have begun; they have as many visits, or fewer.
    pub visits_estimated: u64,
}

/// A node of ours as one of the planner's.
#[derive(Debug)]
pub struct SakiExec(Box<dyn SakiNode>);

impl SakiExec {
    pub fn new(node: impl SakiNode) -> Self {
        Self(Box::new(node))
    }
}

/// The node of ours that a plan's root is, if it is one.
pub fn find(plan: &dyn ExecutionPlan) -> Option<&dyn SakiNode> {
    plan.downcast_ref::<SakiExec>().map(|exec| exec.0.as_ref())
}

/// The native node that a plan's root is, seen through what only keeps it from holding its thread.
pub fn find_native(plan: &dyn ExecutionPlan) -> Option<&dyn Native> {
    match plan.downcast_ref::<CooperativeExec>() {
        Some(wrapper) => find_native(wrapper.input().as_ref()),
        None => find(plan)?.native(),
    }
}

/// The rows of one partition of any node, in native form.
pub fn native_input(plan: &Plan, partition: usize, context: Arc<TaskContext>) -> Result<NativeStream> {
    match find_native(plan.as_ref()) {
        Some(native) => native.native(partition, context),
        None => Ok(from_surface(plan.execute(partition, context)?)),
    }
}

impl DisplayAs for SakiExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(f)
    }
}

impl ExecutionPlan for SakiExec {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        self.0.children()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.0.children().iter().map(|_| self.0.required_distribution()).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![self.0.benefits_from_input_partitioning(); self.0.children().len()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.0.maintains_input_order(); self.0.children().len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.0.expressions(), f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        if children.is_empty() { Ok(self) } else { self.0.with_children(children) }
    }

    fn reset_state(self: Arc<Self>) -> Result<Plan> {
        self.0.with_children(self.0.children().into_iter().map(Arc::clone).collect())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.0.metrics().map(|metrics| metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.0.statistics(args)
    }

    fn fetch(&self) -> Option<usize> {
        self.0.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Plan> {
        self.0.with_fetch(limit)
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Plan>> {
        self.0.swapped_with(projection)
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.0.gather_filters(filters)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        self.0.take_filters(phase, pushed, config)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder};
    use saki_base::DataType;
    use saki_base::value::Value;
    use saki_settings::Settings;

    fn shop() -> Fixture {
        let fixture = Fixture::new();
        let row = |id: i64| vec![Value::Int8(id), Value::Int8(id % 5), Value::Int8(id % 3)];
        let rows: Vec<Vec<Value>> = (0..300).map(row).collect();
        let table = |name: &str| {
            TableBuilder::new(name)
                .column("id", DataType::Int8)
                .column("five", DataType::Int8)
                .column("three", DataType::Int8)
                .key(&["id"])
        };
        fixture.load(table("pages"), &rows).load(table("columns").with_segments(), &rows);
        fixture
    }

    fn env(fixture: &Fixture, changes: &[(&str, &str)]) -> Arc<QueryEnv> {
        let mut settings = Settings { partitions: 2, ..Settings::default() };
        changes.iter().for_each(|(name, value)| settings.set(name, Some(value)).unwrap());
        fixture.env(settings)
    }

    fn names(plan: &Plan, found: &mut Vec<String>) {
        found.push(plan.name().to_owned());
        plan.children().into_iter().for_each(|child| names(child, found));
    }

    #[test]
    fn our_nodes_are_found_by_what_they_can_do() {
        let fixture = shop();
        let env = env(&fixture, &[("access_path", "columns"), ("index_join", "never")]);
        let sql =
            "SELECT c.five, count(*) FROM columns c JOIN columns d ON c.id = d.five WHERE c.three > c.five GROUP BY 1";
        let plan = fixture.plan(&env, sql);
        let mut found = Vec::new();
        names(plan.plan(), &mut found);
        for name in ["NativeAggregateExec", "NativeHashJoinExec", "ColumnScanExec"] {
            assert!(found.iter().any(|known| known == name), "{name} in {found:?}");
        }
        fn each(plan: &Plan, look: &mut dyn FnMut(&dyn SakiNode)) {
            find(plan.as_ref()).into_iter().for_each(&mut *look);
            plan.children().into_iter().for_each(|child| each(child, look));
        }
        let (mut holding, mut scans, mut native) = (0, 0, 0);
        each(plan.plan(), &mut |node| {
            holding += usize::from(node.holds_rows());
            scans += usize::from(node.as_scan().is_some());
            native += usize::from(node.native().is_some());
            assert_eq!(node.children().len(), node.children().len());
        });
        assert_eq!((holding, native >= 4), (2, true));
        assert_eq!(scans, 1, "the scan that waits for keys is no plain one");
    }

    #[test]
    fn a_node_of_the_planners_is_none_of_ours() {
        let plan: Plan = Arc::new(EmptyExec::new(Arc::new(arrow_schema::Schema::empty())));
        assert!(find(plan.as_ref()).is_none() && find_native(plan.as_ref()).is_none());
    }

    #[test]
    fn a_native_node_is_seen_through_what_wraps_it() {
        let fixture = shop();
        let env = env(&fixture, &[("access_path", "columns")]);
        let plan = fixture.plan(&env, "SELECT id FROM columns");
        let mut scan = Arc::clone(plan.plan());
        while find(scan.as_ref()).is_none() {
            scan = Arc::clone(scan.children()[0]);
        }
        let wrapped: Plan = Arc::new(CooperativeExec::new(scan));
        assert!(find(wrapped.as_ref()).is_none() && find_native(wrapped.as_ref()).is_some());
    }

    #[test]
    fn a_plan_that_was_reset_runs_again() {
        let fixture = shop();
        for path in ["columns", "rows"] {
            let env = env(&fixture, &[("access_path", path), ("index_join", "always")]);
            let sql = "SELECT c.five, count(*) FROM columns c JOIN pages p ON c.id = p.id WHERE c.three = 1 GROUP BY 1";
            let plan = fixture.plan(&env, sql);
            let again = datafusion::physical_plan::execution_plan::reset_plan_states(Arc::clone(plan.plan())).unwrap();
            let first = fixture.run(&env, &plan.track(&mut crate::fixture::NoTransaction).unwrap());
            assert_eq!(first, fixture.expected(sql));
            assert_eq!(crate::fixture::run(&again), first);
        }
    }

    #[test]
    fn statistics_are_exact_where_nothing_can_change_the_count() {
        use datafusion::common::stats::Precision;
        let fixture = shop();
        let rows = |sql: &str, path| {
            let env = env(&fixture, &[("access_path", path), ("partitions", "1")]);
            crate::node::statistics_of(fixture.plan(&env, sql).plan().as_ref()).unwrap().num_rows
        };
        for (table, path) in [("pages", "rows"), ("columns", "columns")] {
            assert_eq!(rows(&format!("SELECT id FROM {table}"), path), Precision::Exact(300), "{table}");
            let some = rows(&format!("SELECT id FROM {table} WHERE five = 1"), path);
            assert!(matches!(some, Precision::Inexact(50..70)), "{table}: {some:?}");
        }
    }
}
