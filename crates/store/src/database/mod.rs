//! A database: its device, volume, cache and reactors, and the generation that statements begin with.
//!
//! What is done with it lies above, in the modules that do it.

mod background;
mod catalog;
pub mod devices;
mod generation;
pub mod instants;
mod memory;
mod options;
mod owners;
mod parts;
mod release;
mod segment_tables;
pub mod sequence;
mod tier;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use saki_base::{GenerationNumber, PageSize};
use saki_columns::Codec;
use saki_exec::{Executor, SegmentReader};
use saki_io::Device;
use saki_page::{IoShare, PageCache, PageStore};
use saki_tier::Tier;
use saki_tree::{CachedReader, TreeReader};
use saki_volume::Volume;

use crate::delta::{Engine, LogStore, PerTable};
use crate::locks::{Locks, Turns};
use saki_catalog::{Result, SqlError};

pub use self::background::{Background, Fetchers};
pub use self::catalog::{catalog_root, read_catalog};
pub use self::devices::source::is_clone;
pub use self::devices::speed::DeviceSpeed;
use self::generation::Past;
pub use self::generation::{Generation, Identity};
use self::instants::Instants;
pub use self::memory::{Budget, memory_bytes};
pub use self::options::{CreateOptions, DeviceSpec, OpenOptions, PAGE_BYTES_DEFAULT};
pub use self::owners::{ChunkOwners, Owner};
pub use self::parts::PartStatus;
pub use self::release::Release;
pub use self::segment_tables::SegmentTables;
pub use self::sequence::Sequences;
pub use self::tier::tier_of;

/// Who wants to know when a generation is no longer the newest.
pub type Watcher = Box<dyn Fn() + Send + Sync>;

/// An open database: its storage. Whoever reads or changes it holds it open.
pub struct Database {
    /// Before the volume, whose chunks it moves.
    pub(crate) tier: Tier,
    pub volume: Arc<Volume>,
    pub store: Arc<dyn PageStore>,
    pub cache: Arc<PageCache>,
    pub executor: Arc<Executor>,
    pub current: RwLock<Arc<Generation>>,
    /// The generation of that, for whoever only wants to know whether its own is still the newest.
    pub(crate) newest: AtomicU64,
    /// Of column segments.
    pub codec: Arc<dyn Codec>,
    pub segment_reader: Arc<SegmentReader>,
    pub options: OpenOptions,
    /// The file or block device that it is in.
    pub path: PathBuf,
    /// Where the logs are, or will be.
    pub logs: Arc<dyn LogStore>,
    pub of_table: PerTable,
    /// Started by the first change that goes to a delta.
    pub engine: OnceLock<Engine>,
    /// Rows that are merged and still in memory. Held while a checkpoint goes on: there is one at a time.
    pub checkpoints: Mutex<Vec<Release>>,
    /// Through where those who follow the logs have what they have: the logs are cut no further.
    pub(crate) followers: Mutex<Vec<Weak<AtomicU64>>>,
    /// In their order.
    pub(crate) past: Mutex<Vec<Past>>,
    pub(crate) background: OnceLock<Background>,
    pub(crate) me: Weak<Database>,
    /// Until the database is opened again; see [`Self::end_changes`].
    pub(crate) changes_have_ended: AtomicBool,
    /// Until then; see [`Self::end_reading`].
    pub(crate) reading_has_ended: AtomicBool,
    /// Told of each new generation.
    pub(crate) watchers: RwLock<Vec<Watcher>>,
    /// Readers of pages in memory that nobody uses just now.
    pub(crate) readers: Mutex<Vec<CachedReader>>,
    /// Who fetches what readings of memory alone miss.
    pub fetchers: Fetchers,
    pub sequences: Sequences,
    /// Held from a change's beginning until its generation is the current one.
    pub writing: Turns,
    /// At which of them rows and the newest generation belong together: for whoever asks for both.
    pub instants: Instants,
    /// What transactions have staged that have ended without effect: the next publication gives it back.
    pub(crate) abandoned: Mutex<Vec<u32>>,
    pub(crate) device: Arc<dyn Device>,
}

