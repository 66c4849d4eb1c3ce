//! EXPLAIN.

use std::time::Instant;

use datafusion::sql::sqlparser::ast;
use futures::StreamExt;

use crate::context::StatementContext;
use crate::planner::Planned;
use crate::statement::{StatementResult, text_rows};
use saki_catalog::{Result, SqlError};
use saki_plan::{Traffic, seconds};

/// EXPLAIN and EXPLAIN ANALYZE as statements.
/// `compiled`: how it runs without a plan, as long as it is small.
pub async fn explain(
    cx: &StatementContext<'_>,
    parsed: ast::Statement,
    compiled: Option<String>,
) -> Result<StatementResult> {
    let ast::Statement::Explain { analyze, statement, format, options, .. } = parsed else {
        return Err(SqlError::unsupported("DESCRIBE is not supported").hint("SHOW COLUMNS FROM t"));
    };
    if format.is_some() || options.is_some() {
        return Err(SqlError::unsupported("EXPLAIN options are not supported").hint("EXPLAIN or EXPLAIN ANALYZE"));
    }
    if !matches!(*statement, ast::Statement::Query(_)) {
        return Err(SqlError::unsupported("EXPLAIN takes a query"));
    }
    let Planned { plan, context, snapshot, .. } = cx.plan(&statement).await?;
    let forecast = plan.forecast();
    let expected = forecast.text();
    if !analyze {
        return text_rows("plan", plan.text(false).lines().chain(expected.as_deref()).chain(compiled.as_deref()));
    }
    let before = Traffic::of(cx.db);
    let began = Instant::now();
    let mut stream = cx.transactions.once_durable(plan.stream(context)?, snapshot);
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch?.num_rows();
    }
    let summary = format!("{rows} rows in {}", seconds(began.elapsed().as_secs_f64()));
    let measured = forecast.measured(&before, &Traffic::of(cx.db));
    let tier = expected.iter().chain(&measured).map(String::as_str);
    text_rows("plan", plan.text(true).lines().chain(tier).chain([summary.as_str()]))
}

/// The plan of a query, as text.
pub async fn explained(cx: &StatementContext<'_>, query: &ast::Statement) -> Result<String> {
    let Planned { plan, .. } = cx.plan(query).await?;
    Ok(plan.text(false))
}
