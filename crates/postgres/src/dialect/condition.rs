//! Conditions and defaults that tables keep as text, as physical expressions: they mean what they mean in a query.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast;

use super::foreign::refuse_foreign;
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
    let mut statement = ast::Statement::Query(parse_query(&format!("SELECT {text}"))?);
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
