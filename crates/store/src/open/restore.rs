//! A database made anew from what was copied of another: its chunks, its logs, and at last its superblocks.
//!
//! It is written beside its path, as `<path>.restoring`, and its logs where they will lie. The very last step gives it
//! its name; so what an interruption leaves is no database, and the next restoration to the same path takes it away.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use saki_base::TableId;
use saki_catalog::{LogState, Result, Sequence, SequencePosition, SqlError};
use saki_io::Device;
use saki_mvcc::NewLogs;
use saki_thin::{Source, path_of};
use saki_tier::PolicyKind;
use saki_volume::{Class, Image, Restoration, RestorationWriter};

use super::thin;
use crate::checkpoint::LogRange;
use crate::database::devices::{label_of, open_bare, open_member, source};
use crate::database::{Database, OpenOptions};
use crate::delta::{LogDirectory, LogStore, range_of};

/// A database that is being made. Dropped before it is finished, it leaves nothing.
pub struct Restore {
    path: PathBuf,
    /// What it is called until it is whole.
    work: PathBuf,
    directory: LogDirectory,
    restoration: Option<Restoration>,
    logs: Option<(LogRange, Vec<Arc<dyn Device>>)>,
    /// Of sequences, where they differ from the image's.
    positions: Vec<(TableId, SequencePosition)>,
}

impl Restore {
    /// Begins to make a database at `path`, where there is nothing, or a block device without a database. With a
    /// source no chunks are to be written: they come when they are first read, and `path` is no block device.
    ///
    /// # Errors
    /// 58P02 if there is something; of storage.
    pub fn begin(path: &Path, image: Image, logs: Option<LogRange>, source: Option<&Source>) -> Result<Self> {
        let is_block_device = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
        let work = if is_block_device { path.to_owned() } else { suffixed(path, ".restoring") };
        let directory = LogDirectory::beside(path);
        let options = OpenOptions::default();
        if !is_block_device {
            refuse_existing(path)?;
        }
        if !is_block_device && work.exists() {
            // Whoever is at work on it has it locked.
            drop(open_bare(&work, &options, false).map_err(SqlError::storage)?);
            remove(&work, &directory)?;
        }
        refuse_existing(Path::new(&directory.name()))?;
        source::forget(path)?;
        if let Some(source) = source {
            if is_block_device {
                let why = format!("{}: a clone is made as a file, not on a block device", path.display());
                return Err(SqlError::invalid(why).code("58P02").hint("restore the backup to it"));
            }
            thin::reserve(&work, source)?;
        }
        let device = open_member(&work, Class::Standard, &options, true).map_err(SqlError::storage)?;
        let mut restore =
            Self { path: path.to_owned(), work, directory, restoration: None, logs: None, positions: Vec::new() };
        if let Some(source) = source {
            thin::note_source(&restore.work, source)?;
        }
        let begun = Restoration::begin(device, label_of(path), image);
        restore.restoration = Some(begun?);
        if let Some(range) = logs {
            restore.directory.clear()?;
            let devices = restore.directory.open(range.state.logs)?;
            restore.logs = Some((range, devices));
        }
        Ok(restore)
    }

