//! A table of a snapshot as the query planner sees it, and the schema of all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Constraint, Constraints, DFSchema, DataFusionError, Result, Statistics};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::RwLock;
use saki_columns::SegmentTable;

use crate::catalog::{PUBLIC, ROW_ID, RelationKind, Table, qualified};
use crate::chain::ChainFilter;
use crate::column_scan::{ColumnPath, ColumnScanExec, ColumnScanParts};
use crate::column_test::{self, ColumnTest};
use crate::explain;
use crate::path::{Path, Wanted};
use crate::pg_catalog::{SystemCatalog, SystemSchema};
use crate::pipeline_exec::{PipelineExec, PipelineParts, ScanInfo, only_used};
use crate::query_env::QueryEnv;
use crate::settings::AccessPath;
use crate::view;

/// Share of rows that a condition which is no column test is taken to leave.
const OTHER_CONDITION_SELECTIVITY: f64 = 0.33;

/// Column tests, and conditions that are none.
pub type Conditions = (Vec<ColumnTest>, Vec<Arc<dyn PhysicalExpr>>);

/// A table of the statement's snapshot.
pub struct SnapshotTable {
    pub env: Arc<QueryEnv>,
    pub table: Arc<Table>,
    /// `None`: the table has rows only.
    segments: Option<Arc<SegmentTable>>,
    schema: SchemaRef,
    constraints: Constraints,
}

impl SnapshotTable {
    /// # Errors
    /// When the directory of the table's segments cannot be read.
    pub fn new(env: Arc<QueryEnv>, table: Arc<Table>) -> Result<Self> {
        let segments = env.snapshot.segments(&table)?;
        // The primary tree holds one entry per key, so the constraint holds for every snapshot.
        let primary_key = (!table.primary_key.is_empty()).then(|| Constraint::PrimaryKey(table.primary_key.clone()));
        let constraints = Constraints::new_unverified(primary_key.into_iter().collect());
        let shows_row_id = env.row_id_of.as_deref() == Some(table.name.as_str());
        let mut fields: Vec<_> = table.schema().fields().iter().map(Arc::clone).collect();
        if shows_row_id {
            fields.push(Arc::new(Field::new(ROW_ID, arrow_schema::DataType::Int64, false)));
        }
        let segments = segments.filter(|_| !shows_row_id);
        Ok(Self { schema: Arc::new(Schema::new(fields)), env, table, segments, constraints })
    }

    /// Splits planner conditions into column tests and the rest, both over table columns.
    pub fn split_conditions(&self, filters: &[Expr]) -> Result<Conditions> {
        let (mut tests, mut rest) = (Vec::new(), Vec::new());
        if filters.is_empty() {
            return Ok((tests, rest));
        }
        let df_schema = DFSchema::try_from(self.schema.as_ref().clone())?;
        let properties = ExecutionProps::new();
        let planning = PhysicalPlanningContext::default();
        let type_of = |column: usize| (column < self.schema.fields().len()).then(|| self.table.column_type(column).1);
        for filter in filters {
            if let Some(test) = self.open_test(filter) {
                tests.push(test);
                continue;
            }
            let filter = unqualified(filter)?;
            let condition = create_physical_expr(&filter, &df_schema, &properties, &planning)?;
            column_test::split(&condition, &type_of, &mut tests, &mut rest);
        }
        Ok((tests, rest))
    }

