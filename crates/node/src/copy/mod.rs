//! The formats of COPY over a connection: bytes to batches, and rows to bytes.

mod batch;
mod binary;
mod records;
mod write;

use arrow_array::RecordBatch;
use saki_sql::{CopyFormat, CopyTarget};

use crate::failure::Result;

pub use write::RowWriter;

/// Turns the bytes that a client sends, cut anywhere, into batches.
pub enum RowReader {
    Records(records::RecordRows),
    Binary(binary::BinaryReader),
}

impl RowReader {
    pub fn new(target: &CopyTarget, format: &CopyFormat) -> Self {
        match format.records() {
            Some(format) => Self::Records(records::RecordRows::new(target, format)),
            None => Self::Binary(binary::BinaryReader::new(target)),
        }
    }

    /// Reads on; the batch, if enough has gathered.
    ///
    /// # Errors
    /// 22P04 for bytes that are not in the format.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<RecordBatch>> {
        match self {
            Self::Records(reader) => reader.push(bytes),
            Self::Binary(reader) => reader.push(bytes),
        }
    }

    /// Bytes of a row whose end has not come.
    pub fn pending_bytes(&self) -> usize {
        match self {
            Self::Records(reader) => reader.pending_bytes(),
            Self::Binary(reader) => reader.pending_bytes(),
        }
    }

    /// There is no more; what is left.
    ///
    /// # Errors
    /// 22P04 if the last row is not complete.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Records(reader) => reader.finish(),
            Self::Binary(reader) => reader.finish(),
        }
    }
}
