//! Inserting: one locked leaf, unless it is full.

use std::cell::RefCell;
use std::cmp::Ordering as Order;

use super::contents::{Contents, ENTRIES_MIN};
use super::node::class::{CLASSES, words_of};
use super::node::key::separator;
use super::node::latch::{Locked, Restart};
use super::node::slab;
use super::node::{MAX_LEVELS, Node, Notes, Shape, heap_words};
use super::path::Step;
use super::search::{compare_prefix, locate};
use super::{Index, KEY_BYTES_MAX, LeafChange, Observed, Occupied, retire, retry};
use crate::epoch::Pin;
use crate::sync::Ordering;

/// Inserts in a row, each behind the one before, that make a split leave the left node full.
const STREAK: u16 = 8;

/// Outgrown nodes that are kept before it is asked whether some can go.
const OUTGROWN: usize = 64;

#[derive(Default)]
struct Scratch {
    path: Vec<Step>,
    node: Contents,
    parent: Contents,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Index {
    /// Gives `key` the value `value`, which is not 0, and appends to `changes` what became of leaves by it, in the
    /// order of their becoming.
    ///
    /// # Errors
    /// The key has a value. A leaf may have been split on the way, so `changes` are to be followed even then.
    ///
    /// # Panics
    /// If the key is longer than [`KEY_BYTES_MAX`].
    pub fn insert(&self, key: &[u8], value: u64, pin: &Pin<'_>, changes: &mut Vec<LeafChange>) -> Result<(), Occupied> {
        assert!(key.len() <= KEY_BYTES_MAX, "keys have at most {KEY_BYTES_MAX} bytes");
        debug_assert_ne!(value, 0);
        retry(|| self.try_insert(key, value, pin, changes))
    }

    #[inline]
    fn try_insert(
        &self,
        key: &[u8],
        value: u64,
        pin: &Pin<'_>,
        changes: &mut Vec<LeafChange>,
    ) -> Result<Result<(), Occupied>, Restart> {
        let (leaf, version) = self.leaf_of(key)?;
        let shape = leaf.shape();
        let place = locate(leaf, shape, key)?;
        if place.found {
            let existing = leaf.value(shape, place.at);
            leaf.validate(version)?;
            return Ok(Err(Occupied { existing }));
        }
        let locked = leaf.lock(version)?;
        if put(leaf, shape, place.at, key, value, |edit| SCRATCH.with_borrow_mut(|scratch| edit(&mut scratch.node))) {
            let before = Observed { leaf, version };
            changes.push(LeafChange { before, after: Observed { leaf, version: locked.publish() }, made: None });
            return Ok(Ok(()));
        }
        drop(locked);
        self.make_room(key, (leaf, version), pin, changes)?;
        Err(Restart)
    }

    /// Splits `full`, the leaf for `key`, or gives it a larger node.
    #[cold]
    fn make_room(
        &self,
        key: &[u8],
        full: (Node, u64),
        pin: &Pin<'_>,
        changes: &mut Vec<LeafChange>,
    ) -> Result<(), Restart> {
        SCRATCH.with_borrow_mut(|scratch| {
            let anchored = self.path_to(key, &mut scratch.path)?;
            let leaf = scratch.path.last().expect("a path ends at a leaf");
            if (leaf.node, leaf.version) != full {
                return Err(Restart);
            }
            let depth = scratch.path.len() - 1;
            self.enlarge(anchored, depth, key, pin, changes, scratch)
        })
    }

    /// Makes room for `key` in the node at `depth` of the path, or, if there is no room for another child above it,
    /// there.
    fn enlarge(
        &self,
        anchored: u64,
        depth: usize,
        key: &[u8],
        pin: &Pin<'_>,
        changes: &mut Vec<LeafChange>,
        scratch: &mut Scratch,
    ) -> Result<(), Restart> {
        let Step { node, version, .. } = scratch.path[depth];
        let parent = self.lock_parent(anchored, depth, &scratch.path)?;
        let locked = node.lock(version)?;
        let shape = node.shape();
        scratch.node.load(node);
        if shape.count() < ENTRIES_MIN && shape.class() < CLASSES - 1 {
            self.replace(node, locked, parent, pin, changes, &scratch.node);
            return Ok(());
        }
        let split = Split::choose(node, shape, key, &scratch.node);
        let separator = split.separator(key, &scratch.node).to_vec();
        let (left_layout, right_layout) =
            (scratch.node.layout(0..split.at), scratch.node.layout(split.at..shape.count()));
        // Known before anybody sees the right one: a part of what is in a node fits into it.
        assert!(left_layout.fits(node), "the left part of a node fits into it");
        let right = slab::allocate(right_layout.class(shape.level()));
        scratch.node.store(split.at..shape.count(), right_layout, right);
        if !self.adopt(&parent, node, &separator, right, &mut scratch.parent) {
            // SAFETY: nobody has seen it.
            unsafe { slab::release(right) };
            drop((parent, locked));
            return self.enlarge(anchored, depth - 1, &separator, pin, changes, scratch);
        }
        scratch.node.store(0..split.at, left_layout, node);
        let made = right.read()?;
        let after = locked.publish();
        parent.locked.publish();
        if shape.level() == 0 {
            changes.push(LeafChange {
                before: Observed { leaf: node, version },
                after: Observed { leaf: node, version: after },
                made: Some(Observed { leaf: right, version: made }),
            });
        }
        Ok(())
    }

    fn lock_parent(&self, anchored: u64, depth: usize, path: &[Step]) -> Result<Parent<'_>, Restart> {
        let Some(above) = depth.checked_sub(1).map(|above| path[above]) else {
            return Ok(Parent { node: None, locked: self.anchor.latch().lock(anchored)? });
        };
        Ok(Parent { node: Some((above.node, above.at)), locked: above.node.lock(above.version)? })
    }

