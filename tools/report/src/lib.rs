//! What a benchmark says: rows, ratios, what went wrong, and the machine it ran on.

#![forbid(unsafe_code)]

mod machine;
mod report;

pub use machine::machine;
pub use report::{Common, Report, figure};
