//! Replaying the logs into empty tables.
//!
//! Each log is read by a thread of its own, which applies its records as they come: changes of one row may come in any
//! order. A row keeps its newest version only, so
//!
//! - a put or delete counts if it is newer than what the row has,
//! - a patch counts if the row has just the version that it is against; if the row is older, the patch waits until that
//!   version comes, and if it is newer, the patch has been overtaken.
//!
//! Records are gathered until there are some dozens of changes, whose rows are then looked up together, so that the
//! walks through memory overlap. Changes of one row are kept apart by a lock for its stripe of keys. What still waits
//! at the end is against a version that no log has: the logs contradict themselves. Then the deletes go, and the
//! secondary indexes are made.

mod error;
mod patches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::checksum;
use saki_io::Device;
use saki_log::{Logs, Progress, Range, RecoveryReport};

use self::error::ReplayError;
use crate::chain::Row;
use crate::epoch::{Epochs, Garbage, Participant, Pin};
use crate::error::Error;
use crate::index::KEY_BYTES_MAX;
use crate::memory::arena::{Arena, Depot};
use crate::memory::prefetch::prefetch_row;
use crate::record::{Change, Effect, Patch, changes};
use crate::table::Catalog;
use crate::table::Growth;
use crate::table::{BODY_BYTES_MAX, Table};
use patches::Patches;

const STRIPES: usize = 4096;
/// Timestamps that one log may be applied ahead of another, before it waits, and how often it looks whether it still
/// is.
const AHEAD_MAX: u64 = 4096;
const PATIENCE: u32 = 10;
/// Rows that are looked up together.
const LOOKUPS: usize = 16;
/// Changes that are worth to be applied together, and as many are looked up at once.
const BATCH_CHANGES: usize = 64;

/// Opens the logs and replays them into the tables of the catalog.
pub fn recover(
    devices: Vec<Arc<dyn Device>>,
    options: saki_log::Options,
    range: Range,
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
    stripes: Vec<Mutex<Patches>>,
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
    /// Changes in them.
    changes: usize,
}

