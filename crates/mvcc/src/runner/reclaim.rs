//! What a runner has made garbage of, and when it may be freed: superseded versions, aborted ones, dead rows, stale
//! entries of secondary indexes.
//!
//! Each runner queues its own garbage in the order of its timestamps and frees the ripe front of the queue after its
//! commits: cooperative, without a thread of its own. Of what an old snapshot had held back it frees a little at each,
//! so that no commit pays for all. Others free what is left in the queues of runners that do nothing, and of those that
//! have ended: see `sweep`.
//!
//! | garbage | of | free when the watermark | how |
//! |---|---|---|---|
//! | version | an update or delete at `t` | has reached `t` | its block |
//! | block | an abort, a dead row | is past its unlinking | the block |
//! | cleanup | a delete, or a change of an indexed column, at `t` | has reached `t`, which is durable | below |
//!
//! An old snapshot holds the watermark back. Then versions that it does not see, and nobody else either, are pruned:
//! taken out of their chain by whoever writes the row next (`Row::prune`), and freed by the one in whose queue they
//! are, once all visits to chains that were going on have ended.
//!
//! A cleanup removes entries from secondary indexes that no reachable version has any more. The last cleanup of a row
//! whose newest version is a delete that everyone sees kills the row: it leaves the primary index and becomes a block
//! to free. Not so in a table over a base, where the delete hides what is there: rows of such tables leave by
//! `release`.

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::chain::{Row, TooOld, Version};
use crate::epoch::{Epochs, Garbage, Pin, Quiescence};
use crate::memory::arena::Arena;
use crate::table::Growth;
use crate::table::{NumberedEntry, Table};

/// Entries that may pile up before the watermark is computed anew.
const PATIENCE: usize = 64;
/// Bytes that may pile up before: what a runner that goes idle may keep for nobody.
const PATIENCE_BYTES: usize = 256 << 10;
/// Entries that are freed at a time beyond twice what has come since the last time: some 100 us.
pub const STEP: usize = 1024;
/// Entries that wait for the watermark before pruned ones are looked for among them: so many that it is not just a
/// thread that the system has stopped for a moment.
const AGED_MIN: usize = if cfg!(debug_assertions) { 256 } else { 1 << 16 };
/// As many bytes of them are as good a reason.
const AGED_BYTES: usize = 4 << 20;
/// Entries that are looked through for pruned ones at a time: more than come, so that all are looked at again and
/// again.
const LOOKED_THROUGH: usize = 4 * PATIENCE;
/// Pruned versions that are worth a barrier.
const PRUNED_MIN: usize = 128;
/// As many bytes of them are, too.
const PRUNED_BYTES: usize = 1 << 20;

/// A runner's garbage.
#[derive(Default)]
pub struct Reclaimer {
    queue: VecDeque<Entry>,
    cleanups: VecDeque<Entry>,
    /// Entries that have been waiting for long, in no order.
    aged: VecDeque<Entry>,
    pruned: Vec<NonNull<Version>>,
    /// Bytes of them.
    pruned_bytes: usize,
    /// Pruned versions that visits may still hold.
    leaving: Option<(Vec<NonNull<Version>>, Quiescence)>,
    /// Nodes of indexes.
    pub nodes: Garbage,
    /// Length of the queue from which on collecting is worth a look at the watermark.
    look_at: usize,
    /// Bytes of the versions and blocks in it.
    bytes: usize,
    /// As `look_at`, of bytes.
    look_at_bytes: usize,
    /// Entries that remained when it was last collected.
    remained: usize,
}

/// How urgent it is to collect a runner's garbage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Due {
    #[default]
    No,
    /// Enough has gathered.
    Now,
    /// So many bytes have gathered that the runner should not go idle with them.
    Heavy,
}

struct Entry {
    /// Ripe when the watermark is later.
    at: u64,
    what: What,
}

enum What {
    Version(NonNull<Version>),
    Block(NonNull<u8>, usize),
    Cleanup(Box<Cleanup>),
}

// SAFETY: what is queued is reachable through this queue alone, or (the row of a cleanup) kept allocated by its count
// of cleanups.
unsafe impl Send for Reclaimer {}

/// Entries of a row in secondary indexes that may be stale.
pub struct Cleanup {
    pub table: Table,
    pub row: NonNull<Row>,
    pub entries: Vec<NumberedEntry>,
}

/// What freeing needs of a runner.
pub struct Means<'a> {
    pub arena: &'a mut Arena,
    pub pin: &'a Pin<'a>,
    /// No snapshot is earlier.
    pub watermark: u64,
    /// All through it is durable. When nothing is left of a deleted row or of an entry, nobody can tell any more when
    /// it was deleted, and so who found nothing could be told so too early.
    pub durable: u64,
    /// The time of the caller's pin, or earlier.
    pub pinned: u64,
}

impl Reclaimer {
    /// A version that one of timestamp `at` took the place of.
    pub fn superseded(&mut self, version: NonNull<Version>, at: u64) {
        // SAFETY: superseded just now, under a pin of the caller, so still allocated.
        let superseded = unsafe { version.as_ref() };
        if !superseded.is_inline() {
            self.bytes += superseded.block_bytes();
            self.queue.push_back(Entry { at: at - 1, what: What::Version(version) });
        }
    }

