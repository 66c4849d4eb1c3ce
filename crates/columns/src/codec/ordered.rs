//! Dictionaries in the order of their values.
//!
//! The library numbers distinct values as its hash tables give them. In order, a range of values is a range of codes,
//! which are compared while they are unpacked; and equal columns have equal bytes.

use vortex_array::arrays::dict::DictArraySlotsExt;
use vortex_array::arrays::{DictArray, PrimitiveArray, VarBinViewArray};
use vortex_array::builders::dict::dict_encode;
use vortex_array::dtype::{NativePType, PType};
use vortex_array::validity::Validity;
use vortex_array::{ArrayId, ArrayRef, Canonical, ExecutionCtx, IntoArray, match_each_native_ptype};
use vortex_btrblocks::{
    ArrayAndStats, CascadingCompressor, CompressorContext, GenerateStatsOptions, Scheme, SchemeExt,
};
use vortex_buffer::Buffer;
use vortex_compressor::scheme::{AncestorExclusion, CompressionEstimate, DescendantExclusion};
use vortex_error::{VortexResult, vortex_bail};

/// Children of a dictionary, as the library's schemes number them.
const VALUES: usize = 0;
const CODES: usize = 1;

/// A dictionary scheme of the library, with its values put in order.
#[derive(Debug)]
pub struct Ordered<S>(pub S);

impl<S: Scheme> Scheme for Ordered<S> {
    /// That of the library: what it excludes below dictionaries stays excluded.
    fn scheme_name(&self) -> &'static str {
        self.0.scheme_name()
    }

    fn matches(&self, canonical: &Canonical) -> bool {
        self.0.matches(canonical)
    }

    fn produced_encodings(&self) -> Vec<ArrayId> {
        self.0.produced_encodings()
    }

    fn stats_options(&self) -> GenerateStatsOptions {
        self.0.stats_options()
    }

    fn num_children(&self) -> usize {
        self.0.num_children()
    }

    fn descendant_exclusions(&self) -> Vec<DescendantExclusion> {
        self.0.descendant_exclusions()
    }

    fn ancestor_exclusions(&self) -> Vec<AncestorExclusion> {
        self.0.ancestor_exclusions()
    }

    fn expected_compression_ratio(
        &self,
        data: &ArrayAndStats,
        compress_ctx: CompressorContext,
        exec_ctx: &mut ExecutionCtx,
    ) -> CompressionEstimate {
        self.0.expected_compression_ratio(data, compress_ctx, exec_ctx)
    }

    fn compress(
        &self,
        compressor: &CascadingCompressor,
        data: &ArrayAndStats,
        compress_ctx: CompressorContext,
        exec_ctx: &mut ExecutionCtx,
    ) -> VortexResult<ArrayRef> {
        let encoded = dict_encode(data.array(), exec_ctx)?;
        let order = order(encoded.values(), exec_ctx)?;
        let codes = renumbered(encoded.codes().clone().execute(exec_ctx)?, &order)?;
        let values = encoded.values().take(PrimitiveArray::new(order, Validity::NonNullable).into_array())?;
        let values = compressor.compress_child(&values, &compress_ctx, self.id(), VALUES, exec_ctx)?;
        let codes = compressor.compress_child(&codes, &compress_ctx, self.id(), CODES, exec_ctx)?;
        Ok(DictArray::try_new(codes, values)?.into_array())
    }
}

/// The positions of values, least value first.
fn order(values: &ArrayRef, context: &mut ExecutionCtx) -> VortexResult<Buffer<u32>> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    if values.dtype().is_primitive() {
        let values = values.clone().execute::<PrimitiveArray>(context)?;
        match_each_native_ptype!(values.ptype(), |T| {
            let values = values.as_slice::<T>();
            order.sort_unstable_by(|a, b| values[*a as usize].total_compare(values[*b as usize]));
        });
    } else {
        let views = values.clone().execute::<VarBinViewArray>(context)?;
        let values: Vec<_> = (0..views.len()).map(|value| views.bytes_at(value)).collect();
        order.sort_unstable_by(|a, b| values[*a as usize].as_slice().cmp(values[*b as usize].as_slice()));
    }
    Ok(Buffer::copy_from(order))
}

/// Codes by the rank of their value.
fn renumbered(codes: PrimitiveArray, order: &[u32]) -> VortexResult<ArrayRef> {
    fn of<T>(codes: &[T], order: &[u32]) -> ArrayRef
    where
        T: NativePType + Into<u32> + TryFrom<u32>,
    {
        // Ranks fit: there are as many as codes.
        let mut ranks = vec![T::default(); order.len()];
        for (rank, value) in (0..).zip(order) {
            ranks[*value as usize] = T::try_from(rank).unwrap_or_default();
        }
        let codes: Buffer<T> = codes.iter().map(|code| ranks[Into::<u32>::into(*code) as usize]).collect();
        PrimitiveArray::new(codes, Validity::NonNullable).into_array()
    }
    Ok(match codes.ptype() {
        PType::U8 => of(codes.as_slice::<u8>(), order),
        PType::U16 => of(codes.as_slice::<u16>(), order),
        PType::U32 => of(codes.as_slice::<u32>(), order),
        other => vortex_bail!("codes of type {other}"),
    })
}
