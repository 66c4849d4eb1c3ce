//! Rows that come as batches, by COPY or from a query: few go to the delta, many straight to the base.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::SelectItem;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};

use super::bulk::{is_filled_by, load_stream, places_now};
use super::change::{ChangeStatement, Concern, Work, change};
use super::insert::add;
use super::planned::answer;
use super::query::{relation, select, stand_in};
use super::rows::{RowWriter, see_to};
use saki_catalog::convert::conform;
use saki_catalog::{Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::{ActionRules, Defaults, RowChecks};
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv, Waiting};
use saki_plan::StandIns;

/// Batches to be added to columns of a table.
struct Addition {
    batches: Vec<RecordBatch>,
    /// The table as it was when the batches began to come.
    seen: Arc<Table>,
    columns: Vec<usize>,
}

impl ChangeStatement for Addition {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(async move {
            let table = Arc::clone(env.generation.catalog.table(&self.seen.name)?);
            let columns = places_now(&self.seen, &self.columns, &table)?;
            let batches = completed(cx, env, &table, &self.batches, &columns).await?;
            let checks = RowChecks::new(&cx.planner.state(), &table)?;
            Ok(Box::new(move |change: &mut Change<'_, '_>| {
                let mut writer = RowWriter::of_change(change, &table)?;
                let mut rows = 0;
                for batch in &batches {
                    checks.check(batch)?;
                    let added = add(&mut writer, change, &checks.complete(batch)?, rows as u64 + 1)?;
                    // Nothing refers to a row that is new.
                    let added = &mut added.iter().map(|entry| (None, Some(entry)));
                    see_to(change, &table, &ActionRules::default(), added)?;
                    rows += batch.num_rows();
                }
                Ok(answer("COPY", rows, None))
            }) as Work)
        })
    }
}

/// Batches of some columns of a table as batches of all, the others at their defaults.
async fn completed(
    cx: &StatementContext<'_>,
    env: &ChangeEnv<'_>,
    table: &Table,
    batches: &[RecordBatch],
    columns: &[usize],
) -> Result<Vec<RecordBatch>> {
    const COPIED: &str = "copied rows";
    let Some(schema) = batches.first().map(RecordBatch::schema) else { return Ok(Vec::new()) };
    let time = cx.parameters.time();
    let is_default = |column: usize| !columns.contains(&column) && table.has_default(column);
    if !(0..table.columns.len()).any(is_default) {
        let mut first = 1;
        let mut conformed = Vec::with_capacity(batches.len());
        for batch in batches {
            conformed.push(conform(batch, table, columns, first, &time)?);
            first += batch.num_rows() as u64;
        }
        return Ok(conformed);
    }
    let copied = stand_in(arrow::compute::concat_batches(&schema, batches)?)?;
    let all = select(vec![SelectItem::Wildcard(Default::default())], vec![relation(COPIED, None)?], None)?;
    let (query, columns) = Defaults::new(&env.generation.catalog, table).complete(all, columns)?;
    let rows = cx.rows_of(&env.with_stand_ins(StandIns::from([(COPIED.to_owned(), copied)])), query).await?;
    Ok(vec![conform(&rows, table, &columns, 1, &time)?])
}

/// Adds what a stream gives to columns of a table: all of it, or nothing. The number of rows.
pub async fn write_stream(
    cx: &StatementContext<'_>,
    mut rows: SendableRecordBatchStream,
    table: Arc<Table>,
    columns: Vec<usize>,
) -> Result<u64> {
    let is_whole = !is_filled_by(&table, &columns) || cx.transactions.outlives_statement();
    // Until they are written or, of many, until they are on their way to the base.
    let held = Waiting::new(&cx.db.memory)?;
    let mut batches = Vec::new();
    let mut count = 0;
    let mut is_over = false;
    while is_whole || count < cx.db.options.bulk_rows {
        match rows.next().await {
            Some(batch) => {
                let batch = batch?;
                held.add(&batch)?;
                count += batch.num_rows();
                batches.push(batch);
            }
            None => {
                is_over = true;
                break;
            }
        }
    }
    if is_over {
        let addition = Addition { batches, seen: table, columns };
        return match change(cx, Concern::Related(&addition.seen.name), &addition).await? {
            StatementResult::Done { rows, .. } => Ok(rows),
            _ => Err(SqlError::internal("an addition of rows answered with rows")),
        };
    }
    let schema = rows.schema();
    let all = stream::iter(batches.into_iter().map(Ok)).chain(rows);
    let all: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, all));
    load_stream(cx, all, table, columns).await
}
