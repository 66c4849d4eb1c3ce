//! Queries, and statements that show what a query would do.

mod explain;
pub mod explanation;

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

pub use self::explain::{explain, explained};
use crate::context::StatementContext;
use crate::planner::{Planned, logical_plan};
use crate::statement::StatementResult;
use saki_catalog::Result;
use saki_plan::execution::memory;
use saki_postgres::dialect;

/// Runs a query.
pub async fn run(cx: &StatementContext<'_>, query: ast::Statement) -> Result<StatementResult> {
    let planned = cx.plan(&query).await?;
    start(cx, planned, || Ok(query)).await
}

/// Runs a query that leaves parameters open, if a plan serves it for other values too; `bound` has the values in its
/// text.
pub async fn run_open(
    cx: &StatementContext<'_>,
    query: &ast::Statement,
    values: &Arc<[ScalarValue]>,
    bound: impl FnOnce() -> Result<ast::Statement>,
) -> Result<Option<StatementResult>> {
    loop {
        let env = Arc::new(cx.env().await?.with_parameters(Arc::clone(values)));
        let Some(planned) = cx.planner.plan_open(query, &env).await? else { return Ok(None) };
        let mut transactions = cx.transactions.lock().await;
        let planned = planned.track(&mut *transactions)?;
        if transactions.hold_for_reading(&planned.snapshot).await? {
            continue;
        }
        drop(transactions);
        return start(cx, planned, bound).await.map(Some);
    }
}

/// Starts a plan; `query` is what to plan again if the plan needs more memory than there is.
async fn start(
    cx: &StatementContext<'_>,
    planned: Planned,
    query: impl FnOnce() -> Result<ast::Statement>,
) -> Result<StatementResult> {
    cx.progress.begin(&planned.plan);
    let can_outgrow = cx.settings.query_memory.is_some() && memory::cannot_spill(&planned.plan);
    let schema = Arc::clone(&planned.schema);
    let mut stream = cx.start(planned)?;
    if can_outgrow {
        stream = match memory::begun(stream).await {
            Some(stream) => stream,
            None => spilling(cx, query()?).await?,
        };
    }
    Ok(StatementResult::Rows { schema, stream: dialect::with_shown_names(stream) })
}

/// Runs a query with operators that spill.
async fn spilling(cx: &StatementContext<'_>, query: ast::Statement) -> Result<SendableRecordBatchStream> {
    let statement = Statement::Statement(Box::new(query));
    let env = cx.env().await?.with_operators(saki_plan::Operators::Spilling)?;
    let (plan, context) = cx.plan_with(&env, async |state| logical_plan(state, statement).await).await?;
    Ok(cx.transactions.once_durable(plan.stream(context)?, Arc::clone(&env.snapshot)))
}
