//! Encoded columns: the boundary behind which the encodings are a library's.

mod blob;
mod decode;
mod encode;
mod ordered;
mod select;
mod text;
mod vortex;

use std::sync::Arc;

use arrow_array::BooleanArray;
use arrow_buffer::Buffer;
use saki_base::DataType;
use saki_vector::Column;

pub use self::vortex::VortexCodec;
use crate::ColumnsError;
use crate::test::Test;

/// Turns a column of one segment into bytes and back.
///
/// The bytes begin with a version; what is written today is read by every later version.
pub trait Codec: Send + Sync {
    /// Encodes a column in any native form of `data_type`.
    fn encode(&self, column: &Column, data_type: DataType) -> Result<Vec<u8>, ColumnsError>;

    /// The inverse, in a native form. `bytes` are those that were encoded: their checksum has been compared. Borrows from
    /// `bytes` where the encoding allows.
    fn decode(&self, bytes: &Buffer, data_type: DataType, rows: usize) -> Result<Column, ColumnsError>;

    /// The rows that pass a test, found on the encoded bytes; `None` if the encoding has no better way than decoding.
    fn select(
        &self,
        bytes: &Buffer,
        data_type: DataType,
        rows: usize,
        test: &Test,
    ) -> Result<Option<BooleanArray>, ColumnsError>;
}

/// The codec that segments are written with.
pub fn codec() -> Arc<dyn Codec> {
    Arc::new(VortexCodec::default())
}
