//! Rows as COPY … TO STDOUT sends them, one message each.

use arrow_schema::SchemaRef;
use bytes::{BufMut, BytesMut};
use saki_sql::{CopyFormat, RecordWriter};

use super::binary::SIGNATURE;
use crate::message::backend;
use crate::types::Format;
use crate::types::encode::Column;

/// Writes rows in one format.
pub struct RowWriter {
    /// `None`: the binary one.
    records: Option<RecordWriter>,
    header: bool,
    /// A value before it is escaped.
    value: BytesMut,
    /// What comes before the first row, in one message with it: some clients cut rows at messages.
    before: Vec<u8>,
}

impl RowWriter {
    pub fn new(format: &CopyFormat) -> Self {
        let records = format.records();
        // No flags, no extension.
        let before = if records.is_some() { Vec::new() } else { [&SIGNATURE[..], &0_u64.to_be_bytes()].concat() };
        let header = records.as_ref().is_some_and(saki_sql::RecordFormat::header);
        Self { records: records.map(RecordWriter::new), header, value: BytesMut::new(), before }
    }

    /// The format of each value.
    pub fn values(&self) -> Format {
        if self.records.is_some() { Format::Text } else { Format::Binary }
    }

    /// Appends what comes before the rows.
    pub fn begin(&mut self, schema: &SchemaRef, out: &mut BytesMut) {
        backend::copy_response(out, b'H', self.values(), schema.fields().len());
        if let Some(records) = self.records.as_mut().filter(|_| self.header) {
            let names = schema.fields().iter().map(|field| field.name().as_str());
            // Memory takes all that is written.
            backend::copy_data(out, |out| drop(records.header(names, &mut out.writer())));
        }
    }

    /// Appends a row.
    pub fn row(&mut self, columns: &[Column], row: usize, out: &mut BytesMut) {
        let Self { records, value, before, .. } = self;
        backend::copy_data(out, |out| match records {
            None => {
                out.put_slice(&std::mem::take(before));
                out.put_u16(columns.len() as u16);
                columns.iter().for_each(|column| column.field(row, out));
            }
            Some(records) => {
                for column in columns {
                    value.clear();
                    let field = if column.is_null(row) {
                        None
                    } else {
                        column.value(row, value);
                        Some(&value[..])
                    };
                    let _ = records.field(field, &mut out.writer());
                }
                let _ = records.end_record(&mut out.writer());
            }
        });
    }

    /// Appends what comes after the rows.
    pub fn end(&mut self, out: &mut BytesMut) {
        if self.records.is_none() {
            backend::copy_data(out, |out| {
                out.put_slice(&std::mem::take(&mut self.before));
                out.put_i16(-1);
            });
        }
        backend::copy_done(out);
    }
}
