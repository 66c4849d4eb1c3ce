//! Visits: pages with the work that waits for them. All of it lives in slabs
//! that grow to the execution's high-water mark and are then reused, so that a probe allocates nothing.

use hashbrown::HashMap;
use saki_base::{PageAddress, PageRef};

pub(crate) const NONE: u32 = u32::MAX;

/// A piece of work waiting for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Probes `start..end` of a batch.
    Probes { batch: u32, start: u32, end: u32 },
    /// A key range of the source.
    Range(u32),
    /// A piece of a large row, from byte `offset` on.
    Large { large: u32, offset: u64 },
    /// Nothing yet: an upper page of a tree that probes will pass, fetched while the source is still on its way.
    Ahead,
}

#[derive(Clone, Copy)]
struct Waiting {
    work: Work,
    next: u32,
}

/// A page and the work that waits for it.
#[derive(Clone, Copy)]
pub(crate) struct Visit {
    pub page: PageRef,
    /// Levels above the leaves; overflow pages count above their data pages.
    pub level: u16,
    pub overflow: bool,
    first: u32,
    last: u32,
}

/// All visits of one stage.
#[derive(Default)]
pub(crate) struct Visits {
    slab: Vec<Visit>,
    vacant: Vec<u32>,
    waiting: Vec<Waiting>,
    vacant_waiting: Vec<u32>,
    by_page: HashMap<PageAddress, u32>,
}

impl Visits {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_page.is_empty()
    }

    pub(crate) fn page(&self, visit: u32) -> Visit {
        self.slab[visit as usize]
    }

    /// Lets `work` wait for a page. `Some` with the visit if it is new and must be asked for.
    pub(crate) fn join(&mut self, page: PageRef, level: u16, overflow: bool, work: Work) -> Option<u32> {
        let waiting = self.wait(work);
        if let Some(&visit) = self.by_page.get(&page.address) {
            let last = std::mem::replace(&mut self.slab[visit as usize].last, waiting);
            self.waiting[last as usize].next = waiting;
            return None;
        }
        let visit = Visit { page, level, overflow, first: waiting, last: waiting };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.slab[index as usize] = visit;
                index
            }
            None => {
                self.slab.push(visit);
                (self.slab.len() - 1) as u32
            }
        };
        self.by_page.insert(page.address, index);
        Some(index)
    }

    fn wait(&mut self, work: Work) -> u32 {
        let waiting = Waiting { work, next: NONE };
        match self.vacant_waiting.pop() {
            Some(index) => {
                self.waiting[index as usize] = waiting;
                index
            }
            None => {
                self.waiting.push(waiting);
                (self.waiting.len() - 1) as u32
            }
        }
    }

    /// Ends a visit; its work, in the order it came, goes to `work`.
    pub(crate) fn take(&mut self, visit: u32, work: &mut Vec<Work>) {
        let Visit { page, first, .. } = self.slab[visit as usize];
        self.by_page.remove(&page.address);
        self.vacant.push(visit);
        let mut next = first;
        while next != NONE {
            work.push(self.waiting[next as usize].work);
            self.vacant_waiting.push(next);
            next = self.waiting[next as usize].next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_for_one_page_gathers_in_one_visit() {
        let mut visits = Visits::default();
        let page = PageRef { address: PageAddress(7), checksum: 1 };
        let first = Work::Probes { batch: 0, start: 0, end: 3 };
        let second = Work::Range(4);
        let visit = visits.join(page, 0, false, first).expect("new");
        assert_eq!(visits.join(page, 0, false, second), None);
        let mut work = Vec::new();
        visits.take(visit, &mut work);
        assert_eq!(work, [first, second]);
        assert!(visits.is_empty());
        assert_eq!(visits.join(page, 0, false, second), Some(visit), "the slab is reused");
    }
}
