//! Backups of databases as objects in a directory or a store of objects, and databases made from them.
//!
//! ```text
//!   database ── still ─┬─ extents of the logs ─┐ pieces by what they are  ┌─ objects/ab/abcd…
//!    (goes on)         └─ chunks of generation ┴──────────────────────────┤
//!                          then, last of all ─────────────────────────────┴─ backups/000007-20261126T182207Z
//! ```
//!
//! # Words
//! - *target*: where backups of one database are. *Piece*: what an object holds: a chunk of a generation without the
//!   zeros at its end, or up to 8 MiB of an extent of a log. *Manifest*: what says of a backup which pieces it has;
//!   without it there is none. *Clone*: a database whose chunks stay in the target until they are first read
//!   (`saki_thin`).
//!
//! # Invariants
//! - A piece's name is the BLAKE3 hash of its bytes, so the same bytes are the same object, whichever backup has them,
//!   and what is read is compared with its name. A chunk that is published never changes: the next backup finds it
//!   there.
//! - A manifest is written when everything that it names is durable, and never changed.
//! - A backup is what a crash could have left of the database at a moment after the backup began
//!   ([`saki_store::Still`]): everything that was acknowledged before is in it, no transaction in part.
//! - A clone needs what its backup names until it is complete; who prunes does not know of it.
//! - Only `prune` removes anything: manifests first, then what none of those names that are left. While a backup is
//!   made there is no pruning, nor the other way round.
//!
//! # Failure model
//! A backup that is interrupted leaves objects, which the next one uses, and no manifest. A restoration that is
//! interrupted leaves nothing that opens as a database. Pruning that is interrupted leaves objects that nobody names,
//! which the next one removes. An object that is missing, cut short or has rotted is an error that names it.

#![forbid(unsafe_code)]

mod archive;
mod check;
mod manifest;
mod parallel;
mod prune;
mod repository;
mod restore;
mod run;
mod sealed;

pub use archive::{ArchiveOptions, Archived, archive, archives, refuse_archive};
pub use check::{CheckReport, check};
pub use prune::{PruneReport, prune};
pub use repository::{Listed, Summary, list};
pub use restore::{RestoreReport, Wanted, clone, restore};
pub use run::{BackupReport, backup};
pub use saki_objects::is_remote;
pub use saki_store::{complete_clone as complete, is_clone};

/// How far work has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Pieces that are done, and all of them.
    pub done: u64,
    pub total: u64,
    /// Bytes that have been written, or read, of the target.
    pub bytes: u64,
}

/// Pieces under way at once: a store of objects takes its time for each.
const WORKERS: usize = 8;
