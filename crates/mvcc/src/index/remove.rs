//! Removing: one locked leaf, unless it was the leaf's last entry.

use super::node::latch::Restart;
use super::node::{Node, heap_words};
use super::path::Step;
use super::search::locate;
use super::{Index, retire, retry};
use crate::epoch::{Garbage, Pin};
use crate::sync::Ordering;

impl Index {
    /// Removes `key` if its value is `expected`; whether it was. Nodes that become empty by it go to `garbage`.
    pub fn remove(&self, key: &[u8], expected: u64, pin: &Pin<'_>, garbage: &mut Garbage) -> bool {
        retry(|| self.try_remove(key, expected, pin, garbage))
    }

    fn try_remove(&self, key: &[u8], expected: u64, pin: &Pin<'_>, garbage: &mut Garbage) -> Result<bool, Restart> {
        let (leaf, version) = self.leaf_of(key)?;
        let shape = leaf.shape();
        let place = locate(leaf, shape, key)?;
        if !place.found || leaf.value(shape, place.at) != expected {
            leaf.validate(version)?;
            return Ok(false);
        }
        if shape.count() == 1 && self.unlink(key, (leaf, version), pin, garbage)? {
            return Ok(true);
        }
        let locked = leaf.lock(version)?;
        take_out(leaf, place.at);
        locked.publish();
        Ok(true)
    }

    /// Takes the leaf of `key` out of the tree, and the nodes above that have no other child. `false` if all have none:
    /// the tree would be left without a leaf.
    #[cold]
    fn unlink(&self, key: &[u8], last: (Node, u64), pin: &Pin<'_>, garbage: &mut Garbage) -> Result<bool, Restart> {
        let mut path = Vec::new();
        let anchored = self.path_to(key, &mut path)?;
        let leaf = path.last().expect("a path ends at a leaf");
        if (leaf.node, leaf.version) != last {
            return Err(Restart);
        }
        let Some(stays) = path[..path.len() - 1].iter().rposition(|step| step.node.shape().count() > 1) else {
            return Ok(false);
        };
        // Taken only if its version is still that of the path, so what was counted is right.
        let parent = path[stays].node.lock(path[stays].version)?;
        let gone = path[stays + 1..].iter().map(|step| step.node.lock(step.version)).collect::<Result<Vec<_>, _>>()?;
        take_out(path[stays].node, path[stays].at);
        for locked in gone {
            locked.abandon();
        }
        parent.publish();
        for Step { node, .. } in &path[stays + 1..] {
            // SAFETY: the only way to it led through the entry taken out.
            unsafe { retire(*node, pin, garbage) };
        }
        if stays == 0 {
            self.lower_root(anchored, path[0].node, pin, garbage);
        }
        Ok(true)
    }

    /// Makes the only child of the root the root. If somebody is at it, it stays as it is: a level more does no harm.
    fn lower_root(&self, anchored: u64, root: Node, pin: &Pin<'_>, garbage: &mut Garbage) {
        let lower = || {
            let anchor = self.anchor.latch().lock(anchored)?;
            let locked = root.lock(root.read()?)?;
            let shape = root.shape();
            if shape.level() == 0 || shape.count() > 1 {
                return Err(Restart);
            }
            self.anchor.root.store(root.value(shape, 0), Ordering::Release);
            locked.abandon();
            anchor.publish();
            Ok(())
        };
        if lower().is_ok() {
            // SAFETY: the anchor has its child in its place.
            unsafe { retire(root, pin, garbage) };
        }
    }
}

/// Removes entry `at` of a node that the caller has locked.
fn take_out(node: Node, at: usize) {
    let shape = node.shape();
    let stride = shape.stride();
    let mut notes = node.notes();
    // The first key of an inner node is not used, so it has no words in the heap: the next becomes the first.
    let unkeyed = if at < shape.first_keyed() { at + 1 } else { at };
    if shape.is_general() && unkeyed < shape.count() {
        notes.dead += heap_words(node.tail(shape, unkeyed).length()) as u16;
    }
    for word in shape.first() + (at + 1) * stride..shape.end() {
        node.set_word(word - stride, node.word(word));
    }
    let shape = shape.with(shape.count() - 1, shape.heap());
    if at < shape.first_keyed() && shape.count() > 0 {
        node.clear_key(shape, 0);
    }
    node.set_shape(shape);
    node.set_notes(notes);
}
