//! Parallel write-ahead logs of the in-memory engine: what a transaction did is on disk before its client is answered.
//!
//! ```text
//!   workers                  log thread, one per log                      everyone
//!  ┌───────────────────┐    ┌──────────────────────────────┐    ┌──────────────────────────┐
//!  │ reserve           │    │ take what has gathered       │    │ durable, wait_durable,   │
//!  │ (timestamp)       │───►│ write, write … flush         │───►│ on_durable               │
//!  │ commit or void    │    │ mark timestamps              │    └──────────────────────────┘
//!  └───────────────────┘    └──────────────┬───────────────┘                  ▲
//!       Stream                      Writer │ Slots                    Horizon │ Waiters
//!                                          ▼                                  │
//!                        ┌──────────┬──────────┬──────────┬───                │
//!   log 0, its device    │ extent   │ extent   │ free     │ …   ──────────────┤
//!                        └──────────┴──────────┴──────────┴───                │
//!   log 1, its device      …                                   ──────────────┘
//! ```
//!
//! # The idea
//!
//! Timestamps are **dense**: they come from one counter, which is the transaction engine's, and every timestamp handed
//! out leaves exactly one record in exactly one log: a commit record, or a *void* record when its transaction failed
//! after taking it. So "durable" has one meaning at run time and at recovery, without heartbeats and without logs
//! talking to one another: the *durable horizon* is the greatest timestamp through which all have a durable record. A
//! log in which nothing happens holds nothing back.
//!
//! # Words
//!
//! - **log**: one device, one thread, any number of workers; one per group of cores. All logs of a database together
//!   are [`Logs`].
//! - **record**: timestamp, kind and payload. **reservation**: room for one, in memory and on disk, had *before* the
//!   timestamp is taken.
//! - **frame**: what one write puts into a log: a piece of the stream of records, checksummed. **piece**: the memory of
//!   a frame.
//! - **extent**: a numbered part of a log; **slot**: the place on the device that holds one, and later another. A slot
//!   that a file has just grown by is filled with zeros ahead of its frames, so that a flush finds no metadata to
//!   write.
//! - **incarnation**: from one opening to the next; timestamps that were handed out and did not survive the end of one
//!   are void for ever.
//! - **horizon**: see above. **proven**: a horizon that a frame tells of. **window**: how far timestamps may be ahead
//!   of the horizon.
//! - **cut**: everything through that timestamp is durable elsewhere; extents with nothing later are used again.
//!
//! # Invariants
//!
//! - Whoever is told that a timestamp is durable is told so after a flush that covers its record and those of all
//!   before it.
//! - A record whose room was reserved is always taken, without waiting for a device.
//! - Frames of a log become durable in their order: behind a frame that a crash has broken, nothing was told to be
//!   durable.
//! - The header of an extent is durable before its first frame is written, so the cut that freed its slot is too.
//! - Recovery applies exactly the commit records through a horizon that is no less than any that was told of, each
//!   once.
//!
//! # Failure model
//!
//! Power may go at any moment: unflushed writes may be there, or not, or in part, in any combination. A write or a
//! flush that fails is done again, with all that was in doubt, and commits wait meanwhile (`writer::healing`). A
//! device that goes on failing stops the horizon: all who wait and all who come later get [`LogError::Failed`], until
//! the logs are opened again. A device without space refuses reservations ([`LogError::Full`]), loses nothing, and
//! heals with space or a cut. Rot, lost extents, lost or shortened files are found by checksums and by density: if
//! anything proven to have been durable is missing, opening fails and says where ([`LogError::Corrupt`],
//! [`LogError::Missing`]), unless the loss is accepted. Logs older than their base are refused too
//! ([`LogError::Older`]). What cannot be told from a crash is the loss of the very last frames, if no later frame of
//! any log tells of them; so after a quiet moment, and at the end, a frame does. Bytes on the device are hostile:
//! they may give errors, never a panic.
//!
//! # Where the proofs are
//!
//! `simulation.rs`: all of it in one thread, from a seed, on devices that lose, tear and reorder, over several
//! incarnations. `tests/`: stories of damage, failing and full devices, tampered images. `horizon.rs` is model-checked.
//! The bytes are in `docs/log-format.md`.

#![forbid(unsafe_code)]

mod error;
mod format;
mod horizon;
mod logs;
mod options;
mod recovery;
mod shared;
#[cfg(all(test, not(saki_loom)))]
mod simulation;
mod slots;
mod start;
mod stream;
mod sync;
mod writer;

pub use error::{Damage, LogError, Refusal};
pub use horizon::waiters::Callback;
pub use logs::tail::{LogRecord, Tail};
pub use logs::{Logs, Reservation};
pub use options::{Options, Range};
pub use recovery::extents::{Extent, write_extent};
pub use recovery::report::{LogEnd, LogStatistics, Progress, RecoveryReport};
