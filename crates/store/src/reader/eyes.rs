//! Whose eyes a delta is seen with: a transaction's, which sees its own writes and answers for its reads, or a plain
//! reader's.

use std::ops::ControlFlow;

use saki_base::seam;
use saki_mvcc::{Direction, IndexId, KeyRange, Newer, Reader, Seen, Transaction};

/// Looks at what counts of a table in memory, at one moment.
pub trait Eyes {
    /// The moment.
    fn timestamp(&self) -> u64;

    /// Shows what there is at a key: a row's body, a deletion or nothing.
    fn look<T>(&self, newer: Newer<'_>, key: &[u8], with: impl FnOnce(Seen<&[u8]>) -> T) -> T;

    /// Visits keys of a range with their bodies, `None` for a deletion, until `visit` breaks.
    fn scan(
        &self,
        newer: Newer<'_>,
        range: &KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], Option<&[u8]>) -> ControlFlow<()>,
    );

    /// Visits entries of an index, in their order, with the primary keys and bodies of their rows, until `visit`
    /// breaks.
    fn scan_index(
        &self,
        newer: Newer<'_>,
        index: IndexId,
        range: &KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8], &[u8]) -> ControlFlow<()>,
    );
}

impl Eyes for Transaction<'_> {
    #[inline]
    fn timestamp(&self) -> u64 {
        self.snapshot()
    }

    #[inline]
    fn look<T>(&self, newer: Newer<'_>, key: &[u8], with: impl FnOnce(Seen<&[u8]>) -> T) -> T {
        seam::cross();
        with(match self.look(newer, key) {
            Seen::Absent => Seen::Absent,
            Seen::Deleted => Seen::Deleted,
            Seen::Row(found) => Seen::Row(found.body),
        })
    }

    fn scan(
        &self,
        newer: Newer<'_>,
        range: &KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], Option<&[u8]>) -> ControlFlow<()>,
    ) {
        seam::cross();
        self.scan_all(newer, range, direction, visit);
    }

    fn scan_index(
        &self,
        newer: Newer<'_>,
        index: IndexId,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8], &[u8]) -> ControlFlow<()>,
    ) {
        seam::cross();
        self.scan_index(newer, index, range, direction, |entry, found| visit(entry, found.key, found.body));
    }
}

impl Eyes for Reader {
    #[inline]
    fn timestamp(&self) -> u64 {
        self.timestamp()
    }

    #[inline]
    fn look<T>(&self, newer: Newer<'_>, key: &[u8], with: impl FnOnce(Seen<&[u8]>) -> T) -> T {
        seam::cross();
        self.look(newer, key, with)
    }

    fn scan(
        &self,
        newer: Newer<'_>,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> ControlFlow<()>,
    ) {
        seam::cross();
        self.scan(newer, range, direction, |key, body, _| visit(key, body));
    }

    fn scan_index(
        &self,
        newer: Newer<'_>,
        index: IndexId,
        range: &KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8], &[u8]) -> ControlFlow<()>,
    ) {
        seam::cross();
        self.scan_index(newer, index, range, direction, visit);
    }
}