    /// Puts `right` behind `left`, which is a child of `parent`; `false` if there is no room.
    fn adopt(&self, parent: &Parent<'_>, left: Node, separator: &[u8], right: Node, contents: &mut Contents) -> bool {
        if let Some((node, at)) = parent.node {
            return put(node, node.shape(), at + 1, separator, right.address(), |rebuild| rebuild(contents));
        }
        let level = left.shape().level() + 1;
        assert!(level < MAX_LEVELS, "an index has fewer levels");
        contents.load_pair(level, left, separator, right);
        let layout = contents.layout(0..2);
        let root = slab::allocate(layout.class(level));
        contents.store(0..2, layout, root);
        // Release: whoever finds the root finds it whole.
        self.anchor.root.store(root.address(), Ordering::Release);
        true
    }

    /// Puts a node with more room in the place of `old`.
    fn replace(
        &self,
        old: Node,
        locked: Locked<'_>,
        parent: Parent<'_>,
        pin: &Pin<'_>,
        changes: &mut Vec<LeafChange>,
        contents: &Contents,
    ) {
        let shape = old.shape();
        let layout = contents.layout(0..contents.len());
        let new = slab::allocate(layout.class(shape.level()).max(shape.class() + 1));
        contents.store(0..contents.len(), layout, new);
        match parent.node {
            Some((node, at)) => node.set_value(node.shape(), at, new.address()),
            None => self.anchor.root.store(new.address(), Ordering::Release),
        }
        if shape.level() == 0 {
            let version = new.read().unwrap_or_else(|_| unreachable!("nobody knows the node yet"));
            let before = Observed { leaf: old, version: locked.version() };
            changes.push(LeafChange { before, after: Observed { leaf: new, version }, made: None });
        }
        locked.abandon();
        parent.locked.publish();
        let mut outgrown = self.outgrown.lock();
        // SAFETY: its parent has the new node in its place.
        unsafe { retire(old, pin, &mut outgrown) };
        if outgrown.len() >= OUTGROWN {
            outgrown.collect(pin.epochs().watermark());
        }
    }
}

