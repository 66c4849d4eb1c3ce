//! A node's entries taken out of it, and put back into one or two nodes in whatever layout suits them best.

use std::ops::Range;

use super::node::class::{CLASSES, INNER_CLASS, LEAF_CLASS, words_of};
use super::node::key::{common_prefix, word_at};
use super::node::{
    GENERAL, HEADER_WORDS, INLINE_BYTES, Node, Notes, PREFIX_PIECE, Shape, entry_words, first_entry, heap_words,
};

/// A larger class is taken for nodes that would otherwise hold fewer entries than this.
pub(crate) const ENTRIES_MIN: usize = 16;

/// Entries with whole keys, outside of any node.
#[derive(Default)]
pub(crate) struct Contents {
    level: usize,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    start: u32,
    length: u32,
    value: u64,
}

/// How a run of entries lies in a node.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    prefix: usize,
    format: u8,
    entries: usize,
    /// Words of heap.
    heap: usize,
}

impl Layout {
    /// Words of a node that holds exactly this.
    pub(crate) fn words(self) -> usize {
        first_entry(self.prefix) + self.entries * entry_words(self.format) + self.heap
    }

    pub(crate) fn fits(self, node: Node) -> bool {
        self.words() <= words_of(node.class())
    }

    /// The class of a new node for this and as much again, or for few entries.
    pub(crate) fn class(self, level: usize) -> usize {
        let each = self.words().div_ceil(self.entries.max(1));
        let wanted =
            if self.entries == 0 { 0 } else { self.words() + each * ENTRIES_MIN.saturating_sub(self.entries).max(1) };
        (base_class(level)..CLASSES - 1).find(|&class| words_of(class) >= wanted).unwrap_or(CLASSES - 1)
    }
}

fn base_class(level: usize) -> usize {
    if level == 0 { LEAF_CLASS } else { INNER_CLASS }
}

