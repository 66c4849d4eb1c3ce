//! What the logs say about themselves.

use std::fmt;
use std::time::Duration;

use crate::error::Damage;

/// How far a log has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    pub log: usize,
    pub bytes_read: u64,
    pub bytes_total: u64,
    /// Records applied so far from this log.
    pub records: u64,
}

/// What a recovery found.
#[derive(Clone, Debug)]
pub struct RecoveryReport {
    /// Everything through this timestamp is recovered, and nothing after it.
    pub horizon: u64,
    /// The clock goes on from here: the next timestamp handed out is one more. Those between are void.
    pub clock: u64,
    /// Everything through this timestamp was left out: it is durable elsewhere.
    pub after: u64,
    /// Records applied.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Void records up to the horizon.
    pub voids: u64,
    /// Records after the horizon, which are void from now on.
    pub dropped: u64,
    /// Changes in the records applied that were of no table any more, or of rows that are elsewhere.
    pub passed_by: u64,
    pub bytes_read: u64,
    pub duration: Duration,
    /// With `accept_loss`: the first timestamp that was durable and is lost, and the last one known to have been
    /// durable.
    pub lost: Option<(u64, u64)>,
    /// Per log, where it ended and why.
    pub ends: Vec<LogEnd>,
    /// Damage that cost no durable record.
    pub damages: Vec<Damage>,
}

/// ```text
/// recovered through timestamp 310000: 310000 transactions of 166.0 MB in 0.72 s, 560 MB/s of log
/// log 0 ends in extent 5, at byte 331874304: its last frame
/// ```
impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration.as_secs_f64();
        let (payload, read) = (self.payload_bytes as f64 / 1e6, self.bytes_read as f64 / 1e6);
        write!(
            f,
            "recovered through timestamp {}: {} transactions of {payload:.1} MB in {seconds:.2} s, {:.0} MB/s of log",
            self.horizon,
            self.records,
            read / seconds.max(1e-6)
        )?;
        if let Some((first, last)) = self.lost {
            write!(f, "\nlost: what was durable from timestamp {first} to {last}")?;
        }
        for LogEnd { log, extent, offset, reason } in &self.ends {
            write!(f, "\nlog {log} ends in extent {extent}, at byte {offset}: {reason}")?;
        }
        self.damages.iter().try_for_each(|damage| write!(f, "\ndamage that cost nothing: {damage}"))
    }
}

/// Where a log ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEnd {
    pub log: usize,
    /// Sequence number of the last extent with records; 0 if the log was empty.
    pub extent: u64,
    /// Byte offset on the device.
    pub offset: u64,
    /// Why it ends there.
    pub reason: String,
}

/// One log's counters, since it was opened, and sizes, as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStatistics {
    /// Records appended, and bytes of them.
    pub records: u64,
    pub record_bytes: u64,
    /// Writes of frames, and bytes of them, padding included.
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
    /// Bytes appended and not yet durable.
    pub queued_bytes: u64,
    /// Waits in `reserve`.
    pub waits: u64,
    /// Extents that hold records still needed, that are ready for use, and that wait to be used again.
    pub extents_live: u64,
    pub extents_ready: u64,
    pub extents_free: u64,
}
