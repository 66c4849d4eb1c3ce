//! A table of a snapshot as the query planner sees it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Constraint, Constraints, DFSchema, DataFusionError, Result, Statistics};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableScan, TableType};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use saki_columns::SegmentTable;

use crate::access::alternatives::{self, Alternatives};
use crate::access::chain::{ChainFilter, ColumnRef, only_used};
use crate::access::conditions;
use crate::access::hidden::{self, HiddenKey};
use crate::access::path::{Path, Wanted};
use crate::access::scan::ScanInfo;
use crate::access::text::path_text;
use crate::column_scan::{ColumnPath, ColumnScanExec, ColumnScanParts};
use crate::cost::Estimate;
use crate::node::{Plan, QueryEnv, SakiNode};
use crate::pipeline::{PipelineExec, PipelineParts};
use saki_catalog::{ColumnTest, ROW_ID, Table};
use saki_settings::AccessPath;

/// Column tests, and conditions that are none.
pub type Conditions = (Vec<ColumnTest>, Vec<Arc<dyn PhysicalExpr>>);

/// A table of the statement's snapshot.
pub struct SnapshotTable {
    pub env: Arc<QueryEnv>,
    pub table: Arc<Table>,
    /// `None`: the table has rows only.
    segments: Option<Arc<SegmentTable>>,
    schema: SchemaRef,
    /// All columns of the table: what conditions are over.
    stored: SchemaRef,
    /// What its hidden columns are made of.
    hidden: Arc<[HiddenKey]>,
    constraints: Constraints,
}

impl SnapshotTable {
    /// # Errors
    /// When the directory of the table's segments cannot be read.
    pub fn new(env: Arc<QueryEnv>, table: Arc<Table>) -> Result<Self> {
        let segments = env.generation.segments(&table)?;
        // The primary tree holds one entry per key, so the constraint holds for every snapshot.
        let primary_key = (!table.primary_key.is_empty()).then(|| Constraint::PrimaryKey(table.primary_key.clone()));
        let constraints = Constraints::new_unverified(primary_key.into_iter().collect());
        let shows_row_id = env.row_id_of.as_deref() == Some(table.name.as_str());
        let mut fields: Vec<_> = table.stored_schema().fields().iter().map(Arc::clone).collect();
        if shows_row_id {
            fields.push(Arc::new(Field::new(ROW_ID, arrow_schema::DataType::Int64, false)));
        }
        let stored = Arc::new(Schema::new(fields));
        // The row id keeps its place, and so hidden columns come with it; nobody can name them.
        let schema = if shows_row_id { Arc::clone(&stored) } else { table.schema() };
        let segments = segments.filter(|_| !shows_row_id);
        Ok(Self { schema, stored, env, table, segments, hidden: Arc::default(), constraints })
    }

    /// The same with hidden columns for what they are made of.
    #[must_use]
    pub fn with_hidden(self, hidden: Arc<[HiddenKey]>) -> Self {
        Self { hidden, ..self }
    }

    /// Calls `look` with our table behind a scan, if it is one of ours.
    pub fn with<R>(scan: &TableScan, look: impl FnOnce(&Self) -> R) -> Option<R> {
        let provider = source_as_provider(&scan.source).ok()?;
        (provider.as_ref() as &dyn Any).downcast_ref().map(look)
    }

    /// Splits planner conditions into column tests and the rest, both over table columns. `properties` are those of the
    /// session that evaluates them, whose options functions look at.
    pub fn split_conditions(&self, filters: &[Expr], properties: &ExecutionProps) -> Result<Conditions> {
        let (mut tests, mut rest) = (Vec::new(), Vec::new());
        if filters.is_empty() {
            return Ok((tests, rest));
        }
        let df_schema = DFSchema::try_from(self.stored.as_ref().clone())?;
        let planning = PhysicalPlanningContext::default();
        let split = |filter: &Expr, tests: &mut Vec<ColumnTest>, rest: &mut Vec<Arc<dyn PhysicalExpr>>| {
            if let Some(test) = self.open_test(filter) {
                tests.push(test);
                return Ok(());
            }
            let condition = create_physical_expr(filter, &df_schema, properties, &planning)?;
            conditions::split(&condition, &|column| self.type_of(column), tests, rest);
            Ok::<_, DataFusionError>(())
        };
        let filters = filters.iter().map(hidden::unqualified).collect::<Result<Vec<_>>>()?;
        let implied = hidden::implied(&filters, &self.hidden, &self.stored)?;
        for filter in filters {
            split(&hidden::replaced(filter, &self.hidden, &self.stored)?, &mut tests, &mut rest)?;
        }
        for (column, condition) in implied {
            let (mut said, mut unused) = (Vec::new(), Vec::new());
            split(&condition, &mut said, &mut unused)?;
            tests.extend(said.into_iter().filter(|test| test.column == column && hidden::is_strict(test)));
        }
        Ok((tests, rest))
    }

