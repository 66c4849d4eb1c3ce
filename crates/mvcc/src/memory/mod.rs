//! Memory of rows and versions: where it comes from, and a hint to the processor that it is about to be read.

pub mod arena;
pub mod prefetch;
