//! The codec of segments: the arrays of the vortex library, compressed as BtrBlocks does.
//!
//! The compressor tries the encodings that suit a column on a sample and keeps the smallest, in cascades: a dictionary
//! whose codes are bit-packed, say. Only encodings that the library has frozen are written ([`ENCODINGS`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};
use saki_base::DataType;
use saki_vector::Column;
use vortex_array::arrays::dict::DictArraySlotsExt;
use vortex_array::arrays::{Dict, DictArray};
use vortex_array::serde::{SerializeOptions, SerializedArray};
use vortex_array::{ArrayContext, ArrayRef, IntoArray, VortexSessionExecute, array_session};
use vortex_btrblocks::schemes::{binary, float, integer, string};
use vortex_btrblocks::{CascadingCompressor, Scheme};
use vortex_buffer::{Alignment, ByteBuffer};
use vortex_error::{VortexError, VortexResult, vortex_bail};
use vortex_session::VortexSession;
use vortex_session::registry::{Id, ReadContext};

use super::blob::{self, Blob};
use super::ordered::Ordered;
use super::{Codec, EncodedColumn, Encodings, decode, encode, select};
use crate::ColumnsError;
use crate::test::Test;

/// Encodings that blobs may have. A node of a blob names its encoding by the position in this list: append only.
const ENCODINGS: [&str; 16] = [
    "vortex.primitive",
    "vortex.bool",
    "vortex.varbinview",
    "vortex.varbin",
    "vortex.constant",
    "vortex.struct",
    "vortex.dict",
    "vortex.runend",
    "vortex.sequence",
    "vortex.sparse",
    "vortex.zigzag",
    "fastlanes.bitpacked",
    "fastlanes.for",
    "vortex.alp",
    "vortex.alprd",
    "vortex.fsst",
];

/// What the compressor tries. Of equals, the first is taken; frame of reference before bit-packing spares patches.
const SCHEMES: [&dyn Scheme; 15] = [
    &integer::FoRScheme::v1(),
    &integer::ZigZagScheme,
    &integer::BitPackingScheme::v1(),
    &integer::SparseScheme,
    &Ordered(integer::IntDictScheme),
    &integer::RunEndScheme,
    &integer::SequenceScheme,
    &float::ALPScheme,
    &float::ALPRDScheme,
    &Ordered(float::FloatDictScheme),
    &float::NullDominatedSparseScheme,
    &Ordered(string::StringDictScheme),
    &string::FSSTScheme,
    &Ordered(binary::BinaryDictScheme),
    &binary::VarBinScheme,
];

/// Those of [`SCHEMES`] that the compressor tries on the codes of a dictionary.
const CODE_SCHEMES: [&dyn Scheme; 3] =
    [&integer::BitPackingScheme::v1(), &integer::SparseScheme, &integer::RunEndScheme];

/// [`Codec`] on the vortex library's arrays.
pub struct VortexCodec {
    session: VortexSession,
    /// [`ENCODINGS`], for writing: no other can be.
    writable: ArrayContext,
    /// [`ENCODINGS`], for reading.
    readable: ReadContext,
}

impl Default for VortexCodec {
    fn default() -> Self {
        let session = array_session();
        vortex_alp::initialize(&session);
        vortex_fastlanes::initialize(&session);
        vortex_fsst::initialize(&session);
        vortex_runend::initialize(&session);
        vortex_sequence::initialize(&session);
        vortex_sparse::initialize(&session);
        vortex_zigzag::initialize(&session);
        let encodings: Vec<Id> = ENCODINGS.into_iter().map(Id::new_static).collect();
        Self {
            session,
            writable: ArrayContext::new(encodings.clone()).with_allowed_ids(encodings.iter().copied().collect()),
            readable: ReadContext::new(encodings),
        }
    }
}

impl VortexCodec {
    /// The encodings of a blob, outermost first: `vortex.dict(fastlanes.bitpacked, vortex.varbinview)`.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    pub fn describe(bytes: &Buffer, rows: usize) -> Result<String, ColumnsError> {
        fn describe(node: &SerializedArray) -> String {
            let name = ENCODINGS.get(usize::from(node.encoding_id())).unwrap_or(&"?");
            let children: Vec<String> = (0..node.nchildren()).map(|child| describe(&node.child(child))).collect();
            if children.is_empty() { (*name).to_owned() } else { format!("{name}({})", children.join(", ")) }
        }
        let Some(values) = Blob::parse(bytes, rows)?.values else { return Ok(String::new()) };
        walled(|| Ok(describe(&serialized(values)?)))
    }

    /// Appends the compressed values to a blob. Gives what they were compressed with.
    fn write(&self, values: &ArrayRef, among: Option<Encodings>, blob: &mut Vec<u8>) -> VortexResult<Encodings> {
        let context = &mut self.session.create_execution_ctx();
        let compressor = compressor(&SCHEMES, among);
        let compressed = match values.as_opt::<Dict>() {
            None => compressor.compress(values, context)?,
            Some(dictionary) => {
                let codes = self::compressor(&CODE_SCHEMES, among).compress(dictionary.codes(), context)?;
                let distinct = compressor.compress(dictionary.values(), context)?;
                DictArray::try_new(codes, distinct)?.into_array()
            }
        };
        // Padding counts from the blob's start, which readers align.
        let start = blob.len();
        let options = SerializeOptions { offset: start, include_padding: true };
        for part in compressed.serialize(&self.writable, &self.session, &options)? {
            blob.extend_from_slice(&part);
        }
        match among {
            Some(among) => Ok(among),
            None => Ok(encodings_of(&serialized(Buffer::from(&blob[start..]))?)),
        }
    }

    /// The array that was written, still encoded.
    fn read(&self, values: Buffer, shape: blob::Shape, data_type: DataType, rows: usize) -> VortexResult<ArrayRef> {
        let dtype = decode::dtype(data_type, shape)?;
        let array = serialized(values)?.decode(&dtype, rows, &self.readable, &self.session)?;
        if !is_bounded(&array, rows) {
            vortex_bail!("more values than rows");
        }
        Ok(array)
    }
}