    /// A block that was unlinked, but may have been seen by those who are pinned now.
    pub fn unlinked(&mut self, block: NonNull<u8>, bytes: usize, epochs: &Epochs) {
        self.bytes += bytes;
        self.queue.push_back(Entry { at: epochs.retirement(), what: What::Block(block, bytes) });
    }

    /// A cleanup, counted by its row, of what was superseded at `at`.
    pub fn cleanup(&mut self, cleanup: Cleanup, at: u64) {
        self.cleanups.push_back(Entry { at: at - 1, what: What::Cleanup(Box::new(cleanup)) });
    }

    /// Whether so much has gathered that it should be collected.
    #[inline]
    pub fn due(&self) -> Due {
        if self.bytes > self.look_at_bytes.max(PATIENCE_BYTES) {
            Due::Heavy
        } else if self.waiting() > self.look_at {
            Due::Now
        } else {
            Due::No
        }
    }

    /// Bytes of versions and rows that wait to be freed.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.waiting() == 0 && self.pruned.is_empty() && self.leaving.is_none()
    }

    fn waiting(&self) -> usize {
        self.queue.len() + self.cleanups.len() + self.aged.len() + self.nodes.len()
    }

    /// Frees what is ripe, a [`STEP`] and twice what has come since the last time at most; whether much remains because
    /// a snapshot is old. For a pinned caller that visits no chain.
    pub fn collect(&mut self, means: &mut Means<'_>) -> bool {
        let mut allowance = STEP + 2 * self.waiting().saturating_sub(self.remained);
        self.free_ripe(&mut allowance, means);
        let is_behind = self.queue.len() > AGED_MIN || self.bytes > AGED_BYTES;
        self.look_through_aged(LOOKED_THROUGH, means);
        if is_behind {
            for _ in 0..self.queue.len().min(LOOKED_THROUGH / 2) {
                let entry = self.queue.pop_front().expect("counted");
                self.look_at_aged(entry, means);
            }
        }
        self.free_pruned(means);
        self.remained = self.waiting();
        self.look_at = self.remained + PATIENCE;
        self.look_at_bytes = self.bytes + PATIENCE_BYTES;
        if allowance == 0 || !is_behind && !self.aged.is_empty() {
            // The old snapshot has ended, or may have: go on, a little at each commit.
            self.look_at = 0;
        }
        is_behind || !self.aged.is_empty()
    }

    /// Frees what is ripe, for another than the runner; how many entries that were. Takes what it does off `allowance`,
    /// looks in vain too. For a pinned caller that visits no chain.
    pub fn sweep(&mut self, allowance: &mut usize, means: &mut Means<'_>) -> usize {
        let before = self.waiting();
        self.free_ripe(allowance, means);
        let looks = (*allowance).min(self.aged.len());
        *allowance -= looks;
        self.look_through_aged(looks, means);
        self.free_pruned(means);
        self.remained = self.remained.min(self.waiting());
        self.look_at = self.look_at.min(self.remained + PATIENCE);
        self.look_at_bytes = self.look_at_bytes.min(self.bytes + PATIENCE_BYTES);
        before.saturating_sub(self.waiting())
    }

    /// Frees the ripe fronts of the queues, up to `allowance` entries, and takes them off it.
    fn free_ripe(&mut self, allowance: &mut usize, means: &mut Means<'_>) {
        while *allowance > 0
            && let Some(entry) = self.queue.pop_front_if(|entry| entry.at < means.watermark)
        {
            *allowance -= 1;
            self.free(entry.what, means);
        }
        // Those that have to be done again come behind.
        let ripe = means.watermark.min(means.durable);
        for _ in 0..self.cleanups.len().min(*allowance) {
            let Some(entry) = self.cleanups.pop_front_if(|entry| entry.at < ripe) else { break };
            *allowance -= 1;
            self.free(entry.what, means);
        }
        *allowance -= self.nodes.collect_some(means.watermark, *allowance);
    }

    fn look_through_aged(&mut self, count: usize, means: &mut Means<'_>) {
        for _ in 0..self.aged.len().min(count) {
            let entry = self.aged.pop_front().expect("counted");
            self.look_at_aged(entry, means);
        }
    }

    fn free(&mut self, what: What, means: &mut Means<'_>) {
        match what {
            // SAFETY: the watermark has passed what superseded it, or it is pruned and all visits have ended: no walk
            // comes to it.
            What::Version(version) => unsafe {
                let bytes = version.as_ref().block_bytes();
                self.bytes -= bytes;
                means.arena.free(version.cast(), bytes);
            },
            // SAFETY: every pin is later than the unlinking.
            What::Block(block, bytes) => unsafe {
                self.bytes -= bytes;
                means.arena.free(block, bytes);
            },
            What::Cleanup(cleanup) => self.clean(*cleanup, means),
        }
    }

    fn look_at_aged(&mut self, entry: Entry, means: &mut Means<'_>) {
        if entry.at < means.watermark {
            return self.free(entry.what, means);
        }
        match entry.what {
            // SAFETY: in this queue, so not freed.
            What::Version(version) if unsafe { version.as_ref() }.is_pruned() => self.keep_pruned(version),
            _ => self.aged.push_back(entry),
        }
    }

    fn keep_pruned(&mut self, version: NonNull<Version>) {
        // SAFETY: it is freed only after it has left these.
        self.pruned_bytes += unsafe { version.as_ref() }.block_bytes();
        self.pruned.push(version);
    }

    fn free_pruned(&mut self, means: &mut Means<'_>) {
        let epochs = means.pin.epochs();
        if let Some((versions, mut quiescence)) = self.leaving.take() {
            if !quiescence.is_over(epochs) {
                self.leaving = Some((versions, quiescence));
                return;
            }
            versions.into_iter().for_each(|version| self.free(What::Version(version), means));
        }
        if (self.pruned.len() >= PRUNED_MIN || self.pruned_bytes >= PRUNED_BYTES)
            && let Some(quiescence) = epochs.quiescence()
        {
            self.pruned_bytes = 0;
            self.leaving = Some((std::mem::take(&mut self.pruned), quiescence));
        }
    }

    fn clean(&mut self, mut cleanup: Cleanup, means: &mut Means<'_>) {
        // SAFETY: the row is allocated while a cleanup of it is counted.
        let row = unsafe { cleanup.row.as_ref() };
        let pin = means.pin;
        if pin.participant().visiting(|| self.clean_row(&mut cleanup, row, means)).is_none() {
            // Somebody writes the row, or an old snapshot still sees what it was: look again later.
            let at = pin.epochs().retirement();
            self.cleanups.push_back(Entry { at, what: What::Cleanup(Box::new(cleanup)) });
        }
    }

    /// `None` if not all could be done.
    fn clean_row(&mut self, cleanup: &mut Cleanup, row: &Row, means: &mut Means<'_>) -> Option<()> {
        while let Some((index, entry)) = cleanup.entries.last() {
            remove_stale(&cleanup.table, row, *index, entry, means, &mut self.nodes)?;
            cleanup.entries.pop();
        }
        if !row.end_work() {
            return Some(());
        }
        let inner = cleanup.table.inner();
        if !inner.definition.over_base
            && let Some(tombstone) = row.kill(means.watermark)
        {
            inner.primary.remove(row.key(), row.address(), means.pin, &mut self.nodes);
            let growth = self.dead_row(cleanup.row, tombstone, means.pin.epochs());
            inner.counters.grow(means.pin.participant().number(), growth);
        }
        Some(())
    }

    /// Queues the memory of a row that has just been made dead and left its indexes; by how much the table's memory
    /// grows thereby.
    pub fn dead_row(&mut self, row: NonNull<Row>, newest: NonNull<Version>, epochs: &Epochs) -> Growth {
        // SAFETY: the caller is pinned since before it was dead, so both are allocated still.
        let (row_ref, version) = unsafe { (row.as_ref(), newest.as_ref()) };
        let bytes = row_ref.bytes_with(version);
        if !version.is_inline() {
            self.unlinked(newest.cast(), version.block_bytes(), epochs);
        }
        self.unlinked(row.cast(), row_ref.block_bytes(), epochs);
        Growth { rows: -1, bytes: -(bytes as i64) }
    }

    /// Takes over what a runner leaves behind. The queues are no longer in order then; an entry waits for those before
    /// it at most.
    pub fn adopt(&mut self, mut other: Self) {
        self.bytes += other.bytes;
        self.queue.append(&mut other.queue);
        self.aged.append(&mut other.aged);
        self.cleanups.append(&mut other.cleanups);
        self.nodes.append(&mut other.nodes);
        // Their visits are awaited anew.
        let leaving = other.leaving.take().into_iter().flat_map(|(versions, _)| versions);
        other.pruned.into_iter().chain(leaving).for_each(|version| self.keep_pruned(version));
    }
}

/// Removes `entry` unless a version that someone may see has it; `None` if that cannot be said just now.
fn remove_stale(
    table: &Table,
    row: &Row,
    index: usize,
    entry: &[u8],
    means: &Means<'_>,
    nodes: &mut Garbage,
) -> Option<()> {
    let secondary = &table.inner().secondary[index];
    let mut made = Vec::new();
    let mut has_entry = |version: &Version| {
        version.body().is_some_and(|body| table.inner().has_entry(secondary, row.key(), body, entry, &mut made))
    };
    // Down to a version that is durable: what made the entry stale may be later than what queued its cleanup.
    row.latched(means.watermark.min(means.durable), means.pinned, |versions| {
        for version in versions {
            match version {
                Err(TooOld) => return None,
                Ok(version) if has_entry(version) => return Some(()),
                Ok(_) => {}
            }
        }
        secondary.entries.remove(entry, row.address(), means.pin, nodes);
        Some(())
    })?
}
