//! Making a backup.

use std::collections::HashSet;

use parking_lot::Mutex;
use saki_base::wall_micros;
use saki_catalog::{Result, SqlError};
use saki_store::{Database, Pace, Still, StillLogs, Stop};
use saki_thin::Piece;

use crate::Progress;
use crate::manifest::{Extent, Manifest};
use crate::parallel::{Watch, each};
use crate::repository::Repository;

/// Bytes of an extent of a log that are one piece at most.
const LOG_PIECE_BYTES: u64 = 8 << 20;

/// Databases of which this process makes a backup just now.
static UNDER_WAY: Mutex<Vec<u128>> = Mutex::new(Vec::new());

/// What a backup came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupReport {
    /// By which it is restored.
    pub name: String,
    /// Objects that it has, and those that were not there already.
    pub objects: u64,
    pub new_objects: u64,
    pub new_bytes: u64,
}

/// Makes a backup of a database that is open, while others read and write it: of everything that has been acknowledged
/// by now. Waits; belongs on a thread that may.
///
/// # Errors
/// 55006 if another is being made, or somebody prunes; 57014 if it is told to stop; of the database's devices and of
/// the target, naming what could not be read or written. Then there is no backup more than before.
pub fn backup(db: &Database, target: &str, stop: &Stop, progress: &(dyn Fn(Progress) + Sync)) -> Result<BackupReport> {
    let repository = Repository::open(target, true)?;
    refuse_other(&repository, db)?;
    backup_of(db, &repository, true, stop, progress, |_| Ok(())).map(|made| made.report)
}

/// A backup that has been made.
pub struct Made {
    pub report: BackupReport,
    /// [`saki_store::Generation::unlogged`] of what it has.
    pub unlogged: u64,
}

/// Makes a backup, after a checkpoint if that is wanted: what the logs still have is little then. Whoever has something
/// to `add` about it does so before old ones may be pruned.
///
/// # Errors
/// As of [`backup`].
pub fn backup_of(
    db: &Database,
    repository: &Repository,
    merges_first: bool,
    stop: &Stop,
    progress: &(dyn Fn(Progress) + Sync),
    add: impl FnOnce(&Made) -> Result<()>,
) -> Result<Made> {
    let _turn = Turn::take(db.volume().database_id())?;
    repository.begin_backup()?;
    let made = make(db, repository, merges_first, stop, progress).and_then(|made| add(&made).map(|()| made));
    // What is left of it says so to whoever prunes; the error that led here is the one to be told.
    match (made, repository.end_backup()) {
        (Ok(made), ended) => ended.map(|()| made),
        (Err(error), _) => Err(error),
    }
}

fn make(
    db: &Database,
    repository: &Repository,
    merges_first: bool,
    stop: &Stop,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Made> {
    let there = repository.objects()?;
    if merges_first && db.writable().is_ok() {
        // What the logs still have is copied before the next checkpoint is due.
        db.checkpoint_unless(&Pace::beside_queries(), stop)?;
    }
    let upload = Upload { repository, there: Mutex::new(there.into_iter().collect()), stop };
    let still = db.still_unless(stop)?;
    // What it has is of now, however long it takes to copy.
    let made_micros = wall_micros();
    let jobs = still.logs().map_or_else(Vec::new, log_jobs);
    let watch = Watch::new(progress, (still.image().image().chunks.len() + jobs.len()) as u64);
    let counts = Mutex::new((0, 0));
    let logs = upload.logs(&still, &jobs, &watch, &counts)?;
    let unlogged = still.unlogged();
    let held = still.into_image();
    let chunks = &held.image().chunks;
    let pieces = Mutex::new(vec![Piece::of(&[]); chunks.len()]);
    each(
        chunks.len(),
        stop,
        || Ok(held.reader()?),
        |reader, at| {
            let bytes = reader.read(&chunks[at])?;
            let piece = upload.put(without_zeros(&bytes), &watch, &counts)?;
            pieces.lock()[at] = piece;
            Ok(())
        },
    )?;
    stop.check()?;
    let devices = db.devices().into_iter().map(|device| device.entry.label).collect();
    let image = held.image().clone();
    let manifest = Manifest { made_micros, image, devices, chunks: pieces.into_inner(), logs };
    let objects = manifest.pieces().filter(|piece| !piece.is_empty()).collect::<HashSet<_>>().len() as u64;
    let (new_objects, new_bytes) = counts.into_inner();
    let report = BackupReport { name: repository.write(&manifest)?, objects, new_objects, new_bytes };
    Ok(Made { report, unlogged })
}

/// Refuses a target with backups of another database.
pub fn refuse_other(repository: &Repository, db: &Database) -> Result<()> {
    for name in repository.names()?.iter().rev() {
        // A damaged manifest says nothing; whoever checks is told.
        let Ok(manifest) = repository.read(name) else { continue };
        return match manifest.image.database_id == db.volume().database_id() {
            true => Ok(()),
            false => Err(SqlError::invalid("the target has backups of another database")
                .code("55000")
                .hint("give each database a directory or prefix of its own")),
        };
    }
    Ok(())
}

/// A piece of an extent that is to be copied: which extent, from where, how long.
struct LogJob {
    extent: usize,
    offset: u64,
    bytes: usize,
}

fn log_jobs(logs: &StillLogs<'_>) -> Vec<LogJob> {
    let of_extent = |(extent, it): (usize, &saki_store::LogExtent)| {
        let end = it.bytes;
        let job = move |offset| LogJob { extent, offset, bytes: (end - offset).min(LOG_PIECE_BYTES) as usize };
        (0..end).step_by(LOG_PIECE_BYTES as usize).map(job)
    };
    logs.extents().iter().enumerate().flat_map(of_extent).collect()
}

/// Puts pieces where they are not yet.
struct Upload<'a> {
    repository: &'a Repository,
    /// Objects, and how long they are.
    there: Mutex<std::collections::HashMap<String, u64>>,
    stop: &'a Stop,
}

