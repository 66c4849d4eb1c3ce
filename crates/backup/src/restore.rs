//! A database made from a backup, and of what was archived behind it.

use std::collections::HashMap;
use std::path::Path;

use saki_catalog::{Result, SqlError};
use saki_store::{LogRecord, Restore, Stop};
use saki_thin::{Piece, Source};

use crate::Progress;
use crate::archive::{Chosen, Records, choose};

use crate::parallel::{Watch, each};
use crate::repository::Repository;

/// What a restoration came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreReport {
    /// The backup's name.
    pub name: String,
    pub chunks: u64,
    /// Records of an archive behind it, those that say nothing among them.
    pub archived: u64,
    /// When what it has was durable, in microseconds since 1970.
    pub micros: i64,
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

/// What a database is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted<'a> {
    /// The newest backup.
    Newest,
    /// The backup of that name.
    Backup(&'a str),
    /// What was durable at a moment, in microseconds since 1970, as far as an archive knows; without one, the last
    /// backup before it.
    Until(i64),
}

/// Makes a database at `path`, where there is nothing. It is on that one device, whatever devices it had, and opens by
/// ordinary recovery.
///
/// # Errors
/// 58P02 if there is something at `path`; 58P01 if there is no such backup, or none before the moment; XX001 if an
/// object is missing or damaged, which is named; of the target and of the new database's device. Then there is no
/// database at `path`.
pub fn restore(
    target: &str,
    wanted: Wanted<'_>,
    path: &Path,
    stop: &Stop,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RestoreReport> {
    make((target, wanted), path, Content::Copied, stop, progress)
}

/// Makes a database at `path`, where there is nothing, whose chunks stay in the target until they are first read. It is
/// used as any other, and may be changed; what it needs of the target must stay there until it is
/// [complete](crate::complete).
///
/// # Errors
/// As of [`restore`]; what is missing of the target is found when it is read.
pub fn clone(
    target: &str,
    wanted: Wanted<'_>,
    path: &Path,
    stop: &Stop,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RestoreReport> {
    make((target, wanted), path, Content::Away, stop, progress)
}

/// What becomes of the chunks of a database that is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Copied,
    /// They stay where they are until they are first read.
    Away,
}

fn make(
    (target, wanted): (&str, Wanted<'_>),
    path: &Path,
    content: Content,
    stop: &Stop,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RestoreReport> {
    let repository = Repository::open(target, false)?;
    let Chosen { backup: name, manifest, micros, records } = match wanted {
        Wanted::Newest => of_backup(&repository, None)?,
        Wanted::Backup(name) => of_backup(&repository, Some(name))?,
        Wanted::Until(until) => choose(&repository, until)?,
    };
    let mut range = manifest.logs.as_ref().map(|(range, _)| *range);
    if let (Some(range), Some(records)) = (&mut range, &records) {
        range.through = records.through;
    }
    let source = match content {
        Content::Copied => None,
        Content::Away => Some(Source { target: lasting(target)?, pieces: manifest.chunks.clone() }),
    };
    let mut restore = Restore::begin(path, manifest.image.clone(), range, source.as_ref())?;
    let extents = if records.is_none() { log_pieces(&manifest) } else { Vec::new() };
    let segments = records.as_ref().map_or(0, |records| records.segments.len());
    let copied = if source.is_some() { 0 } else { manifest.chunks.len() };
    let watch = Watch::new(progress, (copied + extents.len() + segments) as u64);
    each(
        extents.len(),
        stop,
        || Ok(()),
        |(), at| {
            let LogPiece { log, slot, extent_bytes, offset, piece } = &extents[at];
            let bytes = repository.get(piece)?;
            restore.write_extent(*log, *slot, (*extent_bytes, *offset), &bytes)?;
            watch.count(bytes.len() as u64);
            Ok(())
        },
    )?;
    if let Some(records) = &records {
        write_records(&repository, records, manifest.merged_through(), &restore, stop, &watch)?;
        restore.positions(records.sequences.clone());
    }
    let chunks = &manifest.image.chunks;
    each(
        copied,
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
    let archived = records.map_or(0, |records| records.through - manifest.merged_through());
    Ok(RestoreReport { name, chunks: chunks.len() as u64, archived, micros, bytes: watch.bytes() })
}

/// A target by a name that means the same wherever a program is started.
fn lasting(target: &str) -> Result<String> {
    if saki_objects::is_remote(target) {
        return Ok(target.to_owned());
    }
    let path = std::fs::canonicalize(target).map_err(|error| SqlError::of_file(target, error))?;
    path.into_os_string().into_string().map_err(|path| {
        SqlError::invalid(format!("{}: the name of a directory to clone from is UTF-8", path.display()))
    })
}

fn of_backup(repository: &Repository, name: Option<&str>) -> Result<Chosen> {
    let (backup, manifest) = repository.choose(name)?;
    Ok(Chosen { backup, micros: manifest.made_micros, manifest, records: None })
}

/// Writes the logs anew, with the records behind what has been merged.
fn write_records(
    repository: &Repository,
    records: &Records,
    merged_through: u64,
    restore: &Restore,
    stop: &Stop,
    watch: &Watch<'_>,
) -> Result<()> {
    let mut logs = restore.new_logs()?;
    for name in &records.segments {
        stop.check()?;
        let segment = repository.segment(&records.run, name)?;
        let is_wanted = |it: &&LogRecord| it.timestamp > merged_through && it.timestamp <= records.through;
        for record in segment.records.iter().filter(is_wanted) {
            logs.append(record)?;
        }
        watch.count(name.bytes);
    }
    Ok(logs.finish().map(drop)?)
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
