//! What a delta has that counts, by key, some of it at a time: for those who read it beside something else.

use std::ops::{Bound, ControlFlow};

use saki_mvcc::{Direction, KeyRange, Newer};

use super::Eyes;

/// Changes taken out of a delta at a time.
const TAKEN: usize = 4096;

/// A key, and its row; none where there is a deletion.
pub type NewerRow<'r> = (&'r [u8], Option<&'r [u8]>);

/// Keys and rows of a range of a delta, ascending; no row where there is a deletion.
pub struct NewerRows<'r, E> {
    eyes: &'r E,
    newer: Newer<'r>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    taken: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    at: usize,
    is_over: bool,
}

impl<'r, E: Eyes> NewerRows<'r, E> {
    pub fn new(eyes: &'r E, newer: Newer<'r>, (low, high): (Bound<&[u8]>, Bound<&[u8]>)) -> Self {
        let (low, high) = (low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec));
        Self { eyes, newer, low, high, taken: Vec::new(), at: 0, is_over: false }
    }

    /// The next one, without going on to it.
    pub fn peek(&mut self) -> Option<NewerRow<'_>> {
        if self.at == self.taken.len() && !self.is_over {
            self.take_more();
        }
        self.taken.get(self.at).map(|(key, row)| (key.as_slice(), row.as_deref()))
    }

    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// The next one, and goes on to the one behind it.
    pub fn take(&mut self) -> Option<NewerRow<'_>> {
        self.peek();
        self.at += 1;
        self.taken.get(self.at - 1).map(|(key, row)| (key.as_slice(), row.as_deref()))
    }

    fn take_more(&mut self) {
        if let Some((last, _)) = self.taken.pop() {
            self.low = Bound::Excluded(last);
        }
        self.taken.clear();
        self.at = 0;
        let range = KeyRange::between(borrowed(&self.low), borrowed(&self.high));
        let taken = &mut self.taken;
        self.eyes.scan(self.newer, &range, Direction::Forward, |key, body| {
            taken.push((key.to_vec(), body.map(<[u8]>::to_vec)));
            if taken.len() < TAKEN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.is_over = self.taken.len() < TAKEN;
    }
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
