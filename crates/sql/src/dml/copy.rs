//! Rows that come as batches, by COPY or from a query: few go to the delta, many straight to the base.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};

use super::insert::add;
use super::{RowWriter, answer};
use crate::catalog::Table;
use crate::convert::conform;
use crate::data::conforming;
use crate::error::{Result, SqlError};
use crate::query_env::QueryEnv;
use crate::session::{Session, StatementResult, TransactionStatus};
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
            let mut first = 1;
            let mut batches = Vec::with_capacity(self.batches.len());
            for batch in &self.batches {
                batches.push(conform(batch, &table, &self.columns, first)?);
                first += batch.num_rows() as u64;
            }
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
    /// Adds what a stream gives to columns of a table: all of it, or nothing. The number of rows.
    pub(crate) async fn write_stream(
        &self,
        mut rows: SendableRecordBatchStream,
        table: Arc<Table>,
        columns: Vec<usize>,
    ) -> Result<u64> {
        let keeps_order = self.transaction_status() != TransactionStatus::Idle || !table.is_free_of_references();
        let mut batches = Vec::new();
        let mut count = 0;
        let mut is_over = false;
        while keeps_order || count < MANY_ROWS {
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
            let tables = [table.name.clone()];
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
    async fn load_stream(
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
