//! A database: its device, volume, cache and reactors, and the snapshot that statements begin with.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use saki_base::PageSize;
use saki_columns::{Codec, ColumnCache, ColumnsError};
use saki_exec::{ExecError, Executor, ExecutorOptions, SegmentReader};

use saki_io::{
    Backend, CalibrateOptions, CalibrateProgress, Device, DeviceError, DeviceOptions, DeviceProfile, ModelError,
    ModelOptions, ModeledDevice, calibrate, open_device,
};
use saki_page::{IoShare, PageCache, PageError, PageStore};
use saki_tree::{CachedReader, TreeError, TreeReader, TreeRoot};
use saki_vector::VectorError;
use saki_volume::{Volume, VolumeError, VolumeOptions};

use crate::base_reader::BaseReader;
use crate::catalog::{CATALOG_TREE, Catalog};
use crate::cost::DeviceSpeed;
use crate::delta::{Checkpointer, Engine, Gates, Release, log_directory};
use crate::dialect;
use crate::error::{Result, SqlError};
use crate::memory;
use crate::pg_catalog::SystemViews;
use crate::plan_cache::PlanCache;
use crate::segments::SegmentTables;
use crate::sequence::Sequences;
use crate::snapshot::Snapshot;
use crate::storage_views;

/// Page size of a new database, in bytes, unless told otherwise.
pub const PAGE_BYTES_DEFAULT: u32 = 8 << 10;
/// Page cache unless told otherwise, in bytes.
pub const CACHE_BYTES_DEFAULT: usize = 256 << 20;
/// Memory of a bulk load's sorts unless told otherwise, in bytes.
pub const LOAD_MEMORY_BYTES_DEFAULT: usize = 256 << 20;

/// Memory of deltas unless told otherwise, in bytes.
pub const DELTA_BYTES_DEFAULT: u64 = 64 << 20;
/// Length of the logs unless told otherwise, in bytes.
pub const LOG_BYTES_DEFAULT: u64 = 1 << 30;

/// How long opening waits for a device in use. The kernel lets go of a ring's files only some moments after the
/// ring was closed, so a database closed just now is still locked.
const IN_USE_PATIENCE: Duration = Duration::from_millis(500);

/// How to open a database.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Memory for pages.
    pub cache_bytes: usize,
    /// Memory for columns of segments, most of them decoded; a quarter of the machine's unless told otherwise.
    pub column_cache_bytes: usize,
    /// Bounds the sorts of one bulk load or index build, together.
    pub load_memory_bytes: usize,
    /// Rows of a column segment at most, of those that are built from now on.
    pub segment_rows: u32,
    pub backend: Backend,
    /// Resemble another device, for benchmarks and tests: `modeled:cloud-volume` and the like.
    pub model: Option<String>,
    pub read_only: bool,
    /// Bypass the system's page cache.
    pub direct: bool,
    /// Threads that visit pages; `None`: one per core.
    pub reactors: Option<usize>,
    pub pin: bool,
    /// Where the logs lie; `None`: in `<path>.log`. To be given where the database is a block device.
    pub log_directory: Option<PathBuf>,
    /// With `read_only`: what is in the logs and not merged yet is left out. For looking at what is stored.
    pub base_only: bool,
    /// Deltas are merged when they take so much memory.
    pub delta_bytes: u64,
    /// Deltas are merged when the logs have grown so long.
    pub log_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_BYTES_DEFAULT,
            column_cache_bytes: usize::try_from(memory::machine_bytes() / 4).unwrap_or(usize::MAX),
            load_memory_bytes: LOAD_MEMORY_BYTES_DEFAULT,
            segment_rows: saki_columns::SEGMENT_ROWS,
            backend: Backend::Auto,
            model: None,
            read_only: false,
            direct: true,
            reactors: None,
            pin: false,
            log_directory: None,
            base_only: false,
            delta_bytes: DELTA_BYTES_DEFAULT,
            log_bytes: LOG_BYTES_DEFAULT,
        }
    }
}

/// How to make a database.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    pub page_size: PageSize,
    pub open: OpenOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        let page_size = PageSize::new(PAGE_BYTES_DEFAULT).expect("the default is a page size");
        Self { page_size, open: OpenOptions::default() }
    }
}

