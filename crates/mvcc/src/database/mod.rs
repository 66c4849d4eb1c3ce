//! A database in memory: tables, runners, logs.

mod devices;
mod procedure;
mod release;
mod sweep;
mod waiting;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, RwLock};
use saki_base::planted::{self, Fault};
use saki_base::{AlignedBuffer, TableId};
use saki_io::Device;
use saki_log::{Extent as LogExtent, LogStatistics, Progress, Range, RecoveryReport, Tail as LogTail};

use crate::chain::PARTICIPANTS_MAX;
use crate::epoch::Epochs;
use crate::error::Error;
use crate::memory::arena::{Arena, Depot, LargeBlocks};
use crate::placement::{Mapping, NodeId, Placement, Topology, WorkerPlace};
use crate::recovery;
use crate::runner::{Receipt, Reclaimers, Runner, Sabotage, Shared, Waiters, Watches};
use crate::table::{Catalog, Table, TableDefinition};
use crate::transaction::Moment;

pub use devices::{NewLogs, check_logs, end_logs_at, open_log_devices, open_log_devices_to_read, write_log_extent};
pub use procedure::{Call, Procedure, Workers};
pub use waiting::Wait;

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Workers, logs and memory. The number of logs is for a new database: an existing one keeps its own.
    pub placement: Placement,
    /// Runners, moments and readers open at once, at most: each takes a cache line or two.
    pub participants_max: usize,
    /// Whether commits are visible before they are durable. Without, a snapshot is taken of what is durable: the
    /// baseline that speculation is measured against.
    pub speculation: bool,
    /// How the logs are laid out and written; `database` is filled in.
    pub log: saki_log::Options,
    /// Memory to have ready for rows, in bytes, on each node with workers: taken from the system and written to while
    /// opening. More is taken as it is needed; then the system zeroes it in the middle of a transaction.
    pub memory_ready_bytes: usize,
    /// Rows through this timestamp are durable elsewhere, in a base that the caller will bring: their log records are
    /// skipped.
    pub after: Option<u64>,
    /// The logs told of timestamps up to this one when the base was written: older ones are refused. `None`: they may
    /// be new.
    pub known: Option<u64>,
    /// A mistake built in, for tests of the tests.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            placement: Placement::plan(&Topology::detect(), cores(), None),
            participants_max: 8192,
            speculation: true,
            log: saki_log::Options::new(0),
            memory_ready_bytes: 0,
            after: None,
            known: None,
            sabotage: None,
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A database. Clones share it; the logs are closed with the last of them and its runners.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    report: Arc<RecoveryReport>,
}

