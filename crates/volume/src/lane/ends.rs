//! Which reads go on where another has ended: a disk does not seek for them.

use saki_base::PageAddress;

/// Readers that take turns on one lane and are told apart.
const READERS: usize = 8;

/// Where the last reads of a lane have ended.
pub(super) struct Ends {
    next: [PageAddress; READERS],
    oldest: usize,
}

impl Default for Ends {
    fn default() -> Self {
        Self { next: [PageAddress(u64::MAX); READERS], oldest: 0 }
    }
}

impl Ends {
    /// Notes the read of a page; `true` if the page before it was among the last.
    #[inline]
    pub fn goes_on(&mut self, page: PageAddress) -> bool {
        let next = PageAddress(page.0 + 1);
        if let Some(end) = self.next.iter_mut().find(|end| **end == page) {
            *end = next;
            return true;
        }
        self.next[self.oldest] = next;
        self.oldest = (self.oldest + 1) % READERS;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_go_on_though_readers_take_turns() {
        let mut ends = Ends::default();
        let mut goes_on = |page| ends.goes_on(PageAddress(page));
        assert!(!goes_on(0) && goes_on(1) && goes_on(2) && !goes_on(2) && !goes_on(7));
        for round in 0..3 {
            for reader in 1..=READERS as u64 {
                assert_eq!(goes_on(reader * 1000 + round), round > 0);
            }
        }
        assert!(!goes_on(8), "that was too long ago");
    }
}
