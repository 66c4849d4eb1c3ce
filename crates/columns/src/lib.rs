//! Column segments: a table's rows a second time, column by column, for scans.
#![forbid(unsafe_code)]

mod bloom;
mod bounds;
mod builder;
mod cache;
pub mod codec;
mod directory;
pub mod distinct;
pub mod entry;
mod error;
mod segment;
mod survey;
mod table;
pub mod test;
pub mod values;
mod verify;
mod zone;

pub use bloom::Bloom;
pub use builder::{BuildOptions, SEGMENT_BYTES, SegmentBuilder};
pub use cache::{ColumnCache, Fetch, Load, Resident, RunContent};
pub use codec::{Codec, VortexCodec, codec};
pub use directory::{SegmentsRoot, read_directory};
pub use error::ColumnsError;
pub use segment::{ColumnRun, ColumnType, SEGMENT_ROWS, Segment};
pub use survey::survey;
pub use table::{SegmentTable, TableZone};
pub use test::Test;
pub use verify::{InspectColumns, SegmentFault, SegmentsVerification, VerifySource, verify};
pub use zone::Zone;
