//! A database without a planner: tables as deltas over bases, their generations, and what changes them. A Rust program
//! can embed tables with this crate alone; it names no DataFusion.
//!
//! ```text
//!   INSERT, UPDATE, DELETE ─► delta (rows in memory, logs)      load, COPY ─► trees and segments
//!                               │ merge                                          │
//!                               └────────► base of a generation ◄────────────────┘
//!   reads ◄── Snapshot = (moment of the deltas, Generation) ──► TableReader: points, ranges, overlays
//! ```
//!
//! # Words
//! - *generation*: what is published, and its catalog.
//! - *snapshot*: a generation, and the moment at which its deltas are seen; a statement keeps the one it began with.
//! - *publication*: a change of bases; writers take turns, and each publishes trees and catalog together or not at all.
//! - *merge*: a delta's rows into its base.
//! - *follower*: who keeps the logs' records elsewhere as they become durable; the logs wait for it.
//! - *still*: a generation and the logs over it, held while they are copied; what a crash would leave.
//! - *draft*: the catalog as an open transaction has changed it.
//!
//! # Invariants
//! - What a snapshot sees of a table, one module decides: `reader`. A version of a delta that counts, be it a row or a
//!   deletion, hides the base row of its key in every access path; what the generation holds already is never asked of
//!   the delta.
//! - A generation is taken before the moment that goes with it, so no row is missed between the two.
//! - The count in a tree's root is exact.
//!
//! # Failure model
//! A change that fails changes nothing: nothing is visible before its publication has committed. A page that is rotten
//! or cannot be read fails the statement with the tree's name; it never gives a wrong row. A panic while a generation
//! is published or a queue of locks is changed, or in a thread of the database's own, ends the process
//! (`saki_base::Critical`); opening brings back what was acknowledged.
#![forbid(unsafe_code)]

mod check;
pub mod checkpoint;
mod database;
pub mod delta;
mod draft;
#[cfg(test)]
mod fixture;
pub mod load;
pub mod locks;
pub mod merge;
mod open;
pub mod reader;
pub mod segments;
mod writer;

pub use check::{CheckFault, CheckProgress, CheckReport};
pub use checkpoint::{Alone, CheckpointReport, Follower, LogRange, Moment, Still, StillLogs};
pub use database::sequence;
pub use database::{
    Budget, ChunkOwners, CreateOptions, Database, DeviceSpec, DeviceSpeed, Generation, Identity, OpenOptions, Owner,
    PAGE_BYTES_DEFAULT, PartStatus, is_clone, memory_bytes,
};
pub use delta::Delta;
pub use draft::index::Concurrently;
pub use draft::{Draft, DraftMark};
pub use load::LoadProgress;
pub use locks::{Stop, StopOnDrop};
pub use merge::{ChangeSource, KeyChange, MergeReport, OnDuplicate, Pace};
pub use open::{Restore, SimStorage, complete_clone};
pub use reader::{
    BaseReader, Entry, Eyes, IndexEntries, Missed, Missing, Point, SegmentOverlay, Short, Shortly, Snapshot,
    TableReader,
};
pub use saki_mvcc::{LogExtent, LogRecord, NewLogs};
pub use saki_tier::{Assessment, Expected, PolicyKind, Reads, Tier, TierStats, Use};
pub use saki_tree::Wanted;
pub use saki_volume::{Class as DeviceClass, DeviceStatus, HeldImage, Image, ImageChunk, PublishedChunk};
pub use writer::{Trees, Writer, finish_tree};