    /// `column = $n`, where the statement leaves the parameter open.
    fn open_test(&self, filter: &Expr) -> Option<ColumnTest> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return None };
        let (column, id) = match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Placeholder(Placeholder { id, .. }))
            | (Expr::Placeholder(Placeholder { id, .. }), Expr::Column(column)) => (column, id),
            _ => return None,
        };
        let column = self.table.column(&column.name)?;
        let number = id.strip_prefix('$')?.parse().ok()?;
        ColumnTest::of_parameter(column, self.table.column_type(column).1, number, &self.env.parameters)
    }

    /// Rows and seconds a scan with these conditions would take; for join ordering.
    pub fn estimate(&self, filters: &[Expr], columns: &[usize]) -> Result<crate::cost::Estimate> {
        let (tests, rest) = self.split_conditions(filters)?;
        let wanted = Wanted {
            table: &self.table,
            columns,
            tests: &tests,
            other_selectivity: other_selectivity(&rest),
            limit: None,
        };
        Ok(match self.choose(&wanted) {
            Access::Rows(path) => path.estimate,
            Access::Columns(_, path) => path.estimate,
        })
    }

    /// The cheapest access that the setting allows.
    fn choose(&self, wanted: &Wanted<'_>) -> Access {
        let (costs, setting) = (&self.env.costs, self.env.settings.access_path);
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
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (tests, rest) = self.split_conditions(filters)?;
        let columns: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let mut needed = columns.clone();
        for condition in &rest {
            needed.extend(collect_columns(condition).iter().map(|column| column.index()));
        }
        needed.sort_unstable();
        needed.dedup();
        let wanted = Wanted {
            table: &self.table,
            columns: &needed,
            tests: &tests,
            other_selectivity: other_selectivity(&rest),
            limit: limit.filter(|_| rest.is_empty()),
        };
        let access = self.choose(&wanted);
        let mut estimate = match &access {
            Access::Rows(path) => path.estimate,
            Access::Columns(_, path) => path.estimate,
        };
        if let Some(limit) = limit {
            estimate.rows = estimate.rows.min(limit as f64);
        }
        let path = match access {
            Access::Rows(path) => path,
            Access::Columns(segments, _) => {
                let scan = ScanInfo { table: Arc::clone(&self.table), columns, tests, rest, rows: estimate.rows };
                let (env, scan) = (Arc::clone(&self.env), Arc::new(scan));
                let parts = ColumnScanParts { env, segments, scan, estimate, limit, keys: Vec::new() };
                return Ok(Arc::new(ColumnScanExec::new(parts)?));
            }
        };
        let (mut chain, map) = path.chain(&wanted, Arc::clone(&self.env.view) as _);
        let find = |column: &usize| {
            map.find(*column)
                .ok_or_else(|| DataFusionError::Internal(format!("{} has no column {column}", self.table.name)))
        };
        let output = columns.iter().map(find).collect::<Result<Vec<_>>>()?;
        for condition in &rest {
            let all = (0..self.schema.fields().len()).map(|column| {
                // A column outside of a covering index is not named by the condition, or the path would fetch it.
                map.find(column).unwrap_or(crate::chain::ColumnRef { depth: 0, column: usize::MAX })
            });
            let filter = ChainFilter { condition: Arc::clone(condition), columns: all.collect() };
            let taken = only_used(filter).is_some_and(|filter| chain.add_filter(filter));
            if !taken {
                return Err(DataFusionError::Internal(format!(
                    "condition {condition} has no column of {}",
                    self.table.name
                )));
            }
        }
        chain.limit = limit;
        let schema = Arc::new(Schema::new(columns.iter().map(|c| self.schema.field(*c).clone()).collect::<Vec<_>>()));
        let text = explain::path_text(&path);
        let scan = ScanInfo { table: Arc::clone(&self.table), columns, tests, rest, rows: estimate.rows };
        Ok(Arc::new(PipelineExec::new(PipelineParts {
            env: Arc::clone(&self.env),
            chain,
            output,
            schema,
            child: None,
            estimate,
            scan: Some(Arc::new(scan)),
            path: text,
        })))
    }
}

/// How a table is read.
enum Access {
    Rows(Path),
    Columns(Arc<SegmentTable>, ColumnPath),
}

fn other_selectivity(rest: &[Arc<dyn PhysicalExpr>]) -> f64 {
    OTHER_CONDITION_SELECTIVITY.powi(rest.len().min(3) as i32)
}

