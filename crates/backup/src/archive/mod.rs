//! Archives: the logs' records, written to the target as they become durable, so that a database can be made as it was
//! at any moment of the past.
//!
//! ```text
//!   backup                backup (CREATE TABLE …)              backup
//!     │ unlogged 0          │ unlogged 1                         │ unlogged 2
//!   ──┼─────────────────────┼────────────────────────────────────┼──────────► one run: from a start of the server on
//!     └ segment ┴ segment ┴ segment ┴ segment ┴ segment ┴ segment ┴ …
//! ```
//!
//! # Words
//! - *run*: what was archived from a start to the next; its segments follow one another without a gap.
//! - *segment*: an object with records, and with *samples*: what was durable when.
//! - *base*: a backup that a run goes on from. Definitions and loaded rows are not in the logs, so whenever such have
//!   been published there is a new one ([`saki_store::Moment::unlogged`]).
//!
//! # Invariants
//! - A moment is made of a base with the same `unlogged` and all records behind what the base has merged, so none is
//!   taken of which something is missing.
//! - The database's logs keep a record until its segment is durable.
//!
//! Between a publication that is not in the logs and the end of the backup after it lies no moment that can be
//! restored: the last one before it is, then. Likewise what was acknowledged before a crash and not archived yet.

mod moment;
mod names;
mod run;
mod segment;

pub use moment::{Chosen, Records, choose};
pub use names::{Archived, archives};
pub use run::{ArchiveOptions, archive, refuse_archive};
