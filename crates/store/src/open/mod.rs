//! Opening a database: its device and volume, the catalog, and what the logs bring back.

mod engine;
mod restore;
mod simulated;
pub(crate) mod thin;

#[cfg(test)]
mod tests;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};
use saki_columns::ColumnCache;
use saki_exec::{Executor, ExecutorOptions, SegmentReader};
use saki_io::Device;
use saki_page::{PageCache, PageStore, RunStore};
use saki_volume::{Class, Volume, VolumeOptions};

use crate::database::devices::{adopt_hints, finder, label_of, new_device, open_member, parse_model};
use crate::database::{
    CreateOptions, Database, DeviceSpec, Generation, Identity, OpenOptions, SegmentTables, read_catalog, tier_of,
};
use crate::delta::{Engine, LogDirectory, LogStore, PerTable, Room};
use crate::locks::Turns;
use saki_catalog::{Catalog, Result, SharedMap, SqlError};

pub use self::restore::Restore;
pub use self::simulated::SimStorage;
pub use self::thin::complete_clone;

impl Database {
    /// Makes an empty database at `path`, a file or a block device, and on the other devices that the options name, and
    /// opens it.
    pub fn create(path: impl AsRef<Path>, options: CreateOptions) -> Result<Arc<Self>> {
        options.open.model.as_deref().map(parse_model).transpose()?;
        let first = DeviceSpec { path: path.as_ref().to_owned(), bytes: None, class: Class::Standard };
        let devices = std::iter::once(&first).chain(&options.devices).map(|spec| new_device(spec, &options.open));
        let devices = devices.collect::<Result<Vec<_>>>()?;
        let device = Arc::clone(&devices[0].device);
        let volume_options = VolumeOptions { number: options.volume_number, ..VolumeOptions::new(options.page_size) };
        let volume = Volume::create_on(devices, volume_options)?;
        let logs = logs_of(path.as_ref(), &options.open);
        Self::start(path.as_ref(), device, volume, logs, options.open)
    }

    /// Opens the database at `path` at its newest published generation. Of several devices `path` is one that holds the
    /// metadata; the others are found by it. What lies on one that is missing cannot be read:
    /// [`Volume::missing_devices`].
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Arc<Self>> {
        let device = open(path.as_ref(), &options)?;
        warn_of_readers(path.as_ref());
        let volume_options = saki_volume::OpenOptions {
            accept_loss: options.accept_loss,
            find: Some(finder(path.as_ref(), &options)),
            label: Some(label_of(path.as_ref())),
            ..saki_volume::OpenOptions::default()
        };
        let volume = Volume::open_with(Arc::clone(&device), volume_options)?;
        adopt_hints(path.as_ref(), &volume, &options);
        let logs = logs_of(path.as_ref(), &options);
        Self::start(path.as_ref(), device, volume, logs, options)
    }