/// An open database. Sessions hold it open.
pub struct Database {
    pub(crate) volume: Arc<Volume>,
    pub(crate) store: Arc<dyn PageStore>,
    pub(crate) cache: Arc<PageCache>,
    pub(crate) executor: Arc<Executor>,
    pub(crate) current: RwLock<Arc<Snapshot>>,
    /// Of column segments.
    pub(crate) codec: Arc<dyn Codec>,
    pub(crate) segment_reader: Arc<SegmentReader>,
    pub(crate) options: OpenOptions,
    /// Where the logs are, or will be.
    pub(crate) log_directory: PathBuf,
    pub(crate) gates: Arc<Gates>,
    /// Started by the first change that goes to a delta.
    pub(crate) engine: OnceLock<Engine>,
    /// Rows that are merged and still in memory. Held while a checkpoint goes on: there is one at a time.
    pub(crate) checkpoints: Mutex<Vec<Release>>,
    /// Snapshots that are no longer the newest.
    past: Mutex<Vec<Weak<Snapshot>>>,
    background: OnceLock<Checkpointer>,
    me: Weak<Database>,
    /// Readers of pages in memory that nobody uses just now.
    readers: Mutex<Vec<CachedReader>>,
    pub(crate) sequences: Sequences,
    /// Held from a change's beginning until its snapshot is the current one.
    pub(crate) writing: Mutex<()>,
    device: Arc<dyn Device>,
    speed: RwLock<DeviceSpeed>,
    system_views: SystemViews,
    pub(crate) plans: PlanCache,
}

impl Database {
    /// Makes an empty database at `path`, a file or a block device, and opens it.
    pub fn create(path: impl AsRef<Path>, options: CreateOptions) -> Result<Arc<Self>> {
        let device = open(path.as_ref(), &options.open, true)?;
        let volume =
            Volume::create(Arc::clone(&device), VolumeOptions::new(options.page_size)).map_err(volume_error)?;
        Self::start(path.as_ref(), device, volume, options.open)
    }

    /// Opens the database at `path` at its newest published generation.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Arc<Self>> {
        let device = open(path.as_ref(), &options, false)?;
        let volume = Volume::open(Arc::clone(&device)).map_err(volume_error)?;
        Self::start(path.as_ref(), device, volume, options)
    }

    pub(crate) fn start(
        path: &Path,
        device: Arc<dyn Device>,
        volume: Arc<Volume>,
        options: OpenOptions,
    ) -> Result<Arc<Self>> {
        let page_bytes = volume.page_size().bytes();
        let frames = (options.cache_bytes / page_bytes).max(saki_page::FRAMES_MIN as usize);
        let frames = u32::try_from(frames).map_err(|_| {
            SqlError::invalid(format!("a cache of {} bytes has more than 2^32 pages", options.cache_bytes))
        })?;
        let cache = PageCache::new(volume.page_size(), frames)
            .map_err(|error| SqlError::storage(format!("a cache of {} bytes: {error}", options.cache_bytes)))?;
        let store: Arc<dyn PageStore> = Arc::clone(&volume) as _;
        let mut executor_options = ExecutorOptions { pin: options.pin, ..ExecutorOptions::default() };
        if let Some(reactors) = options.reactors {
            executor_options.reactors = reactors;
        }
        let executor = Executor::start(Arc::clone(&cache), Arc::clone(&store), executor_options).map_err(exec_error)?;
        let codec = saki_columns::codec();
        let columns = ColumnCache::new(options.column_cache_bytes);
        let segment_reader = SegmentReader::start(&volume, columns, Arc::clone(&codec)).map_err(exec_error)?;
        let speed = speed_of(&volume, &options)?;
        let guard = volume.snapshot();
        let catalog = read_catalog(&cache, &store, guard.root())?;
        let segment_tables = Arc::new(SegmentTables::new(&cache, &store));
        let log_directory = options.log_directory.clone().unwrap_or_else(|| log_directory(path));
        let gates = Arc::<Gates>::default();
        let engine = OnceLock::new();
        let mut deltas = HashMap::new();
        if options.read_only && catalog.logs.database.is_some() && !options.base_only {
            return Err(SqlError::invalid(
                "the database has changes in its logs, which are merged when it is opened for writing",
            )
            .code("25006")
            .hint("end the server that has it open, or open it once without read-only"));
        }
        if catalog.logs.database.is_some() && !options.read_only {
            let recovered = Engine::recover(&log_directory, catalog.logs, &catalog, Arc::clone(&gates), &|_| {})?;
            deltas = recovered.deltas(&catalog)?;
            let _ = engine.set(recovered);
        }
        let is_started = engine.get().is_some();
        let database = Arc::new_cyclic(|me| Self {
            volume,
            store,
            cache,
            executor,
            current: RwLock::new(Arc::new(Snapshot { guard, catalog, segment_tables, deltas })),
            codec,
            segment_reader,
            options,
            log_directory,
            gates,
            engine,
            checkpoints: Mutex::default(),
            past: Mutex::default(),
            background: OnceLock::new(),
            me: Weak::clone(me),
            readers: Mutex::default(),
            sequences: Sequences::default(),
            writing: Mutex::new(()),
            device,
            speed: RwLock::new(speed),
            system_views: SystemViews::default(),
            plans: PlanCache::default(),
        });
        storage_views::register(&database);
        if is_started {
            database.tend_in_background()?;
        }
        Ok(database)
    }

    /// Begins to merge deltas in the background, if that has not begun.
    pub(crate) fn tend_in_background(&self) -> Result<()> {
        if self.background.get().is_none() {
            let _ = self.background.set(Checkpointer::start(Weak::clone(&self.me))?);
        }
        Ok(())
    }

    /// Makes a snapshot the newest.
    pub(crate) fn succeed(&self, snapshot: Snapshot) {
        let before = std::mem::replace(&mut *self.current.write(), Arc::new(snapshot));
        let mut past = self.past.lock();
        past.retain(|snapshot| snapshot.strong_count() > 0);
        past.push(Arc::downgrade(&before));
        drop(past);
        self.plans.clear();
    }

    /// Snapshots that somebody still reads, but for the newest.
    pub(crate) fn older_snapshots(&self) -> Vec<Weak<Snapshot>> {
        self.past.lock().iter().filter(|snapshot| snapshot.strong_count() > 0).map(Weak::clone).collect()
    }

    /// The views of schema `saki`, for whoever has rows for one.
    pub fn system_views(&self) -> &SystemViews {
        &self.system_views
    }

    /// The newest published snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read())
    }

    /// How often a statement ran by a plan that was kept from an earlier run.
    pub fn plans_reused(&self) -> u64 {
        self.plans.reused()
    }

    pub fn page_size(&self) -> PageSize {
        self.volume.page_size()
    }

    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Backend, path and model of the device, for outputs.
    pub fn device_name(&self) -> String {
        self.device.name()
    }

    pub(crate) fn speed(&self) -> DeviceSpeed {
        *self.speed.read()
    }

    /// Empties the caches of pages and of columns, so that the next statement starts cold.
    pub fn drop_caches(&self) {
        self.cache.clear();
        self.segment_reader.cache().clear();
    }

    /// Measures the device and stores its profile; plans are priced by it from now on.
    pub fn calibrate(&self, progress: &mut dyn FnMut(&CalibrateProgress)) -> Result<DeviceProfile> {
        let profile = calibrate(self.device.as_ref(), &CalibrateOptions::default(), progress)
            .map_err(|error| SqlError::storage(error.to_string()))?;
        if self.options.model.is_none() && !self.options.read_only {
            self.volume.store_device_profile(profile.to_json().as_bytes()).map_err(volume_error)?;
        }
        *self.speed.write() = profile_speed(&profile, self.page_size());
        Ok(profile)
    }

    /// A reader for one thread that may wait.
    pub(crate) fn tree_reader(&self) -> Result<TreeReader> {
        TreeReader::new(&self.cache, &self.store, &IoShare::new(u32::MAX)).map_err(tree_error)
    }

    /// A reader of the base for one thread.
    pub(crate) fn base_reader(&self) -> BaseReader<'_> {
        let idle = self.readers.lock().pop();
        let cached = idle.unwrap_or_else(|| CachedReader::new(&self.cache, self.page_size()));
        BaseReader::new(self, cached)
    }

    /// Takes a reader back that nobody uses just now.
    pub(crate) fn rest(&self, reader: CachedReader) {
        self.readers.lock().push(reader);
    }

    /// Refuses to change a database that was opened for reading.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(SqlError::invalid("the database is open for reading only").hint("open it without read-only"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("device", &self.device.name()).finish_non_exhaustive()
    }
}

