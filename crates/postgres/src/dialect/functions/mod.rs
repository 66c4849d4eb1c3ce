//! Functions that the dialect calls or gives other meanings: what a row costs is here.

pub mod arithmetic;
pub mod averages;
pub mod blanks;
pub mod bytes;
pub mod choices;
pub mod domains;
pub mod encodings;
pub mod numbers;
pub mod patterns;
pub mod regexps;
pub mod series;
pub mod text;
pub mod to_char;
