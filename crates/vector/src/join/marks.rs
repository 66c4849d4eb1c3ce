//! Which build rows have found a partner.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

/// A byte for each build row. Relaxed accesses suffice: a mark only ever goes from 0 to 1 and nothing else is read
/// because of it; whoever reads marks has waited for the threads that set them, and that orders the accesses.
#[derive(Debug)]
pub(super) struct Marks {
    rows: Vec<AtomicU8>,
}

impl Marks {
    pub fn new(rows: usize) -> Self {
        Self { rows: (0..rows).map(|_| AtomicU8::new(0)).collect() }
    }

    pub fn mark(&self, rows: &[u32]) {
        for mark in rows.iter().filter_map(|row| self.rows.get(*row as usize)) {
            // Looked at first, so that threads that mark the same rows share their cache lines.
            if mark.load(Ordering::Relaxed) == 0 {
                mark.store(1, Ordering::Relaxed);
            }
        }
    }

    /// The rows in `range` that are (`marked`) or are not marked.
    pub fn rows(&self, marked: bool, range: Range<usize>) -> Vec<u32> {
        let wanted = u8::from(marked);
        let rows = (range.start as u32..).zip(&self.rows[range]);
        rows.filter(|(_, mark)| mark.load(Ordering::Relaxed) == wanted).map(|(row, _)| row).collect()
    }

    pub fn memory_bytes(&self) -> usize {
        self.rows.capacity()
    }
}
