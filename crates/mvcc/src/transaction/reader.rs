//! Reading by a moment.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::held::Held;
use super::scan::{ENTRIES_MAX, FIRST_ENTRIES};
use super::{KeyRange, Seen};
use crate::chain::Row;
use crate::epoch::{Participant, Pin};
use crate::index::{Direction, Index, KEY_BYTES_MAX, LANES};
use crate::memory::prefetch::prefetch_row;
use crate::runner::ScanMemory;
use crate::table::{IndexId, Inner, Newer, Table};

/// Reads by a moment, on one thread at a time. What it sees it shows to a closure, since a pending version may be gone
/// right after.
///
/// # Panics
/// Every operation, when it is given a table of another database.
pub struct Reader {
    moment: Arc<Held>,
    /// For its visits to chains; what it sees is kept by the announcement of the moment.
    participant: Participant,
    /// What is durable, as far as has been looked: who is shown something later looks again, and then it counts.
    durable: Cell<u64>,
    scan_memory: Cell<Option<Box<ScanMemory>>>,
}

/// A version that a moment sees: its body, `None` for a delete; and when it began, `None` for one that is pending.
type Sighting<'a> = (Option<&'a [u8]>, Option<u64>);

impl Reader {
    pub(super) fn new(moment: Arc<Held>, participant: Participant) -> Self {
        Self { moment, participant, durable: Cell::new(0), scan_memory: Cell::default() }
    }

    /// The timestamp of its moment.
    pub fn timestamp(&self) -> u64 {
        self.moment.timestamp
    }

