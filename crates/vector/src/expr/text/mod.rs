//! Text: tests of views and dictionaries, and substrings.

mod contain;
mod like;

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_schema::DataType;

use super::mask::Mask;
use crate::form::TextDictionary;
use crate::{Column, Result, VectorError, view};

pub use like::LikePattern;

/// Keeps the rows whose text passes `narrow`, which gets an array of text and the places of it to test. Of a
/// dictionary, each value that rows use is tested once.
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
    if constant.len() <= view::INLINE as usize {
        let wanted = view::inline(constant);
        mask.narrow(texts.views(), |view| view == wanted);
    } else {
        // Length and first four bytes of both, then the rest of the few that share them.
        let head = view::head_of(constant);
        mask.narrow(texts.views(), |view| view as u64 == head);
        mask.narrow_rows(|row| texts.value(row).as_bytes() == constant);
    }
}

/// Keeps the rows whose text starts with `start`.
pub(crate) fn narrow_prefix(texts: &StringViewArray, start: &[u8], mask: &mut Mask) {
    if start.is_empty() {
        return;
    }
    let bits = 8 * start.len().min(4);
    let head = u128::from(view::prefix_of(start).swap_bytes()) << 32;
    let seen = ((1_u128 << bits) - 1) << 32;
    mask.narrow(texts.views(), |view| view & seen == head);
    // Text that is shorter has zeros there, which the start may have too.
    mask.narrow_rows(|row| texts.value(row).as_bytes().starts_with(start));
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
        let (start, kept) = (range.start as u32, range.len() as u32);
        if kept <= view::INLINE {
            builder.append_value(&text[range]);
        } else {
            builder.try_append_view(view::buffer(view), view::offset(view) + start, kept)?;
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