impl Contents {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn level(&self) -> usize {
        self.level
    }

    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let Entry { start, length, .. } = self.entries[at];
        &self.bytes[start as usize..][..length as usize]
    }

    pub(crate) fn value(&self, at: usize) -> u64 {
        self.entries[at].value
    }

    fn first_keyed(&self) -> usize {
        usize::from(self.level > 0)
    }

    /// Takes over what `node` holds, which does not change meanwhile. The first key of an inner node becomes empty.
    pub(crate) fn load(&mut self, node: Node) {
        let shape = node.shape();
        self.bytes.clear();
        self.entries.clear();
        self.level = shape.level();
        for at in 0..shape.count() {
            let start = self.bytes.len();
            if at >= self.first_keyed() {
                append_key(node, shape, at, &mut self.bytes);
            }
            self.entries.push(Entry {
                start: start as u32,
                length: (self.bytes.len() - start) as u32,
                value: node.value(shape, at),
            });
        }
    }

    /// The contents of a new inner node over `left` and, from `separator` on, `right`.
    pub(crate) fn load_pair(&mut self, level: usize, left: Node, separator: &[u8], right: Node) {
        self.bytes.clear();
        self.entries.clear();
        self.level = level;
        self.entries.push(Entry { start: 0, length: 0, value: left.address() });
        self.insert(1, separator, right.address());
    }

    pub(crate) fn insert(&mut self, at: usize, key: &[u8], value: u64) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.entries.insert(at, Entry { start, length: key.len() as u32, value });
    }

    /// The best layout of the entries in `range`, which is not where the node's first entry is if that has no key.
    ///
    /// It takes no more words than these entries take in a node whose prefix is any that they share, so they fit into
    /// every node that they were in, whatever has been taken out of it since. Two prefixes are enough for that. Of
    /// those that take as many words in the node's front as the longest does, the longest leaves the least to the
    /// heap. And a shorter one that is a whole number of front pieces saves there what it may cost: each of its
    /// pieces would be in the heap for the longest key.
    pub(crate) fn layout(&self, range: Range<usize>) -> Layout {
        let keyed = range.start + self.first_keyed()..range.end;
        if keyed.is_empty() {
            return Layout { prefix: 0, format: 0, entries: range.len(), heap: 0 };
        }
        let first = self.key(keyed.start);
        // Keys are sorted, so what the outer two share they all do. A prefix leaves the longest key a full head.
        let longest = keyed.clone().map(|at| self.key(at).len()).max().unwrap_or(0);
        let shared = common_prefix(first, self.key(keyed.end - 1)).min(longest.saturating_sub(8));
        let is_uniform = longest - shared <= 8 && keyed.clone().all(|at| self.key(at).len() == longest);
        if is_uniform {
            return Layout { prefix: shared, format: (longest - shared) as u8, entries: range.len(), heap: 0 };
        }
        let general = |prefix: usize| {
            let heap = keyed.clone().map(|at| heap_words(self.key(at).len() - prefix)).sum();
            Layout { prefix, format: GENERAL, entries: range.len(), heap }
        };
        let (long, short) = (general(shared), general(shared - shared % PREFIX_PIECE));
        if short.words() < long.words() { short } else { long }
    }

    /// The entry before which is half of what all of them take, in words: never the first.
    pub(crate) fn half(&self) -> usize {
        let Layout { prefix, .. } = self.layout(0..self.len());
        let words = |at: usize| {
            let length = if at < self.first_keyed() { 0 } else { self.key(at).len() - prefix };
            entry_words(GENERAL) + heap_words(length)
        };
        let all: usize = (0..self.len()).map(words).sum();
        let mut before = 0;
        let half = (0..self.len()).find(|&at| {
            before += words(at);
            before > all / 2
        });
        half.unwrap_or(0).clamp(1, self.len() - 1)
    }

    /// Writes the entries in `range` into `node`, over what was there. The caller knows that they fit.
    pub(crate) fn store(&self, range: Range<usize>, layout: Layout, node: Node) {
        let class = node.class();
        assert!(layout.fits(node), "a node's contents fit");
        let keyed = range.start + self.first_keyed();
        for at in 0..layout.prefix.div_ceil(8) {
            node.set_word(
                HEADER_WORDS + at,
                super::node::key::leading(word_at(self.key(keyed), 8 * at), (layout.prefix - 8 * at).min(8)),
            );
        }
        let mut heap = words_of(class);
        let shape = Shape::new(range.len(), layout.prefix, heap - layout.heap, layout.format, self.level, class);
        for (to, from) in range.enumerate() {
            node.set_value(shape, to, self.value(from));
            if from < keyed {
                node.clear_key(shape, to);
                continue;
            }
            heap -= if shape.is_general() { heap_words(self.key(from).len() - layout.prefix) } else { 0 };
            node.set_key(shape, to, self.key(from), heap);
        }
        debug_assert_eq!(heap, shape.heap());
        node.set_shape(shape);
        node.set_notes(Notes::default());
    }
}

/// Appends the key of entry `at` of a node that does not change.
fn append_key(node: Node, shape: Shape, at: usize, to: &mut Vec<u8>) {
    let prefix = shape.prefix();
    for start in (0..prefix).step_by(8) {
        let word = node.word(HEADER_WORDS + start / 8).to_be_bytes();
        to.extend_from_slice(&word[..(prefix - start).min(8)]);
    }
    let head = node.head(shape, at).to_be_bytes();
    if !shape.is_general() {
        to.extend_from_slice(&head[..usize::from(shape.format())]);
        return;
    }
    let tail = node.tail(shape, at);
    let length = tail.length();
    to.extend_from_slice(&head[..length.min(8)]);
    if length > 8 {
        to.extend_from_slice(&tail.inline().to_be_bytes()[..(length - 8).min(4)]);
    }
    for i in 0..heap_words(length) {
        let word = node.heap_word(shape, tail, i).unwrap_or_else(|_| unreachable!("nobody writes")).to_be_bytes();
        to.extend_from_slice(&word[..(length - INLINE_BYTES - 8 * i).min(8)]);
    }
}