    /// The type of the table column that a column of an expression is.
    fn type_of(&self, column: usize) -> Option<saki_base::DataType> {
        (column < self.stored.fields().len()).then(|| self.table.column_type(column).1)
    }

    fn alternatives(&self, rest: &[Arc<dyn PhysicalExpr>]) -> Vec<Alternatives> {
        rest.iter().filter_map(|condition| alternatives::of(condition, &|column| self.type_of(column))).collect()
    }

    /// `column = $n`, where the statement leaves the parameter open.
    fn open_test(&self, filter: &Expr) -> Option<ColumnTest> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return None };
        let (column, id) = match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Placeholder(Placeholder { id, .. }))
            | (Expr::Placeholder(Placeholder { id, .. }), Expr::Column(column)) => (column, id),
            _ => return None,
        };
        let column = self.stored.index_of(&column.name).ok().filter(|column| *column < self.table.columns.len())?;
        let number = id.strip_prefix('$')?.parse().ok()?;
        conditions::of_parameter(column, self.table.column_type(column).1, number, &self.env.parameters)
    }

    /// Rows and seconds a scan with these conditions would take; for join ordering.
    pub fn estimate(&self, filters: &[Expr], columns: &[usize]) -> Result<Estimate> {
        let (tests, rest) = self.split_conditions(filters, &ExecutionProps::new())?;
        let alternatives = self.alternatives(&rest);
        let wanted = Wanted {
            table: &self.table,
            columns,
            tests: &tests,
            alternatives: &alternatives,
            newer: self.env.snapshot.newer_rows(&self.table) as f64,
            other_selectivity: alternatives::selectivity(&self.table, rest.len(), &alternatives),
            limit: None,
        };
        Ok(self.choose(&wanted).estimate())
    }

    /// The cheapest access that the setting allows.
    fn choose(&self, wanted: &Wanted<'_>) -> Access {
        let (costs, setting) = (&*self.env, self.env.settings.access_path);
        let rows = Path::choose(wanted, costs, setting);
        let Some(segments) = self.segments.as_ref().filter(|_| setting != AccessPath::Rows) else {
            return Access::Rows(rows);
        };
        let columns = ColumnPath::new(wanted, segments, self.env.segment_reader.cache(), costs);
        let chosen = match setting {
            AccessPath::Columns => true,
            AccessPath::Index if rows.bounds.is_some() => false,
            // Pages are not asked whether they are cached: a single row is looked up, whatever columns are.
            _ if rows.is_one_row() => false,
            _ => columns.estimate.seconds < rows.estimate.seconds,
        };
        if chosen { Access::Columns(Arc::clone(segments), columns) } else { Access::Rows(rows) }
    }

    fn plan(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
        properties: &ExecutionProps,
    ) -> Result<Plan> {
        let (tests, rest) = self.split_conditions(filters, properties)?;
        let columns: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let needed = needed_columns(&columns, &rest);
        let alternatives = self.alternatives(&rest);
        let wanted = Wanted {
            table: &self.table,
            columns: &needed,
            tests: &tests,
            alternatives: &alternatives,
            newer: self.env.snapshot.newer_rows(&self.table) as f64,
            other_selectivity: alternatives::selectivity(&self.table, rest.len(), &alternatives),
            limit: limit.filter(|_| rest.is_empty()),
        };
        let access = self.choose(&wanted);
        let mut estimate = access.estimate();
        if let Some(limit) = limit {
            estimate.rows = estimate.rows.min(limit as f64);
        }
        let (env, table, rows) = (Arc::clone(&self.env), Arc::clone(&self.table), estimate.rows);
        let scan = Arc::new(ScanInfo { table, columns, tests: tests.clone(), rest, rows });
        match access {
            Access::Rows(path) => self.pipeline(&path, &wanted, scan, estimate, limit),
            Access::Columns(segments, _) => {
                let parts = ColumnScanParts { env, segments, scan, estimate, limit, keys: Vec::new() };
                Ok(ColumnScanExec::new(parts)?.into_plan())
            }
        }
    }

    /// The pipeline that reads a path.
    fn pipeline(
        &self,
        path: &Path,
        wanted: &Wanted<'_>,
        scan: Arc<ScanInfo>,
        estimate: Estimate,
        limit: Option<usize>,
    ) -> Result<Plan> {
        let (mut chain, map) = path.chain(wanted, Arc::clone(&self.env.snapshot) as _);
        let missing = |what: String| DataFusionError::Internal(format!("{} has no {what}", self.table.name));
        let place = |column: &usize| map.find(*column).ok_or_else(|| missing(format!("column {column}")));
        let output = scan.columns.iter().map(place).collect::<Result<Vec<_>>>()?;
        for condition in &scan.rest {
            // A column outside of a covering index is not named by the condition, or the path would fetch it.
            let all = (0..self.stored.fields().len()).map(|column| map.find(column).unwrap_or(ColumnRef::NOWHERE));
            let filter = ChainFilter { condition: Arc::clone(condition), columns: all.collect() };
            if !only_used(filter).is_some_and(|filter| chain.add_filter(filter)) {
                return Err(missing(format!("column for {condition}")));
            }
        }
        chain.limit = limit;
        let fields: Vec<_> = scan.columns.iter().map(|column| self.schema.field(*column).clone()).collect();
        let parts = PipelineParts {
            env: Arc::clone(&self.env),
            chain,
            output,
            schema: Arc::new(Schema::new(fields)),
            child: None,
            estimate,
            scan: Some(scan),
            path: path_text(path),
        };
        Ok(PipelineExec::new(parts).into_plan())
    }
}

