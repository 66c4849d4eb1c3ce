//! Values as text where storage has no type for them: arrays, rows. As PostgreSQL prints them by default.

use bytes::{BufMut, BytesMut};

/// Whether an element must be quoted within `{…}`.
pub fn needs_quotes(element: &str) -> bool {
    element.is_empty()
        || element.eq_ignore_ascii_case("null")
        || element.contains(|c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace())
}

/// Appends a field of `(1,"a b",)`, in quotes where it would be taken for something else.
pub fn record_field(field: &[u8], out: &mut BytesMut) {
    let is_special = |byte: &u8| matches!(byte, b'(' | b')' | b'"' | b',' | b'\\') || byte.is_ascii_whitespace();
    if !field.is_empty() && !field.iter().any(is_special) {
        out.put_slice(field);
        return;
    }
    out.put_u8(b'"');
    for byte in field {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(*byte);
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}
