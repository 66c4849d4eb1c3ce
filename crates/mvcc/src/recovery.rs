//! Replaying the logs into empty tables.
//!
//! Each log is read by a thread of its own, which applies its records as they come: changes of one row may come in any order. A
//! row keeps its newest version only, so
//!
//! - a put or delete counts if it is newer than what the row has,
//! - a patch counts if the row has just the version that it is against; if the row is older, the patch waits until that version
//!   comes, and if it is newer, the patch has been overtaken.
//!
//! Records are gathered until there are some dozens of changes, whose rows are then looked up together, so that the walks through
//! memory overlap. Changes of one row are kept apart by a lock for its stripe of keys. What still waits at the end is against a version that no
//! log has: the logs contradict themselves. Then the deletes go, and the secondary indexes are made.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::checksum;
use saki_io::Device;
use saki_log::{Logs, Progress, Range, RecoveryReport};

use crate::arena::{Arena, Depot};
use crate::catalog::Catalog;
use crate::chain::Row;
use crate::counters::Growth;
use crate::epoch::{Epochs, Garbage, Participant, Pin};
use crate::error::Error;
use crate::prefetch::prefetch_row;
use crate::record::{Change, Effect, MalformedRecord, Patch, changes};
use crate::table::Table;

const STRIPES: usize = 4096;
/// Timestamps that one log may be applied ahead of another, before it waits, and how often it looks whether it still is.
const AHEAD_MAX: u64 = 4096;
const PATIENCE: u32 = 10;
/// Rows that are looked up together.
const LOOKUPS: usize = 16;
/// Bytes of a small change, to guess how many there are in a record.
const CHANGE_BYTES_USUAL: usize = 48;
/// Changes that are worth to be applied together, and as many are looked up at once.
const BATCH_CHANGES: usize = 64;

