//! How a database is made and opened.

use std::path::PathBuf;

use saki_base::{PageSize, VolumeNumber};
use saki_io::Backend;
use saki_tier::PolicyKind;
use saki_volume::Class;

use super::memory::Budget;

/// Page size of a new database, in bytes, unless told otherwise.
pub const PAGE_BYTES_DEFAULT: u32 = 8 << 10;
/// Deltas are merged when they take so much memory, or a quarter of what they may take, unless told otherwise.
pub const DELTA_BYTES_DEFAULT: u64 = 64 << 20;
/// Length of the logs unless told otherwise, in bytes.
pub const LOG_BYTES_DEFAULT: u64 = 1 << 30;

/// Rows from which on building base pages is worth keeping transactions out, unless told otherwise.
pub const BULK_ROWS_DEFAULT: usize = 32_768;

/// How to open a database. Sizes of memory are shares of a [budget](Budget) unless told otherwise.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Memory for pages.
    pub cache_bytes: usize,
    /// Memory for columns of segments, most of them decoded.
    pub column_cache_bytes: usize,
    /// Bounds the sorts of one bulk load or index build, together.
    pub load_memory_bytes: usize,
    /// Rows of a column segment at most, of those that are built from now on.
    pub segment_rows: u32,
    /// A COPY of so many rows or more goes straight to the base.
    pub bulk_rows: usize,
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
    /// Where durable changes are lost, by damage to the file or its logs, go back to the moment before instead of
    /// refusing.
    pub accept_loss: bool,
    /// Deltas are merged when they take so much memory.
    pub delta_bytes: u64,
    /// Deltas take no more memory than that: whoever would write more waits, or is refused.
    pub delta_limit_bytes: u64,
    /// Deltas are merged when the logs have grown so long.
    pub log_bytes: u64,
    /// How many logs are made; `None`: as the machine's cores ask for. A database that has logs keeps its own.
    pub logs: Option<usize>,
    /// Bytes of an extent of a log that is made.
    pub log_extent_bytes: u64,
    /// What chooses the chunks that have copies on fast devices.
    pub tier_policy: PolicyKind,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let budget = Budget::of_machine();
        Self {
            cache_bytes: budget.pages(),
            column_cache_bytes: budget.columns(),
            load_memory_bytes: budget.loads(),
            segment_rows: saki_columns::SEGMENT_ROWS,
            bulk_rows: BULK_ROWS_DEFAULT,
            backend: Backend::Auto,
            model: None,
            read_only: false,
            direct: true,
            reactors: None,
            pin: false,
            log_directory: None,
            base_only: false,
            accept_loss: false,
            delta_bytes: DELTA_BYTES_DEFAULT.min(budget.deltas() as u64 / 4),
            delta_limit_bytes: budget.deltas() as u64,
            log_bytes: LOG_BYTES_DEFAULT,
            logs: None,
            log_extent_bytes: saki_mvcc::LogOptions::new(0).extent_bytes,
            tier_policy: PolicyKind::default(),
        }
    }
}

impl OpenOptions {
    /// What they leave of the machine's memory for statements.
    pub fn statement_bytes(&self) -> usize {
        let deltas = usize::try_from(self.delta_limit_bytes).unwrap_or(usize::MAX);
        let others = [self.cache_bytes, self.column_cache_bytes, self.load_memory_bytes, deltas];
        Budget::of_machine().statements(others.into_iter().fold(0, usize::saturating_add))
    }

    /// What of it concerns the logs.
    pub(crate) fn of_logs(&self) -> saki_mvcc::LogOptions {
        let (accept_loss, extent_bytes) = (self.accept_loss, self.log_extent_bytes);
        // Whoever commits waits for it: it gives way to nobody, or clients would wait for whatever else computes.
        saki_mvcc::LogOptions { accept_loss, extent_bytes, niceness: 0, ..saki_mvcc::LogOptions::new(0) }
    }
}

/// A device that a database is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSpec {
    /// A file, which is made if it is not there, or a block device.
    pub path: PathBuf,
    /// How much of it is used at most, and reserved at once.
    pub bytes: Option<u64>,
    /// A fast one holds copies of what lies on others.
    pub class: Class,
}

/// How to make a database.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    pub page_size: PageSize,
    /// With what the addresses of its pages begin: see [`VolumeNumber`].
    pub volume_number: VolumeNumber,
    /// Devices besides the one at the database's path.
    pub devices: Vec<DeviceSpec>,
    pub open: OpenOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        let page_size = PageSize::new(PAGE_BYTES_DEFAULT).expect("the default is a page size");
        Self { page_size, volume_number: VolumeNumber(0), devices: Vec::new(), open: OpenOptions::default() }
    }
}