    /// Opens what a device has, whose volume is open, with the logs that go with it; `path` is what it is called.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn start(
        path: &Path,
        device: Arc<dyn Device>,
        volume: Arc<Volume>,
        logs: Arc<dyn LogStore>,
        options: OpenOptions,
    ) -> Result<Arc<Self>> {
        let cache = cache_of(&volume, &options)?;
        let store: Arc<dyn PageStore> = Arc::clone(&volume) as _;
        let mut executor_options = ExecutorOptions { pin: options.pin, ..ExecutorOptions::default() };
        if let Some(reactors) = options.reactors {
            executor_options.reactors = reactors;
        }
        let executor = Executor::start(Arc::clone(&cache), Arc::clone(&store), executor_options)?;
        let codec = saki_columns::codec();
        let columns = ColumnCache::new(options.column_cache_bytes);
        let runs: Arc<dyn RunStore> = Arc::clone(&volume) as _;
        let segment_reader = SegmentReader::start(&runs, columns, Arc::clone(&codec))?;
        let tier = tier_of(&volume, &options)?;
        let guard = volume.hold();
        let catalog = read_catalog(&cache, &store, guard.root())?;
        let segment_tables = Arc::new(SegmentTables::new(&cache, &store));
        let of_table = PerTable { room: Arc::new(Room::new(options.delta_limit_bytes)), ..PerTable::default() };
        let engine = OnceLock::new();
        let mut deltas = SharedMap::default();
        if let Some(recovered) = recover(&*logs, &catalog, &of_table, &volume, &options)? {
            deltas = recovered.deltas(&catalog)?;
            let _ = engine.set(recovered);
        }
        let is_started = engine.get().is_some();
        let number = guard.generation();
        let database = Arc::new_cyclic(|me| Self {
            fetchers: crate::database::Fetchers::new(&cache, &store),
            tier,
            volume,
            store,
            cache,
            executor,
            newest: AtomicU64::new(number.0),
            current: RwLock::new(Arc::new(Generation {
                identity: Identity::next(),
                number,
                unlogged: 0,
                guard,
                catalog,
                segment_tables,
                deltas,
            })),
            codec,
            segment_reader,
            options,
            path: path.to_owned(),
            logs,
            of_table,
            engine,
            checkpoints: Mutex::default(),
            followers: Mutex::default(),
            past: Mutex::default(),
            background: OnceLock::new(),
            me: Weak::clone(me),
            changes_have_ended: AtomicBool::new(false),
            reading_has_ended: AtomicBool::new(false),
            watchers: RwLock::default(),
            readers: Mutex::default(),
            sequences: crate::database::Sequences::default(),
            writing: Turns::default(),
            instants: Default::default(),
            abandoned: Mutex::default(),
            device,
        });
        if !database.options.read_only {
            database.settle_staged()?;
        }
        if is_started {
            database.tend_in_background()?;
        }
        database.tell_wishes(&database.generation().catalog);
        database.move_chunks()?;
        Ok(database)
    }
}

/// Tells if others on the machine may read or write the file of a database: its own mode for new files is 0600.
fn warn_of_readers(path: &Path) {
    let Ok(found) = std::fs::metadata(path) else { return };
    let mode = found.permissions().mode() & 0o777;
    if found.is_file() && mode & 0o077 != 0 {
        let path = path.display();
        tracing::warn!("{path}: others on this machine may reach the database (mode {mode:o}); chmod 600 {path}");
    }
}

/// Opens the first device of a database.
fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    options.model.as_deref().map(parse_model).transpose()?;
    open_member(path, Class::Standard, options, false).map_err(SqlError::storage)
}

/// The logs of the database at `path`.
fn logs_of(path: &Path, options: &OpenOptions) -> Arc<dyn LogStore> {
    let directory = options.log_directory.clone().map(LogDirectory::new);
    Arc::new(directory.unwrap_or_else(|| LogDirectory::beside(path)))
}

fn cache_of(volume: &Volume, options: &OpenOptions) -> Result<Arc<PageCache>> {
    let page_bytes = volume.page_size().bytes();
    let frames = (options.cache_bytes / page_bytes).max(saki_page::FRAMES_MIN as usize);
    let frames = u32::try_from(frames)
        .map_err(|_| SqlError::invalid(format!("a cache of {} bytes has more than 2^32 pages", options.cache_bytes)))?;
    PageCache::new(volume.page_size(), frames)
        .map_err(|error| SqlError::storage(format!("a cache of {} bytes: {error}", options.cache_bytes)))
}

/// The engine with what the logs bring back; none where there are no logs, or they are left out.
fn recover(
    logs: &dyn LogStore,
    catalog: &Catalog,
    of_table: &PerTable,
    volume: &Volume,
    options: &OpenOptions,
) -> Result<Option<Engine>> {
    if catalog.logs.database.is_none() || options.read_only && options.base_only {
        return Ok(None);
    }
    if options.read_only {
        return Err(SqlError::invalid(
            "the database has changes in its logs, which are merged when it is opened for writing",
        )
        .code("25006")
        .hint("end the server that has it open, or open it once without read-only"));
    }
    let (of_table, page_size) = (of_table.clone(), volume.page_size());
    Engine::recover(logs, catalog.logs, catalog, of_table, page_size, options.of_logs()).map(Some)
}