/// The locked parent of a node: an inner node and the child's place in it, or the anchor.
struct Parent<'a> {
    node: Option<(Node, usize)>,
    locked: Locked<'a>,
}

/// Where a node is split: what is from `at` on becomes the right one.
struct Split {
    at: usize,
    /// The key that needs the room comes between the two.
    is_between: bool,
}

impl Split {
    fn choose(node: Node, shape: Shape, key: &[u8], contents: &Contents) -> Self {
        let count = shape.count();
        let notes = node.notes();
        let place = locate(node, shape, key).unwrap_or_else(|_| unreachable!("the node is locked"));
        if notes.streak >= STREAK && place.at == usize::from(notes.last) + 1 && !place.found {
            // Keys come in ascending order: they will not come back to the left node, so it stays full.
            return if shape.level() == 0 {
                Self { at: place.at, is_between: true }
            } else {
                Self { at: place.at.min(count - 1), is_between: false }
            };
        }
        Self { at: contents.half(), is_between: false }
    }

    fn separator<'k>(&self, key: &'k [u8], contents: &'k Contents) -> &'k [u8] {
        match () {
            () if self.is_between => separator(contents.key(self.at - 1), key),
            // The key of an inner node's entry is a separator already.
            () if contents.level() > 0 => contents.key(self.at),
            () => separator(contents.key(self.at - 1), contents.key(self.at)),
        }
    }
}

/// Inserts an entry before entry `at` of a node that the caller has locked; `false` if there is no room. For a new
/// layout of the node it asks for the use of some memory.
#[inline]
fn put(
    node: Node,
    shape: Shape,
    at: usize,
    key: &[u8],
    value: u64,
    with_contents: impl FnOnce(&dyn Fn(&mut Contents) -> bool) -> bool,
) -> bool {
    let rebuild = |contents: &mut Contents| rebuild_with(node, at, key, value, contents);
    if shape.count() == 0 || compare_prefix(node, shape, key) != Order::Equal {
        return with_contents(&rebuild);
    }
    let length = key.len() - shape.prefix();
    let in_heap = if shape.is_general() { heap_words(length) } else { 0 };
    if !shape.is_general() && length != usize::from(shape.format()) {
        return with_contents(&rebuild);
    }
    let stride = shape.stride();
    if shape.end() + stride + in_heap > shape.heap() {
        return node.notes().dead > 0 && with_contents(&rebuild);
    }
    for word in (shape.first() + at * stride..shape.end()).rev() {
        node.set_word(word + stride, node.word(word));
    }
    let shape = shape.with(shape.count() + 1, shape.heap() - in_heap);
    node.set_key(shape, at, key, shape.heap());
    node.set_value(shape, at, value);
    node.set_shape(shape);
    node.set_notes(node.notes().after_insert(at));
    true
}

impl Notes {
    fn after_insert(self, at: usize) -> Self {
        let streak = match usize::from(self.last) {
            last if at == last + 1 => self.streak.saturating_add(1),
            // Two that come in one order and commit in the other are no break.
            last if at == last => self.streak,
            _ => self.streak / 2,
        };
        Self { last: at as u16, streak, ..self }
    }
}

/// Writes the whole node anew, in the layout that suits its entries and a new one; `false` if they do not fit.
#[cold]
fn rebuild_with(node: Node, at: usize, key: &[u8], value: u64, contents: &mut Contents) -> bool {
    contents.load(node);
    contents.insert(at, key, value);
    let layout = contents.layout(0..contents.len());
    if layout.words() > words_of(node.class()) {
        return false;
    }
    let notes = node.notes();
    contents.store(0..contents.len(), layout, node);
    node.set_notes(Notes { dead: 0, ..notes.after_insert(at) });
    true
}
