//! Statements about single rows, carried out on the connection's own thread: they take less time than passing them on
//! would.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use saki_sql::{FastAnswer, FastPlan, RowSink, ScalarValue, ValueRef};

use super::Connection;
use super::execute::until_stopped;
use super::work::Outcome;
use crate::failure::{Failure, Result};
use crate::message::{backend, formats};
use crate::types::encode::Style;
use crate::types::{Format, encode, single};

/// Rows of an answer as messages.
struct Rows<'r> {
    out: &'r mut BytesMut,
    /// Where they begin.
    begun: usize,
    formats: Vec<Format>,
    style: Style,
    plan: &'r FastPlan,
}

impl RowSink for Rows<'_> {
    fn clear(&mut self) {
        self.out.truncate(self.begun);
    }

    fn row(&mut self, values: &[ValueRef<'_>]) {
        let columns = values.iter().zip(&self.plan.output).zip(&self.formats);
        backend::message(self.out, b'D', |out| {
            out.put_u16(values.len() as u16);
            columns.for_each(|((value, (_, data_type)), format)| {
                single::single(*value, *data_type, *format, &self.style, out)
            });
        });
    }
}

impl Connection {
    /// Runs a compiled statement; `None` if it has to go the ordinary way.
    ///
    /// # Errors
    /// The statement's, or what stopped it.
    pub async fn execute_fast(
        &mut self,
        plan: &FastPlan,
        values: &[ScalarValue],
        given: &[Format],
        sql: &str,
    ) -> Result<Option<Outcome>> {
        let session = Arc::clone(&self.session);
        let begun = self.writer.buffer.len();
        let formats = formats::of_columns(given, plan.output.len())?;
        let (timeout, style) =
            session.parameters().ask_state(|state| (state.effective.statement_timeout, encode::style_of(state)));
        let mut rows = Rows { out: &mut self.writer.buffer, begun, formats, style, plan };
        let work = session.execute_fast(plan, values, &mut rows);
        let answer = until_stopped(&self.place, timeout, &mut self.reader, &mut self.stage, work).await;
        let answer = answer.and_then(|answer| answer.map_err(|error| Failure::of_statement(error, sql)));
        match answer {
            Ok(FastAnswer::Done(rows)) if plan.is_change() => {
                Ok(Some(Outcome::Done { tag: plan.verb().to_owned(), rows }))
            }
            Ok(FastAnswer::Done(rows)) => Ok(Some(Outcome::Rows { rows, rest: None })),
            Ok(FastAnswer::Ordinary) => {
                self.writer.buffer.truncate(begun);
                Ok(None)
            }
            Err(failure) => {
                self.writer.buffer.truncate(begun);
                Err(failure)
            }
        }
    }
}
