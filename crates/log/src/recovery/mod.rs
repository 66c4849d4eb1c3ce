//! Opening the logs: what was durable is applied, and a new incarnation begins.
//!
//! ```text
//!   scan      first blocks of all slots        which extents, incarnations, cut
//!   replay    a thread per log                 frames ─► records ─► apply, or held back
//!   reach     timestamps of all logs together  how far they are dense
//!   open      flush, new incarnation           what was held back and counts is applied; the rest is void for ever
//! ```
//!
//! A record may be applied while others are still being read if it is *proven*: it belongs to an earlier incarnation
//! and the next incarnation was built on it, or a frame of the last incarnation, in whatever log, says that it was
//! durable. Frames say so with every write, so little is held back. At the end, the logs reach as far as the timestamps
//! of all their records together have no gap. If that is less than what is proven, something durable is gone, and
//! nothing is opened (unless loss is accepted: then a first pass only looks).
//!
//! Bytes are hostile here: every length is bounded before it is used, nothing is allocated by what a header promises,
//! and what contradicts itself is an error or the end of its log.

pub mod assembler;
mod extent_reader;
pub mod extents;
mod mend;
mod plan;
mod replay;
pub mod scan;
mod seen;

pub mod report;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use saki_base::planted::{self, Fault};
use saki_io::Device;

use self::report::{Progress, RecoveryReport};
use crate::error::{Damage, LogError};
use crate::format::{BLOCK_BYTES, Identity, Incarnation, TIMESTAMP_MAX};
use crate::options::{Options, Range};
use crate::slots::{Live, Slots};
use plan::{Plan, Reach};
pub use replay::Apply;
use replay::{Common, Refused, Replayed, replay};
use scan::{Scanned, scan};
use seen::Seen;

/// What a new incarnation starts with.
pub struct Recovered {
    pub incarnation: Incarnation,
    pub cut: u64,
    pub logs: Vec<RecoveredLog>,
    pub report: RecoveryReport,
}

/// One log's share of it.
pub struct RecoveredLog {
    pub device: Arc<dyn Device>,
    pub identity: Identity,
    pub extent_bytes: u64,
    /// Sequence number of the new incarnation's first extent.
    pub next_sequence: u64,
    pub slots: Slots,
}

/// Recovers all logs.
pub fn recover(
    devices: Vec<Arc<dyn Device>>,
    options: &Options,
    range: Range,
    progress: &(dyn Fn(Progress) + Sync),
    apply: Apply<'_>,
) -> Result<Recovered, LogError> {
    let started = Instant::now();
    let (identity, mut scanned) = scan_all(devices, options, range)?;
    let mut plan = Plan::new(&scanned, range)?;
    let mut lost = None;
    if options.accept_loss {
        let looked = read_all(identity, &scanned, &plan, progress, None)?;
        if let Some(missing) = looked.reach.missing {
            tracing::warn!("timestamp {missing} and all later ones, durable through {}, are given up", looked.proven);
            lost = Some((missing, looked.proven));
            plan.through = looked.reach.horizon;
        }
    }
    let mut read = read_all(identity, &scanned, &plan, progress, Some(apply))?;
    read.check(&plan, &scanned, range, options.accept_loss)?;
    read.settle(&plan, apply)?;
    // What was found may be in a volatile cache only, and is about to be called durable.
    flush_all(&scanned)?;
    let mut report = read.report(&scanned, range);
    report.lost = lost;
    report.duration = started.elapsed();
    let incarnation = Incarnation {
        number: plan.last_incarnation().number + 1,
        recovered_through: report.horizon,
        first: report.clock + 1,
    };
    scanned.iter_mut().for_each(complete_last_slot);
    let logs = scanned.into_iter().zip(&read.replayed);
    let logs =
        logs.map(|(scanned, replayed)| open_log(scanned, replayed, identity, incarnation, report.after)).collect();
    Ok(Recovered { incarnation, cut: report.after, logs, report })
}

