//! The node: its parts, and the source that its partitions share.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{Partitioning, PlanProperties};
use saki_catalog::{ColumnTest, Table};

use super::parts::ColumnScanParts;
use super::source::Source;
use super::{explain, foresee, statistics};
use crate::access::conditions;
use crate::access::scan::ScanInfo;
use crate::node::{DynamicKeys, Forecast, Native, NativeStream, PlainScan, Plan, Renewal, SakiNode, read_alike};

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
        let (partitions, has_apart) = parts.partitions();
        let properties = PlanProperties::new(
            read_alike(&parts.schema(), &parts.scan.columns.iter().map(Some).collect::<Vec<_>>()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let source = Arc::new(Source::new(&parts, partitions, has_apart)?);
        Ok(Self { parts, source, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() })
    }

    fn tests_of_parameters(&self) -> impl Iterator<Item = (&Arc<Table>, &ColumnTest)> {
        let scan = &self.parts.scan;
        scan.tests.iter().filter(|test| test.parameter.is_some()).map(|test| (&scan.table, test))
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

impl SakiNode for ColumnScanExec {
    fn name(&self) -> &'static str {
        "ColumnScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn text_tables(&self) -> Vec<&Arc<Table>> {
        let scan = &self.parts.scan;
        let is_long = |column: &usize| scan.table.column_type(*column).1.fixed_width().is_none();
        if scan.columns.iter().any(is_long) { vec![&scan.table] } else { Vec::new() }
    }

    fn with_children(&self, _: Vec<Plan>) -> Result<Plan> {
        Ok(Self::new(self.parts.clone())?.into_plan())
    }

    fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.parts.scan.rest.iter().collect()
    }

    fn foresee(&self, forecast: &mut Forecast) {
        foresee::of_scan(&self.parts, forecast);
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), explain::summary(&self.parts))
    }

    fn metrics(&self) -> Option<&ExecutionPlanMetricsSet> {
        Some(&self.metrics)
    }

    fn statistics(&self, args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let partitions = args.partition().map_or(1, |_| self.partitions());
        Ok(Arc::new(statistics::of_scan(&self.parts, partitions)))
    }

    fn fetch(&self) -> Option<usize> {
        self.parts.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Plan> {
        let mut parts = ColumnScanParts { limit, ..self.parts.clone() };
        if let Some(limit) = limit {
            parts.estimate.rows = parts.estimate.rows.min(limit as f64);
        }
        Some(Self::new(parts).ok()?.into_plan())
    }

    fn swapped_with(&self, projection: &ProjectionExec) -> Result<Option<Plan>> {
        // A scan's columns have the table's names.
        let position = |item: &ProjectionExpr| {
            let column = item.expr.downcast_ref::<Column>()?;
            (column.name() == item.alias).then(|| column.index())
        };
        match projection.expr().iter().map(position).collect::<Option<Vec<_>>>() {
            Some(positions) => Ok(Some(Self::new(self.parts.projected(&positions))?.into_plan())),
            None => Ok(None),
        }
    }

    fn gather_filters(&self, _: Vec<Arc<dyn PhysicalExpr>>) -> Result<FilterDescription> {
        Ok(FilterDescription::new())
    }

    fn take_filters(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        // Conditions that change while the query runs cannot be used: rows are tested by translated ones. What joins
        // know comes as keys.
        let takes = phase == FilterPushdownPhase::Pre && self.parts.limit.is_none();
        let taken = if takes { PushedDown::Yes } else { PushedDown::No };
        let propagation =
            FilterPushdownPropagation::with_parent_pushdown_result(vec![taken; pushed.parent_filters.len()]);
        if !takes || pushed.parent_filters.is_empty() {
            return Ok(propagation);
        }
        let filters = pushed.parent_filters.iter();
        let parts = filters.fold(self.parts.clone(), |parts, filter| parts.filtered(&filter.filter));
        Ok(propagation.with_updated_node(Self::new(parts)?.into_plan()))
    }

    fn native(&self) -> Option<&dyn Native> {
        Some(self)
    }

    fn renewed(&self, _: Vec<Plan>, renewal: &mut Renewal<'_>) -> Result<Plan> {
        let mut parts = self.parts.clone();
        parts.env = Arc::clone(renewal.env());
        for (_, keys) in &mut parts.keys {
            *keys = renewal.keys(keys);
        }
        let rest = renewal.exprs(&parts.scan.rest)?;
        let is_same = self.tests_of_parameters().next().is_none()
            && rest.iter().zip(&parts.scan.rest).all(|(new, old)| Arc::ptr_eq(new, old));
        let source = if is_same {
            self.source.renewed(&parts)
        } else {
            let scan = parts.scan.rebound(&parts.env.parameters).ok_or_else(conditions::unfit)?;
            parts.scan = Arc::new(ScanInfo { rest, ..scan });
            self.source.with_conditions(&parts)?
        };
        let (source, properties) = (Arc::new(source), Arc::clone(&self.properties));
        Ok(Self { parts, source, properties, metrics: ExecutionPlanMetricsSet::new() }.into_plan())
    }

    fn renews_subqueries(&self) -> bool {
        true
    }

    fn open_tests(&self) -> Vec<(&Arc<Table>, &ColumnTest)> {
        self.tests_of_parameters().collect()
    }

    /// `None` if it stops at a limit, which other rows would then reach.
    fn with_keys(&self, column: usize, keys: &Arc<DynamicKeys>) -> Result<Option<Plan>> {
        if self.parts.limit.is_some() {
            return Ok(None);
        }
        let mut parts = self.parts.clone();
        parts.keys.push((parts.scan.columns[column], Arc::clone(keys)));
        Ok(Some(Self::new(parts)?.into_plan()))
    }

    fn as_scan(&self) -> Option<PlainScan> {
        let parts = Some(&self.parts).filter(|parts| parts.limit.is_none() && parts.keys.is_empty())?;
        let (env, scan) = (Arc::clone(&parts.env), ScanInfo::clone(&parts.scan));
        Some(PlainScan { env, scan, estimate: parts.estimate })
    }

    fn write_details(&self, analyzed: bool, indent: &str, out: &mut String) {
        if analyzed && let Some(chosen) = self.source.chosen() {
            explain::write_measured(chosen, indent, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use saki_base::DataType;
    use saki_base::value::Value;

    use crate::fixture::{Fixture, NoTransaction, TableBuilder};
    use saki_settings::Settings;

    fn rows(count: i64) -> Vec<Vec<Value>> {
        (0..count).map(|id| vec![Value::Int8(id), Value::Int8(id % 9), Value::Int8(id * 13 % 31)]).collect()
    }

    fn table(name: &str) -> TableBuilder {
        TableBuilder::new(name)
            .column("id", DataType::Int8)
            .column("nine", DataType::Int8)
            .column("more", DataType::Int8)
            .key(&["id"])
            .with_segments()
    }

    static TABLES: LazyLock<Fixture> = LazyLock::new(|| {
        let fixture = Fixture::new();
        fixture.load(table("t"), &rows(500)).load(table("few"), &rows(4));
        fixture
    });

    fn env(changes: &[(&str, &str)]) -> std::sync::Arc<crate::node::QueryEnv> {
        let mut settings = Settings { partitions: 3, batch_rows: 50, ..Settings::default() };
        settings.set("access_path", Some("columns")).unwrap();
        changes.iter().for_each(|(name, value)| settings.set(name, Some(value)).unwrap());
        TABLES.env(settings)
    }

    #[test]
    fn a_scan_takes_conditions_projections_and_limits() {
        let env = env(&[]);
        let cases = [
            ("SELECT more FROM t WHERE nine = 3", "where nine = 3"),
            ("SELECT more FROM (SELECT more, nine FROM t) x WHERE nine + more > 30", "where nine@1 + more@2 > 30"),
            ("SELECT id FROM t LIMIT 7", "limit 7"),
        ];
        for (sql, part) in cases {
            let text = TABLES.explain(&env, sql);
            assert!(text.contains("ColumnScanExec") && text.contains(part), "{sql}\n{text}");
        }
        TABLES.check(&env, cases[0].0);
        TABLES.check(&env, cases[1].0);
        assert_eq!(TABLES.rows(&env, cases[2].0).len(), 7);
    }

    #[test]
    fn a_limit_is_kept_beside_a_condition_above_it() {
        let env = env(&[]);
        let rows = TABLES.rows(&env, "SELECT id FROM (SELECT id, nine FROM t LIMIT 20) x WHERE nine >= 0");
        assert_eq!(rows.len(), 20);
    }

    #[test]
    fn keys_of_a_join_reach_the_scan_of_its_other_side() {
        let sql = "SELECT t.id FROM few JOIN t ON few.more = t.nine";
        let never = [("index_join", "never")];
        let text = TABLES.explain(&env(&never), sql);
        assert!(text.contains("keys to scan") && text.contains("keys [nine@"), "{text}");
        TABLES.check(&env(&never), sql);
        let text = TABLES.explain(&env(&[never[0], ("dynamic_filters", "off")]), sql);
        assert!(!text.contains("keys ["), "{text}");
    }

    #[test]
    fn keys_go_through_groups_and_projections_but_not_past_outer_joins() {
        let env = env(&[("index_join", "never")]);
        let cases = [
            ("SELECT g.n FROM few JOIN (SELECT nine, count(*) AS n FROM t GROUP BY nine) g ON few.more = g.nine", true),
            ("SELECT x.m FROM few JOIN (SELECT nine, more + 1 AS m FROM t) x ON few.more = x.nine", true),
            ("SELECT x.m FROM few JOIN (SELECT nine + 1 AS m FROM t) x ON few.more = x.m", false),
            ("SELECT t.id FROM few FULL JOIN t ON few.more = t.nine", false),
        ];
        for (sql, offered) in cases {
            let text = TABLES.explain(&env, sql);
            assert_eq!(text.contains("keys ["), offered, "{sql}\n{text}");
            TABLES.check(&env, sql);
        }
    }

    #[test]
    fn what_is_newer_than_the_segments_is_read_with_them() {
        let fixture = Fixture::new();
        fixture.load(table("t"), &rows(300));
        let mut expected = rows(301);
        expected[7][1] = Value::Int8(99);
        fixture.change("t", &[expected[7].clone(), expected[300].clone()], &expected);
        for path in ["columns", "rows", "auto", "index"] {
            for partitions in [1, 3] {
                let mut settings = Settings { partitions, ..Settings::default() };
                settings.set("access_path", Some(path)).unwrap();
                let env = fixture.env(settings);
                for sql in [
                    "SELECT * FROM t",
                    "SELECT nine, count(*) FROM t GROUP BY nine",
                    "SELECT id FROM t WHERE nine = 99 OR id > 298",
                    "SELECT nine FROM t WHERE id = 7",
                    "SELECT a.id FROM t a JOIN t b ON a.nine = b.id WHERE b.more < 20",
                ] {
                    fixture.check(&env, sql);
                }
            }
        }
    }

    #[test]
    fn each_partition_is_read_once_and_together_they_are_the_table() {
        let env = env(&[]);
        let plan = TABLES.plan(&env, "SELECT id FROM t").track(&mut NoTransaction).unwrap();
        assert_eq!(TABLES.run(&env, &plan).len(), 500);
        assert!(plan.text(true).contains("rows=500"), "{}", plan.text(true));
    }
}
