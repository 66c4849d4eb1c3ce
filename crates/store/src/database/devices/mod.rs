//! The devices of a database: opened by their paths, added, drained, removed.

pub mod source;
pub(super) mod speed;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{CHUNK_BYTES, DeviceId};
use saki_catalog::{Result, SqlError};
use saki_io::{Device, DeviceError, DeviceOptions, ModelError, ModelOptions, ModeledDevice, open_device};
use saki_volume::{Class, DeviceEntry, DeviceStatus, FindDevice, NewDevice, Role, Volume};

use super::{Database, DeviceSpec, OpenOptions};

/// How long opening waits for a device in use. The kernel lets go of a ring's files only some moments after the
/// ring was closed, so a database is still locked whose process was closed, or killed at work, just now.
const IN_USE_PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits before it says so.
const IN_USE_SILENCE: Duration = Duration::from_millis(500);
/// Between two tries.
const IN_USE_PAUSE: Duration = Duration::from_millis(5);

impl Database {
    /// The devices, in the order of their numbers.
    pub fn devices(&self) -> Vec<DeviceStatus> {
        self.volume.devices()
    }

    /// Makes a device part of the database.
    ///
    /// # Errors
    /// If it belongs to a database already, cannot be opened, or the database is open for reading only.
    pub fn add_device(&self, spec: &DeviceSpec) -> Result<DeviceId> {
        self.writable()?;
        let number = self.volume.add_device(new_device(spec, &self.options)?)?;
        self.tier.devices_changed();
        self.move_chunks()?;
        Ok(number)
    }

    /// Moves what is at home on a device to the others; returns how many bytes that were. `name`: its path, or number.
    ///
    /// # Errors
    /// If nothing else takes it, or a device fails; what has not moved stays readable where it is.
    pub fn drain_device(&self, name: &str) -> Result<u64> {
        self.writable()?;
        Ok(self.volume.drain_device(self.device_called(name)?)? * CHUNK_BYTES as u64)
    }

    /// Takes a device, on which nothing is at home any more, out of the database.
    ///
    /// # Errors
    /// If it is still needed.
    pub fn remove_device(&self, name: &str) -> Result<()> {
        self.writable()?;
        self.volume.remove_device(self.device_called(name)?)?;
        self.tier.devices_changed();
        Ok(())
    }

    /// Has the next opening know which chunks are copied.
    pub(crate) fn keep_hints(&self) -> Result<()> {
        if self.options.read_only || self.volume.copies().is_empty() {
            return Ok(());
        }
        let path = hints_of(&self.path);
        std::fs::write(&path, self.volume.copy_hints()?).map_err(|error| SqlError::of_file(path.display(), error))
    }

    fn device_called(&self, name: &str) -> Result<DeviceId> {
        let devices = self.volume.devices();
        let label = label_of(Path::new(name));
        let by_label = devices.iter().find(|it| it.entry.label == label || it.entry.label == name);
        let by_number =
            || name.parse::<u16>().ok().and_then(|number| devices.iter().find(|it| it.entry.number.0 == number));
        by_label.or_else(by_number).map(|it| it.entry.number).ok_or_else(|| {
            let names: Vec<_> = devices.iter().map(|it| it.entry.label.as_str()).collect();
            SqlError::invalid(format!("the database has no device {name:?}; it has {}", names.join(", "))).code("42704")
        })
    }
}

/// Takes up the copies that there were when the database at `path` was closed. They count once: what is copied from
/// then on may lie where they did.
pub fn adopt_hints(path: &Path, volume: &Volume, options: &OpenOptions) {
    let path = hints_of(path);
    let Ok(hints) = std::fs::read(&path) else { return };
    let count = volume.adopt_copies(&hints);
    tracing::debug!("{}: {count} MiB are on faster devices", path.display());
    if !options.read_only
        && let Err(error) = std::fs::remove_file(&path)
    {
        tracing::warn!("{}: cannot be removed: {error}", path.display());
    }
}

fn hints_of(path: &Path) -> PathBuf {
    path.with_extension("copies")
}