impl Replay<'_> {
    fn apply(&self, log: usize, timestamp: u64, payload: &[u8]) -> Result<(), ReplayError> {
        let means = &mut *self.means[log].lock();
        let batch = &mut means.batch;
        batch.changes += self.check(payload)?;
        batch.payloads.extend_from_slice(payload);
        batch.records.push((timestamp, batch.payloads.len()));
        if batch.changes >= BATCH_CHANGES { self.apply_batch(means) } else { Ok(()) }
    }

    /// Refuses a record that no transaction can have left, while it is known where it is; else, how many changes it
    /// has.
    fn check(&self, payload: &[u8]) -> Result<usize, ReplayError> {
        let mut count = 0;
        for change in changes(payload) {
            let Change { table, key, effect } = change.map_err(ReplayError::Malformed)?;
            let body = match effect {
                Effect::Delete => 0,
                Effect::Put(body) => body.len(),
                Effect::Patch(patch) => patch.length(),
            };
            let parts = [("key", key.len(), KEY_BYTES_MAX), ("body", body, BODY_BYTES_MAX)];
            if let Some((what, bytes, limit)) = parts.into_iter().find(|(_, bytes, limit)| bytes > limit) {
                return Err(ReplayError::TooLong { table, what, bytes, limit });
            }
            if !self.tables.contains_key(&table) && !self.catalog.may_have_had(table) {
                return Err(ReplayError::NoTable(table));
            }
            count += 1;
        }
        Ok(count)
    }

    fn apply_batch(&self, means: &mut Means) -> Result<(), ReplayError> {
        let batch = std::mem::take(&mut means.batch);
        let mut together = Vec::with_capacity(BATCH_CHANGES);
        let mut start = 0;
        for (timestamp, end) in &batch.records {
            for change in changes(&batch.payloads[start..*end]) {
                let change = change.map_err(ReplayError::Malformed)?;
                if !self.is_wanted(&change, *timestamp) {
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

    /// Lets the other logs come closer if this one is far ahead: its patches would have to wait for theirs. Not for
    /// long, since they may in turn wait for what this one proves, and not again for one that does not move.
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
    fn is_wanted(&self, change: &Change<'_>, timestamp: u64) -> bool {
        self.tables.get(&change.table).is_some_and(|(_, after)| timestamp > *after)
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
            if let Some(table) = stripe.lock().left() {
                let name = self.table(table).map_or("", Table::name).to_owned();
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

/// Applies one change, and then, one after the other, those that waited for it.
fn apply_change(
    table: &Table,
    change: &Change<'_>,
    hash: u64,
    address: Option<u64>,
    timestamp: u64,
    means: &mut Means,
    patches: &mut Patches,
) -> Result<(), ReplayError> {
    let pin = Pin::of_announced(&means.participant);
    // It may have come since it was looked up.
    let address = address.or_else(|| table.inner().primary.get(change.key, &pin));
    // SAFETY: out of the index, where rows stay during recovery; the stripe's lock keeps other threads off the row.
    let row = address.map(|address| unsafe { Row::at(address) });
    let newest = row.and_then(Row::replayed).map(|newest| newest.begin);
    if newest.is_some_and(|newest| newest >= timestamp) {
        return Ok(());
    }
    let row = match (change.effect, row) {
        (Effect::Patch(patch), Some(row)) if newest == Some(patch.base) => {
            apply_patch(row, change, timestamp, &patch, means)?;
            row
        }
        (Effect::Patch(patch), _) if patch.base >= timestamp => return Err(ReplayError::misfit(change, timestamp)),
        (Effect::Patch(patch), _) => return patches.keep(change, hash, timestamp, &patch),
        (Effect::Put(body), row) => write_whole(table, row, change.key, Some(body), timestamp, means)?,
        (Effect::Delete, row) => write_whole(table, row, change.key, None, timestamp, means)?,
    };
    let mut last = timestamp;
    while let Some(next) = patches.take(change, hash, last)? {
        apply_patch(row, change, next.timestamp, &next.patch(), means)?;
        last = next.timestamp;
    }
    Ok(())
}

/// Makes a body, or a delete, the row's version; the row, which may be new.
fn write_whole<'r>(
    table: &Table,
    row: Option<&'r Row>,
    key: &[u8],
    body: Option<&[u8]>,
    timestamp: u64,
    means: &mut Means,
) -> Result<&'r Row, ReplayError> {
    let Means { arena, participant, .. } = means;
    if let Some(row) = row {
        // SAFETY: nobody but this thread looks at the row, by the lock of its stripe.
        unsafe { row.replay(arena, timestamp, body) }.map_err(ReplayError::Memory)?;
        return Ok(row);
    }
    let row = Row::allocate_replayed(arena, timestamp, key, body).map_err(ReplayError::Memory)?;
    // SAFETY: just made.
    let row: &'r Row = unsafe { row.as_ref() };
    let pin = Pin::of_announced(participant);
    let inserted = table.inner().primary.insert(key, row.address(), &pin, &mut Vec::new());
    inserted.unwrap_or_else(|_| unreachable!("looked up under the lock"));
    Ok(row)
}

/// Makes the row's version, which the patch is against, the one after it.
fn apply_patch(
    row: &Row,
    change: &Change<'_>,
    timestamp: u64,
    patch: &Patch<'_>,
    means: &mut Means,
) -> Result<(), ReplayError> {
    let Means { arena, body, .. } = means;
    let misfit = || ReplayError::misfit(change, timestamp);
    let base = row.replayed().and_then(|newest| newest.body).ok_or_else(misfit)?;
    if base.len() == patch.length() {
        // SAFETY: nobody but this thread looks at the row, by the lock of its stripe.
        unsafe { row.replay_in_place(timestamp, patch.prefix, patch.middle) };
        return Ok(());
    }
    body.clear();
    if !patch.apply(base, body) {
        return Err(misfit());
    }
    // SAFETY: as above.
    unsafe { row.replay(arena, timestamp, Some(body)) }.map_err(ReplayError::Memory)
}

/// Which stripe a row belongs to, and how it is found there.
fn hash_of(change: &Change<'_>) -> u64 {
    checksum(change.key) ^ u64::from(change.table).wrapping_mul(0x9e37_79b9_7f4a_7c15)
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
                Ok(()) => drop(secondary.entries.insert(&entry, row.address(), &pin, &mut Vec::new())),
                Err(error) => outcome = Err(error),
            }
        }
    });
    inner.counters.grow(means.participant.number(), growth);
    inner.counters.note_commit(means.participant.number(), last_commit);
    let mut nodes = Garbage::default();
    for row in dead {
        inner.primary.remove(row.key(), row.address(), &pin, &mut nodes);
        // SAFETY: in no index any more, and recovery has no other readers.
        unsafe { row.free_replayed(&mut means.arena) };
    }
    nodes.collect(u64::MAX);
    outcome
}
