//! ANALYZE: reads tables whole and stores what their values are like.

use std::sync::Arc;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;

use saki_catalog::{Collector, ColumnReader, Result, Table, TableStatistics};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::planner::logical_plan;
use saki_context::statement::StatementResult;
use saki_postgres::statement::{object_name, parse_query, quoted};
use saki_store::locks::{LockMode, Policy};

pub async fn analyze(cx: &StatementContext<'_>, analyze: &ast::Analyze) -> Result<StatementResult> {
    let named = analyze.table_name.as_ref().map(object_name).transpose()?;
    let names = match named {
        Some((name, _)) => vec![name],
        None => cx.generation()?.catalog.tables().map(|table| table.name.clone()).collect(),
    };
    for name in names {
        let wanted = [(name.clone(), LockMode::ShareUpdateExclusive)];
        let _locked = cx.transactions.lock_tables(&wanted, Policy::Wait).await?;
        let table = cx.stored_table(&name)?;
        let statement = Statement::Statement(Box::new(ast::Statement::Query(parse_query(&format!(
            "SELECT * FROM {}",
            quoted(&name)
        ))?)));
        let env = Arc::new(cx.own_env().await?);
        let planned = cx.plan_with(&env, async |state| logical_plan(state, statement).await).await?;
        let mut stream = planned.0.stream(planned.1)?;
        let mut collector = Collector::new(&table);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            collector.add(&ColumnReader::of_batch(&batch, &table, 0)?, batch.num_rows());
        }
        let statistics = collector.finish();
        cx.change_catalog(move |db| store(db, &table, statistics)).await?;
    }
    Ok(StatementResult::done("ANALYZE", 0))
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
