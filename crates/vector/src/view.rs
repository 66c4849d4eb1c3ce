//! Views of text: 16 bytes that stand for a text in an array.
//!
//! ```text
//!   length 4 │ the text, up to 12 bytes                         (the rest is 0)
//!   length 4 │ its first 4 bytes │ buffer 4 │ offset 4          longer text
//! ```

/// Text up to this length, in bytes, lies in its view.
pub const INLINE: u32 = 12;

/// Length of the text in bytes.
pub fn length(view: u128) -> u32 {
    view as u32
}

/// Which buffer holds a text that is not inline.
pub fn buffer(view: u128) -> u32 {
    (view >> 64) as u32
}

/// Where in its buffer a text that is not inline starts.
pub fn offset(view: u128) -> u32 {
    (view >> 96) as u32
}

/// The view of the same text with its buffers numbered otherwise.
pub fn with_buffer(view: u128, buffer: impl FnOnce(u32) -> u32) -> u128 {
    if length(view) <= INLINE {
        return view;
    }
    let field = u128::from(u32::MAX) << 64;
    (view & !field) | u128::from(buffer(self::buffer(view))) << 64
}

/// The first four bytes as a number that is ordered as they are; shorter text is filled up with 0.
pub fn prefix(view: u128) -> u32 {
    ((view >> 32) as u32).swap_bytes()
}

/// [`prefix`] of text that is not in a view.
pub fn prefix_of(text: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    bytes.iter_mut().zip(text).for_each(|(byte, text)| *byte = *text);
    u32::from_be_bytes(bytes)
}

/// The first 8 bytes of the view of a text: its length and its first four bytes.
pub fn head_of(text: &[u8]) -> u64 {
    text.len() as u64 | u64::from(prefix_of(text).swap_bytes()) << 32
}

/// The view of text of up to [`INLINE`] bytes.
pub fn inline(text: &[u8]) -> u128 {
    let bytes = text.iter().rev().fold(0, |bytes, byte| bytes << 8 | u128::from(*byte));
    bytes << 32 | text.len() as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringViewArray;

    #[test]
    fn fields_are_where_arrow_puts_them() {
        for text in ["", "a", "abcd", "twelve bytes", "a text of more than twelve bytes"] {
            let array = StringViewArray::from_iter_values(["a text that lies before the other", text]);
            let view = array.views()[1];
            assert_eq!(length(view) as usize, text.len());
            assert_eq!((prefix(view), view as u64), (prefix_of(text.as_bytes()), head_of(text.as_bytes())));
            if text.len() <= INLINE as usize {
                assert_eq!(view, inline(text.as_bytes()));
                assert_eq!(with_buffer(view, |_| 7), view);
            } else {
                let start = offset(view) as usize;
                let bytes = &array.data_buffers()[buffer(view) as usize][start..start + text.len()];
                assert_eq!(bytes, text.as_bytes());
                assert_eq!(buffer(with_buffer(view, |old| old + 7)), buffer(view) + 7);
                assert_eq!(with_buffer(with_buffer(view, |_| 7), |_| buffer(view)), view);
            }
        }
    }
}
