//! Texts: their letters, their blanks, and what they stand for: bytes, numbers of letters, uuids.

pub mod blanks;
pub mod bytes;
pub mod encodings;
pub mod letters;