/// Reads all logs as `recover` does, and changes nothing.
pub fn inspect(
    devices: Vec<Arc<dyn Device>>,
    options: &Options,
    range: Range,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RecoveryReport, LogError> {
    let started = Instant::now();
    let (identity, scanned) = scan_all(devices, options, range)?;
    let plan = Plan::new(&scanned, range)?;
    let mut read = read_all(identity, &scanned, &plan, progress, None)?;
    read.check(&plan, &scanned, range, false)?;
    let nowhere = |_: usize, _: u64, _: &[u8]| Ok(());
    read.settle(&plan, &nowhere)?;
    Ok(RecoveryReport { duration: started.elapsed(), ..read.report(&scanned, range) })
}

/// The first blocks of all devices, and what can be mended by them.
fn scan_all(
    devices: Vec<Arc<dyn Device>>,
    options: &Options,
    range: Range,
) -> Result<(Identity, Vec<Scanned>), LogError> {
    let logs = u32::try_from(devices.len()).ok().filter(|count| (1..=4096).contains(count));
    let logs = logs.ok_or_else(|| LogError::Options { message: format!("{} logs, not 1 to 4096", devices.len()) })?;
    if u64::from(logs) > options.window / 2 {
        // Each log is granted at least one reservation; see `window_is_open`.
        return Err(LogError::Options {
            message: format!("a window of {} is too small for {logs} logs", options.window),
        });
    }
    let identity = Identity { database: options.database, log: 0, logs };
    let mut scanned = scan_devices(devices, identity, options)?;
    mend::mend(&mut scanned, identity, options.accept_loss)?;
    if range.after.max(range.known).is_some_and(|timestamp| timestamp > TIMESTAMP_MAX) {
        return Err(LogError::Options { message: format!("timestamps end at {TIMESTAMP_MAX}") });
    }
    Ok((identity, scanned))
}

fn scan_devices(
    devices: Vec<Arc<dyn Device>>,
    identity: Identity,
    options: &Options,
) -> Result<Vec<Scanned>, LogError> {
    (0..)
        .zip(devices)
        .map(|(log, device)| {
            if !BLOCK_BYTES.is_multiple_of(device.block_bytes()) {
                let message =
                    format!("{} has blocks of {} bytes, not {BLOCK_BYTES}", device.name(), device.block_bytes());
                return Err(LogError::Options { message });
            }
            scan(device, Identity { log, ..identity }, options.extent_bytes)
        })
        .collect()
}

/// What all logs hold.
struct Read {
    identity: Identity,
    replayed: Vec<Replayed>,
    reach: Reach,
    proven: u64,
    cut: u64,
    after: u64,
    refused: Refused,
}

fn read_all(
    identity: Identity,
    scanned: &[Scanned],
    plan: &Plan,
    progress: &(dyn Fn(Progress) + Sync),
    apply: Option<Apply<'_>>,
) -> Result<Read, LogError> {
    let common = Common {
        identity,
        plan,
        proven: AtomicU64::new(0),
        cut: AtomicU64::new(0),
        seen: Mutex::new(Seen::default()),
        refused: Refused::default(),
        progress,
        apply,
    };
    // None ends early because another has failed: which error is told does not depend on which came first.
    let results = std::thread::scope(|scope| {
        let common = &common;
        let threads: Vec<_> = scanned.iter().map(|scanned| scope.spawn(move || replay(common, scanned))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
    });
    let replayed = results.into_iter().collect::<Result<Vec<_>, _>>();
    // Which of two records of one timestamp was found to be the second is chance.
    let again = |error| one_by_one(&common, scanned).err().unwrap_or(error);
    let replayed = replayed.map_err(again)?;
    // The threads have ended: plain loads.
    let proven = common.proven.load(Ordering::Relaxed);
    let cut = common.cut.load(Ordering::Relaxed);
    let after = plan.after.max(cut);
    let reach = plan.reach(&common.seen.lock(), proven, after);
    Ok(Read { identity, replayed, reach, proven, cut, after, refused: common.refused })
}

/// Reads logs that gave an error again, in their order: then the first error is always the same.
fn one_by_one(common: &Common<'_>, scanned: &[Scanned]) -> Result<(), LogError> {
    let alone = Common {
        identity: common.identity,
        plan: common.plan,
        proven: AtomicU64::new(0),
        cut: AtomicU64::new(0),
        seen: Mutex::default(),
        refused: Refused::default(),
        progress: &|_| {},
        apply: None,
    };
    scanned.iter().try_for_each(|scanned| replay(&alone, scanned).map(drop))
}

impl Read {
    /// Whether all is there that was durable, that the base lacks, and that it knows of; the loss may be accepted.
    fn check(&self, plan: &Plan, scanned: &[Scanned], range: Range, accept_loss: bool) -> Result<(), LogError> {
        if let (Some(missing), false) = (self.reach.missing, accept_loss) {
            return Err(missing_error(missing, self.proven, scanned, &self.replayed));
        }
        plan.check_cut(self.cut, range)?;
        let in_records = self.replayed.iter().map(|replayed| replayed.newest).max().unwrap_or(0);
        let newest = plan.newest(scanned).map(|newest| newest.max(in_records).max(self.proven).max(self.cut));
        match range.known {
            Some(known) if !accept_loss && newest.is_none_or(|newest| newest < known) => {
                Err(LogError::Older { known, newest })
            }
            _ => Ok(()),
        }
    }

    /// Applies what was held back and counts; all the rest is void.
    ///
    /// # Errors
    /// The refusal of the least timestamp, if the caller has refused any record.
    fn settle(&mut self, plan: &Plan, apply: Apply<'_>) -> Result<(), LogError> {
        let horizon = self.reach.horizon;
        let common = Common {
            identity: self.identity,
            plan,
            proven: AtomicU64::new(self.proven),
            cut: AtomicU64::new(self.cut),
            seen: Mutex::default(),
            refused: std::mem::take(&mut self.refused),
            progress: &|_| {},
            apply: Some(apply),
        };
        std::thread::scope(|scope| {
            let common = &common;
            let threads: Vec<_> = self
                .replayed
                .iter_mut()
                .map(|replayed| scope.spawn(move || replayed.apply_through(common, horizon)))
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        });
        self.replayed.iter_mut().for_each(Replayed::drop_held);
        common.refused.into_result()
    }

    fn report(&self, scanned: &[Scanned], range: Range) -> RecoveryReport {
        let sum = |of: fn(&Replayed) -> u64| self.replayed.iter().map(of).sum();
        let newest = self.replayed.iter().map(|replayed| replayed.newest).max().unwrap_or(0);
        let incarnations =
            scanned.iter().flat_map(|log| &log.extents).map(|extent| extent.header.incarnation.first - 1).max();
        let known = range.known.unwrap_or(0);
        let clock = newest.max(self.reach.horizon).max(self.proven).max(incarnations.unwrap_or(0)).max(known);
        let mut damages: Vec<Damage> = scanned.iter().flat_map(|log| log.damages.iter().cloned()).collect();
        damages.extend(self.replayed.iter().flat_map(|replayed| replayed.damages.iter().cloned()));
        RecoveryReport {
            horizon: self.reach.horizon,
            clock,
            after: self.after,
            records: sum(|replayed| replayed.records),
            payload_bytes: sum(|replayed| replayed.payload_bytes),
            voids: sum(|replayed| replayed.voids),
            dropped: sum(|replayed| replayed.dropped),
            passed_by: 0,
            bytes_read: sum(|replayed| replayed.bytes_read),
            duration: std::time::Duration::ZERO,
            lost: None,
            ends: self.replayed.iter().map(|replayed| replayed.end.clone()).collect(),
            damages,
        }
    }
}

/// Says what is gone, by the damage that was found; or, where none was, by where the logs end.
fn missing_error(timestamp: u64, proven: u64, scanned: &[Scanned], replayed: &[Replayed]) -> LogError {
    let found = scanned.iter().flat_map(|log| &log.damages).chain(replayed.iter().flat_map(|log| &log.damages));
    let torn = replayed.iter().filter_map(Replayed::torn_end);
    if let Some(damage) = found.cloned().chain(torn).next() {
        return LogError::Corrupt { timestamp, proven, damage };
    }
    let ends = scanned.iter().zip(replayed).map(|(scanned, replayed)| Damage {
        log: scanned.log,
        device: scanned.device.name(),
        extent: replayed.end.extent,
        offset: replayed.end.offset,
        expected: "more".into(),
        found: format!("the end: {}", replayed.end.reason),
    });
    LogError::Missing { timestamp, proven, logs: ends.collect() }
}

fn flush_all(scanned: &[Scanned]) -> Result<(), LogError> {
    use saki_io::{Operation, Wait};
    if planted::is(Fault::RecoveryUnflushed) {
        return Ok(());
    }
    for scanned in scanned {
        let failed = |error| LogError::Device { log: scanned.log, error };
        let mut lane = scanned.device.open_lane(None).map_err(failed)?;
        lane.submit(Operation::flush(0));
        let mut completions = Vec::new();
        while completions.is_empty() {
            lane.poll(Wait::AtMost(std::time::Duration::from_secs(1)), &mut completions);
        }
        completions.into_iter().try_for_each(|completion| completion.result).map_err(failed)?;
    }
    Ok(())
}

/// A device that was cut off within a slot is made whole again, or that slot is not used.
fn complete_last_slot(scanned: &mut Scanned) {
    let whole = scanned.slots * scanned.extent_bytes;
    if scanned.length >= whole {
        return;
    }
    match scanned.device.ensure_length(whole) {
        Ok(()) => scanned.length = whole,
        Err(error) => tracing::warn!("log {}: its last extent is not whole, and not used: {error}", scanned.log),
    }
}

/// Which slots a new incarnation finds.
fn open_log(
    scanned: Scanned,
    replayed: &Replayed,
    identity: Identity,
    incarnation: Incarnation,
    cut: u64,
) -> RecoveredLog {
    let oldest = scanned.oldest();
    let next_sequence = scanned.extents.last().map_or(1, |last| last.header.sequence + 1);
    let extents = scanned.extents.iter().zip(&replayed.extents_newest);
    // Freed oldest first only: what is needed is a suffix.
    let live: Vec<Live> = extents
        .filter(|(extent, _)| extent.header.sequence >= oldest)
        .map(|(extent, newest)| Live { sequence: extent.header.sequence, slot: extent.slot, newest: *newest })
        .skip_while(|live| live.newest <= cut)
        .collect();
    let mut dead: Vec<(u64, u64)> = (0..scanned.slots).map(|slot| (0, slot)).collect();
    for extent in &scanned.extents {
        dead[extent.slot as usize].0 = extent.header.sequence;
    }
    dead.retain(|(_, slot)| live.iter().all(|live| live.slot != *slot));
    dead.retain(|(_, slot)| (slot + 1) * scanned.extent_bytes <= scanned.length);
    // Never used ones first, then the oldest: what may still be of interest to a person lives longest.
    dead.sort_unstable();
    let free = dead.into_iter().map(|(_, slot)| slot).collect();
    RecoveredLog {
        slots: Slots::new(live, free, scanned.slots, next_sequence, incarnation.first - 1),
        device: scanned.device,
        identity: Identity { log: scanned.log as u32, ..identity },
        extent_bytes: scanned.extent_bytes,
        next_sequence,
    }
}