/// Tries those of some schemes that write one of some encodings.
fn compressor(schemes: &[&'static dyn Scheme], among: Option<Encodings>) -> CascadingCompressor {
    let wanted = |scheme: &&&'static dyn Scheme| {
        let writes = |among: Encodings| {
            scheme.produced_encodings().iter().any(|encoding| among.0 & bit_of(encoding.as_ref()) != 0)
        };
        among.is_none_or(writes)
    };
    CascadingCompressor::new(schemes.iter().filter(wanted).copied().collect())
}

/// The encodings of a tree: as written, which some arrays in memory are not named after.
fn encodings_of(node: &SerializedArray) -> Encodings {
    let own = 1_u16.checked_shl(node.encoding_id().into()).unwrap_or_default();
    Encodings((0..node.nchildren()).fold(own, |all, child| all | encodings_of(&node.child(child)).0))
}

fn bit_of(encoding: &str) -> u16 {
    ENCODINGS.iter().position(|known| *known == encoding).map_or(0, |position| 1 << position)
}

/// Whether no array in the tree is longer than the column, but by the one offset that strings have more. Lengths of
/// inner arrays come from the bytes: a damaged one must not become an allocation.
fn is_bounded(array: &ArrayRef, rows: usize) -> bool {
    array.len() <= rows + 1 && array.children().iter().all(|child| is_bounded(child, rows))
}

fn serialized(values: Buffer) -> VortexResult<SerializedArray> {
    SerializedArray::try_from(ByteBuffer::from_arrow_buffer(values, Alignment::none()))
}

impl Codec for VortexCodec {
    fn encode_among(
        &self,
        column: &Column,
        data_type: DataType,
        among: Option<Encodings>,
    ) -> Result<EncodedColumn, ColumnsError> {
        let rows = column.len();
        let nulls = column.array().logical_nulls();
        let (shape, values) = encode::values(column, data_type)?;
        let mut blob = blob::head(shape, nulls.as_ref(), rows)?;
        if nulls.is_some_and(|nulls| nulls.null_count() == rows) || rows == 0 {
            return Ok(EncodedColumn { blob, encodings: Encodings::default() });
        }
        let encodings = self
            .write(&values, among, &mut blob)
            .map_err(|error| ColumnsError::Internal(format!("cannot encode a column of {data_type}: {error}")))?;
        Ok(EncodedColumn { blob, encodings })
    }

    fn decode(&self, bytes: &Buffer, data_type: DataType, rows: usize) -> Result<Column, ColumnsError> {
        let Blob { shape, nulls, values } = Blob::parse(bytes, rows)?;
        let Some(values) = values else { return Ok(decode::no_values(data_type, rows)) };
        walled(|| {
            let values = self.read(values, shape, data_type, rows)?;
            decode::column(values, data_type, nulls, &mut self.session.create_execution_ctx())
        })
    }

    fn select(
        &self,
        bytes: &Buffer,
        data_type: DataType,
        rows: usize,
        test: &Test,
    ) -> Result<Option<BooleanArray>, ColumnsError> {
        let Blob { shape, nulls, values } = Blob::parse(bytes, rows)?;
        if let Test::IsNull | Test::IsNotNull = test {
            return Ok(Some(select::of_null(nulls.as_ref(), rows, *test == Test::IsNull)));
        }
        let Some(values) = values else { return Ok(Some(BooleanArray::new(BooleanBuffer::new_unset(rows), None))) };
        let selected = walled(|| {
            let values = self.read(values, shape, data_type, rows)?;
            select::select(&values, data_type, test, &mut self.session.create_execution_ctx())
        })?;
        let valid = |bits: BooleanBuffer| nulls.as_ref().map_or(bits.clone(), |nulls| &bits & nulls.inner());
        Ok(selected.map(|bits| BooleanArray::new(valid(bits), None)))
    }
}

/// Runs what reads encoded bytes.
///
/// The library returns errors for most damage, but asserts on some. Bytes come here after their checksum was compared,
/// so this wall stands for damage that was there when the checksum was made, and for mistakes; a scan then fails, and
/// not its process.
fn walled<T>(read: impl FnOnce() -> VortexResult<T>) -> Result<T, ColumnsError> {
    let damaged = |what: String| ColumnsError::Corrupt(format!("encoded column: {what}"));
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error: VortexError| damaged(error.to_string())),
        Err(_) => Err(damaged("the decoder gave up".to_owned())),
    }
}

/// The codec that segments are written with.
pub fn codec() -> Arc<dyn Codec> {
    Arc::new(VortexCodec::default())
}