    /// A writer of chunks for one thread; each chunk of the image is written once.
    ///
    /// # Errors
    /// Of storage.
    pub fn writer(&self) -> Result<RestorationWriter<'_>> {
        Ok(self.restoration().writer()?)
    }

    fn restoration(&self) -> &Restoration {
        self.restoration.as_ref().expect("until it is finished")
    }

    /// Puts bytes of an extent into its slot of a log, from `offset` on; each extent has a slot of its own, counted
    /// from 0.
    ///
    /// # Errors
    /// If there is no such log; of storage.
    pub fn write_extent(&self, log: usize, slot: u64, extent: (u64, u64), bytes: &[u8]) -> Result<()> {
        let device = self.logs.as_ref().and_then(|(_, devices)| devices.get(log));
        let device = device.ok_or_else(|| SqlError::corrupt(format!("there is no log {log} in what is restored")))?;
        Ok(saki_mvcc::write_log_extent(device, log, slot, extent, bytes)?)
    }

    /// Begins to write the logs record by record, from behind what has been merged, instead of extent by extent. To be
    /// finished before [`Self::finish`].
    ///
    /// # Errors
    /// If it has no logs; of storage.
    pub fn new_logs(&self) -> Result<NewLogs> {
        let logs = self.logs.as_ref();
        let (LogRange { state, .. }, devices) =
            logs.ok_or_else(|| SqlError::corrupt("there are no logs to restore"))?;
        Ok(NewLogs::begin(devices.clone(), identity(*state)?, state.merged_through)?)
    }

    /// Positions that sequences of the image are to have.
    pub fn positions(&mut self, positions: Vec<(TableId, SequencePosition)>) {
        self.positions = positions;
    }

    /// Makes what was written a database.
    ///
    /// # Errors
    /// If the logs lack something; of storage. Then there is none.
    pub fn finish(mut self) -> Result<()> {
        if let Some((LogRange { state, through }, devices)) = self.logs.take() {
            let range = saki_mvcc::Range { through, ..range_of(state) };
            saki_mvcc::end_logs_at(devices, identity(state)?, range)?;
            sync_directory(Path::new(&self.directory.name()))?;
        }
        if let Some(parent) = self.path.parent() {
            sync_directory(parent)?;
        }
        self.restoration.take().expect("until now").finish()?;
        self.move_sequences().map_err(|error| {
            error.hint("the database may be there with sequences that give values again: restore it once more")
        })?;
        if self.work != self.path {
            // Between the look for it and now somebody may have made one.
            refuse_existing(&self.path)?;
            // First what it lacks: without that it would be damaged, and a source by itself is in nobody's way.
            move_source(&self.work, &self.path)?;
            std::fs::rename(&self.work, &self.path).map_err(|error| SqlError::of_file(self.path.display(), error))?;
            self.work.clone_from(&self.path);
        }
        match self.path.parent() {
            Some(parent) => sync_directory(parent),
            None => Ok(()),
        }
    }

    /// Publishes the positions of sequences, if they are others than the image's.
    fn move_sequences(&self) -> Result<()> {
        let positions = &self.positions;
        if positions.is_empty() {
            return Ok(());
        }
        let directory = self.directory.directory().map(Path::to_owned);
        let options = OpenOptions { log_directory: directory, tier_policy: PolicyKind::None, ..OpenOptions::default() };
        let db = Database::open(&self.work, options)?;
        let moved = |sequence: &Arc<Sequence>| {
            let (_, position) = *positions.iter().find(|(id, _)| *id == sequence.id)?;
            (position != sequence.position).then(|| Sequence { position, ..Sequence::clone(sequence) })
        };
        let moved: Vec<Sequence> = db.generation().catalog.sequences().filter_map(moved).collect();
        if moved.is_empty() {
            return Ok(());
        }
        db.write(|writer| {
            moved.into_iter().for_each(|sequence| writer.catalog.put_sequence(sequence));
            Ok(())
        })
    }
}

/// By which the logs are told from those of other databases.
fn identity(state: LogState) -> Result<u64> {
    state.database.ok_or_else(|| SqlError::corrupt("logs without an identity are restored"))
}

impl Drop for Restore {
    fn drop(&mut self) {
        let is_whole = self.work == self.path && self.restoration.is_none();
        if is_whole {
            return;
        }
        self.restoration = None;
        self.logs = None;
        if self.work == self.path {
            // A block device: without superblocks it holds nothing.
            let _ = std::fs::remove_dir_all(self.directory.name());
        } else if let Err(error) = remove(&self.work, &self.directory) {
            tracing::warn!("{error}");
        }
    }
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn refuse_existing(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(_) => Err(SqlError::invalid(format!("{}: is there already, and is not overwritten", path.display()))
            .code("58P02")
            .hint("choose another path, or remove it first")),
    }
}

/// Takes away what an unfinished restoration has left: the logs first, for as long as the rest is there it is known
/// whose they are.
fn remove(work: &Path, directory: &LogDirectory) -> Result<()> {
    if directory.exists() {
        directory.remove()?;
    }
    source::forget(work)?;
    std::fs::remove_file(work).map_err(|error| SqlError::of_file(work.display(), error))
}

/// Gives the source of a database, if it has one, the name that goes with another of the database's.
fn move_source(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (path_of(from), path_of(to));
    match std::fs::rename(&from, &to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SqlError::of_file(from.display(), error)),
        _ => Ok(()),
    }
}

/// Makes names of a directory durable.
fn sync_directory(path: &Path) -> Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| SqlError::of_file(path.display(), error))
}
