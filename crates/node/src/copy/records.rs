//! The formats of texts: records of a connection's bytes as rows.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use saki_sql::{CopyTarget, CsvError, CsvFault, RecordFormat, RecordReader};

use super::batch::{BATCH_BYTES, BATCH_ROWS, bad};
use crate::failure::{Failure, Result};

/// Reads records from bytes that may be cut anywhere.
pub struct RecordRows {
    rows: TextRows,
    reader: RecordReader,
    table: String,
}

impl RecordRows {
    pub fn new(target: &CopyTarget, format: RecordFormat) -> Self {
        let reader = RecordReader::new(format).with_end_mark();
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
            self.rows.field(value)?;
        }
        self.rows.row()
    }

    fn failure(&self, error: CsvError) -> Failure {
        match error.fault {
            CsvFault::UnterminatedQuote | CsvFault::TooLong => bad(format!("COPY {}, {error}", self.table)),
            CsvFault::LineTooLong => Failure::new("54000", format!("COPY {}, {error}", self.table)),
            CsvFault::NotUtf8 { .. } => not_utf8(&self.table, error.line),
        }
    }
}

/// Gathers fields as text into batches; the table's types are given to them where they are stored.
struct TextRows {
    table: String,
    names: Vec<String>,
    builders: Vec<StringBuilder>,
    field: usize,
    rows: usize,
    bytes: usize,
    /// From 1, of the row that is being read.
    line: u64,
}

impl TextRows {
    fn new(target: &CopyTarget) -> Self {
        Self {
            table: target.table.clone(),
            names: target.columns.iter().map(|column| column.name.clone()).collect(),
            builders: target.columns.iter().map(|_| StringBuilder::new()).collect(),
            field: 0,
            rows: 0,
            bytes: 0,
            line: 1,
        }
    }

    /// Ends a field; `None` is NULL.
    fn field(&mut self, value: Option<&str>) -> Result<()> {
        let place = || format!("COPY {}, line {}", self.table, self.line);
        let Some(builder) = self.builders.get_mut(self.field) else {
            return Err(bad(format!("{}: extra data after last expected column", place())));
        };
        match value {
            None => builder.append_null(),
            Some(value) => builder.append_value(value),
        }
        self.bytes += value.map_or(0, str::len);
        self.field += 1;
        Ok(())
    }

    /// Ends a row.
    fn row(&mut self) -> Result<()> {
        if let Some(missing) = self.names.get(self.field) {
            return Err(bad(format!("COPY {}, line {}: missing data for column {missing:?}", self.table, self.line)));
        }
        self.field = 0;
        self.rows += 1;
        self.line += 1;
        Ok(())
    }

    fn is_enough(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The rows so far; `None` if there are none. To be called between two rows.
    fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        (self.rows, self.bytes) = (0, 0);
        let fields: Vec<Field> = self.names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let arrays = self.builders.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        batch.map(Some).map_err(|error| bad(error.to_string()))
    }
}

/// A value that is no text.
fn not_utf8(table: &str, line: u64) -> Failure {
    Failure::new("22021", format!("COPY {table}, line {line}: invalid byte sequence for encoding UTF8"))
}
