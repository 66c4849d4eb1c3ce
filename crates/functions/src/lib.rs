//! Functions that PostgreSQL's dialect calls or gives other meanings: what a row costs is here, which function a
//! statement means is for `saki_postgres`, whose tests run them in statements. Those of times are in `saki_times`.
//!
//! # Failure model
//! An argument that a function does not take is refused with PostgreSQL's condition, when the function is evaluated: a
//! batch has all its values or none.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod arrays;
pub mod casts;
pub mod choices;
pub mod json;
pub mod numbers;
pub mod numeric;
pub mod order;
pub mod patterns;
pub mod row_wise;
pub mod sets;
pub mod texts;
pub mod to_char;

pub use self::numeric::domains;
pub use self::texts::{blanks, bytes, encodings, letters};
