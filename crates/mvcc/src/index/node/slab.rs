//! Memory of nodes: one slab for the process, never given back to the system.
//!
//! A node's memory only ever becomes a node of the same size again, so a reader that holds on to a node for too long
//! still reads words of a node and sees by the version that it is another one. The slab is asked once per split, not
//! per insert.

use std::ptr::NonNull;

use parking_lot::Mutex;

use super::Node;
use super::class::{CLASSES, words_of};
use crate::sync::AtomicU64;

/// Bytes of slab memory that are in use as nodes, by all indexes of the process and their garbage.
pub fn bytes_in_use() -> usize {
    SLAB.lock().in_use * 8
}

pub(crate) fn allocate(class: usize) -> Node {
    let mut slab = SLAB.lock();
    slab.in_use += words_of(class);
    let words = slab.classes[class].pop().unwrap_or_else(|| slab.carve(class));
    drop(slab);
    Node::renewed(words, class)
}

/// Takes back a node.
///
/// # Safety
/// Nobody uses `node` any more, and it was not taken back before.
pub(crate) unsafe fn release(node: Node) {
    let class = node.class();
    let mut slab = SLAB.lock();
    slab.in_use -= words_of(class);
    slab.classes[class].push(node.start());
}

static SLAB: Mutex<Slab> = Mutex::new(Slab { classes: [const { Vec::new() }; CLASSES], in_use: 0, pieces: Vec::new() });

struct Slab {
    /// Free nodes by class.
    classes: [Vec<NonNull<AtomicU64>>; CLASSES],
    /// Words.
    in_use: usize,
    pieces: Vec<Piece>,
}

// SAFETY: the nodes listed are the slab's own; mappings are plain memory.
unsafe impl Send for Slab {}

impl Slab {
    /// One node of a new piece of memory; the rest of the piece becomes free.
    #[cold]
    fn carve(&mut self, class: usize) -> NonNull<AtomicU64> {
        let (piece, start, words) = new_piece();
        self.pieces.push(piece);
        // Backwards, so that nodes are handed out from the beginning.
        for at in (0..words / words_of(class)).rev() {
            // SAFETY: in the piece, which has room for `words` words.
            self.classes[class].push(unsafe { start.add(at * words_of(class)) });
        }
        self.classes[class].pop().expect("a piece holds many nodes")
    }
}

#[cfg(not(any(miri, saki_loom)))]
use crate::placement::Mapping as Piece;

/// Zeroed words; zero is a valid atomic. Indexes have no place of their own: on a machine of several nodes they are
/// spread over all.
#[cfg(not(any(miri, saki_loom)))]
fn new_piece() -> (Piece, NonNull<AtomicU64>, usize) {
    use crate::placement::{Binding, MAPPING_BYTES, Placement, Region, Topology};
    static SPREAD: std::sync::OnceLock<Binding> = std::sync::OnceLock::new();
    let spread = SPREAD.get_or_init(|| {
        let topology = Topology::detect();
        Placement::plan(&topology, topology.cores().count(), None).binding(Region::Global)
    });
    let mapping = Piece::with(MAPPING_BYTES, spread).expect("the system has memory for an index");
    let (start, words) = (mapping.start().cast(), mapping.bytes() / 8);
    (mapping, start, words)
}

/// Checkers have no system to map from, and `loom`'s atomics are larger than words.
#[cfg(any(miri, saki_loom))]
type Piece = &'static [AtomicU64];

#[cfg(any(miri, saki_loom))]
fn new_piece() -> (Piece, NonNull<AtomicU64>, usize) {
    let words = 2 * words_of(CLASSES - 1);
    let mut memory: Vec<AtomicU64> = Vec::with_capacity(words + 8);
    let skipped = memory.as_ptr().align_offset(64).min(8);
    memory.resize_with(words + skipped, || AtomicU64::new(0));
    let piece: Piece = memory.leak();
    (piece, NonNull::from(&piece[skipped..]).cast(), words)
}