impl Database {
    /// Opens the database of a directory, or makes one there, and replays its logs. `progress` is called now and then
    /// meanwhile, by several threads.
    ///
    /// # Errors
    /// `Open` if the catalog cannot be read or written, or a log holds what the catalog does not know; `Log` if a log
    /// cannot be used: see [`saki_log::LogError`].
    pub fn open(
        directory: impl AsRef<Path>,
        options: Options,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Self, Error> {
        let directory = directory.as_ref();
        let catalog = Catalog::open(directory, options.placement.logs())?;
        let devices = open_log_devices(directory, catalog.logs())?;
        Self::open_on(catalog, devices, options, progress)
    }

    /// Opens a database whose logs are on the given devices, with a catalog that may be kept by the caller
    /// ([`Catalog::in_memory`], [`Catalog::define`]).
    ///
    /// # Errors
    /// As `open`.
    pub fn open_on(
        catalog: Catalog,
        devices: Vec<Arc<dyn Device>>,
        options: Options,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Self, Error> {
        let limit = PARTICIPANTS_MAX;
        if options.participants_max == 0 || options.participants_max > limit {
            let message = format!("participants_max is {}; it may be 1 to {limit}", options.participants_max);
            return Err(Error::Open { message });
        }
        let mut log_options = options.log.clone();
        log_options.database = catalog.database();
        // Recovery has runners of its own, which end before the others begin.
        let epochs = Epochs::new(0, options.participants_max.max(devices.len()));
        let depots = depots(&options.placement);
        for depot in depots.values() {
            let no_memory =
                |error| Error::Memory { message: format!("the system does not give that much memory: {error}") };
            depot.prepare(options.memory_ready_bytes).map_err(no_memory)?;
        }
        let range = Range { after: options.after, known: options.known, ..Range::default() };
        let (logs, tables, report) =
            recovery::recover(devices, log_options, range, &catalog, &epochs, first(&depots), progress)?;
        if report.records > 0 || report.lost.is_some() {
            tracing::info!("{report}");
        }
        epochs.set(report.clock);
        let shared = Shared {
            epochs,
            logs,
            participants_max: options.participants_max,
            instance: catalog.instance(),
            sabotage: options.sabotage,
            speculation: options.speculation,
            placement: options.placement,
            cutting: Mutex::default(),
            whole_through: CachePadded::new(AtomicU64::new(report.after)),
            depots,
            catalog: Mutex::new(catalog),
            tables: RwLock::new(tables),
            dropped: Mutex::default(),
            has_dropped: AtomicBool::new(false),
            waiters: Waiters::default(),
            watches: Watches::default(),
            reclaimers: Reclaimers::default(),
        };
        Ok(Self { shared: Arc::new(shared), report: Arc::new(report) })
    }

    /// What was found when it was opened.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.report
    }

    /// Makes a table, durably.
    ///
    /// # Errors
    /// `Name` if there is one of that name or the definition contradicts itself, `Open` if the catalog cannot be
    /// written.
    pub fn create_table(&self, definition: TableDefinition) -> Result<Table, Error> {
        let mut catalog = self.shared.catalog.lock();
        let table = catalog.add(definition)?;
        self.shared.tables.write().insert(table.id().0, table.clone());
        Ok(table)
    }

    /// Makes a table whose number the caller chooses and whose definition it keeps.
    ///
    /// # Errors
    /// As [`Catalog::define`].
    pub fn define_table(&self, id: TableId, definition: TableDefinition) -> Result<Table, Error> {
        let mut catalog = self.shared.catalog.lock();
        let table = catalog.define(id, definition, 0)?;
        self.shared.tables.write().insert(id.0, table.clone());
        Ok(table)
    }

    /// Takes a table away. Whose snapshot is of before may go on with it; to all others it is empty, and refuses to be
    /// written. Its memory is given back when nobody can look into it any more.
    ///
    /// # Errors
    /// `Open` if there is a catalog file and it cannot be written: nothing has happened.
    ///
    /// # Panics
    /// If the table is another database's.
    pub fn drop_table(&self, table: &Table) -> Result<(), Error> {
        assert!(table.inner().instance == self.shared.instance, "a table is good only in the database it was got from");
        let mut catalog = self.shared.catalog.lock();
        catalog.remove(table.id())?;
        if let Some(table) = self.shared.tables.write().remove(&table.id().0) {
            self.shared.bury(table);
        }
        Ok(())
    }

    /// The table of that name; if there are several, the one of the lowest number.
    pub fn table(&self, name: &str) -> Option<Table> {
        self.shared.tables.read().values().find(|table| table.name() == name).cloned()
    }

    /// The table of that number.
    pub fn table_of(&self, id: TableId) -> Option<Table> {
        self.shared.tables.read().get(&id.0).cloned()
    }

    /// All tables, by their numbers.
    pub fn tables(&self) -> Vec<Table> {
        self.shared.tables.read().values().cloned().collect()
    }

    /// A runner whose transactions go to the first log.
    ///
    /// # Errors
    /// `TooManyParticipants`.
    pub fn runner(&self) -> Result<Runner, Error> {
        self.runner_on(0)
    }

    /// A runner whose transactions go to the given log: that of its core group.
    ///
    /// # Errors
    /// `TooManyParticipants`; `Name` if there is no such log.
    pub fn runner_on(&self, log: usize) -> Result<Runner, Error> {
        if log >= self.shared.logs.count() {
            let message = format!("there is no log {log}: the database has {}", self.shared.logs.count());
            return Err(Error::Name { message });
        }
        let group = self.shared.placement.groups().get(log);
        self.runner_with(log, group.map(|group| group.node))
    }

    /// The runner of a worker: its log, and memory on its node.
    ///
    /// # Errors
    /// `TooManyParticipants`.
    pub fn runner_at(&self, place: &WorkerPlace) -> Result<Runner, Error> {
        self.runner_with(place.log % self.shared.logs.count(), Some(place.node))
    }

    /// A runner with memory on a node, or on any if there is none of that.
    fn runner_with(&self, log: usize, node: Option<NodeId>) -> Result<Runner, Error> {
        let depots = &self.shared.depots;
        let depot = node.and_then(|node| depots.get(&node)).unwrap_or_else(|| first(depots));
        Runner::new(Arc::clone(&self.shared), log, Arena::new(Arc::clone(depot)))
    }

    /// A moment of now.
    ///
    /// # Errors
    /// `TooManyParticipants`.
    pub fn moment(&self) -> Result<Moment, Error> {
        Moment::now(&self.shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Where workers run.
    pub fn placement(&self) -> &Placement {
        &self.shared.placement
    }

    /// How many logs there are.
    pub fn logs(&self) -> usize {
        self.shared.logs.count()
    }

    /// The durable horizon: all commits with timestamps up to this one survive whatever comes.
    pub fn durable(&self) -> u64 {
        self.shared.logs.durable()
    }

    /// The latest commit timestamp handed out.
    pub fn now(&self) -> u64 {
        self.shared.epochs.now()
    }

    /// Whether a commit may be acknowledged.
    #[inline]
    pub fn is_durable(&self, receipt: Receipt) -> bool {
        planted::is(Fault::ReceiptIgnored) || self.shared.logs.durable() >= receipt.through
    }

    /// Waits until a commit may be acknowledged.
    ///
    /// # Errors
    /// `Log` if the logs failed or were closed: the commit may or may not be found after the next start.
    pub fn wait(&self, receipt: Receipt) -> Result<(), Error> {
        Ok(self.shared.logs.wait_durable(receipt.through)?)
    }

    /// Calls back when a commit may be acknowledged, or never will be; on a thread of the logs, which must not be held
    /// up.
    pub fn when_durable(&self, receipt: Receipt, callback: impl FnOnce(Result<(), Error>) + Send + 'static) {
        let callback = |outcome: Result<(), saki_log::LogError>| callback(outcome.map_err(Error::from));
        self.shared.logs.on_durable(receipt.through, Box::new(callback));
    }

    /// Begins to cut the logs: a timestamp M such that, once the rows as of M are durable elsewhere,
    /// [`finish_cut`](Self::finish_cut) may be called with it, and the database opened with [`Options::after`] M, but
    /// no longer without.
    pub fn begin_cut(&self) -> u64 {
        self.shared.begin_cut()
    }

    /// Everything through `through`, which `begin_cut` gave, is durable elsewhere: the logs need not keep it.
    pub fn finish_cut(&self, through: u64) {
        self.shared.logs.cut(through);
    }

    /// Bytes of memory that rows and versions take from the system.
    pub fn memory_bytes(&self) -> usize {
        // What one depot gave may have come back to another.
        self.shared.depots.values().fold(0, |sum, depot| sum.wrapping_add(depot.bytes()))
    }

    /// Bytes of rows and versions that are there, seen by somebody or not; what has been freed and waits for its next
    /// use is not among them, nor are the nodes of indexes.
    pub fn used_bytes(&self) -> u64 {
        let used: isize = self.shared.depots.values().map(|depot| depot.used()).sum();
        used.max(0).unsigned_abs() as u64
    }

    /// What a recovery would read of the logs, to be copied while transactions go on: all that is durable now, if
    /// nothing is cut meanwhile.
    ///
    /// # Errors
    /// `Log`: of a device, if a log is damaged or closed.
    pub fn log_extents(&self) -> Result<Vec<LogExtent>, Error> {
        Ok(self.shared.logs.extents()?)
    }

    /// `length` bytes of an extent from `offset` on, whole blocks; `None` if nobody needs it any more.
    ///
    /// # Errors
    /// `Log`: of a device; if the logs are closed.
    pub fn read_log_extent(
        &self,
        extent: &LogExtent,
        offset: u64,
        length: usize,
    ) -> Result<Option<AlignedBuffer>, Error> {
        Ok(self.shared.logs.read_extent(extent, offset, length)?)
    }

    /// The logs' records behind `after`, as they become durable. Whoever follows sees to it that the logs are not cut
    /// beyond what has been taken.
    ///
    /// # Errors
    /// `Log` if that is before this opening.
    pub fn follow_logs(&self, after: u64) -> Result<LogTail, Error> {
        Ok(self.shared.logs.tail(after)?)
    }

    /// Counters of the logs.
    pub fn log_statistics(&self) -> Vec<LogStatistics> {
        self.shared.logs.statistics()
    }

    /// Makes everything durable and closes the logs: later commits are refused, reads go on.
    ///
    /// # Errors
    /// `Log` if the logs had failed.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.shared.logs.clone().close()?)
    }
}

/// A depot for each node that has workers.
fn depots(placement: &Placement) -> HashMap<NodeId, Arc<Depot>> {
    let mut depots = HashMap::new();
    let large = Arc::<LargeBlocks>::default();
    for place in placement.workers() {
        let binding = placement.binding(place.memory());
        depots
            .entry(place.node)
            .or_insert_with(|| Depot::new(Arc::clone(&large), move |bytes| Mapping::with(bytes, &binding)));
    }
    depots
}

fn first(depots: &HashMap<NodeId, Arc<Depot>>) -> &Arc<Depot> {
    depots.values().next().expect("a plan has a worker")
}