    /// What there is at a key.
    pub fn look<'t, T>(&self, table: impl Into<Newer<'t>>, key: &[u8], with: impl FnOnce(Seen<&[u8]>) -> T) -> T {
        let newer: Newer<'t> = table.into();
        let Some(inner) = self.inner(newer.table).filter(|_| key.len() <= KEY_BYTES_MAX) else {
            return with(Seen::Absent);
        };
        let address = inner.primary.get(key, &self.pin());
        address.into_iter().for_each(prefetch_row);
        // SAFETY: out of the index under the moment's pin.
        self.see(newer, address.map(|address| unsafe { Row::at(address) }), |seen| with(Seen::of(seen)))
    }

    /// What there is at many keys, which is faster than one after the other: the walks through the index and to the
    /// rows overlap. `with` is called for each key in turn, with its position.
    pub fn look_many<'t, K: AsRef<[u8]>>(
        &self,
        table: impl Into<Newer<'t>>,
        keys: &[K],
        mut with: impl FnMut(usize, Seen<&[u8]>),
    ) {
        let newer: Newer<'t> = table.into();
        let Some(inner) = self.inner(newer.table) else {
            return (0..keys.len()).for_each(|position| with(position, Seen::Absent));
        };
        let pin = self.pin();
        for (keys, first) in keys.chunks(LANES).zip((0..).step_by(LANES)) {
            let mut places = [None; LANES];
            inner.primary.get_many_observed(
                keys.len(),
                |at| keys[at].as_ref(),
                |at, address, _| places[at] = address,
                &pin,
            );
            places.iter().flatten().for_each(|address| prefetch_row(*address));
            // SAFETY: out of the index under the moment's pin.
            places.iter().flatten().for_each(|address| unsafe { Row::at(*address) }.prefetch_newest());
            for (position, address) in (first..first + keys.len()).zip(places) {
                // SAFETY: as above.
                let row = address.map(|address| unsafe { Row::at(address) });
                self.see(newer, row, |seen| with(position, Seen::of(seen)));
            }
        }
    }

    /// Visits what is in memory of a range of primary keys, in their order, deletes included, until `visit` breaks off.
    /// It gets the key, the body or `None` for a delete, and when that began; `None` if it is pending, the
    /// transaction's own.
    pub fn scan<'t>(
        &self,
        table: impl Into<Newer<'t>>,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Option<&[u8]>, Option<u64>) -> ControlFlow<()>,
    ) {
        let newer: Newer<'t> = table.into();
        let Some(inner) = self.inner(newer.table) else { return };
        self.each_entry(&inner.primary, range, direction, |_, row| {
            self.see(newer, Some(row), |seen| match seen {
                Some((body, begin)) => visit(row.key(), body, begin),
                None => ControlFlow::Continue(()),
            })
        });
    }

    /// Visits what the moment sees of a table and `since` was not yet: by key, bodies and deletes, with when they
    /// began.
    pub fn changes(
        &self,
        table: &Table,
        since: u64,
        mut visit: impl FnMut(&[u8], Option<&[u8]>, u64) -> ControlFlow<()>,
    ) {
        self.scan(table.newer_than(since), &KeyRange::all(), Direction::Forward, |key, body, begin| match begin {
            Some(begin) => visit(key, body, begin),
            None => ControlFlow::Continue(()),
        });
    }

    /// Visits the rows whose entries in a secondary index are in a range, in the order of the entries, until `visit`
    /// breaks off. It gets the entry (index columns, then what else the primary key has), the primary key and the body.
    pub fn scan_index<'t>(
        &self,
        table: impl Into<Newer<'t>>,
        index: IndexId,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8], &[u8]) -> ControlFlow<()>,
    ) {
        let newer: Newer<'t> = table.into();
        let Some(inner) = self.inner(newer.table) else { return };
        let secondary = &inner.secondary[index.0];
        let mut made = Vec::new();
        self.each_entry(&secondary.entries, range, direction, |entry, row| {
            self.see(newer, Some(row), |seen| match seen {
                // A row whose indexed columns have changed may be found by the entry of another version than the one
                // seen.
                Some((Some(body), _))
                    if !row.is_reindexed() || inner.has_entry(secondary, row.key(), body, entry, &mut made) =>
                {
                    visit(entry, row.key(), body)
                }
                _ => ControlFlow::Continue(()),
            })
        });
    }

    /// The table, unless it was dropped before the moment was taken.
    fn inner<'t>(&self, table: &'t Table) -> Option<&'t Inner> {
        let inner = table.inner();
        assert!(inner.instance == self.moment.shared.instance, "a table is good only in the database it was got from");
        (!inner.is_gone(self.moment.timestamp)).then_some(inner)
    }

    fn pin(&self) -> std::mem::ManuallyDrop<Pin<'_>> {
        Pin::of_announced(&self.moment.participant)
    }

    /// Shows what the moment sees of a row, in the middle of a visit: what the moment's transaction has replaced itself
    /// may be freed after.
    fn see<T>(&self, newer: Newer<'_>, row: Option<&Row>, with: impl FnOnce(Option<Sighting<'_>>) -> T) -> T {
        let _visit = Visit::begin(&self.participant);
        let Held { timestamp, writer, ref shared, .. } = *self.moment;
        let seen = row.and_then(|row| row.visible(timestamp, writer, &shared.epochs));
        if let Some((_, begin)) = seen
            && begin > self.durable.get()
        {
            self.meet(begin);
        }
        let counted = seen.filter(|(_, begin)| newer.counts(*begin));
        with(counted.map(|(version, begin)| (version.body(), (begin != 0).then_some(begin))))
    }

    /// Is shown a commit of this timestamp, which was not durable when that was asked last.
    #[cold]
    fn meet(&self, timestamp: u64) {
        self.durable.set(self.moment.shared.logs.durable());
        if timestamp > self.durable.get() {
            self.moment.latest.fetch_max(timestamp, Ordering::AcqRel);
        }
    }

    fn each_entry(
        &self,
        index: &Index,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &Row) -> ControlFlow<()>,
    ) {
        if range.is_empty() {
            return;
        }
        let pin = self.pin();
        // Scans within scans each have memory of their own.
        let mut memory = self.scan_memory.take().unwrap_or_default();
        let mut cursor = index.cursor(range.bounds(), direction, &mut memory.buffer, &pin);
        let mut limit = FIRST_ENTRIES;
        'leaves: while let Some(leaf) = cursor.step(limit) {
            leaf.iter().for_each(|(_, address)| prefetch_row(address));
            for (key, address) in leaf.iter() {
                // SAFETY: out of the index under the moment's pin.
                if visit(key, unsafe { Row::at(address) }).is_break() {
                    break 'leaves;
                }
            }
            limit = (2 * limit).min(ENTRIES_MAX);
        }
        self.scan_memory.set(Some(memory));
    }
}

/// A visit to chains that ends also when it is broken off by a panic.
struct Visit<'a> {
    participant: &'a Participant,
    is_outer: bool,
}

impl<'a> Visit<'a> {
    #[inline]
    fn begin(participant: &'a Participant) -> Self {
        Self { participant, is_outer: participant.begin_visit() }
    }
}

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.participant.end_visit(self.is_outer);
    }
}
