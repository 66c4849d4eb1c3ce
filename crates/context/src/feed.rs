//! A query's rows going to a thread that writes them.

use arrow_array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::StatementContext;
use crate::database::Stoppable;
use saki_catalog::{Result, SqlError};

/// Batches that wait between a query and the thread that writes its rows.
const QUEUE: usize = 4;

/// What passes from a query to the thread that writes.
enum Passed {
    Batch(Result<RecordBatch>),
    /// The query has ended. Without this, it was cancelled and nothing may be published.
    End,
}

/// Runs a query here while `work`, on a thread that may wait, takes its batches and publishes what it makes of them.
pub async fn feed<T: Send + 'static>(
    cx: &StatementContext<'_>,
    mut stream: SendableRecordBatchStream,
    work: impl FnOnce(&Stoppable<'_>, &mut dyn Iterator<Item = Result<RecordBatch>>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, mut receiver) = mpsc::channel(QUEUE);
    let _publishing = cx.sequences.publishing();
    let written = cx.change_catalog(move |db| {
        let mut ended = false;
        let mut batches = std::iter::from_fn(|| match receiver.blocking_recv() {
            _ if ended => None,
            Some(Passed::Batch(batch)) => Some(batch),
            Some(Passed::End) => {
                ended = true;
                None
            }
            None => {
                ended = true;
                Some(Err(SqlError::invalid("the statement was cancelled; nothing was changed").code("57014")))
            }
        });
        work(db, &mut batches)
    });
    let fed = async move {
        while let Some(batch) = stream.next().await {
            let failed = batch.is_err();
            // A writer that has gone says why itself.
            if sender.send(Passed::Batch(batch.map_err(SqlError::from))).await.is_err() || failed {
                return;
            }
        }
        let _ = sender.send(Passed::End).await;
    };
    let ((), written) = tokio::join!(fed, written);
    written
}
