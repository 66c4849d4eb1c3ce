//! Column segments: a table's rows a second time, column by column, for scans.
#![forbid(unsafe_code)]

pub mod codec;
mod error;
mod segment;
pub mod test;

pub use codec::Codec;
pub use error::ColumnsError;
pub use segment::{ColumnRun, ColumnType, Segment, Zone};
pub use test::Test;
