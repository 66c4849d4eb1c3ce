//! Rows as COPY … TO STDOUT sends them, one message each.

use arrow_schema::SchemaRef;
use bytes::{BufMut, BytesMut};
use saki_sql::{CopyFormat, CopyKind};

use super::binary::SIGNATURE;
use crate::message::backend;
use crate::types::Format;
use crate::types::encode::Column;

/// Writes rows in one format.
pub struct RowWriter {
    format: CopyFormat,
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
        Self { format, value: BytesMut::new(), before }
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
                    if position > 0 {
                        out.put_u8(self.format.delimiter);
                    }
                    self.value.clear();
                    self.value.put_slice(field.name().as_bytes());
                    escape(&self.format, &self.value, out);
                }
                out.put_u8(b'\n');
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
                for (position, column) in columns.iter().enumerate() {
                    if position > 0 {
                        out.put_u8(self.format.delimiter);
                    }
                    if column.is_null(row) {
                        out.put_slice(self.format.null.as_bytes());
                    } else {
                        self.value.clear();
                        column.value(row, &mut self.value);
                        escape(&self.format, &self.value, out);
                    }
                }
                out.put_u8(b'\n');
            }
        });
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

fn escape(format: &CopyFormat, value: &[u8], out: &mut BytesMut) {
    match format.kind {
        CopyKind::Csv => {
            let special = |byte: &u8| {
                *byte == format.delimiter
                    || *byte == format.quote
                    || *byte == format.escape
                    || matches!(byte, b'\n' | b'\r')
            };
            // What looks like NULL, or ends the data, is no such thing in quotes.
            if value != format.null.as_bytes() && value != b"\\." && !value.iter().any(special) {
                out.put_slice(value);
                return;
            }
            out.put_u8(format.quote);
            for byte in value {
                if *byte == format.quote || *byte == format.escape {
                    out.put_u8(format.escape);
                }
                out.put_u8(*byte);
            }
            out.put_u8(format.quote);
        }
        CopyKind::Text | CopyKind::Binary => {
            for byte in value {
                let letter = match byte {
                    8 => b'b',
                    12 => b'f',
                    b'\n' => b'n',
                    b'\r' => b'r',
                    b'\t' => b't',
                    11 => b'v',
                    b'\\' => b'\\',
                    other if *other == format.delimiter => *other,
                    other => {
                        out.put_u8(*other);
                        continue;
                    }
                };
                out.put_slice(&[b'\\', letter]);
            }
        }
    }
}
