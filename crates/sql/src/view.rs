//! A view as the planner sees it: the plan of its query, under the view's names.

use std::sync::Weak;

use datafusion::catalog::view::ViewTable;
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use parking_lot::RwLock;

use crate::catalog::View;
use crate::dialect;
use crate::statement::parse_query;

/// What plans the queries of views: the state of the session that asks.
pub type PlannerState = Weak<RwLock<SessionState>>;

/// Plans a view's query. Names in it mean what they mean to the statement that is being planned.
///
/// # Errors
/// When the query cannot be planned, or has lost a column.
pub async fn plan(view: &View, planner: &PlannerState) -> Result<ViewTable> {
    let Some(state) = planner.upgrade().map(|state| state.read().clone()) else {
        return Err(DataFusionError::Internal(format!("view {}: the session has ended", view.name)));
    };
    let query = ast::Statement::Query(parse_query(&view.sql)?);
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
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(ViewTable::new(plan, Some(view.sql.clone())))
}
