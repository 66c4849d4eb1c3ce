//! Text that has a dictionary already keeps one: its rows are renumbered instead of hashed.

use arrow_array::cast::AsArray;
use arrow_array::{Array, StringViewArray};
use saki_vector::form::TextDictionary;
use vortex_array::IntoArray;
use vortex_array::arrays::{DictArray, PrimitiveArray};
use vortex_array::validity::Validity;
use vortex_arrow::convert::from_arrow_byte_view;
use vortex_buffer::Buffer;
use vortex_error::{VortexResult, vortex_err};

/// Rows for each value, at least, with which no other encoding of text takes less.
const ROWS_PER_VALUE_MIN: usize = 16;

/// The library's dictionary of a text column, its values those that rows have, in order, and nothing compressed; `None`
/// if another encoding may suit better. In the place of a NULL is the value before it.
pub fn dictionary(array: &TextDictionary) -> VortexResult<Option<DictArray>> {
    let keys = array.keys();
    let values = array.values().as_string_view_opt().ok_or_else(|| vortex_err!("a dictionary of other than text"))?;
    let mut used = vec![false; values.len()];
    keys.iter().flatten().for_each(|key| used[usize::from(key)] = true);
    let mut places: Vec<usize> = (0..values.len()).filter(|place| used[*place]).collect();
    // Before they are sorted: many values take a while.
    if places.len() * ROWS_PER_VALUE_MIN > keys.len() {
        return Ok(None);
    }
    places.sort_unstable_by(|a, b| values.value(*a).cmp(values.value(*b)));
    let mut ranks = vec![0_u16; values.len()];
    let mut ordered: Vec<&str> = Vec::with_capacity(places.len());
    for place in places {
        let value = values.value(place);
        // A dictionary may hold a value twice.
        if ordered.last() != Some(&value) {
            ordered.push(value);
        }
        ranks[place] = (ordered.len() - 1) as u16;
    }
    let distinct = ordered.len();
    if distinct < 2 {
        return Ok(None);
    }
    let mut last = 0;
    let ranks = keys.iter().map(|key| {
        if let Some(key) = key {
            last = ranks[usize::from(key)];
        }
        last
    });
    let codes = if distinct <= usize::from(u8::MAX) + 1 {
        let codes: Buffer<u8> = ranks.map(|rank| rank as u8).collect();
        PrimitiveArray::new(codes, Validity::NonNullable)
    } else {
        PrimitiveArray::new(ranks.collect::<Buffer<u16>>(), Validity::NonNullable)
    };
    let values = from_arrow_byte_view(&StringViewArray::from_iter_values(ordered), false)?;
    DictArray::try_new(codes.into_array(), values).map(Some)
}
