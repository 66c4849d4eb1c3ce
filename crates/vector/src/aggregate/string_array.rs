//! Views of byte strings that lie in one allocation.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::{ArrayRef, BinaryViewArray, FixedSizeBinaryArray, StringViewArray};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow_schema::DataType;

use super::values::unfit;
use crate::{Result, VectorError};

/// A view's offset has 32 bits, signed in some readers: longer allocations are seen through windows that begin at
/// multiples of this and overlap.
const WINDOW_BYTES: usize = 1 << 30;

/// The array of the strings at `places` in `bytes`, one for each row; those of NULLs are empty.
pub(super) fn string_array(
    bytes: &Buffer,
    places: impl ExactSizeIterator<Item = Range<usize>>,
    nulls: Option<NullBuffer>,
    logical: &DataType,
) -> Result<ArrayRef> {
    if let DataType::FixedSizeBinary(width) = logical {
        let mut values = MutableBuffer::with_capacity(places.len() * (*width).max(0) as usize);
        let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        for (row, place) in places.enumerate() {
            match valid(row) {
                true => values.extend_from_slice(&bytes[place]),
                false => values.extend_zeros((*width).max(0) as usize),
            }
        }
        return Ok(Arc::new(FixedSizeBinaryArray::try_new(*width, values.into(), nulls)?));
    }
    let windows = bytes.len().div_ceil(WINDOW_BYTES);
    let buffers = (0..windows).map(|window| {
        let start = window * WINDOW_BYTES;
        bytes.slice_with_length(start, (bytes.len() - start).min(i32::MAX as usize))
    });
    let mut views = Vec::with_capacity(places.len());
    for place in places {
        let offset = place.start % WINDOW_BYTES;
        if offset + place.len() > i32::MAX as usize {
            return Err(VectorError::OutOfRange("length of text".to_owned()));
        }
        let window = (place.start / WINDOW_BYTES) as u32;
        views.push(make_view(&bytes[place], window, offset as u32));
    }
    Ok(match logical {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::LargeBinary | DataType::Utf8View => {
            Arc::new(StringViewArray::try_new(views.into(), buffers.collect::<Vec<_>>(), nulls)?)
        }
        DataType::Binary | DataType::BinaryView => {
            Arc::new(BinaryViewArray::try_new(views.into(), buffers.collect::<Vec<_>>(), nulls)?)
        }
        other => return Err(unfit("strings", other)),
    })
}
