//! Column segments: a table's rows a second time, column by column, for scans.
//!
//! ```text
//!  rows in primary-key order      131 072 rows, or about 64 MiB of them, are a segment
//!  ├────────── segment 0 ──────────┼────────── segment 1 ──────────┼──── segment 2 ─ …
//!
//!  directory (a tree)     key: first primary key of the segment     row: an entry
//!                                                                    │ rows; and for each column:
//!                                                                    │ first page, bytes, checksum, zone
//!  pages   [ column a ][ column b ][ column c ] [ column a ] …  ◄────┘
//!           a run each: the codec's bytes, in consecutive pages
//! ```
//!
//! # Words
//! - **segment**: consecutive rows of a table in primary-key order. **Run**: one encoded column of a segment, in pages
//!   with consecutive addresses.
//! - **zone**: what is known of a run's values without reading it: least, greatest, NULLs, and all of them if they are
//!   few.
//! - **directory**: the tree of entries, one a segment; its root is part of the table in the catalog, so that segments
//!   and trees change together.
//! - **codec**: turns a column into bytes and back; the encodings are a library's, the container around them is ours.
//!
//! # Where things are
//! [`SegmentBuilder`] cuts rows into segments and writes them, each column encoded as the same column of the segment
//! before while that suits; [`entry`] the bytes of an entry; [`read_directory`] and [`SegmentTable`] what a scan starts
//! from; [`codec`] the encodings; [`ColumnCache`] hot runs in memory; [`verify`] walks everything. The scan itself is
//! `exec`'s; when segments are built and rewritten is `sql`'s.
//!
//! # Invariants
//! - The segments of a table hold exactly the rows of its primary tree, in its order; both are published by one commit.
//! - A segment that lacks a column was written before the column was the table's. Its rows have the column's missing
//!   value ([`ColumnType::missing`]), and whoever reads columns finds it so, zone included ([`missing_column`]).
//! - A segment with a run of a column that the table has lost was written before. The run is in no reader's way; a
//!   merge that writes the directory gives it back ([`Segment::take_dropped`]).
//! - A zone never excludes a value that its run has. It may admit more.
//! - Published runs never change, so nothing here is ever invalidated.
//!
//! # Failure model
//! A run's bytes are compared with the entry's checksum before the codec sees them; a mismatch, or bytes that do not
//! decode, is [`ColumnsError::Corrupt`], to which the caller adds table, segment and column. A build that fails leaves
//! nothing: its pages belong to a publication that is dropped.
#![forbid(unsafe_code)]

mod builder;
mod cache;
pub mod codec;
mod directory;
pub mod distinct;
mod error;
mod missing;
pub mod parallel;
mod segment;
pub mod test;
pub mod values;
mod verify;
mod zone;

pub use builder::{BuildOptions, SEGMENT_BYTES, SegmentBuilder};
pub use cache::{ColumnCache, Fetch, Load, Resident, RunContent};
pub use codec::{Codec, VortexCodec, codec};
pub use directory::{SegmentTable, SegmentsRoot, TableZone, entry, read_directory};
pub use error::ColumnsError;
pub use missing::missing_column;
pub use segment::{ColumnRun, ColumnType, DroppedRun, Place, SEGMENT_ROWS, Segment, SegmentColumns};
pub use test::Test;
pub use verify::{InspectColumns, SegmentFault, SegmentsVerification, VerifySource, verify};
pub use zone::{Bloom, Zone, survey, text_successor};