/// How a table is read.
enum Access {
    Rows(Path),
    Columns(Arc<SegmentTable>, ColumnPath),
}

impl Access {
    fn estimate(&self) -> Estimate {
        match self {
            Self::Rows(path) => path.estimate,
            Self::Columns(_, path) => path.estimate,
        }
    }
}

/// Output columns, and those that conditions name, in ascending order.
fn needed_columns(columns: &[usize], rest: &[Arc<dyn PhysicalExpr>]) -> Vec<usize> {
    let mut needed = columns.to_vec();
    needed.extend(rest.iter().flat_map(collect_columns).map(|column| column.index()));
    needed.sort_unstable();
    needed.dedup();
    needed
}

impl fmt::Debug for SnapshotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotTable").field("table", &self.table.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plan(projection, filters, limit, session.execution_props())
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let decides = |filter: &&Expr| {
            let evaluable = !filter.is_volatile() && !filter.column_refs().is_empty() && !contains_subquery(filter);
            if evaluable || self.open_test(filter).is_some() {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(decides).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let base = self.table.root.entries as usize;
        // How many rows of the base a delta hides is not known before it is read.
        statistics.num_rows = match self.env.snapshot.delta(&self.table) {
            None => Precision::Exact(base),
            Some(_) => Precision::Inexact(base),
        };
        Some(statistics)
    }
}

