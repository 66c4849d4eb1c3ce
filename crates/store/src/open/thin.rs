//! Databases that lack what they have been cloned from (`saki_thin`): how they are begun, and made whole.

use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use saki_catalog::{Result, SqlError};
use saki_thin::{SLOT_BYTES, Source, SourceFile, path_of, thin};

use crate::Stop;
use crate::database::OpenOptions;
use crate::database::devices::open_bare;

/// Makes the file of a clone, with a hole for each slot that is away.
pub fn reserve(database: &Path, source: &Source) -> Result<()> {
    let made = FileOptions::new().write(true).create_new(true).mode(0o600).open(database);
    let slots = 1 + source.pieces.len() as u64;
    made.and_then(|file| file.set_len(slots * SLOT_BYTES)).map_err(|error| SqlError::of_file(database.display(), error))
}

/// Says beside a database what it lacks.
pub fn note_source(database: &Path, source: &Source) -> Result<()> {
    SourceFile::create(database, source).map_err(|error| SqlError::of_file(path_of(database).display(), error))
}

/// Fetches all that the database at `path`, which nobody has open, lacks. Returns how many MiB had not come, `None` if
/// it lacked nothing; `progress` is told how many have, and of how many. Interrupted, it can be done again.
///
/// # Errors
/// Of the database's file, and of what lies elsewhere; `stop`.
pub fn complete_clone(path: &Path, stop: &Stop, progress: &dyn Fn(u64, u64)) -> Result<Option<u64>> {
    let device = open_bare(path, &OpenOptions::default(), false).map_err(SqlError::storage)?;
    let Some(thin) = thin(path, &device).map_err(SqlError::storage)? else { return Ok(None) };
    let (away, all) = thin.away();
    let go_on = || stop.check().map_err(Incomplete::Stopped);
    match thin.complete(go_on, |here| progress(here, all)) {
        Ok(()) => Ok(Some(away)),
        Err(Incomplete::Stopped(error)) => Err(error),
        Err(Incomplete::Failed(error)) => Err(SqlError::storage(error)),
    }
}

/// Why a clone was not completed.
enum Incomplete {
    Stopped(SqlError),
    Failed(saki_io::DeviceError),
}

impl From<saki_io::DeviceError> for Incomplete {
    fn from(error: saki_io::DeviceError) -> Self {
        Self::Failed(error)
    }
}
