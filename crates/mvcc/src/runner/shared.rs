//! What all runners of a database share.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, RwLock};
use saki_log::Logs;

use super::sweep::Reclaimers;
use super::waiting::Waiters;
use super::watches::Watches;
use crate::epoch::Epochs;
use crate::memory::arena::Depot;
use crate::placement::{NodeId, Placement};
use crate::table::{Catalog, Table};

/// What a broken engine would leave out when it validates.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Sabotage {
    IgnoreRows,
    IgnoreRanges,
    /// Not left out, but broken off: between the timestamp and its record.
    PanicBesideTick,
    /// Nothing is left out, but another thread may get in between: right before the timestamp.
    BeforeTick(fn()),
    /// The same right after it, before anything is validated.
    AfterTick(fn()),
    /// Both: what comes before it, and what comes after.
    AroundTick(fn(), fn()),
    /// Nothing is left out, but told when others begin to wait for a commit, right after its timestamp, and when they
    /// need not any more: `true`, right after the stamps.
    Told(fn(bool)),
}

/// What all runners share. Read by all, and written on no path that only reads.
pub(crate) struct Shared {
    pub epochs: Arc<Epochs>,
    pub logs: Logs,
    pub participants_max: usize,
    /// Which database of this process it is.
    pub instance: u32,
    pub sabotage: Option<Sabotage>,
    pub speculation: bool,
    /// Versions that began at or before this are logged whole when they are updated.
    pub whole_through: CachePadded<AtomicU64>,
    pub cutting: Mutex<()>,
    pub placement: Placement,
    /// Memory of rows, by node.
    pub depots: HashMap<NodeId, Arc<Depot>>,
    pub catalog: Mutex<Catalog>,
    pub tables: RwLock<BTreeMap<u32, Table>>,
    /// Tables that were dropped and hold rows still.
    pub dropped: Mutex<VecDeque<Dropped>>,
    pub has_dropped: AtomicBool,
    pub waiters: Waiters,
    pub watches: Watches,
    pub reclaimers: Reclaimers,
}

/// A table on its way out.
pub(crate) struct Dropped {
    pub table: Table,
    /// Nobody who began later looks into it.
    pub at: u64,
    pub after: Option<Vec<u8>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // There are no runners any more. Rows and versions go with the depots, nodes of indexes are of the whole
        // process.
        self.reclaimers.each(|garbage| _ = garbage.nodes.collect(u64::MAX));
    }
}

impl Shared {
    /// Where a new snapshot is taken.
    #[inline]
    pub fn newest(&self) -> u64 {
        if self.speculation { self.epochs.now() } else { self.logs.durable() }
    }

    /// No snapshot is earlier than this.
    pub fn watermark(&self) -> u64 {
        self.epochs.watermark_from(self.newest())
    }

    #[inline]
    pub fn whole_through(&self) -> u64 {
        self.whole_through.load(Ordering::SeqCst)
    }

    /// From the moment that this is called, no record leans on a version that may be cut away: every commit that
    /// described its record before is waited for, and all others see the mark (`Epochs::tick` is between theirs and
    /// their look at it).
    pub fn begin_cut(&self) -> u64 {
        // One at a time: another would take the mark away.
        let _alone = self.cutting.lock();
        self.whole_through.store(u64::MAX, Ordering::SeqCst);
        self.epochs.wait_for_commits();
        let through = self.epochs.now();
        self.whole_through.store(through, Ordering::SeqCst);
        through
    }
}

impl Shared {
    /// Has a table's memory given back when nobody looks into it any more.
    pub(crate) fn bury(&self, table: Table) {
        table.inner().set_dropped(self.epochs.now());
        let at = self.epochs.retirement();
        self.put_dropped(Dropped { table, at, after: None });
    }

    pub(super) fn next_dropped(&self) -> Option<Dropped> {
        if !self.has_dropped.load(Ordering::Acquire) {
            return None;
        }
        let mut dropped = self.dropped.try_lock()?;
        let next = dropped.pop_front();
        self.has_dropped.store(!dropped.is_empty(), Ordering::Release);
        next
    }

    pub(super) fn put_dropped(&self, table: Dropped) {
        self.dropped.lock().push_back(table);
        self.has_dropped.store(true, Ordering::Release);
    }
}
