//! A view as the planner sees it: the plan of its query, under the view's names.

use std::sync::Weak;

use datafusion::catalog::view::ViewTable;
use datafusion::common::{Column, DataFusionError, Result, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use parking_lot::RwLock;

use crate::statement::resolve_types;
use saki_catalog::{Catalog, ObjectId, View};
use saki_postgres::dialect;
use saki_postgres::statement::parse_query;

/// What plans the queries of views: the state of the session that asks.
pub type PlannerState = Weak<RwLock<SessionState>>;

/// No database is called so: a statement cannot spell the name.
const BOUNDARY: &str = "where a view begins";

/// What the plan of a view's query is called.
fn boundary(view: &View) -> TableReference {
    TableReference::full(BOUNDARY, view.id.0.to_string(), view.bare_name())
}

/// The view whose query a plan of this name is.
pub fn boundary_of(name: &TableReference) -> Option<ObjectId> {
    match name {
        TableReference::Full { catalog, schema, .. } if &**catalog == BOUNDARY => schema.parse().ok().map(ObjectId),
        _ => None,
    }
}

/// Plans a view's query. Names in it mean what they mean to the statement that is being planned.
///
/// # Errors
/// When the query cannot be planned, or has lost a column.
pub async fn plan(view: &View, planner: &PlannerState, catalog: &Catalog) -> Result<ViewTable> {
    let Some(state) = planner.upgrade().map(|state| state.read().clone()) else {
        return Err(DataFusionError::Internal(format!("view {}: the session has ended", view.name)));
    };
    let mut query = ast::Statement::Query(parse_query(&view.sql)?);
    if catalog.enum_types().next().is_some() {
        let _ = resolve_types(&mut query, catalog, &[])?;
    }
    let plan = dialect::plan(&state, Statement::Statement(Box::new(query))).await?;
    let mut columns = Vec::with_capacity(view.columns.len());
    for column in &view.columns {
        // By name: the query's `*` may have become more than it was.
        let position = plan.schema().fields().iter().position(|field| *field.name() == column.source);
        let Some(position) = position else {
            return Err(DataFusionError::Plan(format!(
                "view {}: its query has no column {}",
                view.name, column.source
            )));
        };
        columns.push(Expr::Column(Column::from(plan.schema().qualified_field(position))).alias(&column.name));
    }
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.alias(boundary(view))?.build()?;
    Ok(ViewTable::new(plan, Some(view.sql.clone())))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use futures::executor::block_on;
    use saki_base::DataType;
    use saki_catalog::{PUBLIC, ViewColumn};

    use super::*;
    use crate::planner::state::new_state;

    fn view(sql: &str, columns: &[(&str, &str)]) -> View {
        let column = |(name, source): &(&str, &str)| ViewColumn {
            name: (*name).to_owned(),
            source: (*source).to_owned(),
            data_type: Some(DataType::Int8),
        };
        View {
            id: saki_base::TableId(1),
            name: "v".to_owned(),
            schema: PUBLIC.to_owned(),
            sql: sql.to_owned(),
            columns: columns.iter().map(column).collect(),
            relations: Vec::new(),
            uses: [].into(),
            comment: None,
        }
    }

    fn names(view: &View) -> std::result::Result<Vec<String>, String> {
        let state = Arc::new(RwLock::new(new_state(&Arc::new(saki_base::memory::Pool::new(1 << 30)))));
        let planned =
            block_on(plan(view, &Arc::downgrade(&state), &Catalog::default())).map_err(|error| error.to_string())?;
        Ok(planned.logical_plan().schema().fields().iter().map(|field| field.name().clone()).collect())
    }

    #[test]
    fn columns_have_the_names_of_the_view() {
        let source = "SELECT 1 AS a, 2 AS b, 3 AS c";
        assert_eq!(names(&view(source, &[("x", "a"), ("y", "c")])).unwrap(), ["x", "y"], "b came later");
        assert_eq!(names(&view(source, &[("b", "a"), ("a", "b")])).unwrap(), ["b", "a"]);
    }

    #[test]
    fn a_query_that_has_lost_a_column_is_an_error() {
        let error = names(&view("SELECT 1 AS a", &[("a", "a"), ("b", "b")])).unwrap_err();
        assert!(error.contains("view v: its query has no column b"), "{error}");
        assert!(names(&view("SELECT FROM WHERE", &[])).is_err());
    }

    #[test]
    fn a_session_that_has_ended_plans_no_views() {
        let error =
            block_on(plan(&view("SELECT 1 AS a", &[("a", "a")]), &Weak::new(), &Catalog::default())).unwrap_err();
        assert!(error.to_string().contains("the session has ended"), "{error}");
    }
}
