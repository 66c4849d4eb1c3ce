//! The map itself: its root, looking a key up, and how nodes go.

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::node::Node;
use super::node::class::LEAF_CLASS;
use super::node::latch::{Latch, Restart};
use super::node::slab;
use super::search;
use crate::epoch::{Garbage, Pin};
use crate::sync::{AtomicU64, Backoff, Ordering};

/// Keys longer than this cannot be inserted.
pub const KEY_BYTES_MAX: usize = 1024;

/// An ordered map of byte keys to values other than 0.
pub struct Index {
    pub(super) anchor: CachePadded<Anchor>,
    /// Nodes that inserts replaced by larger ones.
    pub(super) outgrown: Mutex<Garbage>,
}

/// What stands above the root.
pub(super) struct Anchor {
    pub(super) version: AtomicU64,
    pub(super) root: AtomicU64,
}

impl Anchor {
    #[inline]
    pub(super) fn latch(&self) -> &Latch {
        Latch::from_word(&self.version)
    }
}

/// A leaf as an operation saw it. To be used under the same pin, and while the index is there: later it may call a leaf
/// changed that is not, or the other way round, but does nothing worse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observed {
    pub(super) leaf: Node,
    pub(super) version: u64,
}

impl Observed {
    /// Whether the leaf is as it was, waiting for a writer that is at it.
    #[inline]
    pub fn is_unchanged(&self, _pin: &Pin<'_>) -> bool {
        self.leaf.read().is_ok_and(|version| version == self.version)
    }
}

/// What an insert did to a leaf: who has observed `before` may go on with `after` and, after a split, `made` besides,
/// and has thereby observed the insert and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafChange {
    pub before: Observed,
    pub after: Observed,
    pub made: Option<Observed>,
}

/// The key is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupied {
    pub existing: u64,
}

impl Index {
    pub fn new() -> Self {
        let root = slab::allocate(LEAF_CLASS);
        Self {
            anchor: CachePadded::new(Anchor { version: AtomicU64::new(0), root: AtomicU64::new(root.address()) }),
            outgrown: Mutex::default(),
        }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &[u8], pin: &Pin<'_>) -> Option<u64> {
        self.get_observed(key, pin).0
    }

    /// The value of `key`, and the leaf where it is or would be.
    #[inline]
    pub fn get_observed(&self, key: &[u8], _pin: &Pin<'_>) -> (Option<u64>, Observed) {
        retry(|| self.try_get(key))
    }

    #[inline(always)]
    fn try_get(&self, key: &[u8]) -> Result<(Option<u64>, Observed), Restart> {
        let (leaf, version) = self.leaf_of(key)?;
        let shape = leaf.shape();
        let place = search::locate(leaf, shape, key)?;
        let value = place.found.then(|| leaf.value(shape, place.at));
        leaf.validate(version)?;
        Ok((value, Observed { leaf, version }))
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

/// Does `attempt` until it saw a consistent state.
#[inline(always)]
pub(super) fn retry<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
    if let Ok(done) = attempt() {
        return done;
    }
    retry_slowly(&mut attempt)
}

#[cold]
fn retry_slowly<T>(attempt: &mut impl FnMut() -> Result<T, Restart>) -> T {
    let mut backoff = Backoff::default();
    loop {
        backoff.wait();
        if let Ok(done) = attempt() {
            return done;
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.outgrown.get_mut().collect(u64::MAX);
        // Nobody is in an operation on this index, so nobody sees what was outgrown, whatever is pinned.
        self.outgrown.get_mut().collect(u64::MAX);
        // SAFETY: the root is a node; nobody else uses the index, and nodes retired before are no longer in the tree.
        unsafe { release_tree(Node::from_address(self.anchor.root.load(Ordering::Relaxed))) };
    }
}

/// Gives back `node` and all below it.
///
/// # Safety
/// Nobody uses them any more.
unsafe fn release_tree(node: Node) {
    let shape = node.shape();
    if shape.level() > 0 {
        for at in 0..shape.count() {
            // SAFETY: values of inner nodes are children, each in one place of the tree; nobody uses them by the
            // contract.
            unsafe { release_tree(Node::from_address(node.value(shape, at))) };
        }
    }
    // SAFETY: by the contract.
    unsafe { slab::release(node) };
}

/// Retires a node that was taken out of the tree.
///
/// # Safety
/// Nobody who pins from now on can reach it, and it is retired once.
pub(super) unsafe fn retire(node: Node, pin: &Pin<'_>, garbage: &mut Garbage) {
    unsafe fn free(address: *mut u8) {
        // SAFETY: the address of a node that nobody uses any more, by the contract of `Garbage::retire`.
        unsafe { slab::release(Node::from_address(address.expose_provenance() as u64)) };
    }
    // SAFETY: by the contract; the slab may be used from any thread.
    unsafe { garbage.retire(pin.epochs(), node.start().as_ptr().cast(), free) };
}
