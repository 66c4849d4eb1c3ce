//! Functions that the dialect calls or gives other meanings: what a row costs is here.

pub mod arithmetic;
pub mod bytes;
pub mod domains;
pub mod intervals;
pub mod text;
pub mod to_char;