impl Database {
    /// Makes a generation the newest.
    pub fn succeed(&self, generation: Generation) {
        let number = generation.number().0;
        self.follow_wishes(&self.generation().catalog, &generation.catalog);
        let before = std::mem::replace(&mut *self.current.write(), Arc::new(generation));
        self.newest.store(number, Ordering::SeqCst);
        let mut past = self.past.lock();
        past.retain(Past::is_in_use);
        let (number, generation) = (before.number(), Arc::downgrade(&before));
        past.push(Past { number, generation, superseded: Instant::now() });
        drop(past);
        self.watchers.read().iter().for_each(|watcher| watcher());
    }

    /// Has `watcher` called whenever a generation stops being the newest: for what is kept for the newest only.
    pub fn when_succeeded(&self, watcher: impl Fn() + Send + Sync + 'static) {
        self.watchers.write().push(Box::new(watcher));
    }

    /// Generations that somebody still reads, but for the newest.
    pub fn older_generations(&self) -> Vec<Weak<Generation>> {
        self.past.lock().iter().filter(|past| past.is_in_use()).map(|past| Weak::clone(&past.generation)).collect()
    }

    /// The oldest generation that somebody still reads, but for the newest; and when it was superseded.
    pub fn oldest_in_use(&self) -> Option<(GenerationNumber, Instant)> {
        let past = self.past.lock();
        past.iter().find(|past| past.is_in_use()).map(|past| (past.number, past.superseded))
    }

    /// The newest generation.
    pub fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.current.read())
    }

    /// The number of the newest generation, of which there is never another.
    #[inline]
    pub fn newest(&self) -> GenerationNumber {
        GenerationNumber(self.newest.load(Ordering::SeqCst))
    }

    /// Whether nothing has been published since a generation, as far as whoever holds a lock need know: what its lock
    /// keeps away has not been.
    #[inline]
    pub fn is_newest(&self, generation: &Generation) -> bool {
        self.newest() == generation.number()
    }

    /// Who may use which table how.
    pub fn locks(&self) -> &Arc<Locks> {
        &self.of_table.locks
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

    /// Empties the caches of pages and of columns, so that the next statement starts cold.
    pub fn drop_caches(&self) {
        self.cache.clear();
        self.segment_reader.cache().clear();
    }

    /// A reader for one thread that may wait.
    pub fn tree_reader(&self) -> Result<TreeReader> {
        TreeReader::new(&self.cache, &self.store, &IoShare::new(u32::MAX)).map_err(SqlError::from)
    }

    /// A reader of pages in memory, to be given back to [`Self::rest`].
    pub fn cached_reader(&self) -> CachedReader {
        let idle = self.readers.lock().pop();
        idle.unwrap_or_else(|| CachedReader::new(&self.cache, self.page_size()))
    }

    /// Takes a reader back that nobody uses just now.
    pub fn rest(&self, reader: CachedReader) {
        self.readers.lock().push(reader);
    }

    /// Refuses to change a database that was opened for reading, or in which changes have ended.
    ///
    /// # Errors
    /// 25006, 58030.
    pub fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(SqlError::invalid("the database is open for reading only").hint("open it without read-only"));
        }
        if self.changes_have_ended.load(Ordering::Acquire) {
            return Err(SqlError::storage("whether the last publication has reached the device is not known")
                .hint("open the database again: until then it is only read"));
        }
        Ok(())
    }

    /// A publication may or may not have reached the device. If it has, it takes effect when the database is opened
    /// again: a constraint holds then that nothing was checked against, or rows belong to a delta that no table has.
    /// Until then nothing more is committed.
    pub(crate) fn end_changes(&self) {
        self.changes_have_ended.store(true, Ordering::Release);
        if let Some(engine) = self.engine.get() {
            // If the logs have failed as well, nothing is committed either.
            let _ = engine.database.clone().close();
        }
    }

    /// Refuses to begin reading where reading has ended.
    ///
    /// # Errors
    /// 58030.
    pub(crate) fn readable(&self) -> Result<()> {
        match self.reading_has_ended.load(Ordering::Acquire) {
            true => Err(SqlError::storage("whether a transaction has been committed is not known")
                .hint("open the database again: its logs failed while it was committed, and they tell then")),
            false => Ok(()),
        }
    }

    /// Whether rows and catalog of a transaction have been committed is for the logs to say, which have failed. Whoever
    /// read on would be told of what was before, and of what comes of it after the next opening. Rows alone are no
    /// such case: whoever sees them waits for them.
    pub(crate) fn end_reading(&self) {
        self.reading_has_ended.store(true, Ordering::Release);
        self.end_changes();
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("device", &self.device.name()).finish_non_exhaustive()
    }
}
