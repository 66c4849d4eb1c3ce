//! Conditions and defaults that tables keep as text, and expressions over rows that are at hand, as physical
//! expressions: they mean what they mean in a query.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast;

use super::calls::refuse_foreign;
use super::query::joins::Relations;
use super::resolution::resolved;
use crate::statement::parse_query;
use saki_catalog::{Result, SqlError};
use saki_times::session_time;

/// A condition over rows of a schema, ready to be evaluated.
///
/// # Errors
/// When it is none.
pub fn condition(state: &SessionState, text: &str, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let planned = planned(state, text, schema)?;
    if !matches!(planned.schema().field(0).data_type(), DataType::Boolean | DataType::Null) {
        return Err(SqlError::invalid("argument of CHECK must be type boolean").code("42804"));
    }
    evaluable(state, planned, schema)
}

/// An expression over rows of a schema, ready to be evaluated.
///
/// # Errors
/// When it is none.
pub fn expression(state: &SessionState, text: &str, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    evaluable(state, planned(state, text, schema)?, schema)
}

/// An expression of a query over rows of a schema, ready to be evaluated at any time, and what it gives; `None` if that
/// depends on more than the row.
///
/// # Errors
/// When it is none.
pub fn lasting(
    state: &SessionState,
    expr: &ast::Expr,
    schema: &DFSchema,
) -> Result<Option<(Arc<dyn PhysicalExpr>, FieldRef)>> {
    let mut query = parse_query("SELECT 1")?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![ast::SelectItem::UnnamedExpr(expr.clone())];
    }
    let planned = projection(state, query, schema)?;
    let is_lasting = match &planned {
        LogicalPlan::Projection(projection) => projection.expr.iter().all(lasts),
        _ => false,
    };
    if !is_lasting {
        return Ok(None);
    }
    let field = Arc::clone(&planned.schema().fields()[0]);
    Ok(Some((evaluable(state, planned, schema)?, field)))
}

/// Whether an expression calls functions alone whose results depend on nothing but their arguments.
fn lasts(expr: &Expr) -> bool {
    let depends = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::ScalarSubquery(_)
        | Expr::InSubquery(_)
        | Expr::Exists(_)
        | Expr::Placeholder(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarVariable(..)
        | Expr::Unnest(_) => true,
        _ => false,
    };
    expr.exists(|expr| Ok(depends(expr))).is_ok_and(|depends| !depends)
}

/// A column's DEFAULT, ready to be evaluated.
///
/// # Errors
/// When it is no value, or names a column.
pub fn default(state: &SessionState, text: &str) -> Result<Arc<dyn PhysicalExpr>> {
    let nothing = DFSchema::empty();
    evaluable(state, planned(state, text, &nothing)?, &nothing)
}

/// Refuses what cannot be a DEFAULT.
///
/// # Errors
/// As [`default`].
pub fn check_default(state: &SessionState, text: &str) -> Result<()> {
    planned(state, text, &DFSchema::empty()).map(drop)
}

/// The projection of an expression, with the meaning that it has in a query.
fn planned(state: &SessionState, text: &str, schema: &DFSchema) -> Result<LogicalPlan> {
    projection(state, parse_query(&format!("SELECT {text}"))?, schema)
}

/// The same of a query that selects it from nowhere.
fn projection(state: &SessionState, query: Box<ast::Query>, schema: &DFSchema) -> Result<LogicalPlan> {
    let mut statement = ast::Statement::Query(query);
    refuse_foreign(&statement)?;
    super::rewrite(&mut statement, Relations::default(), session_time(state.config_options()))?;
    let ast::Statement::Query(query) = statement else { return Err(SqlError::internal("a query became none")) };
    let expr = match *query.body {
        ast::SetExpr::Select(mut select) => select.projection.pop(),
        _ => None,
    };
    let Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) = expr else {
        return Err(SqlError::internal("an expression became none"));
    };
    let expr = state.create_logical_expr_from_sql_expr(ast::ExprWithAlias { expr, alias: None }, schema)?;
    let empty = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::new(schema.clone()) });
    Ok(resolved(LogicalPlanBuilder::from(empty).project([expr.alias("expression")])?.build()?, None)?)
}

/// An expression over rows of a schema as conditions of queries have it, to be compared with those.
///
/// # Errors
/// When it is none.
pub fn simplified(state: &SessionState, text: &str, schema: &DFSchema) -> Result<Expr> {
    analysed(state, planned(state, text, schema)?, schema)
}

fn evaluable(state: &SessionState, planned: LogicalPlan, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(state.create_physical_expr(analysed(state, planned, schema)?, schema)?)
}

/// Analysed and simplified as any query's.
fn analysed(state: &SessionState, planned: LogicalPlan, schema: &DFSchema) -> Result<Expr> {
    let plan = state.analyzer().execute_and_check(planned, state.config_options(), |_, _| {})?;
    let LogicalPlan::Projection(mut projection) = plan else {
        return Err(SqlError::internal("the projection of an expression became none"));
    };
    let Some(expr) = projection.expr.pop() else { return Err(SqlError::internal("an expression became none")) };
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .build();
    Ok(ExprSimplifier::new(context).simplify(expr.unalias())?)
}
