//! What clients are told rests on commits that are durable: rows, counts and errors.
//!
//! The engine lets everybody see a commit before it is on disk, and says of whatever was seen what has to be durable
//! first (`saki_mvcc::Receipt`). Here that is waited for; for what is old it is one look at the durable horizon.
//! Inside of BEGIN and COMMIT too: whoever is told of rows, or of how many there were to change, may never commit. What
//! is waited for then is what is told: that a key has a row is often durable when what is in the row is not
//! (`super::Telling`).

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use saki_mvcc::Receipt;
use tokio::sync::oneshot;

use super::shared::SessionTransactions;
use super::state::Transactions;
use crate::database::Database;
use saki_catalog::{Result, SqlError};
use saki_store::Snapshot;

impl SessionTransactions {
    /// Waits until a commit, and all that it is based on, is durable.
    pub async fn acknowledge(&self, receipt: Option<Receipt>) -> Result<()> {
        match receipt {
            Some(receipt) => durable(&self.db, receipt).await,
            None => Ok(()),
        }
    }

    /// Tells how an attempt to commit went, once it may be told.
    pub(super) async fn tell(&self, committed: Result<Option<Receipt>>) -> Result<()> {
        match committed {
            Ok(receipt) => self.acknowledge(receipt).await,
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// The transaction has failed by `error`; the error, once it may be told.
    pub async fn failed(&self, error: SqlError) -> SqlError {
        let receipt = {
            let mut transactions = self.lock().await;
            transactions.fail();
            transactions.receipt_of_failure()
        };
        // If what it speaks of is lost, that is the error.
        self.acknowledge(receipt).await.err().unwrap_or(error)
    }

    /// Rows of a snapshot, each once what they rest on is durable, and so is the end.
    pub fn once_durable(&self, rows: SendableRecordBatchStream, snapshot: Arc<Snapshot>) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let told =
            stream::unfold((rows.fuse(), Arc::clone(&self.db), snapshot), |(mut rows, db, snapshot)| async move {
                let mut next = rows.next().await;
                if let Some(receipt) = snapshot.receipt()
                    && let Err(error) = durable(&db, receipt).await
                {
                    next = Some(Err(error.into()));
                }
                Some((next?, (rows, db, snapshot)))
            });
        Box::pin(RecordBatchStreamAdapter::new(schema, told))
    }
}

async fn durable(db: &Database, receipt: Receipt) -> Result<()> {
    let engine = db.engine()?;
    if engine.database.is_durable(receipt) {
        return Ok(());
    }
    let (sender, receiver) = oneshot::channel();
    engine.database.when_durable(receipt, move |outcome| drop(sender.send(outcome)));
    match receiver.await {
        Ok(outcome) => outcome.map_err(SqlError::from),
        Err(_) => Err(SqlError::storage("the logs were closed before the commit was durable")),
    }
}

impl Transactions {
    /// What an error rests on that ends the transaction, or has ended it already.
    fn receipt_of_failure(&mut self) -> Option<Receipt> {
        let ended = self.rests_on.take();
        if self.begun().is_some() { self.engine.as_ref().map(saki_mvcc::Runner::receipt) } else { ended }
    }

    /// The transaction has ended without effects: an error may be told of it.
    pub(super) fn ended_in_vain(&mut self) {
        self.rests_on = self.engine.as_ref().map(saki_mvcc::Runner::receipt);
    }
}
