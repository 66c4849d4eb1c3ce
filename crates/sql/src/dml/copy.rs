//! Rows that come as batches, by COPY or from a query: few go to the delta, many straight to the base.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::SelectItem;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};

use super::insert::add;
use super::query::{StandIns, relation, select, stand_in};
use super::{RowWriter, answer};
use crate::catalog::Table;
use crate::constraint::Defaults;
use crate::convert::conform;
use crate::data::conforming;
use crate::error::{Result, SqlError};
use crate::query_env::QueryEnv;
use crate::session::{Session, StatementResult};
use crate::transaction::{Change, ChangeStatement, Work};

/// Rows from which on building base pages is worth keeping transactions out.
const MANY_ROWS: usize = 32_768;

/// Batches to be added to columns of a table.
struct Addition {
    batches: Vec<RecordBatch>,
    table: String,
    columns: Vec<usize>,
}

impl ChangeStatement for Addition {
    fn plan<'a>(&'a self, session: &'a Session, env: &'a Arc<QueryEnv>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(async move {
            let table = Arc::clone(env.snapshot.catalog.table(&self.table)?);
            let batches = session.completed(env, &table, &self.batches, &self.columns).await?;
            let checks = session.row_checks(&table)?;
            Ok(Box::new(move |change: &mut Change<'_, '_>| {
                let mut writer = RowWriter::new(change.db, &change.view.snapshot, &table)?;
                let mut rows = 0;
                for batch in &batches {
                    checks.check(batch)?;
                    add(&mut writer, change, batch, rows as u64 + 1)?;
                    rows += batch.num_rows();
                }
                Ok(answer("COPY", rows, None)?)
            }) as Work)
        })
    }
}

impl Session {
    /// Batches of some columns of a table as batches of all, the others at their defaults.
    async fn completed(
        &self,
        env: &Arc<QueryEnv>,
        table: &Table,
        batches: &[RecordBatch],
        columns: &[usize],
    ) -> Result<Vec<RecordBatch>> {
        const COPIED: &str = "copied rows";
        let Some(schema) = batches.first().map(RecordBatch::schema) else { return Ok(Vec::new()) };
        let is_default = |column: usize| !columns.contains(&column) && table.has_default(column);
        if !(0..table.columns.len()).any(is_default) {
            let mut first = 1;
            let mut conformed = Vec::with_capacity(batches.len());
            for batch in batches {
                conformed.push(conform(batch, table, columns, first)?);
                first += batch.num_rows() as u64;
            }
            return Ok(conformed);
        }
        let copied = stand_in(arrow::compute::concat_batches(&schema, batches)?)?;
        let all = select(vec![SelectItem::Wildcard(Default::default())], vec![relation(COPIED, None)?], None)?;
        let (query, columns) = Defaults::new(&env.snapshot.catalog, table).complete(all, columns)?;
        let rows = self.rows_of(&env.with_stand_ins(StandIns::from([(COPIED.to_owned(), copied)])), query).await?;
        Ok(vec![conform(&rows, table, &columns, 1)?])
    }

    /// Adds what a stream gives to columns of a table: all of it, or nothing. The number of rows.
    pub(crate) async fn write_stream(
        &self,
        mut rows: SendableRecordBatchStream,
        table: Arc<Table>,
        columns: Vec<usize>,
    ) -> Result<u64> {
        let is_given = |column: &usize| columns.contains(column);
        let has_defaults = (0..table.columns.len()).any(|column| !is_given(&column) && table.has_default(column));
        let is_whole = has_defaults || !table.is_free_of_references() || self.outlives_statement();
        let mut batches = Vec::new();
        let mut count = 0;
        let mut is_over = false;
        while is_whole || count < MANY_ROWS {
            match rows.next().await {
                Some(batch) => {
                    let batch = batch?;
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
            let tables = self.related_tables(&table.name);
            let addition = Addition { batches, table: table.name.clone(), columns };
            return match self.change(&tables, &addition).await? {
                StatementResult::Done { rows, .. } => Ok(rows),
                _ => Err(SqlError::internal("an addition of rows answered with rows")),
            };
        }
        let schema = rows.schema();
        let all = stream::iter(batches.into_iter().map(Ok)).chain(rows);
        let all: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, all));
        self.load_stream(all, table, columns).await
    }

    /// The same into the base, with transactions kept out.
    pub(super) async fn load_stream(
        &self,
        rows: SendableRecordBatchStream,
        table: Arc<Table>,
        columns: Vec<usize>,
    ) -> Result<u64> {
        let _alone = self.alone(vec![table.name.clone()]).await?;
        let checks = self.row_checks(&table)?;
        self.feed(rows, move |db, batches| {
            let conformed = conforming(Arc::clone(&table), columns, batches);
            let checked = conformed.map(|batch| {
                let batch = batch?;
                checks.check(&batch)?;
                Ok(batch)
            });
            db.add_rows(&table, checked, &mut |_| {})
        })
        .await
    }
}
