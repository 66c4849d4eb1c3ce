//! Looks at everything, for tests and checks.

use super::Index;
use super::contents::Contents;
use super::node::class::words_of;
use super::node::{Node, Shape, heap_words};
use super::search::locate;
use crate::epoch::Pin;
use crate::sync::Ordering;

/// What a tree consists of.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    pub entries: usize,
    pub leaves: usize,
    pub empty_leaves: usize,
    pub inner_nodes: usize,
    /// Levels above the leaves.
    pub height: usize,
    pub bytes: usize,
}

impl Index {
    /// Checks that all keys are in order, in the node that searches for them look in, and found there; that all leaves
    /// are equally deep; that every node's layout is within its bounds; and that no node is locked. For an index that
    /// nobody changes meanwhile.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self, _pin: &Pin<'_>) -> Result<Statistics, String> {
        // SAFETY: only addresses of nodes are written there.
        let root = unsafe { Node::from_address(self.anchor.root.load(Ordering::Acquire)) };
        let mut statistics = Statistics { height: root.shape().level(), ..Statistics::default() };
        check(root, root.shape().level(), &[], None, &mut statistics)?;
        Ok(statistics)
    }
}

/// Checks `node`, whose keys are not less than `lower` and less than `upper`.
fn check(
    node: Node,
    level: usize,
    lower: &[u8],
    upper: Option<&[u8]>,
    statistics: &mut Statistics,
) -> Result<(), String> {
    let at_fault = |what: &str| format!("{what}: node at level {level} from {lower:?} to {upper:?}");
    let version = node.read().map_err(|_| at_fault("obsolete but in the tree"))?;
    let shape = node.shape();
    if shape.level() != level {
        return Err(at_fault("at the wrong level"));
    }
    check_layout(node, shape).map_err(|what| at_fault(&what))?;
    let mut contents = Contents::default();
    contents.load(node);
    for at in shape.first_keyed()..shape.count() {
        let key = contents.key(at);
        let is_ordered = at == shape.first_keyed() || contents.key(at - 1) < key;
        if !is_ordered || key < lower || upper.is_some_and(|upper| key >= upper) {
            return Err(at_fault(&format!("key {at} ({key:?}) is out of order")));
        }
        if locate(node, shape, key).ok().filter(|place| place.found && place.at == at).is_none() {
            return Err(at_fault(&format!("key {at} ({key:?}) is not found where it is")));
        }
        if contents.value(at) == 0 {
            return Err(at_fault("value 0"));
        }
    }
    statistics.bytes += 8 * words_of(shape.class());
    if level == 0 {
        statistics.entries += shape.count();
        statistics.leaves += 1;
        statistics.empty_leaves += usize::from(shape.count() == 0);
    } else {
        if shape.count() == 0 {
            return Err(at_fault("no child"));
        }
        statistics.inner_nodes += 1;
        for at in 0..shape.count() {
            // SAFETY: the value of an inner node's entry.
            let child = unsafe { Node::from_address(contents.value(at)) };
            let from = if at == 0 { lower } else { contents.key(at) };
            let to = if at + 1 < shape.count() { Some(contents.key(at + 1)) } else { upper };
            check(child, level - 1, from, to, statistics)?;
        }
    }
    node.validate(version).map_err(|_| at_fault("changed meanwhile"))
}

fn check_layout(node: Node, shape: Shape) -> Result<(), String> {
    if shape.end() > shape.heap() || shape.heap() > words_of(shape.class()) {
        return Err(format!("entries to word {}, heap from {}, of class {}", shape.end(), shape.heap(), shape.class()));
    }
    if !shape.is_general() {
        return if shape.format() <= 8 { Ok(()) } else { Err(format!("format {}", shape.format())) };
    }
    let live: usize = (shape.first_keyed()..shape.count()).map(|at| heap_words(node.tail(shape, at).length())).sum();
    let dead = usize::from(node.notes().dead);
    if live + dead == words_of(shape.class()) - shape.heap() {
        Ok(())
    } else {
        Err(format!("{live} live and {dead} dead words in a heap from {} of class {}", shape.heap(), shape.class()))
    }
}
