//! The binary format. Source: PostgreSQL's documentation of COPY, "Binary Format".

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use saki_sql::{CopyTarget, ScalarValue, SessionTime};

use super::batch::{BATCH_BYTES, BATCH_ROWS, bad};
use crate::failure::Result;
use crate::types::{Format, decode, numeric};

/// What a file begins with; flags and the length of an extension follow.
pub const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
const HEADER_BYTES: usize = SIGNATURE.len() + 8;

/// Reads tuples of fields with their lengths.
pub struct BinaryReader {
    schema: Arc<Schema>,
    types: Vec<DataType>,
    pending: Vec<u8>,
    /// Values by column.
    values: Vec<Vec<ScalarValue>>,
    bytes: usize,
    begun: bool,
    ended: bool,
}

impl BinaryReader {
    pub fn new(target: &CopyTarget) -> Self {
        // Decimals keep the scale that each was sent with until the table's is given to all.
        let field = |field: &Arc<Field>| match field.data_type() {
            decimal if decimal.is_decimal() => Field::new(field.name(), DataType::Utf8, true),
            other => Field::new(field.name(), other.clone(), true),
        };
        let fields: Vec<Field> = target.schema.fields().iter().map(field).collect();
        let types = target.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let values = vec![Vec::new(); fields.len()];
        let schema = Arc::new(Schema::new(fields));
        Self { schema, types, pending: Vec::new(), values, bytes: 0, begun: false, ended: false }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<RecordBatch>> {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..];
        while !self.ended {
            match if self.begun { self.tuple(rest)? } else { self.header(rest)? } {
                Some(used) => rest = rest.get(used..).unwrap_or_default(),
                None => break,
            }
        }
        if !self.ended {
            self.pending = rest.to_vec();
        }
        let rows = self.values.first().map_or(0, Vec::len);
        if rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES { self.take() } else { Ok(None) }
    }

    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let complete = self.ended || (self.begun && self.pending.is_empty());
        if !complete {
            return Err(bad("unexpected end of COPY data"));
        }
        self.take()
    }

    /// How many bytes the header takes; `None` if it is not complete.
    fn header(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        let Some(header) = bytes.get(..HEADER_BYTES) else { return Ok(None) };
        if !header.starts_with(SIGNATURE) {
            return Err(bad("COPY file signature not recognized"));
        }
        let word = |at: usize| header.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        let (flags, extension) = (word(11).unwrap_or(0), word(15).unwrap_or(0) as usize);
        if flags != 0 || extension > BATCH_BYTES {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        if bytes.len() < HEADER_BYTES + extension {
            return Ok(None);
        }
        self.begun = true;
        Ok(Some(HEADER_BYTES + extension))
    }

    /// How many bytes a tuple takes; `None` if it is not complete.
    fn tuple(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        let count = i16::from_be_bytes(*count);
        if count == -1 {
            self.ended = true;
            return Ok(Some(2));
        }
        if usize::try_from(count) != Ok(self.types.len()) {
            return Err(bad(format!("row field count is {count}, expected {}", self.types.len())));
        }
        let mut fields = Vec::with_capacity(self.types.len());
        for _ in &self.types {
            let Some((length, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            let length = i32::from_be_bytes(*length);
            if length == -1 {
                rest = after;
                fields.push(None);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| bad(format!("invalid field size {length}")))?;
            let Some((field, after)) = after.split_at_checked(length) else { return Ok(None) };
            rest = after;
            fields.push(Some(field));
        }
        // Bytes of times say the same to everybody.
        let time = SessionTime::default();
        for ((values, data_type), field) in self.values.iter_mut().zip(&self.types).zip(fields) {
            values.push(match field {
                Some(field) if data_type.is_decimal() => {
                    let text = numeric::decode(field).ok_or_else(|| bad("a field is no numeric"))?;
                    ScalarValue::Utf8(Some(text))
                }
                None if data_type.is_decimal() => ScalarValue::Utf8(None),
                field => decode::value(data_type, Format::Binary, field, &time)?,
            });
            self.bytes += field.map_or(0, <[u8]>::len);
        }
        Ok(Some(bytes.len() - rest.len()))
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.values.first().is_none_or(Vec::is_empty) {
            return Ok(None);
        }
        self.bytes = 0;
        let invalid = |error: &dyn std::fmt::Display| bad(error.to_string());
        let arrays = self
            .values
            .iter_mut()
            .map(|values| ScalarValue::iter_to_array(std::mem::take(values)).map_err(|error| invalid(&error)))
            .collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map(Some).map_err(|error| invalid(&error))
    }
}
