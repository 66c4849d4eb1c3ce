//! EXPLAIN.

use std::time::Instant;

use datafusion::sql::sqlparser::ast;
use futures::StreamExt;

use super::explanation::Explanation;
use crate::context::StatementContext;
use crate::planner::Planned;
use crate::statement::StatementResult;
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
    if options.is_some() {
        return Err(SqlError::internal("options of EXPLAIN are read where it is"));
    }
    if !matches!(*statement, ast::Statement::Query(_)) {
        return Err(SqlError::unsupported("EXPLAIN takes a query"));
    }
    let Planned { plan, context, snapshot, .. } = cx.plan(&statement).await?;
    let forecast = plan.forecast();
    let expected = forecast.text();
    if !analyze {
        let notes = expected.into_iter().chain(compiled).collect();
        return Explanation { plan: plan.text(false), notes }.answer(format.as_ref());
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
    let notes = expected.into_iter().chain(measured).chain([summary]).collect();
    Explanation { plan: plan.text(true), notes }.answer(format.as_ref())
}

/// The plan of a query, as text.
pub async fn explained(cx: &StatementContext<'_>, query: &ast::Statement) -> Result<String> {
    let Planned { plan, .. } = cx.plan(query).await?;
    Ok(plan.text(false))
}
