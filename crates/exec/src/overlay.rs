//! What lies over a tree: entries newer than the published ones, and which of those they hide.
//!
//! ```text
//!   overlay    a' ─ ✕ ─────── d ── …     its own entries (a' replaces a, d is new), and what is gone (✕ hides b)
//!   tree       a ── b ── c ────── e …    published, immutable
//!   read as    a' ─────── c ─ d ─ e …
//! ```
//!
//! The executor knows nothing of where an overlay keeps its entries, only that they are in memory: a reader's
//! calls run on a reactor, so they may take time but never wait for storage or for another thread.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::ControlFlow;

use saki_page::LeafPage;

use crate::error::ExecError;

/// Entries of an overlay that are read in one step, at most.
const ENTRIES_PER_STEP: usize = 1024;
/// Bytes of their rows after which a step ends.
const BYTES_PER_STEP: usize = 1 << 20;

/// Entries over those of a tree, in the formats of its [`crate::TreeAccess`]. It must not change while an execution
/// reads it.
pub trait Overlay: Send + Sync + Debug {
    /// A reader for one partition of an execution; it is dropped with the partition.
    fn reader(&self) -> Result<Box<dyn OverlayReader>, ExecError>;
}

/// What is done with an entry: its key and its row. `Break` asks for no more.
pub type VisitEntry<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Reads an overlay on one thread at a time.
///
/// # Invariant
/// An overlay that has an entry hides the tree's entry of the same key.
pub trait OverlayReader: Send {
    /// Sets `hidden[i]` where `keys` has, at `i`, the key of an entry of the tree that is no longer there or has been
    /// replaced. `hidden` comes as long as `keys` is, and all false.
    fn hide(&mut self, keys: &EntryKeys<'_>, hidden: &mut [bool]) -> Result<(), ExecError>;

    /// Visits the overlay's own entries (key, row) from `low` (inclusive) up to `high` (exclusive) in ascending order
    /// of keys, until `visit` breaks. `None` is unbounded; `low` is less than `high`. Rows are whole, however long they
    /// are.
    fn entries(&mut self, low: Option<&[u8]>, high: Option<&[u8]>, visit: &mut VisitEntry<'_>)
    -> Result<(), ExecError>;
}

/// Keys that an overlay is asked about, ascending; neighbours may be equal.
pub struct EntryKeys<'k>(Keys<'k>);

enum Keys<'k> {
    Page(LeafPage<'k>, &'k [u32]),
    List { bytes: &'k [u8], ends: &'k [u32] },
}

impl<'k> EntryKeys<'k> {
    /// Those of some entries of a leaf, which ascend.
    pub(crate) fn of_page(view: LeafPage<'k>, entries: &'k [u32]) -> Self {
        Self(Keys::Page(view, entries))
    }

    /// Keys one behind the other, and where each ends. The caller sees to their order.
    pub fn of_list(bytes: &'k [u8], ends: &'k [u32]) -> Self {
        Self(Keys::List { bytes, ends })
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Keys::Page(_, entries) => entries.len(),
            Keys::List { ends, .. } => ends.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether they are neighbours in the tree: then going through what an overlay has between the first and the last
    /// one (with [`Self::positions`]) costs less than a look-up for each. Otherwise they may be far apart.
    pub fn are_neighbours(&self) -> bool {
        matches!(self.0, Keys::Page(..))
    }

    /// Replaces `key` by the key at `index`.
    #[inline]
    pub fn read(&self, index: usize, key: &mut Vec<u8>) {
        match &self.0 {
            Keys::Page(view, entries) => view.key_into(entries[index] as usize, key),
            Keys::List { bytes, ends } => {
                key.clear();
                key.extend_from_slice(in_list(bytes, ends, index));
            }
        }
    }

    /// Where `key` is: an empty range if it is not among them.
    pub fn positions(&self, key: &[u8]) -> std::ops::Range<usize> {
        match &self.0 {
            Keys::Page(view, entries) => {
                let entry = view.lower_bound(key);
                let first = entries.partition_point(|&other| (other as usize) < entry);
                let here = entry < view.count() && view.compare(entry, key) == Ordering::Equal;
                let found = here && entries.get(first).is_some_and(|&other| other as usize == entry);
                first..first + usize::from(found)
            }
            Keys::List { bytes, ends } => {
                let before = |limit: Ordering| {
                    let (mut low, mut high) = (0, ends.len());
                    while low < high {
                        let middle = low.midpoint(high);
                        if in_list(bytes, ends, middle).cmp(key) < limit { low = middle + 1 } else { high = middle }
                    }
                    low
                };
                before(Ordering::Equal)..before(Ordering::Greater)
            }
        }
    }
}

#[inline]
fn in_list<'k>(bytes: &'k [u8], ends: &[u32], index: usize) -> &'k [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    &bytes[start..ends[index] as usize]
}

/// What is left of a step.
pub(crate) struct Budget {
    entries: usize,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { entries: ENTRIES_PER_STEP, bytes: BYTES_PER_STEP }
    }

    fn spend(&mut self, row: &[u8]) {
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(row.len());
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.entries == 0 || self.bytes == 0
    }
}

/// What the overlay's entries of a range came to.
pub(crate) struct Visited {
    pub entries: usize,
    /// The last entry seen, if the range was left before its end.
    pub left_at: Option<Vec<u8>>,
}

/// Hands the entries of a range on while the budget lasts and `take` says that it wants more.
pub(crate) fn visit_entries(
    reader: &mut dyn OverlayReader,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
    budget: &mut Budget,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<bool, String>,
) -> Result<Visited, ExecError> {
    let mut visited = Visited { entries: 0, left_at: None };
    if low.zip(high).is_some_and(|(low, high)| low >= high) {
        return Ok(visited);
    }
    let mut failed = None;
    reader.entries(low, high, &mut |key, row| {
        visited.entries += 1;
        budget.spend(row);
        match take(key, row) {
            Ok(true) if !budget.is_spent() => return ControlFlow::Continue(()),
            Ok(true) => visited.left_at = Some(key.to_vec()),
            Ok(false) => {}
            Err(reason) => failed = Some(reason),
        }
        ControlFlow::Break(())
    })?;
    failed.map_or(Ok(visited), |reason| Err(ExecError::Overlay(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_list_are_found_with_their_equals() {
        let keys = EntryKeys::of_list(b"aabbbbd", &[1, 2, 4, 6, 7]);
        let mut key = Vec::new();
        keys.read(2, &mut key);
        assert_eq!((keys.len(), key.as_slice()), (5, b"bb".as_slice()));
        assert_eq!(keys.positions(b"a"), 0..2);
        assert_eq!(keys.positions(b"bb"), 2..4);
        assert!(keys.positions(b"c").is_empty() && keys.positions(b"e").is_empty());
        assert_eq!(keys.positions(b"d"), 4..5);
    }
}
