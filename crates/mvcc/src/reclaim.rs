//! What a session has made garbage of, and when it may be freed: superseded versions, aborted ones, dead rows, stale entries of
//! secondary indexes.
//!
//! Each session queues its own garbage in the order of its timestamps and frees the ripe front of the queue after its commits:
//! cooperative, without a thread of its own and without touching what others do. What a session leaves behind when it ends is
//! adopted by the others.
//!
//! | garbage | of | free when the horizon | how |
//! |---|---|---|---|
//! | version | an update or delete at `t` | has reached `t` | its block |
//! | block | an abort, a dead row | is past its unlinking | the block |
//! | cleanup | a delete, or a change of an indexed column, at `t` | has reached `t` | below |
//!
//! A cleanup removes entries from secondary indexes that no reachable version has any more. The last cleanup of a row whose newest
//! version is a delete that everyone sees kills the row: it leaves the primary index and becomes a block to free.

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::arena::Arena;
use crate::chain::{Row, Version};
use crate::epoch::{Epochs, Garbage, Pin};
use crate::table::Table;

/// Entries that may pile up before the horizon is computed anew.
const PATIENCE: usize = 64;

/// A session's garbage.
#[derive(Default)]
pub struct Reclaimer {
    queue: VecDeque<Entry>,
    /// Nodes of indexes.
    pub nodes: Garbage,
    /// Length of the queue from which on collecting is worth a look at the horizon.
    look_at: usize,
}

struct Entry {
    /// Ripe when the horizon is later.
    at: u64,
    what: What,
}

enum What {
    Version(NonNull<Version>),
    Block(NonNull<u8>, usize),
    Cleanup(Box<Cleanup>),
}

// SAFETY: what is queued is reachable through this queue alone, or (the row of a cleanup) kept allocated by its count of cleanups.
unsafe impl Send for Reclaimer {}

/// Entries of a row in secondary indexes that may be stale.
pub struct Cleanup {
    pub table: Table,
    pub row: NonNull<Row>,
    /// Which index, and the entry.
    pub entries: Vec<(usize, Box<[u8]>)>,
}

/// What freeing needs of a session.
pub struct Means<'a> {
    pub arena: &'a mut Arena,
    pub pin: &'a Pin<'a>,
    /// No snapshot is earlier.
    pub horizon: u64,
}

impl Reclaimer {
    /// A version that one of timestamp `at` took the place of.
    pub fn superseded(&mut self, version: NonNull<Version>, at: u64) {
        // SAFETY: superseded just now, under a pin of the caller, so still allocated.
        if !unsafe { version.as_ref() }.is_inline() {
            self.queue.push_back(Entry { at: at - 1, what: What::Version(version) });
        }
    }

    /// A block that was unlinked, but may have been seen by those who are pinned now.
    pub fn unlinked(&mut self, block: NonNull<u8>, bytes: usize, epochs: &Epochs) {
        self.queue.push_back(Entry { at: epochs.retirement(), what: What::Block(block, bytes) });
    }

    /// A cleanup, counted by its row, of what was superseded at `at`.
    pub fn cleanup(&mut self, cleanup: Cleanup, at: u64) {
        self.queue.push_back(Entry { at: at - 1, what: What::Cleanup(Box::new(cleanup)) });
    }

    /// Whether enough has gathered to collect it.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.queue.len() + self.nodes.len() > self.look_at
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.nodes.is_empty()
    }

    /// Frees what is ripe. For a pinned caller.
    pub fn collect(&mut self, means: &mut Means<'_>) {
        let waiting = self.queue.len();
        for _ in 0..waiting {
            if self.queue.front().is_none_or(|entry| entry.at >= means.horizon) {
                break;
            }
            let entry = self.queue.pop_front().expect("there is a front");
            match entry.what {
                What::Version(version) => {
                    // SAFETY: the horizon has passed what superseded it: no walk of a snapshot comes so far.
                    unsafe { means.arena.free(version.cast(), version.as_ref().block_bytes()) };
                }
                // SAFETY: every pin is later than the unlinking.
                What::Block(block, bytes) => unsafe { means.arena.free(block, bytes) },
                What::Cleanup(cleanup) => self.clean(*cleanup, means),
            }
        }
        self.nodes.collect(means.horizon);
        self.look_at = self.queue.len() + self.nodes.len() + PATIENCE;
    }

    fn clean(&mut self, mut cleanup: Cleanup, means: &mut Means<'_>) {
        // SAFETY: the row is allocated while a cleanup of it is counted.
        let row = unsafe { cleanup.row.as_ref() };
        while let Some((index, entry)) = cleanup.entries.last() {
            if remove_stale(&cleanup.table, row, *index, entry, means, &mut self.nodes).is_none() {
                // Somebody writes the row: look again later.
                let at = means.pin.epochs().retirement();
                return self.queue.push_back(Entry { at, what: What::Cleanup(Box::new(cleanup)) });
            }
            cleanup.entries.pop();
        }
        if !row.end_work() {
            return;
        }
        if let Some(tombstone) = row.kill(means.horizon) {
            let epochs = means.pin.epochs();
            cleanup.table.inner().primary.remove(row.key(), row.address(), means.pin, &mut self.nodes);
            // SAFETY: the caller is pinned, so both are allocated still.
            let (version_bytes, row_bytes) = unsafe { (tombstone.as_ref().block_bytes(), row.block_bytes()) };
            self.unlinked(tombstone.cast(), version_bytes, epochs);
            self.unlinked(cleanup.row.cast(), row_bytes, epochs);
        }
    }

    /// Takes over what another session left behind.
    pub fn adopt(&mut self, mut other: Self) {
        self.queue.append(&mut other.queue);
        self.queue.make_contiguous().sort_by_key(|entry| entry.at);
        self.nodes.append(&mut other.nodes);
    }
}

/// Removes `entry` unless a version that someone may see has it; `None` if the row cannot be looked at just now.
fn remove_stale(
    table: &Table,
    row: &Row,
    index: usize,
    entry: &[u8],
    means: &Means<'_>,
    nodes: &mut Garbage,
) -> Option<()> {
    let secondary = &table.inner().secondary[index];
    row.latched(means.horizon, |versions| {
        let mut found = Vec::new();
        let is_used = versions.filter_map(Version::body).any(|body| {
            found.clear();
            table.inner().secondary_entry(secondary, row.key(), body, &mut found).is_ok() && found == entry
        });
        if !is_used {
            secondary.entries.remove(entry, row.address(), means.pin, nodes);
        }
    })
}