/// By what a device is found again: its path, wherever the process that looks for it was started.
pub fn label_of(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Opens a device that is to be part of a database, and reserves what it is to have.
pub fn new_device(spec: &DeviceSpec, options: &OpenOptions) -> Result<NewDevice> {
    source::expect_none(&spec.path)?;
    let device = open_member(&spec.path, spec.class, options, true).map_err(SqlError::storage)?;
    let slots_max = spec.bytes.map(|bytes| bytes / CHUNK_BYTES as u64);
    if slots_max.is_some_and(|slots| slots < 2) {
        return Err(SqlError::invalid(format!("{}: a device has 2 MiB at least", spec.path.display())));
    }
    if let Some(slots) = slots_max {
        device.ensure_length(slots * CHUNK_BYTES as u64).map_err(saki_volume::VolumeError::from)?;
    }
    let role = if spec.class == Class::Fast { Role::COPIES } else { Role::HOMES };
    Ok(NewDevice { device, label: label_of(&spec.path), class: spec.class, role, slots_max })
}

/// Opens the devices of the database at `path` by what its table says: where they were, or beside `path`, if all have
/// been moved together.
pub fn finder(path: &Path, options: &OpenOptions) -> FindDevice {
    let (path, options) = (path.to_owned(), options.clone());
    Arc::new(move |entry: &DeviceEntry| {
        let labelled = Path::new(&entry.label);
        let beside = labelled.file_name().and_then(|name| Some(path.parent()?.join(name)));
        match beside.filter(|beside| !labelled.exists() && beside.exists()) {
            Some(beside) => open_member(&beside, entry.class, &options, false),
            None => open_member(labelled, entry.class, &options, false),
        }
    })
}

/// Opens one device, waiting a little if it is in use; with what it lacks behind it, if it is a clone's. A fast one is
/// what it is: models are of those that hold homes.
pub fn open_member(
    path: &Path,
    class: Class,
    options: &OpenOptions,
    create: bool,
) -> std::result::Result<Arc<dyn Device>, DeviceError> {
    let device = open_bare(path, options, create)?;
    // What is being made lacks nothing, whatever lies beside it.
    let device = if create { device } else { saki_thin::with_source(path, device)? };
    let model = options.model.as_deref().filter(|_| class != Class::Fast).map(parse_model).transpose();
    Ok(match model {
        Ok(Some(model)) => ModeledDevice::new(device, model),
        // What is no model is refused before a device is opened.
        Ok(None) | Err(_) => device,
    })
}

/// Opens what is at `path` as it is.
pub fn open_bare(
    path: &Path,
    options: &OpenOptions,
    create: bool,
) -> std::result::Result<Arc<dyn Device>, DeviceError> {
    let device_options =
        DeviceOptions { backend: options.backend, read_only: options.read_only, direct: options.direct, create };
    let began = Instant::now();
    let mut is_told = false;
    loop {
        match open_device(path, device_options.clone()) {
            Err(error @ DeviceError::InUse { .. }) if began.elapsed() < IN_USE_PATIENCE => {
                if !is_told && began.elapsed() > IN_USE_SILENCE {
                    tracing::warn!("{error}; waiting for up to {} seconds", IN_USE_PATIENCE.as_secs());
                    is_told = true;
                }
                std::thread::sleep(IN_USE_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// The device that `modeled:…` names.
pub fn parse_model(text: &str) -> Result<ModelOptions> {
    text.parse().map_err(|error: ModelError| SqlError::invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CreateOptions;
    use crate::fixture::{Bench, Shape, options};

    fn spec(directory: &Path, name: &str, class: Class) -> DeviceSpec {
        DeviceSpec { path: directory.join(name), bytes: Some(64 << 20), class }
    }

    #[test]
    fn devices_come_and_go_while_rows_are_read() {
        let mut bench = Bench::new(Shape::default());
        let directory = bench.path().parent().expect("a directory").to_owned();
        bench.load((0..40_000).map(|id| (id, id % 7))).expect("loaded");
        let (slow, fast) = (spec(&directory, "more", Class::Standard), spec(&directory, "fast", Class::Fast));
        assert_eq!(bench.db().add_device(&slow).expect("added"), DeviceId(1));
        assert_eq!(bench.db().add_device(&fast).expect("added"), DeviceId(2));
        assert!(bench.db().add_device(&slow).is_err(), "it is one already");
        assert!(bench.db().drain_device(&bench.path().display().to_string()).expect("drained") > 0);
        bench.db().drop_caches();
        assert_eq!(bench.moment().range().len(), 40_000);
        let volume = bench.db().volume();
        let chunks: Vec<_> = volume.published_chunks().into_iter().map(|it| it.chunk).collect();
        assert!(volume.promote(&chunks, DeviceId(2)).expect("copied") > 0);
        bench.db().drop_caches();
        assert_eq!((bench.moment().range().len(), bench.moment().columns().len()), (40_000, 40_000));
        bench.check();
        // Copies outlive a clean restart.
        let copies = volume.copies();
        bench.db().close().expect("closed");
        bench.reopen();
        assert!(bench.db().volume().copies().iter().all(|copy| copies.contains(copy)));
        assert!(!bench.db().volume().copies().is_empty());
        bench.check();
        bench.db().start_engine().expect("closing has ended it");
        assert_eq!(bench.db().drain_device("nobody").expect_err("refused").sqlstate(), "42704");
        bench.db().remove_device("2").expect("copies only");
        bench.load((40_000..41_000).map(|id| (id, 1))).expect("loaded");
        assert_eq!(bench.moment().range().len(), 41_000);
        bench.check();
    }

    #[test]
    fn a_missing_device_is_told_and_a_moved_database_finds_its_devices() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("database");
        let devices = vec![spec(directory.path(), "second", Class::Slow), spec(directory.path(), "third", Class::Slow)];
        let made = CreateOptions { devices, open: options(), ..CreateOptions::default() };
        drop(Database::create(&path, made).expect("made"));
        let third = directory.path().join("third");
        std::fs::rename(&third, directory.path().join("away")).expect("renamed");
        let db = Database::open(&path, options()).expect("degraded");
        let missing = db.volume().missing_devices();
        assert!(missing.len() == 1 && missing[0].0.ends_with("third"), "{missing:?}");
        let faults = db.check(&mut |_| {}).expect("checked").faults;
        assert!(faults.iter().any(|fault| fault.what.contains("third")), "{faults:?}");
        drop(db);
        std::fs::rename(directory.path().join("away"), &third).expect("renamed");
        let elsewhere = tempfile::tempdir().expect("a directory");
        for name in ["database", "second", "third"] {
            std::fs::rename(directory.path().join(name), elsewhere.path().join(name)).expect("moved");
        }
        let db = Database::open(elsewhere.path().join("database"), options()).expect("opened");
        assert_eq!(db.volume().missing_devices(), []);
    }
}
