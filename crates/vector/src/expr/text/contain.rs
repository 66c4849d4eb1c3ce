//! Looking for a piece of text in all texts of an array.
//!
//! A search has a price before its first byte, which short texts do not earn back. A decoder leaves the texts of a
//! column one after the other in one buffer, though, and there one search goes through all of them:
//!
//! ```text
//!   buffer  │ carefully special dep│ osits sleep fur│ quick requests am│ …
//!   texts   └── row 0 ────────────┘└─ row 1 ───────┘└─ row 2 ─────────┘      a hit over a border is none
//! ```

use arrow_array::{Array, StringViewArray};
use memchr::memmem::Finder;

use crate::expr::mask::Mask;
use crate::view;

/// Keeps the rows whose text has `piece` in it.
pub(crate) fn narrow(texts: &StringViewArray, piece: &Finder<'_>, mask: &mut Mask) {
    match Stretch::of(texts).filter(|_| mask.count() * 2 >= texts.len()) {
        Some(stretch) => {
            let found = stretch.find(texts, piece, mask);
            mask.intersect(&found);
        }
        None => mask.narrow_rows(|row| piece.find(texts.value(row).as_bytes()).is_some()),
    }
}

/// Bytes of one buffer in which the texts that are not inline lie in their order.
struct Stretch<'a> {
    bytes: &'a [u8],
    /// Where the bytes start in the buffer.
    start: usize,
    any_inline: bool,
}

impl<'a> Stretch<'a> {
    /// `None`: texts lie otherwise, or with too much between them.
    fn of(texts: &'a StringViewArray) -> Option<Self> {
        let long = |view: &&u128| view::length(**view) > view::INLINE;
        let first = texts.views().iter().find(long).copied();
        let Some(first) = first else {
            return Some(Self { bytes: &[], start: 0, any_inline: true });
        };
        let (buffer, start) = (view::buffer(first), view::offset(first) as usize);
        let (mut end, mut total, mut any_inline) = (start, 0, false);
        for view in texts.views() {
            let length = view::length(*view) as usize;
            if length <= view::INLINE as usize {
                any_inline = true;
                continue;
            }
            let offset = view::offset(*view) as usize;
            if view::buffer(*view) != buffer || offset < end {
                return None;
            }
            (end, total) = (offset + length, total + length);
        }
        let bytes = texts.data_buffers().get(buffer as usize)?.get(start..end)?;
        (bytes.len() <= 2 * total).then_some(Self { bytes, start, any_inline })
    }

    /// The rows whose text has `piece` in it, of those that are not inline or are in `mask`.
    fn find(&self, texts: &StringViewArray, piece: &Finder<'_>, mask: &Mask) -> Mask {
        let views = texts.views();
        let mut found = Mask::none(texts.len());
        let (mut row, mut from) = (0, 0);
        while let Some(at) = self.bytes.get(from..).and_then(|bytes| piece.find(bytes)) {
            let hit = from + at;
            let place = |row: usize| {
                let start = view::offset(views[row]) as usize - self.start;
                (start, start + view::length(views[row]) as usize)
            };
            while row < views.len() && (view::length(views[row]) <= view::INLINE || place(row).1 <= hit) {
                row += 1;
            }
            if row == views.len() {
                break;
            }
            let (start, end) = place(row);
            if start <= hit && hit + piece.needle().len() <= end {
                found.insert(row);
                from = end;
            } else {
                from = hit + 1;
            }
        }
        if self.any_inline {
            mask.for_each(|row| {
                if view::length(views[row]) <= view::INLINE && piece.find(texts.value(row).as_bytes()).is_some() {
                    found.insert(row);
                }
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::{StringArray, UInt32Array};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_is_there(
            texts in prop::collection::vec("[ab]{0,30}", 0..90),
            piece in "[ab]{1,5}",
            start in 0usize..10,
            keep in prop::collection::vec(any::<bool>(), 90),
            backwards: bool,
        ) {
            let mut places: Vec<_> = (0..texts.len()).collect();
            if backwards {
                places.reverse();
            }
            let array = StringViewArray::from(&StringArray::from_iter_values(&texts));
            // Backwards, they lie in another order than the rows have.
            let places = UInt32Array::from_iter_values(places.into_iter().map(|place| place as u32));
            let array = arrow_select::take::take(&array, &places, None)?;
            let texts = array.as_string_view().iter().map(|text| text.unwrap_or_default().to_owned());
            let texts: Vec<String> = texts.collect();
            let start = start.min(texts.len());
            let (array, texts) = (array.slice(start, texts.len() - start), &texts[start..]);
            let array = array.as_string_view();
            let mut mask = Mask::all(texts.len());
            mask.narrow(&keep[..texts.len()], |keep| keep);
            let mut expected = mask.clone();
            expected.narrow_rows(|row| texts[row].contains(&piece));
            narrow(array, &Finder::new(&piece), &mut mask);
            prop_assert_eq!(mask, expected);
        }
    }
}
