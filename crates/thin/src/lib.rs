//! A device whose content lies in objects, and comes when it is first asked for: what a database runs on that has been
//! cloned from a backup and not copied.
//!
//! ```text
//!   lane ──read, write──► all slots of it here? ──yes──► the lane of the device below
//!                              │ no: parked
//!                              ▼
//!              wants (one for each slot) ──► fetchers: object ─► compared ─► written below ─► parked ones go on
//!                                                                                │
//!                                                         records at the end of the source file: slot n is here
//! ```
//!
//! # Words
//! - *slot*: 1 MiB of the device. *Piece*: the bytes that an object holds, named by what they are.
//! - *source*: the file beside the database that says which piece each slot is to have, and which have come.
//! - *want*: a slot that somebody waits for. *Settled*: a slot of which it is durable that it is here.
//!
//! # Invariants
//! - Of a slot nothing is read before the whole piece is on the device below, and the piece is what its name says.
//! - Nothing is written to a slot before it is settled. So after a crash a slot whose record is there has what was last
//!   written to it, and one whose record is missing has been changed by nobody: fetching it again loses nothing.
//! - A record is written after the piece that it speaks of has been flushed.
//! - Of a slot there is one want at a time, so no fetcher writes what another has fetched.
//! - When all slots have come the source goes, and the device is like any other.
//!
//! # Failure model
//! An object that cannot be read fails the operations that want it, by name, and is asked for again by the next. A torn
//! record counts as missing. A source whose checksum disagrees is refused, as nobody knows without it which slots are
//! here. The objects must stay where they are until the source has gone.

#![forbid(unsafe_code)]

mod device;
mod fetch;
mod piece;
mod slots;
mod source;

use std::path::Path;
use std::sync::Arc;

use saki_io::{Device, DeviceError};
use saki_objects::{Objects, Options};

pub use device::ThinDevice;
pub use piece::{FOLDER, Piece, PieceError, Pieces, read};
pub use slots::SLOT_BYTES;
pub use source::{Source, SourceFile, path_of};

/// The device of a database as it is to be used: with what it lacks behind it, if it has a source.
///
/// # Errors
/// If the source is damaged or names no target, or the device may not be written.
pub fn with_source(database: &Path, device: Arc<dyn Device>) -> Result<Arc<dyn Device>, DeviceError> {
    Ok(match thin(database, &device)? {
        Some(thin) => Arc::new(thin),
        None => device,
    })
}

/// The same, `None` if it has no source.
///
/// # Errors
/// As of [`with_source`].
pub fn thin(database: &Path, device: &Arc<dyn Device>) -> Result<Option<ThinDevice>, DeviceError> {
    let failed = |message: String| DeviceError::Failed {
        device: device.name(),
        action: "open as a clone",
        offset: 0,
        message,
        errno: None,
    };
    let Some(file) = SourceFile::open(database).map_err(failed)? else { return Ok(None) };
    if device.read_only() {
        let why = "it lacks parts that would be written when they come; open it for writing, or complete it first";
        return Err(failed(why.to_owned()));
    }
    let objects =
        Objects::open(&file.source().target, Options::default()).map_err(|error| failed(error.to_string()))?;
    Ok(Some(ThinDevice::new(Arc::clone(device), file, Arc::new(objects))))
}