impl Upload<'_> {
    fn put(&self, bytes: &[u8], watch: &Watch<'_>, counts: &Mutex<(u64, u64)>) -> Result<Piece> {
        let piece = Piece::of(bytes);
        let length = u64::from(piece.bytes);
        let name = piece.name();
        let is_there = || self.there.lock().get(&name) == Some(&length);
        if piece.is_empty() || is_there() {
            watch.count(0);
            return Ok(piece);
        }
        self.repository.put(&piece, bytes.to_vec())?;
        if self.there.lock().insert(name, length) != Some(length) {
            let mut counts = counts.lock();
            counts.0 += 1;
            counts.1 += length;
        }
        watch.count(length);
        Ok(piece)
    }

    fn logs(
        &self,
        still: &Still<'_>,
        jobs: &[LogJob],
        watch: &Watch<'_>,
        counts: &Mutex<(u64, u64)>,
    ) -> Result<Option<(saki_store::LogRange, Vec<Extent>)>> {
        let Some(logs) = still.logs() else { return Ok(None) };
        let pieces = Mutex::new(vec![None; jobs.len()]);
        each(
            jobs.len(),
            self.stop,
            || Ok(()),
            |(), at| {
                let LogJob { extent, offset, bytes } = jobs[at];
                let read = logs.read(&logs.extents()[extent], offset, bytes)?;
                let piece = read.map(|bytes| self.put(&bytes, watch, counts)).transpose()?;
                pieces.lock()[at] = Some(piece);
                Ok(())
            },
        )?;
        let pieces = pieces.into_inner();
        let of_extent = |(number, it): (usize, &saki_store::LogExtent)| {
            let own = jobs.iter().zip(&pieces).filter(|(job, _)| job.extent == number);
            // One of which a part is gone is not needed any more.
            let pieces = own.map(|(_, piece)| piece.flatten()).collect::<Option<Vec<_>>>()?;
            Some(Extent { log: it.log as u32, extent_bytes: it.extent_bytes, pieces })
        };
        let extents = logs.extents().iter().enumerate().filter_map(of_extent).collect();
        Ok(Some((logs.range(), extents)))
    }
}

/// Bytes without the zeros at their end: those of an open chunk are most of it.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The right to make a backup of a database.
struct Turn(u128);

impl Turn {
    fn take(database: u128) -> Result<Self> {
        let mut under_way = UNDER_WAY.lock();
        if under_way.contains(&database) {
            return Err(SqlError::invalid("a backup of the database is being made")
                .code("55006")
                .hint("wait until it is done"));
        }
        under_way.push(database);
        Ok(Self(database))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        UNDER_WAY.lock().retain(|database| *database != self.0);
    }
}
