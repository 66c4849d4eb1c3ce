//! Text from arrays of the library: dictionaries where the encoding has one, else views.
//!
//! Decoders copy bytes without looking at them. That they are UTF-8 is checked here: by a pass over whole buffers if
//! everything is ASCII, view by view if not.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, StringViewType};
use arrow_array::{ArrayRef, BinaryViewArray, BooleanArray, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType as ArrowType, Field};
use vortex_array::arrays::dict::DictArraySlotsExt;
use vortex_array::arrays::varbinview::VarBinViewData;
use vortex_array::arrays::{Constant, Dict, DictArray, PrimitiveArray, VarBinViewArray};
use vortex_array::dtype::PType;
use vortex_array::validity::Validity;
use vortex_array::{ExecutionCtx, IntoArray};
use vortex_arrow::ArrowSessionExt;
use vortex_arrow::byte_view::canonical_varbinview_to_arrow;
use vortex_buffer::Buffer;
use vortex_error::{VortexResult, vortex_bail, vortex_err};

type VortexArray = vortex_array::ArrayRef;

/// A column of text.
pub fn text(values: VortexArray, nulls: Option<NullBuffer>, context: &mut ExecutionCtx) -> VortexResult<ArrayRef> {
    if values.is::<Constant>() {
        let codes = Buffer::<u16>::zeroed(values.len());
        return dictionary(codes, text_views(values.slice(0..1)?, context)?, nulls, context);
    }
    let Some(encoded) = values.as_opt::<Dict>() else {
        let views = text_views(values, context)?;
        return with_nulls(canonical_varbinview_to_arrow::<StringViewType>(&views, context)?, nulls);
    };
    let distinct = text_views(encoded.values().clone(), context)?;
    let codes = encoded.codes().clone().execute::<PrimitiveArray>(context)?;
    match codes.ptype() {
        PType::U8 => {
            let codes = checked(codes.into_buffer::<u8>(), distinct.len())?;
            dictionary(codes.iter().map(|code| u16::from(*code)).collect(), distinct, nulls, context)
        }
        PType::U16 => dictionary(checked(codes.into_buffer::<u16>(), distinct.len())?, distinct, nulls, context),
        PType::U32 => {
            let codes = checked(codes.into_buffer::<u32>(), distinct.len())?;
            let codes = UInt32Array::new(codes.into_arrow_scalar_buffer(), nulls);
            let distinct = canonical_varbinview_to_arrow::<StringViewType>(&distinct, context)?;
            arrow_select::take::take(&distinct, &codes, None).map_err(|error| vortex_err!("{error}"))
        }
        other => vortex_bail!("codes of type {other}"),
    }
}

/// Codes, if a dictionary of `count` values has them all.
fn checked<T: Copy + Ord + Into<u32>>(codes: Buffer<T>, count: usize) -> VortexResult<Buffer<T>> {
    // The largest is found in vectors; a search for the first that is wrong would take longer than unpacking does.
    let largest = codes.iter().copied().max();
    if largest.is_some_and(|largest| largest.into() as usize >= count) {
        vortex_bail!("a code that its dictionary of {count} values has not");
    }
    Ok(codes)
}

/// A column of byte strings.
pub fn binary(values: VortexArray, nulls: Option<NullBuffer>, context: &mut ExecutionCtx) -> VortexResult<ArrayRef> {
    let views = values.execute::<VarBinViewArray>(context)?;
    with_nulls(canonical_varbinview_to_arrow::<BinaryViewType>(&views, context)?, nulls)
}

/// The dictionary of checked codes.
fn dictionary(
    codes: Buffer<u16>,
    distinct: VarBinViewArray,
    nulls: Option<NullBuffer>,
    context: &mut ExecutionCtx,
) -> VortexResult<ArrayRef> {
    // By the library, which like us has no doubts about its codes any more.
    let codes = PrimitiveArray::new(codes, Validity::NonNullable).into_array();
    let array = DictArray::try_new(codes, distinct.into_array())?.into_array();
    let form = Field::new("", ArrowType::Dictionary(Box::new(ArrowType::UInt16), Box::new(ArrowType::Utf8View)), false);
    let session = context.session().clone();
    with_nulls(session.arrow().execute_arrow(array, Some(&form), context)?, nulls)
}

/// Views of text that is UTF-8.
fn text_views(values: VortexArray, context: &mut ExecutionCtx) -> VortexResult<VarBinViewArray> {
    let views = values.execute::<VarBinViewArray>(context)?;
    let bytes = canonical_varbinview_to_arrow::<BinaryViewType>(&views, context)?;
    if !is_ascii(bytes.as_binary_view()) {
        let buffers: Vec<_> = views.data_buffers().iter().map(|buffer| buffer.as_host().clone()).collect();
        let handle = views.views_handle().as_host().clone();
        let valid = Validity::NonNullable;
        VarBinViewData::validate(&Buffer::from_byte_buffer(handle), &buffers.into(), views.dtype(), &valid, context)?;
    }
    Ok(views)
}

fn is_ascii(array: &BinaryViewArray) -> bool {
    // The text of a short view is in its upper 12 bytes; of a long one, its place is there.
    const LENGTH: u128 = 0xffff_ffff;
    const HIGH_BITS: u128 = 0x8080_8080_8080_8080_8080_8080_0000_0000;
    let inlined = array.views().iter().fold(0, |all, view| all | if view & LENGTH <= 12 { *view } else { 0 });
    inlined & HIGH_BITS == 0 && array.data_buffers().iter().all(|buffer| buffer.is_ascii())
}

/// `array`, which has none, with NULLs.
fn with_nulls(array: ArrayRef, nulls: Option<NullBuffer>) -> VortexResult<ArrayRef> {
    let Some(nulls) = nulls else { return Ok(array) };
    let absent = BooleanArray::new(!nulls.inner(), None);
    arrow_select::nullif::nullif(&array, &absent).map_err(|error| vortex_err!("{error}"))
}
