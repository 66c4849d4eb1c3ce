//! What a plan is about to read, told before it begins, for as long as it goes on.

use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use saki_store::Expected;

use crate::node::{Forecast, Plan, find};

/// Of all nodes of a plan; nothing where no fast device is looked after.
pub fn forecast_of(plan: &Plan) -> Forecast {
    let mut forecast = Forecast::default();
    add(plan, &mut forecast);
    forecast
}

fn add(plan: &Plan, forecast: &mut Forecast) {
    if let Some(node) = find(plan.as_ref()) {
        node.foresee(forecast);
    }
    plan.children().into_iter().for_each(|child| add(child, forecast));
}

/// Keeps what was announced for rows until they have come.
pub fn announced(rows: SendableRecordBatchStream, expected: Option<Expected>) -> SendableRecordBatchStream {
    match expected {
        None => rows,
        Some(expected) => Box::pin(Announced { rows, expected: Some(expected) }),
    }
}

struct Announced {
    rows: SendableRecordBatchStream,
    expected: Option<Expected>,
}

impl Stream for Announced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.rows.poll_next_unpin(context);
        if matches!(next, Poll::Ready(None)) {
            self.expected = None;
        }
        next
    }
}

impl RecordBatchStream for Announced {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
