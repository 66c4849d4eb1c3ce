//! The text format: lines of fields with backslash escapes. Source: PostgreSQL's documentation of COPY, "Text Format".

use std::iter::Peekable;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use saki_sql::{CopyFormat, CopyTarget};

use super::batch::{BATCH_BYTES, BATCH_ROWS, bad};
use crate::failure::{Failure, Result};

/// Gathers fields as text into batches; the table's types are given to them where they are stored.
pub struct TextRows {
    table: String,
    names: Vec<String>,
    builders: Vec<StringBuilder>,
    field: usize,
    rows: usize,
    bytes: usize,
    /// From 1, of the row that is being read.
    pub line: u64,
}

impl TextRows {
    pub fn new(target: &CopyTarget) -> Self {
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
    pub fn field(&mut self, value: Option<&[u8]>) -> Result<()> {
        let place = || format!("COPY {}, line {}", self.table, self.line);
        let Some(builder) = self.builders.get_mut(self.field) else {
            return Err(bad(format!("{}: extra data after last expected column", place())));
        };
        match value {
            None => builder.append_null(),
            Some(value) => match std::str::from_utf8(value) {
                Ok(text) => builder.append_value(text),
                Err(_) => return Err(not_utf8(&self.table, self.line)),
            },
        }
        self.bytes += value.map_or(0, <[u8]>::len);
        self.field += 1;
        Ok(())
    }

    /// Ends a row.
    pub fn row(&mut self) -> Result<()> {
        if let Some(missing) = self.names.get(self.field) {
            return Err(bad(format!("COPY {}, line {}: missing data for column {missing:?}", self.table, self.line)));
        }
        self.field = 0;
        self.rows += 1;
        self.line += 1;
        Ok(())
    }

    pub fn is_enough(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The rows so far; `None` if there are none. To be called between two rows.
    pub fn take(&mut self) -> Result<Option<RecordBatch>> {
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
pub fn not_utf8(table: &str, line: u64) -> Failure {
    Failure::new("22021", format!("COPY {table}, line {line}: invalid byte sequence for encoding UTF8"))
}

/// Reads lines.
pub struct TextReader {
    rows: TextRows,
    delimiter: u8,
    null: Vec<u8>,
    header: bool,
    /// The beginning of a line whose end has not come.
    pending: Vec<u8>,
    ended: bool,
    value: Vec<u8>,
}

impl TextReader {
    pub fn new(target: &CopyTarget, format: &CopyFormat) -> Self {
        Self {
            rows: TextRows::new(target),
            delimiter: format.delimiter,
            null: format.null.as_bytes().to_vec(),
            header: format.header,
            pending: Vec::new(),
            ended: false,
            value: Vec::new(),
        }
    }

    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Option<RecordBatch>> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            // A line end after an odd number of backslashes is part of a value.
            let mut whole = std::mem::take(&mut self.pending);
            whole.extend_from_slice(line);
            if whole.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1 {
                whole.push(b'\n');
                self.pending = whole;
                continue;
            }
            self.line(&whole)?;
            whole.clear();
            self.pending = whole;
        }
        self.pending.extend_from_slice(bytes);
        if self.rows.is_enough() { self.rows.take() } else { Ok(None) }
    }

    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let last = std::mem::take(&mut self.pending);
        if !last.is_empty() {
            self.line(&last)?;
        }
        self.rows.take()
    }

    fn line(&mut self, line: &[u8]) -> Result<()> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.ended {
            return Ok(());
        }
        if std::mem::take(&mut self.header) {
            self.rows.line += 1;
            return Ok(());
        }
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        let mut rest = line;
        loop {
            let end = field_end(rest, self.delimiter);
            let (field, after) = rest.split_at(end.unwrap_or(rest.len()));
            if field == self.null {
                self.rows.field(None)?;
            } else {
                self.value.clear();
                unescape(field, &mut self.value);
                self.rows.field(Some(&self.value))?;
            }
            if end.is_none() {
                return self.rows.row();
            }
            rest = after.get(1..).unwrap_or_default();
        }
    }
}

/// Where the first delimiter that no backslash is before stands.
fn field_end(line: &[u8], delimiter: u8) -> Option<usize> {
    let mut escaped = false;
    line.iter().position(|byte| {
        let ends = !escaped && *byte == delimiter;
        escaped = !escaped && *byte == b'\\';
        ends
    })
}

/// The number that up to `count` digits spell; `None` if there is none.
fn number(bytes: &mut Peekable<impl Iterator<Item = u8>>, radix: u32, count: usize) -> Option<u32> {
    let mut number = None;
    for _ in 0..count {
        let Some(digit) = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
        bytes.next();
        number = Some(number.unwrap_or(0) * radix + digit);
    }
    number
}

/// Appends what a field with backslashes means.
fn unescape(field: &[u8], out: &mut Vec<u8>) {
    let mut bytes = field.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.peek().copied() {
            None => out.push(b'\\'),
            Some(b'0'..=b'7') => out.extend(number(&mut bytes, 8, 3).map(|number| number as u8)),
            Some(letter) => {
                bytes.next();
                match letter {
                    b'b' => out.push(8),
                    b'f' => out.push(12),
                    b'n' => out.push(b'\n'),
                    b'r' => out.push(b'\r'),
                    b't' => out.push(b'\t'),
                    b'v' => out.push(11),
                    b'x' => out.push(number(&mut bytes, 16, 2).map_or(b'x', |number| number as u8)),
                    other => out.push(other),
                }
            }
        }
    }
}
