//! What one may choose.

use std::time::Duration;

use crate::error::LogError;
use crate::format::BLOCK_BYTES;

/// How the logs are laid out and written. Plain values; checked by [`check`](Options::check) when the logs are opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Identity of the database: a log of another is refused.
    pub database: u64,
    /// Bytes of an extent, the unit of growth and reuse. A log that exists keeps its own.
    pub extent_bytes: u64,
    /// Bytes appended to a log and not yet durable, from which `reserve` waits.
    pub buffer_bytes: usize,
    /// The longest payload of a record.
    pub record_bytes_max: u64,
    /// The longest write, in bytes.
    pub write_bytes_max: usize,
    /// Writes of one log in flight at once, before their flush.
    pub writes_in_flight: usize,
    /// How far the logs' threads give way to transactions where processors are scarce, from 0 to 19: the more, the
    /// larger the groups that are written together, the fewer processor time that takes from transactions, and the
    /// longer a commit waits. Without effect while a processor is idle.
    pub niceness: u8,
    /// Whether a write counts as durable only after a flush. `false` is for devices that lose nothing (logs in memory,
    /// for benchmarks), and for those who accept to lose acknowledged commits with the power.
    pub flush: bool,
    /// How long a failing device is tried again, before the logs give up. Commits wait meanwhile.
    pub patience: Duration,
    /// Timestamps handed out and not yet durable, at most; a power of two.
    pub window: u64,
    /// Where durable records are missing, open at the timestamp before the first of them instead of refusing.
    pub accept_loss: bool,
}

impl Options {
    /// The defaults, for a database.
    pub fn new(database: u64) -> Self {
        Self {
            database,
            extent_bytes: 64 << 20,
            buffer_bytes: 32 << 20,
            record_bytes_max: 1 << 30,
            write_bytes_max: 1 << 20,
            writes_in_flight: 2,
            niceness: 10,
            flush: true,
            patience: Duration::from_secs(10),
            window: 1 << 20,
            accept_loss: false,
        }
    }

    /// Whether these options can be worked with.
    ///
    /// # Errors
    /// `Options`, saying which is wrong and what it may be.
    pub fn check(&self) -> Result<(), LogError> {
        let block = BLOCK_BYTES as u64;
        let wrong = |message: String| Err(LogError::Options { message });
        if !self.extent_bytes.is_multiple_of(block) || !(4 * block..=1 << 40).contains(&self.extent_bytes) {
            return wrong(format!("extent_bytes is {}, not 4 to 2^28 blocks of {block}", self.extent_bytes));
        }
        if !self.write_bytes_max.is_multiple_of(BLOCK_BYTES) || !(BLOCK_BYTES..=1 << 30).contains(&self.write_bytes_max)
        {
            return wrong(format!(
                "write_bytes_max is {}, not whole blocks of {block}, 1 GiB at most",
                self.write_bytes_max
            ));
        }
        if self.buffer_bytes < BLOCK_BYTES {
            return wrong(format!("buffer_bytes is {}, less than a block of {block}", self.buffer_bytes));
        }
        if self.record_bytes_max > u64::from(u32::MAX) {
            return wrong(format!("record_bytes_max is {}, more than 4 GiB", self.record_bytes_max));
        }
        if !(1..=64).contains(&self.writes_in_flight) {
            return wrong(format!("writes_in_flight is {}, not 1 to 64", self.writes_in_flight));
        }
        if self.niceness > 19 {
            return wrong(format!("niceness is {}, not 0 to 19", self.niceness));
        }
        if !self.window.is_power_of_two() || !(64..=1 << 32).contains(&self.window) {
            return wrong(format!("window is {}, not a power of two from 64 to 2^32", self.window));
        }
        Ok(())
    }
}

/// Which timestamps a recovery is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Everything up to here is durable elsewhere: neither applied nor missed. `None`: whatever the logs were cut
    /// through.
    pub after: Option<u64>,
    /// Nothing later is applied, and what is later in the logs is void for ever: a way back to an earlier moment.
    pub through: u64,
    /// The logs told of timestamps up to here when what they are to be added to was written, so logs that do not are
    /// older, or others'. `None`: they may be new.
    pub known: Option<u64>,
}

impl Default for Range {
    fn default() -> Self {
        Self { after: None, through: u64::MAX, known: None }
    }
}
