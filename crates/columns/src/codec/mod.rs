//! Encoded columns: the boundary behind which the encodings are a library's.

mod blob;
mod decode;
mod dictionary;
mod encode;
mod ordered;
mod select;
mod text;
mod vortex;

use arrow_array::BooleanArray;
use arrow_buffer::Buffer;
use saki_base::DataType;
use saki_vector::Column;

pub(crate) use self::decode::no_values;
pub use self::vortex::{VortexCodec, codec};
use crate::ColumnsError;
use crate::test::Test;

/// Turns a column of one segment into bytes and back.
///
/// The bytes begin with a version; what is written today is read by every later version.
pub trait Codec: Send + Sync {
    /// Encodes a column in any native form of `data_type`, `among` certain encodings or in whichever takes least.
    fn encode_among(
        &self,
        column: &Column,
        data_type: DataType,
        among: Option<Encodings>,
    ) -> Result<EncodedColumn, ColumnsError>;

    /// Encodes a column in whichever encodings take least.
    fn encode(&self, column: &Column, data_type: DataType) -> Result<Vec<u8>, ColumnsError> {
        Ok(self.encode_among(column, data_type, None)?.blob)
    }

    /// The inverse, in a native form. `bytes` are those that were encoded: their checksum has been compared. Borrows
    /// from `bytes` where the encoding allows.
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

/// A column of one segment as bytes.
#[derive(Debug)]
pub struct EncodedColumn {
    pub blob: Vec<u8>,
    /// What the blob is made of.
    pub encodings: Encodings,
}

/// A set of encodings. Finding those that suit a column takes most of the time of encoding it, and what suited one
/// segment's suits the next one's, as a rule.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Encodings(u16);
