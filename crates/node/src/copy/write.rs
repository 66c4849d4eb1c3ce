//! Rows as COPY … TO STDOUT sends them, one message each.

use arrow_schema::SchemaRef;
use bytes::{BufMut, BytesMut};
use saki_sql::{CopyFormat, CopyKind, CsvWriter};

use super::binary::SIGNATURE;
use crate::message::backend;
use crate::types::Format;
use crate::types::encode::Column;

/// Writes rows in one format.
pub struct RowWriter {
    format: CopyFormat,
    csv: CsvWriter,
    /// A value before it is escaped.
    value: BytesMut,
    /// What comes before the first row, in one message with it: some clients cut rows at messages.
    before: Vec<u8>,
}

impl RowWriter {
    pub fn new(format: CopyFormat) -> Self {
        let before = match format.kind {
            // No flags, no extension.
            CopyKind::Binary => [&SIGNATURE[..], &0_u64.to_be_bytes()].concat(),
            CopyKind::Text | CopyKind::Csv => Vec::new(),
        };
        Self { csv: CsvWriter::new(format.csv()), format, value: BytesMut::new(), before }
    }

    /// The format of each value.
    pub fn values(&self) -> Format {
        match self.format.kind {
            CopyKind::Binary => Format::Binary,
            CopyKind::Text | CopyKind::Csv => Format::Text,
        }
    }

    /// Appends what comes before the rows.
    pub fn begin(&mut self, schema: &SchemaRef, out: &mut BytesMut) {
        backend::copy_response(out, b'H', self.values(), schema.fields().len());
        if self.format.kind != CopyKind::Binary && self.format.header {
            backend::copy_data(out, |out| {
                for (position, field) in schema.fields().iter().enumerate() {
                    self.field(position, Some(field.name().as_bytes()), out);
                }
                self.end_row(out);
            });
        }
    }

    /// Appends a row.
    pub fn row(&mut self, columns: &[Column], row: usize, out: &mut BytesMut) {
        backend::copy_data(out, |out| match self.format.kind {
            CopyKind::Binary => {
                out.put_slice(&std::mem::take(&mut self.before));
                out.put_u16(columns.len() as u16);
                columns.iter().for_each(|column| column.field(row, out));
            }
            CopyKind::Text | CopyKind::Csv => {
                let mut value = std::mem::take(&mut self.value);
                for (position, column) in columns.iter().enumerate() {
                    value.clear();
                    if column.is_null(row) {
                        self.field(position, None, out);
                    } else {
                        column.value(row, &mut value);
                        self.field(position, Some(&value), out);
                    }
                }
                self.value = value;
                self.end_row(out);
            }
        });
    }

    /// Appends a value as text; `None` is NULL.
    fn field(&mut self, position: usize, value: Option<&[u8]>, out: &mut BytesMut) {
        if self.format.kind == CopyKind::Csv {
            // Memory takes all that is written.
            let _ = self.csv.field(value, &mut out.writer());
            return;
        }
        if position > 0 {
            out.put_u8(self.format.delimiter);
        }
        match value {
            None => out.put_slice(self.format.null.as_bytes()),
            Some(value) => escape(value, self.format.delimiter, out),
        }
    }

    fn end_row(&mut self, out: &mut BytesMut) {
        match self.format.kind {
            CopyKind::Csv => {
                let _ = self.csv.end_record(&mut out.writer());
            }
            CopyKind::Text | CopyKind::Binary => out.put_u8(b'\n'),
        }
    }

    /// Appends what comes after the rows.
    pub fn end(&mut self, out: &mut BytesMut) {
        if self.format.kind == CopyKind::Binary {
            backend::copy_data(out, |out| {
                out.put_slice(&std::mem::take(&mut self.before));
                out.put_i16(-1);
            });
        }
        backend::copy_done(out);
    }
}

/// Appends a value of the text format.
fn escape(value: &[u8], delimiter: u8, out: &mut BytesMut) {
    for byte in value {
        let letter = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            other if *other == delimiter => *other,
            other => {
                out.put_u8(*other);
                continue;
            }
        };
        out.put_slice(&[b'\\', letter]);
    }
}
