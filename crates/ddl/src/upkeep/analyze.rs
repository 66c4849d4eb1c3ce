//! ANALYZE: reads tables whole and stores what their values are like.

use std::sync::Arc;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use saki_base::TableId;

use saki_catalog::{Collector, ColumnReader, Result, Table, TableStatistics};
use saki_context::StatementContext;
use saki_context::constraint::RowChecks;
use saki_context::database::Stoppable;
use saki_context::planner::logical_plan;
use saki_context::statement::StatementResult;
use saki_postgres::statement::{object_name, parse_query, quoted};
use saki_store::locks::{LockMode, Policy};

pub async fn analyze(cx: &StatementContext<'_>, analyze: &ast::Analyze) -> Result<StatementResult> {
    let named = analyze.table_name.as_ref().map(object_name).transpose()?;
    match named {
        Some((name, _)) => {
            let _locked = locked(cx, &name).await?;
            analyze_table(cx, &name).await?;
        }
        None => {
            let all: Vec<TableId> = cx.generation()?.catalog.tables().map(|table| table.id).collect();
            for table in all {
                analyze_what_is_left(cx, table).await?;
            }
        }
    }
    Ok(StatementResult::done("ANALYZE", 0))
}

/// One table of all: by the name that it has when its turn comes, and not at all if it has been dropped.
async fn analyze_what_is_left(cx: &StatementContext<'_>, id: TableId) -> Result<()> {
    loop {
        let Some(name) = cx.generation()?.catalog.table_of(id).map(|table| table.name.clone()) else { return Ok(()) };
        let _locked = locked(cx, &name).await?;
        if cx.generation()?.catalog.get(&name).is_some_and(|table| table.id == id) {
            return analyze_table(cx, &name).await;
        }
    }
}

async fn locked(cx: &StatementContext<'_>, name: &str) -> Result<impl Drop + use<>> {
    cx.transactions.lock_tables(&[(name.to_owned(), LockMode::ShareUpdateExclusive)], Policy::Wait).await
}

/// A table that is locked.
async fn analyze_table(cx: &StatementContext<'_>, name: &str) -> Result<()> {
    let table = cx.stored_table(name)?;
    let query = format!("SELECT * FROM {}", quoted(name));
    let statement = Statement::Statement(Box::new(ast::Statement::Query(parse_query(&query)?)));
    let env = Arc::new(cx.own_env().await?);
    let (plan, context) = cx.plan_with(&env, async |state| logical_plan(state, statement).await).await?;
    // Views show its values.
    let mut stream = cx.transactions.once_durable(plan.stream(context)?, Arc::clone(&env.snapshot));
    let mut collector = Collector::new(&table);
    let checks = RowChecks::new(&cx.planner.state(), &table)?;
    while let Some(batch) = stream.next().await {
        let batch = checks.complete(&batch?)?;
        collector.add(&ColumnReader::of_batch(&batch, &table, 0)?, batch.num_rows());
    }
    let statistics = collector.finish();
    cx.change_catalog(move |db| store(db, &table, statistics)).await.map(drop)
}

fn store(db: &Stoppable<'_>, seen: &Table, statistics: TableStatistics) -> Result<()> {
    db.write(|writer| {
        let mut table = Table::clone(writer.catalog.table(&seen.name)?);
        if table.id == seen.id {
            table.statistics = Some(statistics);
            writer.catalog.put(table);
        }
        Ok(())
    })
}