fn open(path: &Path, options: &OpenOptions, create: bool) -> Result<Arc<dyn Device>> {
    let device_options =
        DeviceOptions { backend: options.backend, read_only: options.read_only, direct: options.direct, create };
    let began = Instant::now();
    let device = loop {
        match open_device(path, device_options.clone()) {
            Err(DeviceError::InUse { .. }) if began.elapsed() < IN_USE_PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => break opened.map_err(SqlError::storage)?,
        }
    };
    Ok(match &options.model {
        None => device,
        Some(model) => ModeledDevice::new(device, parse_model(model)?),
    })
}

fn parse_model(text: &str) -> Result<ModelOptions> {
    text.parse().map_err(|error: ModelError| SqlError::invalid(error.to_string()))
}

/// What plans are priced by: the model, the stored profile, or an assumption.
fn speed_of(volume: &Volume, options: &OpenOptions) -> Result<DeviceSpeed> {
    if let Some(model) = &options.model {
        return Ok(model_speed(&parse_model(model)?, volume.page_size()));
    }
    let stored = volume.device_profile().map_err(volume_error)?;
    let profile = stored.and_then(|bytes| DeviceProfile::from_json(std::str::from_utf8(&bytes).ok()?));
    Ok(profile_speed(&profile.unwrap_or_else(DeviceProfile::assumed), volume.page_size()))
}