/// Whether a condition is more than a function of columns.
pub fn contains_subquery(filter: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    filter
        .exists(|node| {
            Ok(matches!(
                node,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Placeholder(_)
            ))
        })
        .unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use datafusion::logical_expr::{col, lit, placeholder};
    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder};
    use saki_settings::Settings;

    static TABLES: LazyLock<Fixture> = LazyLock::new(|| {
        let fixture = Fixture::new();
        let rows: Vec<Vec<Value>> = (0..2000)
            .map(|id| vec![Value::Int8(id), Value::Int8(id % 100), Value::Text(format!("{id:0>40}"))])
            .collect();
        let table = |name: &str| {
            TableBuilder::new(name)
                .column("id", DataType::Int8)
                .column("part", DataType::Int8)
                .column("text", DataType::Text)
        };
        fixture.load(table("rows").key(&["id"]).index("rows_part", &["part"]), &rows);
        fixture.load(table("both").key(&["id"]).with_segments(), &rows);
        fixture.load(table("keyless"), &rows[..10]);
        fixture
    });

    fn provider(name: &str, changes: &[(&str, &str)]) -> SnapshotTable {
        let mut settings = Settings { partitions: 2, ..Settings::default() };
        changes.iter().for_each(|(name, value)| settings.set(name, Some(value)).unwrap());
        SnapshotTable::new(TABLES.env(settings), TABLES.table(name)).unwrap()
    }

    fn node(table: &SnapshotTable, columns: &[usize], filters: &[Expr]) -> String {
        table.plan(Some(&columns.to_vec()), filters, None, &ExecutionProps::new()).unwrap().name().to_owned()
    }

    #[test]
    fn few_columns_of_many_rows_come_from_segments_and_a_row_from_pages() {
        let both = provider("both", &[]);
        assert_eq!(node(&both, &[1], &[]), "ColumnScanExec");
        assert_eq!(node(&both, &[0, 1, 2], &[col("id").eq(lit(7_i64))]), "PageScanExec");
        assert_eq!(node(&provider("rows", &[]), &[1], &[]), "PageScanExec", "there are no segments");
    }

    #[test]
    fn a_setting_chooses_between_pages_and_segments() {
        let by_key = [col("id").lt(lit(1000_i64))];
        let by_part = [col("part").eq(lit(1_i64))];
        let cases: [(&str, &[Expr], &str); 5] = [
            ("rows", &[], "PageScanExec"),
            ("columns", &by_key, "ColumnScanExec"),
            ("index", &by_key, "PageScanExec"),
            ("index", &by_part, "ColumnScanExec"),
            ("scan", &by_key, "ColumnScanExec"),
        ];
        for (setting, filters, expected) in cases {
            let table = provider("both", &[("access_path", setting)]);
            assert_eq!(node(&table, &[1], filters), expected, "{setting}: {filters:?}");
        }
    }

    #[test]
    fn conditions_that_columns_alone_decide_are_taken() {
        let table = provider("rows", &[]);
        let taken = |filter: &Expr| {
            table.supports_filters_pushdown(&[filter]).unwrap()[0] == TableProviderFilterPushDown::Exact
        };
        assert!(taken(&col("id").gt(col("part"))));
        assert!(taken(&col("text").like(lit("%7%"))));
        assert!(!taken(&lit(true)), "without columns there is nothing to decide");
        assert!(!taken(&col("id").lt(datafusion::functions::math::expr_fn::random())));
        assert!(!taken(&col("id").eq(placeholder("$1"))), "the parameter has no value");
    }

    #[test]
    fn an_open_parameter_is_taken_as_an_equality_alone() {
        let env =
            QueryEnv::new(&TABLES.db, saki_store::Snapshot::new(TABLES.db.generation(), None), Settings::default());
        let env = env.with_parameters([datafusion::common::ScalarValue::Int64(Some(7))].into());
        let table = SnapshotTable::new(Arc::new(env), TABLES.table("rows")).unwrap();
        let taken = |filter: &Expr| {
            table.supports_filters_pushdown(&[filter]).unwrap()[0] == TableProviderFilterPushDown::Exact
        };
        assert!(taken(&col("id").eq(placeholder("$1"))) && taken(&placeholder("$1").eq(col("part"))));
        assert!(!taken(&col("id").lt(placeholder("$1"))));
        assert!(!taken(&col("text").eq(placeholder("$1"))), "a number is no text");
        assert!(!taken(&col("id").eq(placeholder("$2"))), "there is one parameter");
        let (tests, rest) = table.split_conditions(&[col("id").eq(placeholder("$1"))], &ExecutionProps::new()).unwrap();
        assert_eq!((tests[0].parameter, rest.len()), (Some(1), 0));
    }

    #[test]
    fn an_estimate_says_how_many_rows_conditions_leave() {
        let table = provider("rows", &[]);
        let rows = |filters: &[Expr]| table.estimate(filters, &[0]).unwrap().rows;
        assert_eq!(rows(&[]), 2000.0);
        assert!((rows(&[col("part").eq(lit(7_i64))]) - 20.0).abs() < 5.0);
        assert!((rows(&[col("id").lt(lit(500_i64))]) - 500.0).abs() < 60.0);
        let guessed = rows(&[(col("id") + col("part")).gt(lit(7_i64))]);
        assert!((guessed - 2000.0 / 3.0).abs() < 1.0);
    }

    #[test]
    fn the_count_of_a_table_is_exact_until_it_has_a_delta() {
        let rows = provider("rows", &[]).statistics().unwrap().num_rows;
        assert_eq!(rows, Precision::Exact(2000));
        let fixture = Fixture::new();
        let table = TableBuilder::new("t").column("id", DataType::Int8).key(&["id"]);
        fixture.load(table, &[vec![Value::Int8(1)]]);
        fixture.change("t", &[vec![Value::Int8(2)]], &[vec![Value::Int8(1)], vec![Value::Int8(2)]]);
        let table = SnapshotTable::new(fixture.default_env(), fixture.table("t")).unwrap();
        assert_eq!(table.statistics().unwrap().num_rows, Precision::Inexact(1));
        fixture.check(&fixture.default_env(), "SELECT count(*), max(id) FROM t");
    }

    #[test]
    fn keys_hold_and_hidden_row_ids_are_seen_on_demand() {
        let constraint = |name: &str| provider(name, &[]).constraints.iter().count();
        assert_eq!((constraint("rows"), constraint("keyless")), (1, 0));
        let env = TABLES.default_env();
        let keyless = TABLES.table("keyless");
        assert_eq!(SnapshotTable::new(Arc::clone(&env), Arc::clone(&keyless)).unwrap().schema.fields().len(), 3);
        let seen = env.with_row_id(&keyless);
        let table = SnapshotTable::new(Arc::clone(&seen), keyless).unwrap();
        assert_eq!(table.schema.field(3).name(), ROW_ID);
        assert_eq!(TABLES.rows(&seen, "SELECT count(*), sum(id) FROM keyless"), ["10|45"]);
        let keyed = TABLES.table("rows");
        let env = env.with_row_id(&keyed);
        assert_eq!(SnapshotTable::new(env, keyed).unwrap().schema.fields().len(), 3, "a key is enough");
    }
}
