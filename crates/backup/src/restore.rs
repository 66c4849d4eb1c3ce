//! A database made from a backup.

use std::collections::HashMap;
use std::path::Path;

use saki_catalog::Result;
use saki_store::{Restore, Stop};

use crate::Progress;
use crate::manifest::Piece;
use crate::parallel::{Watch, each};
use crate::repository::Repository;

/// What a restoration came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreReport {
    /// The backup's name.
    pub name: String,
    pub chunks: u64,
    /// Bytes read of the target.
    pub bytes: u64,
}

/// A piece of an extent and where it goes: log, slot, bytes of an extent, offset.
struct LogPiece {
    log: usize,
    slot: u64,
    extent_bytes: u64,
    offset: u64,
    piece: Piece,
}

/// Makes a database at `path`, where there is nothing, from the backup of that `name`, or the newest. It is on that one
/// device, whatever devices it had, and opens by ordinary recovery.
///
/// # Errors
/// 58P02 if there is something at `path`; 58P01 if there is no such backup; XX001 if an object is missing or damaged,
/// which is named; of the target and of the new database's device. Then there is no database at `path`.
pub fn restore(
    target: &str,
    name: Option<&str>,
    path: &Path,
    stop: &Stop,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RestoreReport> {
    let repository = Repository::open(target, false)?;
    let (name, manifest) = repository.choose(name)?;
    let range = manifest.logs.as_ref().map(|(range, _)| *range);
    let restore = Restore::begin(path, manifest.image.clone(), range)?;
    let log_pieces = log_pieces(&manifest);
    let watch = Watch::new(progress, (manifest.chunks.len() + log_pieces.len()) as u64);
    each(
        log_pieces.len(),
        stop,
        || Ok(()),
        |(), at| {
            let LogPiece { log, slot, extent_bytes, offset, piece } = &log_pieces[at];
            let bytes = repository.get(piece)?;
            restore.write_extent(*log, *slot, (*extent_bytes, *offset), &bytes)?;
            watch.count(bytes.len() as u64);
            Ok(())
        },
    )?;
    let chunks = &manifest.image.chunks;
    each(
        chunks.len(),
        stop,
        || restore.writer(),
        |writer, at| {
            let bytes = repository.get(&manifest.chunks[at])?;
            writer.write(chunks[at].chunk, &bytes)?;
            watch.count(bytes.len() as u64);
            Ok(())
        },
    )?;
    stop.check()?;
    restore.finish()?;
    Ok(RestoreReport { name, chunks: chunks.len() as u64, bytes: watch.bytes() })
}

fn log_pieces(manifest: &crate::manifest::Manifest) -> Vec<LogPiece> {
    let mut slots: HashMap<u32, u64> = HashMap::new();
    let mut all = Vec::new();
    for extent in manifest.logs.iter().flat_map(|(_, extents)| extents) {
        let next = slots.entry(extent.log).or_default();
        let mut offset = 0;
        for piece in &extent.pieces {
            let (log, slot, extent_bytes) = (extent.log as usize, *next, extent.extent_bytes);
            all.push(LogPiece { log, slot, extent_bytes, offset, piece: *piece });
            offset += u64::from(piece.bytes);
        }
        *next += 1;
    }
    all
}
