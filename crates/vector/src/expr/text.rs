//! Text: tests of views and dictionaries, and substrings.
//!
//! ```text
//!   view, 16 bytes:  length 4 │ the text, up to 12 bytes                         (the rest is 0)
//!                    length 4 │ its first 4 bytes │ buffer 4 │ offset 4          longer text
//! ```

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_schema::DataType;

use super::mask::Mask;
use crate::form::TextDictionary;
use crate::{Column, Result, VectorError};

/// Text up to this length, in bytes, lies in its view.
pub(crate) const INLINE: u32 = 12;

/// Length of a view's text in bytes.
pub(crate) fn length(view: u128) -> u32 {
    view as u32
}

/// The first four bytes as a number that is ordered as they are; shorter text is filled up with 0.
pub(crate) fn prefix(view: u128) -> u32 {
    ((view >> 32) as u32).swap_bytes()
}

/// [`prefix`] of text that is not in a view.
pub(crate) fn prefix_of(text: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    bytes.iter_mut().zip(text).for_each(|(byte, text)| *byte = *text);
    u32::from_be_bytes(bytes)
}

/// Keeps the rows whose text passes `narrow`, which gets an array of text and the places of it to test. Of a dictionary,
/// each value that rows use is tested once.
pub(crate) fn narrow(
    array: &ArrayRef,
    mask: &mut Mask,
    narrow: impl FnOnce(&StringViewArray, &mut Mask) -> Result<()>,
) -> Result<()> {
    match array.data_type() {
        DataType::Utf8View => narrow(array.as_string_view(), mask)?,
        DataType::Dictionary(..) => {
            let dictionary = dictionary(array)?;
            let codes = dictionary.keys().values();
            let values = dictionary.values().as_string_view();
            let mut passing = if values.len() <= mask.count() {
                Mask::all(values.len())
            } else {
                let mut used = Mask::none(values.len());
                mask.for_each(|row| used.insert(usize::from(codes[row])));
                used
            };
            narrow(values, &mut passing)?;
            narrow_codes(codes, &passing, mask);
        }
        other => return Err(VectorError::internal(format!("{other} is no form of text"))),
    }
    Ok(())
}

/// Keeps the rows whose code is one of `passing`.
fn narrow_codes(codes: &[u16], passing: &Mask, mask: &mut Mask) {
    let (mut first, mut last) = (usize::MAX, 0);
    passing.for_each(|code| {
        first = first.min(code);
        last = code;
    });
    let count = passing.count();
    if count == 0 {
        mask.clear();
    } else if last - first + 1 == count {
        let (first, span) = (first as u16, (last - first) as u16);
        mask.narrow(codes, |code| code.wrapping_sub(first) <= span);
    } else {
        let mut table = vec![false; usize::from(u16::MAX).min(passing.rows()).next_power_of_two()];
        passing.for_each(|code| table[code] = true);
        // A code under a NULL may be any.
        let last = table.len() - 1;
        mask.narrow(codes, |code| table[usize::from(code) & last]);
    }
}

pub(crate) fn dictionary(array: &ArrayRef) -> Result<&TextDictionary> {
    let dictionary = array.as_any().downcast_ref::<TextDictionary>();
    dictionary
        .filter(|dictionary| dictionary.values().data_type() == &DataType::Utf8View)
        .ok_or_else(|| VectorError::internal(format!("{} is no form of text", array.data_type())))
}

/// Keeps the rows whose text is `constant`.
pub(crate) fn narrow_equal(texts: &StringViewArray, constant: &[u8], mask: &mut Mask) {
    let length = constant.len();
    if length <= INLINE as usize {
        let view = inline_view(constant);
        mask.narrow(texts.views(), |candidate| candidate == view);
    } else {
        // Length and first four bytes of both, then the rest of the few that share them.
        let head = length as u64 | u64::from(prefix_of(constant).swap_bytes()) << 32;
        mask.narrow(texts.views(), |candidate| candidate as u64 == head);
        mask.narrow_rows(|row| texts.value(row).as_bytes() == constant);
    }
}

/// Keeps the rows whose text starts with `start`.
pub(crate) fn narrow_prefix(texts: &StringViewArray, start: &[u8], mask: &mut Mask) {
    if start.is_empty() {
        return;
    }
    let bits = 8 * start.len().min(4);
    let head = u128::from(prefix_of(start).swap_bytes()) << 32;
    let seen = ((1_u128 << bits) - 1) << 32;
    mask.narrow(texts.views(), |view| view & seen == head);
    // Text that is shorter has zeros there, which the start may have too.
    mask.narrow_rows(|row| texts.value(row).as_bytes().starts_with(start));
}

/// The view of text of up to [`INLINE`] bytes.
pub(crate) fn inline_view(text: &[u8]) -> u128 {
    let bytes = text.iter().rev().fold(0, |bytes, byte| bytes << 8 | u128::from(*byte));
    bytes << 32 | text.len() as u128
}

/// Characters from `start` (from 1) on, `length` of them or all. What lies before the text counts, as SQL has it.
pub(crate) fn substring(column: &Column, start: i64, length: Option<i64>) -> Result<Column> {
    let end = match length {
        Some(length) if length < 0 => return Err(VectorError::Invalid("negative substring length not allowed".into())),
        Some(length) => Some(start.saturating_add(length)),
        None => None,
    };
    let skip = usize::try_from(start.saturating_sub(1)).unwrap_or(0);
    let take = end.map(|end| usize::try_from(end.saturating_sub(1)).unwrap_or(0).saturating_sub(skip));
    match column.array().data_type() {
        DataType::Utf8View => Ok(Column::new(Arc::new(substring_views(column.array().as_string_view(), skip, take)?))),
        DataType::Dictionary(..) => {
            let dictionary = dictionary(column.array())?;
            let values = substring_views(dictionary.values().as_string_view(), skip, take)?;
            Ok(Column::new(Arc::new(TextDictionary::try_new(dictionary.keys().clone(), Arc::new(values))?)))
        }
        other => Err(VectorError::internal(format!("{other} is no form of text"))),
    }
}

/// Views into the same buffers.
fn substring_views(texts: &StringViewArray, skip: usize, take: Option<usize>) -> Result<StringViewArray> {
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    for buffer in texts.data_buffers() {
        builder.append_block(buffer.clone());
    }
    for row in 0..texts.len() {
        if texts.is_null(row) {
            builder.append_null();
            continue;
        }
        let (text, view) = (texts.value(row), texts.views()[row]);
        let range = characters(text, skip, take);
        let kept = range.len() as u32;
        if kept <= INLINE {
            builder.append_value(&text[range]);
        } else {
            let (buffer, offset) = ((view >> 64) as u32, (view >> 96) as u32);
            builder.try_append_view(buffer, offset + range.start as u32, kept)?;
        }
    }
    Ok(builder.finish())
}

/// Where `take` characters lie after the first `skip`, in bytes.
fn characters(text: &str, skip: usize, take: Option<usize>) -> std::ops::Range<usize> {
    let end = take.map_or(text.len(), |take| skip.saturating_add(take).min(text.len()));
    if text.as_bytes()[..end].is_ascii() {
        return skip.min(end)..end;
    }
    let mut starts = text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    let start = starts.nth(skip).unwrap_or(text.len());
    let end = match take {
        Some(0) => start,
        Some(take) => starts.nth(take - 1).unwrap_or(text.len()),
        None => text.len(),
    };
    start..end
}