/// Why a record cannot be applied.
#[derive(Debug)]
enum ReplayError {
    Malformed(MalformedRecord),
    NoTable(u32),
    /// A patch that does not fit the version it is against.
    Misfit {
        table: String,
    },
    Memory(std::io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::NoTable(id) => write!(f, "it changes table {id}, which the catalog does not have"),
            Self::Misfit { table } => write!(f, "it patches a row of \"{table}\" that is not as it says"),
            Self::Memory(error) => write!(f, "the system gives no memory for its rows: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Opens the logs and replays them into the tables of the catalog.
pub fn recover(
    devices: Vec<Arc<dyn Device>>,
    options: saki_log::Options,
    after: Option<u64>,
    catalog: &Catalog,
    epochs: &Arc<Epochs>,
    depot: &Arc<Depot>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Logs, BTreeMap<u32, Table>, RecoveryReport), Error> {
    let tables: HashMap<u32, (Table, u64)> =
        catalog.tables()?.into_iter().map(|(table, after)| (table.id().0, (table, after))).collect();
    let means = |log: usize| {
        let participant = epochs.join().expect("there are places for recovery");
        participant.announce(0);
        Mutex::new(Means {
            log,
            in_vain: None,
            participant,
            arena: Arena::new(Arc::clone(depot)),
            body: Vec::new(),
            batch: Batch::default(),
        })
    };
    let replay = Replay {
        tables: &tables,
        catalog,
        passed_by: AtomicU64::new(0),
        progress: devices.iter().map(|_| AtomicU64::new(0)).collect(),
        means: (0..devices.len()).map(means).collect(),
        stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
    };
    let range = Range { after, ..Range::default() };
    let apply = |log: usize, timestamp: u64, payload: &[u8]| replay.apply(log, timestamp, payload);
    let (logs, mut report) = Logs::recover(devices, options, range, progress, &apply)?;
    report.passed_by = replay.finish()?;
    Ok((logs, tables.into_iter().map(|(id, (table, _))| (id, table)).collect(), report))
}

struct Replay<'a> {
    /// By number, each with the timestamp through which its rows are elsewhere.
    tables: &'a HashMap<u32, (Table, u64)>,
    catalog: &'a Catalog,
    /// Changes of tables that were dropped, and of rows that are elsewhere.
    passed_by: AtomicU64,
    /// How far each log has been applied.
    progress: Vec<AtomicU64>,
    means: Vec<Mutex<Means>>,
    stripes: Vec<Mutex<Stripe>>,
}

/// What the thread of a log needs, its own.
struct Means {
    log: usize,
    /// Where the last of the other logs stood when it was waited for in vain: it may have ended.
    in_vain: Option<u64>,
    participant: Participant,
    arena: Arena,
    body: Vec<u8>,
    batch: Batch,
}

/// Records that are about to be applied.
#[derive(Default)]
struct Batch {
    payloads: Vec<u8>,
    /// The timestamp of each, and where its payload ends.
    records: Vec<(u64, usize)>,
    /// Changes in them, or nearly so.
    changes: usize,
}

/// Patches that wait for the version they are against, by the hash of their row.
#[derive(Default)]
struct Stripe {
    waiting: HashMap<u64, Vec<Waiting>>,
}

struct Waiting {
    table: u32,
    key: Box<[u8]>,
    timestamp: u64,
    base: u64,
    prefix: usize,
    suffix: usize,
    middle: Box<[u8]>,
}

impl Replay<'_> {
    fn apply(&self, log: usize, timestamp: u64, payload: &[u8]) -> Result<(), ReplayError> {
        let means = &mut *self.means[log].lock();
        let batch = &mut means.batch;
        batch.payloads.extend_from_slice(payload);
        batch.records.push((timestamp, batch.payloads.len()));
        // A guess; what counts is that the walks of some dozens overlap.
        batch.changes += payload.len().div_ceil(CHANGE_BYTES_USUAL);
        if batch.changes >= BATCH_CHANGES { self.apply_batch(means) } else { Ok(()) }
    }

    fn apply_batch(&self, means: &mut Means) -> Result<(), ReplayError> {
        let batch = std::mem::take(&mut means.batch);
        let mut together = Vec::with_capacity(BATCH_CHANGES);
        let mut start = 0;
        for (timestamp, end) in &batch.records {
            for change in changes(&batch.payloads[start..*end]) {
                let change = change.map_err(ReplayError::Malformed)?;
                if !self.is_wanted(&change, *timestamp)? {
                    self.passed_by.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                together.push((*timestamp, change));
                if together.len() == BATCH_CHANGES {
                    self.apply_together(&together, means)?;
                    together.clear();
                }
            }
            start = *end;
        }
        self.apply_together(&together, means)?;
        let Batch { mut payloads, mut records, .. } = batch;
        if let Some((timestamp, _)) = records.last() {
            self.keep_pace(means, *timestamp);
        }
        payloads.clear();
        records.clear();
        means.batch = Batch { payloads, records, changes: 0 };
        Ok(())
    }

    /// Lets the other logs come closer if this one is far ahead: its patches would have to wait for theirs. Not for long, since they
    /// may in turn wait for what this one proves, and not again for one that does not move.
    fn keep_pace(&self, means: &mut Means, timestamp: u64) {
        self.progress[means.log].store(timestamp, Ordering::Relaxed);
        let last = || self.progress.iter().map(|progress| progress.load(Ordering::Relaxed)).min().unwrap_or(timestamp);
        for _ in 0..PATIENCE {
            let last = last();
            if last + AHEAD_MAX >= timestamp || means.in_vain == Some(last) {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        means.in_vain = Some(last());
    }

    /// Applies changes in order, after their rows have been asked for all at once.
    fn apply_together(&self, together: &[(u64, Change<'_>)], means: &mut Means) -> Result<(), ReplayError> {
        let mut rows = [None; BATCH_CHANGES];
        for (rows, changes) in rows.chunks_mut(LOOKUPS).zip(together.chunks(LOOKUPS)) {
            self.look_up(changes, &mut rows[..changes.len()], means)?;
        }
        for ((timestamp, change), row) in together.iter().zip(rows) {
            let hash = hash_of(change);
            let mut stripe = self.stripes[hash as usize % STRIPES].lock();
            apply_change(self.table(change.table)?, change, hash, row, *timestamp, means, &mut stripe)?;
        }
        Ok(())
    }

    /// The addresses of the changes' rows, those that are there.
    fn look_up(
        &self,
        changes: &[(u64, Change<'_>)],
        rows: &mut [Option<u64>],
        means: &Means,
    ) -> Result<(), ReplayError> {
        let pin = Pin::of_announced(&means.participant);
        let mut start = 0;
        for run in changes.chunk_by(|(_, left), (_, right)| left.table == right.table) {
            let mut keys = [&[] as &[u8]; LOOKUPS];
            keys.iter_mut().zip(run).for_each(|(key, (_, change))| *key = change.key);
            let table = self.table(run[0].1.table)?;
            table.inner().primary.get_many(&keys[..run.len()], &mut rows[start..][..run.len()], &pin);
            start += run.len();
        }
        rows.iter().flatten().for_each(|address| prefetch_row(*address));
        Ok(())
    }

    /// Whether a change is of a table that there is, and of a row that is not elsewhere.
    fn is_wanted(&self, change: &Change<'_>, timestamp: u64) -> Result<bool, ReplayError> {
        match self.tables.get(&change.table) {
            Some((_, after)) => Ok(timestamp > *after),
            None if self.catalog.may_have_had(change.table) => Ok(false),
            None => Err(ReplayError::NoTable(change.table)),
        }
    }

    fn table(&self, id: u32) -> Result<&Table, ReplayError> {
        self.tables.get(&id).map(|(table, _)| table).ok_or(ReplayError::NoTable(id))
    }

    /// What is left to do when all records are applied; how many changes were passed by.
    fn finish(self) -> Result<u64, Error> {
        for means in &self.means {
            let open = |error: ReplayError| Error::Open { message: format!("the logs cannot be applied: {error}") };
            self.apply_batch(&mut means.lock()).map_err(open)?;
        }
        for stripe in &self.stripes {
            if let Some(waiting) = stripe.lock().waiting.values().flatten().next() {
                let name = self.table(waiting.table).map_or("", Table::name).to_owned();
                let message = format!("the logs hold a change of a row of \"{name}\" without the row that it changes");
                return Err(Error::Open { message });
            }
        }
        let mut means: Vec<_> = self.means.into_iter().map(Mutex::into_inner).collect();
        let next = Mutex::new(self.tables.values());
        std::thread::scope(|scope| -> Result<(), Error> {
            let threads: Vec<_> = means
                .iter_mut()
                .map(|means| {
                    scope.spawn(|| {
                        loop {
                            let Some((table, _)) = next.lock().next() else { return Ok(()) };
                            complete(table, means)?;
                        }
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("completing a table does not panic"))
        })?;
        Ok(self.passed_by.into_inner())
    }
}

/// Applies one change, and those that waited for it.
fn apply_change(
    table: &Table,
    change: &Change<'_>,
    hash: u64,
    address: Option<u64>,
    timestamp: u64,
    means: &mut Means,
    stripe: &mut Stripe,
) -> Result<(), ReplayError> {
    let pin = Pin::of_announced(&means.participant);
    let primary = &table.inner().primary;
    // It may have come since it was looked up.
    let address = address.or_else(|| primary.get(change.key, &pin));
    // SAFETY: out of the index, where rows stay during recovery; the stripe's lock keeps other threads off the row.
    let row = address.map(|address| unsafe { Row::at(address) });
    let newest = row.and_then(Row::replayed);
    if newest.is_some_and(|newest| newest.begin >= timestamp) {
        return Ok(());
    }
    let Means { arena, body, .. } = means;
    let content = match change.effect {
        Effect::Delete => None,
        Effect::Put(content) => Some(content),
        Effect::Patch(patch) => {
            let Some(base) = newest.filter(|newest| newest.begin == patch.base) else {
                stripe.wait(change, hash, timestamp, &patch);
                return Ok(());
            };
            if base.body.is_some_and(|base| base.len() == patch.length()) {
                let row = row.expect("it has a version");
                // SAFETY: nobody but this thread looks at the row, as above.
                unsafe { row.replay_in_place(timestamp, patch.prefix, patch.middle) };
                return release(table, change, hash, timestamp, means, stripe);
            }
            body.clear();
            let fits = base.body.is_some_and(|base| patch.apply(base, body));
            if !fits {
                return Err(ReplayError::Misfit { table: table.name().into() });
            }
            Some(&body[..])
        }
    };
    match row {
        Some(row) => {
            // SAFETY: nobody but this thread looks at the row, as above.
            unsafe { row.replay(arena, timestamp, content) }.map_err(ReplayError::Memory)?;
        }
        None => {
            let row = Row::allocate_replayed(arena, timestamp, change.key, content).map_err(ReplayError::Memory)?;
            // SAFETY: just made.
            let address = unsafe { row.as_ref() }.address();
            primary
                .insert(change.key, address, &pin, &mut Vec::new())
                .unwrap_or_else(|_| unreachable!("looked up under the lock"));
        }
    }
    release(table, change, hash, timestamp, means, stripe)
}

/// Applies the patch that waited for the version of `timestamp`, if one did.
fn release(
    table: &Table,
    change: &Change<'_>,
    hash: u64,
    timestamp: u64,
    means: &mut Means,
    stripe: &mut Stripe,
) -> Result<(), ReplayError> {
    let Some(next) = stripe.next(change, hash, timestamp) else { return Ok(()) };
    let patch = Patch { base: next.base, prefix: next.prefix, suffix: next.suffix, middle: &next.middle };
    let change = Change { effect: Effect::Patch(patch), ..*change };
    apply_change(table, &change, hash, None, next.timestamp, means, stripe)
}

/// Which stripe a row belongs to, and how it is found there.
fn hash_of(change: &Change<'_>) -> u64 {
    checksum(change.key) ^ u64::from(change.table).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Stripe {
    fn wait(&mut self, change: &Change<'_>, hash: u64, timestamp: u64, patch: &Patch<'_>) {
        let Patch { base, prefix, suffix, middle } = *patch;
        let (table, key, middle) = (change.table, change.key.into(), middle.into());
        self.waiting.entry(hash).or_default().push(Waiting { table, key, timestamp, base, prefix, suffix, middle });
    }

    /// Takes out the patch that waits for the row's version of `timestamp`, and forgets those that it has overtaken.
    fn next(&mut self, change: &Change<'_>, hash: u64, timestamp: u64) -> Option<Waiting> {
        if self.waiting.is_empty() {
            return None;
        }
        let waiting = self.waiting.get_mut(&hash)?;
        let is_of_row = |patch: &Waiting| patch.table == change.table && *patch.key == *change.key;
        waiting.retain(|patch| patch.timestamp > timestamp || !is_of_row(patch));
        let next = waiting.iter().position(|patch| patch.base == timestamp && is_of_row(patch));
        let next = next.map(|position| waiting.swap_remove(position));
        if waiting.is_empty() {
            self.waiting.remove(&hash);
        }
        next
    }
}

/// Takes out the rows that were deleted in the end, unless that is information, and makes the entries of the others.
fn complete(table: &Table, means: &mut Means) -> Result<(), Error> {
    let pin = Pin::of_announced(&means.participant);
    let inner = table.inner();
    let mut dead = Vec::new();
    let mut outcome = Ok(());
    let (mut growth, mut last_commit) = (Growth::default(), 0);
    inner.each_row(&pin, |row| {
        let newest = row.replayed();
        last_commit = newest.map_or(0, |newest| newest.begin).max(last_commit);
        let body = newest.and_then(|newest| newest.body);
        if body.is_none() && !inner.definition.over_base {
            dead.push(row);
            return;
        }
        let bytes = row.head().map_or(0, |newest| row.bytes_with(newest));
        growth = Growth { rows: growth.rows + 1, bytes: growth.bytes + bytes as i64 };
        let Some(body) = body else { return };
        for secondary in &inner.secondary {
            let mut entry = Vec::new();
            match inner.secondary_entry(secondary, row.key(), body, &mut entry) {
                // Each row's entries are its own.
                Ok(_) => drop(secondary.entries.insert(&entry, row.address(), &pin, &mut Vec::new())),
                Err(error) => outcome = Err(error),
            }
        }
    });
    inner.counters.grow(means.participant.slot(), growth);
    inner.counters.note_commit(means.participant.slot(), last_commit);
    let mut nodes = Garbage::default();
    for row in dead {
        inner.primary.remove(row.key(), row.address(), &pin, &mut nodes);
        // SAFETY: in no index any more, and recovery has no other readers.
        unsafe { row.free_replayed(&mut means.arena) };
    }
    nodes.collect(u64::MAX);
    outcome
}