fn profile_speed(profile: &DeviceProfile, page_size: PageSize) -> DeviceSpeed {
    let bytes = page_size.bytes() as u32;
    DeviceSpeed {
        latency: profile.depth_one_latency(bytes),
        reads_per_second: profile.best_iops(bytes),
        bytes_per_second: profile.sequential_bandwidth(),
    }
}

/// Requests a second that the device under a model serves at best, neighbouring pages asked for together.
const MODEL_READS_PER_SECOND_MAX: f64 = 90_000.0;

/// A model sees every page as a request of its own, neighbours too: what it serves in pages a second bounds scans.
fn model_speed(model: &ModelOptions, page_size: PageSize) -> DeviceSpeed {
    let latency = (model.latency_min + model.latency_max).as_secs_f64() / 2.0;
    let by_servers = model.servers.map_or(f64::INFINITY, |servers| f64::from(servers) / latency.max(1e-9));
    let reads_per_second = model.iops.unwrap_or(1e6).min(by_servers);
    let by_requests = model.iops.unwrap_or(MODEL_READS_PER_SECOND_MAX) * page_size.bytes() as f64;
    DeviceSpeed {
        latency,
        reads_per_second,
        bytes_per_second: model.bandwidth.unwrap_or(f64::INFINITY).min(by_requests),
    }
}

fn read_catalog(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>, root: &[u8]) -> Result<Catalog> {
    if root.is_empty() {
        return Ok(Catalog::default());
    }
    let root = catalog_root(root)?;
    let (key_layout, row_layout) = Catalog::entry_layout();
    let mut reader = TreeReader::new(cache, store, &IoShare::new(u32::MAX)).map_err(tree_error)?;
    let mut entries = reader.scan(&root);
    let mut documents = Vec::new();
    while let Some((key, row)) = entries.next().map_err(tree_error)? {
        let corrupt = |what: String| SqlError::corrupt(format!("catalog ({CATALOG_TREE}): {what}"));
        let mut scratch = Vec::new();
        let name = key_layout.decode(key, 0, &mut scratch).map_err(|error| corrupt(error.to_string()))?;
        let json = row_layout.view(row).value(0).map_err(|error| corrupt(error.to_string()))?;
        let (saki_base::ValueRef::Text(name), saki_base::ValueRef::Bytea(json)) = (name, json) else {
            return Err(corrupt("an entry of another type".into()));
        };
        documents.push((name.to_owned(), json.to_vec()));
    }
    Catalog::from_documents(documents)
}

/// The catalog's root out of the volume's.
pub(crate) fn catalog_root(root: &[u8]) -> Result<TreeRoot> {
    TreeRoot::from_bytes(root).ok_or_else(|| {
        SqlError::corrupt(format!("the volume's root of {} bytes is no catalog", root.len()))
            .hint("the file was written by another program or version")
    })
}

/// A failed run as a statement's error.
pub fn exec_error(error: ExecError) -> SqlError {
    match &error {
        ExecError::Page { error: page, tree } => page_error(tree, page),
        ExecError::Malformed { .. } => SqlError::corrupt(error),
        ExecError::Filter(reason) => dialect::data_error(reason.clone()),
        ExecError::Vector(VectorError::Internal(_)) => SqlError::internal(error),
        ExecError::Vector(value) => dialect::data_error(value.to_string()),
        ExecError::Segment { error: column, .. } => match **column {
            ColumnsError::Corrupt(_) => SqlError::corrupt(error),
            ColumnsError::Internal(_) => SqlError::internal(error),
            _ => SqlError::storage(error),
        },
        ExecError::Internal(_) | ExecError::Input(_) => SqlError::internal(error),
        _ => SqlError::storage(error),
    }
}

fn page_error(tree: &str, error: &PageError) -> SqlError {
    match error {
        PageError::Corrupt { .. } => SqlError::corrupt(format!("{tree}: {error}")),
        _ => SqlError::storage(format!("{tree}: {error}")),
    }
}

pub(crate) fn tree_error(error: TreeError) -> SqlError {
    match &error {
        TreeError::Volume(VolumeError::Full { .. }) => SqlError::disk_full(error),
        TreeError::Page { tree, error } => page_error(&tree.to_string(), error),
        TreeError::Malformed { .. } => SqlError::corrupt(error),
        TreeError::KeyTooLong { .. } => SqlError::data(error.to_string()),
        TreeError::OutOfOrder { .. } | TreeError::DuplicateKey { .. } => SqlError::internal(error),
        _ => SqlError::storage(error),
    }
}

pub(crate) fn volume_error(error: VolumeError) -> SqlError {
    match &error {
        VolumeError::Corrupt { .. } => SqlError::corrupt(error),
        VolumeError::Misuse { .. } => SqlError::internal(error),
        VolumeError::Full { .. } => SqlError::disk_full(error),
        _ => SqlError::storage(error),
    }
}
