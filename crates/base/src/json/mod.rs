//! JSON as text: what is written down is checked (`json`) or brought into one form (`jsonb`), and parts of it are found
//! without a tree being built.
//!
//! The one form is PostgreSQL's (section 8.14.1): each key once, the last value given for it; keys by length, then by
//! bytes; a blank behind `:` and `,`; numbers as numerics; no escape that need not be. A part of a text in that form is
//! in that form, so functions cut and join texts.
//!
//! What is read from text is [`DEPTH_MAX`] levels deep at most; so is what functions make, as far as they look into it.

mod canonical;
mod fault;
mod number;
mod order;
mod reader;
mod shape;
mod string;

pub use canonical::{Pairs, canonical, checked};
pub use fault::{DEPTH_MAX, JsonFault};
pub use order::sort_key;
pub use shape::{Kind, Shape, kind, shape};
pub use string::{unquoted, write_quoted};
