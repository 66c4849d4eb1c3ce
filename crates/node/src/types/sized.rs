//! Lengths before what they are the lengths of.

use bytes::{BufMut, BytesMut};

/// Appends a length of four bytes, which may count itself, and what it is the length of.
pub fn sized(out: &mut BytesMut, with_itself: bool, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    write(out);
    let length = out.len() - start - if with_itself { 0 } else { 4 };
    out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
}
