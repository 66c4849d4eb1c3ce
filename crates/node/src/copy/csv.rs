//! The CSV format of COPY: records of a connection's bytes as rows.

use arrow_array::RecordBatch;
use saki_sql::{CopyFormat, CopyTarget, CsvError, CsvFault, CsvReader};

use super::batch::bad;
use super::text::{TextRows, not_utf8};
use crate::failure::{Failure, Result};

/// Reads records from bytes that may be cut anywhere.
pub struct CsvRows {
    rows: TextRows,
    reader: CsvReader,
    table: String,
}

impl CsvRows {
    pub fn new(target: &CopyTarget, format: &CopyFormat) -> Self {
        let reader = CsvReader::new(format.csv()).with_end_mark();
        Self { rows: TextRows::new(target), reader, table: target.table.clone() }
    }

    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Option<RecordBatch>> {
        while self.reader.read(&mut bytes).map_err(|error| self.failure(error))? {
            self.row()?;
        }
        if self.rows.is_enough() { self.rows.take() } else { Ok(None) }
    }

    pub fn pending_bytes(&self) -> usize {
        self.reader.pending_bytes()
    }

    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.reader.finish().map_err(|error| self.failure(error))? {
            self.row()?;
        }
        self.rows.take()
    }

    fn row(&mut self) -> Result<()> {
        self.rows.line = self.reader.record_line();
        for index in 0..self.reader.fields() {
            let value = self.reader.field(index).map_err(|error| self.failure(error))?;
            self.rows.field(value.map(str::as_bytes))?;
        }
        self.rows.row()
    }

    fn failure(&self, error: CsvError) -> Failure {
        match error.fault {
            CsvFault::UnterminatedQuote | CsvFault::TooLong => bad(format!("COPY {}, {error}", self.table)),
            CsvFault::NotUtf8 { .. } => not_utf8(&self.table, error.line),
        }
    }
}