/// The condition with bare column names.
fn unqualified(filter: &Expr) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let bare = filter.clone().transform(|node| {
        Ok(match node {
            Expr::Column(column) if column.relation.is_some() => {
                Transformed::yes(Expr::Column(datafusion::common::Column::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(bare.data)
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
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plan(projection, filters, limit)
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
        statistics.num_rows = match self.env.view.delta(&self.table) {
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

/// The schema `public`: the snapshot's relations, and the session's external tables. Under their catalog names it has those of other
/// schemas too.
#[derive(Debug, Default)]
pub struct PublicSchema {
    env: RwLock<Option<Arc<QueryEnv>>>,
    planner: RwLock<view::PlannerState>,
    external: RwLock<BTreeMap<String, Arc<dyn TableProvider>>>,
}

impl PublicSchema {
    /// From now on names mean the tables of this statement's snapshot.
    pub fn enter(&self, env: &Arc<QueryEnv>) {
        *self.env.write() = Some(Arc::clone(env));
    }

    /// Lets go of the snapshot.
    pub fn leave(&self) {
        *self.env.write() = None;
    }

    /// Whose functions and settings the queries of views are planned with.
    pub fn plan_views_by(&self, planner: view::PlannerState) {
        *self.planner.write() = planner;
    }

    pub fn is_external(&self, name: &str) -> bool {
        self.external.read().contains_key(name)
    }
}

#[async_trait]
impl SchemaProvider for PublicSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.external.read().keys().cloned().collect();
        if let Some(env) = self.env.read().as_ref() {
            let catalog = &env.snapshot.catalog;
            names.extend(catalog.tables().filter(|t| t.schema == PUBLIC).map(|table| table.name.clone()));
            names.extend(catalog.views().filter(|v| v.schema == PUBLIC).map(|view| view.name.clone()));
        }
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let env = self.env.read().clone();
        if let Some(stand_in) = env.as_ref().and_then(|env| env.stand_ins.get(name)) {
            return Ok(Some(Arc::clone(stand_in)));
        }
        if let Some(external) = self.external.read().get(name) {
            return Ok(Some(Arc::clone(external)));
        }
        let Some(env) = env else { return Ok(None) };
        if let Some(view) = env.snapshot.catalog.view(name) {
            let planner = self.planner.read().clone();
            return Ok(Some(Arc::new(view::plan(view, &planner).await?)));
        }
        let Some(table) = env.snapshot.catalog.get(name).map(Arc::clone) else { return Ok(None) };
        Ok(Some(Arc::new(SnapshotTable::new(env, table)?) as Arc<dyn TableProvider>))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.external.write().insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.external.write().remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        let named = |env: &Arc<QueryEnv>| {
            env.stand_ins.contains_key(name)
                || matches!(env.snapshot.catalog.kind_of(name), Some(RelationKind::Table | RelationKind::View))
        };
        self.is_external(name) || self.env.read().as_ref().is_some_and(named)
    }
}

/// A schema other than `public`.
#[derive(Debug)]
struct OtherSchema {
    name: String,
    public: Arc<PublicSchema>,
}

#[async_trait]
impl SchemaProvider for OtherSchema {
    fn table_names(&self) -> Vec<String> {
        let env = self.public.env.read();
        let Some(env) = env.as_ref() else { return Vec::new() };
        let catalog = &env.snapshot.catalog;
        let tables = catalog.tables().filter(|table| table.schema == self.name).map(|table| table.bare_name());
        let views = catalog.views().filter(|view| view.schema == self.name).map(|view| view.bare_name());
        tables.chain(views).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.public.table(&qualified(&self.name, name)).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.public.table_exist(&qualified(&self.name, name))
    }
}

/// The catalog `saki` with its schemas.
#[derive(Debug)]
pub struct SakiCatalog {
    pub public: Arc<PublicSchema>,
    pub system: Arc<SystemCatalog>,
}

impl CatalogProvider for SakiCatalog {
    fn schema_names(&self) -> Vec<String> {
        let of_users = match self.public.env.read().as_ref() {
            Some(env) => env.snapshot.catalog.schema_names().map(str::to_owned).collect(),
            None => vec![PUBLIC.to_owned()],
        };
        of_users.into_iter().chain(SystemSchema::names().map(str::to_owned)).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == PUBLIC {
            return Some(Arc::clone(&self.public) as _);
        }
        let is_there = self.public.env.read().as_ref().is_some_and(|env| env.snapshot.catalog.has_schema(name));
        match is_there {
            true => Some(Arc::new(OtherSchema { name: name.to_owned(), public: Arc::clone(&self.public) }) as _),
            false => SystemSchema::find(name, &self.system),
        }
    }
}
