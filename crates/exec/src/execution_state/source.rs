//! The ranges of a source, shared by the partitions of an execution.
//!
//! A range is expanded level by level: an inner page yields the references of its children that the
//! range overlaps. Whoever visits an inner page puts them on a stack that all partitions take from,
//! so that the work divides itself by pages, whatever the shape of the tree. Last in, first out: the
//! stack never holds more than a path's worth of inner pages.

use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::PageRef;
use saki_page::PageWaker;

/// Most children taken at once: enough to keep a device busy, few enough to share.
const TAKEN_MAX: usize = 64;

/// Children of one inner page (or a root), not visited yet.
pub(crate) struct Expansion {
    pub children: Vec<PageRef>,
    pub next: usize,
    /// Level of the children.
    pub level: u16,
    /// Index of the range they belong to.
    pub range: u32,
}

#[derive(Default)]
struct State {
    stack: Vec<Expansion>,
    /// Inner pages being visited: they may still add to the stack.
    inner_visits: usize,
    /// Ranges whose entries of an overlay somebody has claimed.
    overlay_claims: usize,
    wakers: Vec<Arc<dyn PageWaker>>,
}

/// What `take` found.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Take {
    /// Children were appended, all of this level and range.
    Children { level: u16, range: u32 },
    /// Nothing now, but an inner page is still being visited: the waker will be called.
    Wait,
    /// Nothing, and nothing will come.
    End,
}

pub(crate) struct RangeSource {
    state: Mutex<State>,
    ranges: usize,
    partitions: usize,
}

impl RangeSource {
    /// Starts at the root (of level `level`) for each of `ranges` ranges.
    pub(crate) fn new(root: Option<PageRef>, level: u16, ranges: usize, partitions: usize) -> Self {
        let start = |range| Expansion { children: root.into_iter().collect(), next: 0, level, range: range as u32 };
        let stack = if root.is_some() { (0..ranges).rev().map(start).collect() } else { Vec::new() };
        Self { state: Mutex::new(State { stack, ..State::default() }), ranges, partitions }
    }

    /// Registers somebody to be woken when the stack grows or ends.
    pub(crate) fn register(&self, waker: Arc<dyn PageWaker>) {
        self.state.lock().wakers.push(waker);
    }

    /// Takes some children of the topmost expansion. Each inner one must be answered by [`Self::expanded`].
    pub(crate) fn take(&self, children: &mut Vec<PageRef>) -> Take {
        let mut state = self.state.lock();
        let Some(top) = state.stack.last_mut() else {
            return if state.inner_visits > 0 { Take::Wait } else { Take::End };
        };
        let remaining = top.children.len() - top.next;
        let count = remaining.div_ceil(2 * self.partitions).clamp(1, TAKEN_MAX);
        children.extend_from_slice(&top.children[top.next..top.next + count]);
        top.next += count;
        let (level, range) = (top.level, top.range);
        if top.next == top.children.len() {
            state.stack.pop();
        }
        if level > 0 {
            state.inner_visits += count;
        }
        Take::Children { level, range }
    }

    /// Claims the overlay's entries of a range for one partition; `None` once all are.
    pub(crate) fn claim_overlay(&self) -> Option<u32> {
        let mut state = self.state.lock();
        let range = state.overlay_claims;
        state.overlay_claims += usize::from(range < self.ranges);
        (range < self.ranges).then_some(range as u32)
    }

    /// An inner page has been visited: these are the children it yields.
    pub(crate) fn expanded(&self, expansion: Expansion) {
        let mut state = self.state.lock();
        state.inner_visits -= 1;
        if !expansion.children.is_empty() {
            state.stack.push(expansion);
        } else if state.inner_visits > 0 {
            return;
        }
        state.wakers.iter().for_each(|waker| waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saki_base::PageAddress;

    fn page(address: u64) -> PageRef {
        PageRef { address: PageAddress(address), checksum: 0 }
    }

    #[test]
    fn a_source_ends_only_when_no_inner_page_is_being_visited() {
        let source = RangeSource::new(Some(page(1)), 1, 1, 2);
        let mut taken = Vec::new();
        assert_eq!(source.take(&mut taken), Take::Children { level: 1, range: 0 });
        assert_eq!(source.take(&mut taken), Take::Wait);
        let children = vec![page(2), page(3), page(4)];
        source.expanded(Expansion { children, next: 0, level: 0, range: 0 });
        taken.clear();
        while let Take::Children { level: 0, .. } = source.take(&mut taken) {}
        assert_eq!(taken, [page(2), page(3), page(4)]);
        assert_eq!(source.take(&mut taken), Take::End);
    }

    #[test]
    fn an_empty_tree_ends_at_once() {
        assert_eq!(RangeSource::new(None, 0, 3, 1).take(&mut Vec::new()), Take::End);
    }
}
