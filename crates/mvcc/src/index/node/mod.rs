//! A node in memory, word by word.
//!
//! ```text
//!   word 0   latch
//!        1   shape: count │ prefix bytes │ start of heap │ format │ level, class; in one word, so consistent
//!        2   notes of writers: dead words of the heap │ where the last insert went │ how many went one behind another
//!        3   (unused: keeps entries from straddling cache lines)
//!        4   prefix: what all keys begin with, padded to an even number of words
//!        …   entries in the order of their keys:
//!              format 0..=8:   head │ value         all keys equally long: `format` bytes behind the prefix
//!              format GENERAL: head │ value │ tail  tail = bytes 8..12 │ length behind the prefix │ place in the heap
//!        …   free
//!       end  heap, growing down: bytes 12.. of longer keys
//! ```
//!
//! A *head* is the eight bytes behind the prefix as a big-endian number: searching compares heads, and mostly nothing
//! else. Head and value share a cache line. All words are atomics: readers race with a writer and find out by the
//! version.
//!
//! In an inner node the value is a child's address, and the key its lower bound; the first key counts as less than
//! every other and is never looked at.

pub(super) mod class;
pub(super) mod key;
pub(super) mod latch;
pub(super) mod slab;

use std::ptr::{self, NonNull};

use self::class::{CLASSES, INNER_CLASS, LEAF_CLASS, words_of};
use self::key::word_at;
use self::latch::{Latch, Locked, Restart};
use crate::memory::prefetch::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Words before the prefix.
pub(crate) const HEADER_WORDS: usize = 4;
/// The format of nodes whose keys differ in length or have bytes behind the head.
pub(crate) const GENERAL: u8 = u8::MAX;
/// Bytes of a key behind the prefix that an entry of the general format has in itself.
pub(crate) const INLINE_BYTES: usize = 12;

const SHAPE: usize = 1;
const NOTES: usize = 2;

/// The address of a node. Memory of nodes is never unmapped and never becomes anything but nodes of the same class, so
/// reading a word of any node is always sound, whatever has become of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node(NonNull<AtomicU64>);

// SAFETY: all words of a node are atomics.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

/// Where in a node things are: its word 1, decoded on use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape(u64);

impl Shape {
    pub(crate) fn new(count: usize, prefix: usize, heap: usize, format: u8, level: usize, class: usize) -> Self {
        debug_assert!(count < 1 << 16 && prefix < 1 << 16 && heap <= words_of(class) && level < MAX_LEVELS);
        let (count, prefix, heap) = (count as u64, prefix as u64, heap as u64);
        Self(count | prefix << 16 | heap << 32 | u64::from(format) << 48 | (level as u64) << 56 | (class as u64) << 61)
    }

    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        usize::from(self.0 as u16)
    }

    /// Bytes of the prefix.
    #[inline(always)]
    pub(crate) fn prefix(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    /// The first word of the heap.
    #[inline(always)]
    pub(crate) fn heap(self) -> usize {
        usize::from((self.0 >> 32) as u16)
    }

    #[inline(always)]
    pub(crate) fn format(self) -> u8 {
        (self.0 >> 48) as u8
    }

    #[inline(always)]
    pub(crate) fn is_general(self) -> bool {
        self.format() == GENERAL
    }

    /// 0 for leaves.
    #[inline(always)]
    pub(crate) fn level(self) -> usize {
        (self.0 >> 56) as usize & (MAX_LEVELS - 1)
    }

    #[inline(always)]
    pub(crate) fn class(self) -> usize {
        (self.0 >> 61) as usize
    }

    /// Words of an entry.
    #[inline(always)]
    pub(crate) fn stride(self) -> usize {
        entry_words(self.format())
    }

    /// The word of the first entry.
    #[inline(always)]
    pub(crate) fn first(self) -> usize {
        first_entry(self.prefix())
    }

    /// The word behind the last entry.
    pub(crate) fn end(self) -> usize {
        self.first() + self.count() * self.stride()
    }

    /// The first entry with a key of its own.
    #[inline(always)]
    pub(crate) fn first_keyed(self) -> usize {
        usize::from(self.level() > 0)
    }

    pub(crate) fn with(self, count: usize, heap: usize) -> Self {
        Self::new(count, self.prefix(), heap, self.format(), self.level(), self.class())
    }
}

/// Levels that a tree can have: each at least doubles the number of leaves.
pub(crate) const MAX_LEVELS: usize = 32;

/// Bytes of a prefix that come together: two words.
pub(crate) const PREFIX_PIECE: usize = 16;

/// The word of the first entry behind a prefix.
#[inline(always)]
pub(crate) fn first_entry(prefix: usize) -> usize {
    HEADER_WORDS + prefix.div_ceil(PREFIX_PIECE) * 2
}

/// Words of an entry of a format.
#[inline(always)]
pub(crate) fn entry_words(format: u8) -> usize {
    if format == GENERAL { 3 } else { 2 }
}

/// Heap words of a key with `length` bytes behind the prefix.
#[inline(always)]
pub(crate) fn heap_words(length: usize) -> usize {
    length.saturating_sub(INLINE_BYTES).div_ceil(8)
}

/// The third word of an entry of the general format.
#[derive(Clone, Copy)]
pub(crate) struct Tail(pub(crate) u64);

impl Tail {
    pub(crate) fn new(inline: u32, length: usize, place: usize) -> Self {
        Self(u64::from(inline) << 32 | (length as u64) << 16 | place as u64)
    }

    /// Bytes 8..12 behind the prefix.
    #[inline]
    pub(crate) fn inline(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Bytes behind the prefix.
    #[inline]
    pub(crate) fn length(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    /// The word where bytes 12.. are.
    #[inline]
    pub(crate) fn place(self) -> usize {
        usize::from(self.0 as u16)
    }
}

/// What writers remember about a node; readers do not look at it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Notes {
    /// Words of the heap that removed entries left behind.
    pub(crate) dead: u16,
    /// Where the last insert went.
    pub(crate) last: u16,
    /// How many inserts went one behind the other, about.
    pub(crate) streak: u16,
}

impl Node {
    /// A node of words that nobody else uses: empty, with a fresh version.
    pub(crate) fn renewed(words: NonNull<AtomicU64>, class: usize) -> Self {
        debug_assert!(class < CLASSES);
        let node = Self(words);
        node.set_shape(Shape::new(0, 0, words_of(class), 0, 0, class));
        node.set_notes(Notes::default());
        node.latch().renew();
        node
    }

    /// # Safety
    /// `address` was made by `address()` of a node.
    #[inline(always)]
    pub(crate) unsafe fn from_address(address: u64) -> Self {
        let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the address of a node is not 0.
        Self(unsafe { NonNull::new_unchecked(pointer) })
    }

    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    pub(crate) fn start(self) -> NonNull<AtomicU64> {
        self.0
    }

    #[inline(always)]
    fn atomic(self, at: usize) -> &'static AtomicU64 {
        // SAFETY: memory of nodes stays; `at` is within the node, since shapes only ever describe words of the node's
        // class and places in the heap are compared with the class before use.
        unsafe { self.0.add(at).as_ref() }
    }

    #[inline(always)]
    pub(crate) fn word(self, at: usize) -> u64 {
        self.atomic(at).load(Ordering::Relaxed)
    }

    /// For the writer that holds the latch, and for nodes that nobody else knows.
    #[inline(always)]
    pub(crate) fn set_word(self, at: usize, word: u64) {
        self.atomic(at).store(word, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn latch(self) -> &'static Latch {
        Latch::from_word(self.atomic(0))
    }

    #[inline(always)]
    pub(crate) fn read(self) -> Result<u64, Restart> {
        self.latch().read()
    }

    #[inline(always)]
    pub(crate) fn validate(self, version: u64) -> Result<(), Restart> {
        self.latch().validate(version)
    }

    #[inline(always)]
    pub(crate) fn lock(self, version: u64) -> Result<Locked<'static>, Restart> {
        self.latch().lock(version)
    }

    #[inline(always)]
    pub(crate) fn shape(self) -> Shape {
        Shape(self.word(SHAPE))
    }

    pub(crate) fn set_shape(self, shape: Shape) {
        self.set_word(SHAPE, shape.0);
    }

    /// Never changes while the memory is a node, and stays when it becomes another.
    pub(crate) fn class(self) -> usize {
        self.shape().class()
    }

    pub(crate) fn notes(self) -> Notes {
        let word = self.word(NOTES);
        Notes { dead: word as u16, last: (word >> 16) as u16, streak: (word >> 32) as u16 }
    }

    pub(crate) fn set_notes(self, notes: Notes) {
        self.set_word(NOTES, u64::from(notes.dead) | u64::from(notes.last) << 16 | u64::from(notes.streak) << 32);
    }

    #[inline(always)]
    pub(crate) fn head(self, shape: Shape, at: usize) -> u64 {
        self.word(shape.first() + at * shape.stride())
    }

    #[inline(always)]
    pub(crate) fn value(self, shape: Shape, at: usize) -> u64 {
        self.word(shape.first() + at * shape.stride() + 1)
    }

    #[inline(always)]
    pub(crate) fn set_value(self, shape: Shape, at: usize, value: u64) {
        self.set_word(shape.first() + at * shape.stride() + 1, value);
    }

    #[inline(always)]
    pub(crate) fn tail(self, shape: Shape, at: usize) -> Tail {
        debug_assert!(shape.is_general());
        Tail(self.word(shape.first() + at * 3 + 2))
    }

    /// Word `i` of the bytes 12.. of the key with this tail; it may be torn, but not outside of the node.
    #[inline]
    pub(crate) fn heap_word(self, shape: Shape, tail: Tail, i: usize) -> Result<u64, Restart> {
        let at = tail.place() + i;
        if at < words_of(shape.class()) { Ok(self.word(at)) } else { Err(Restart) }
    }

    /// Child `at`, of a node whose version was `version`.
    #[inline(always)]
    pub(crate) fn child(self, shape: Shape, at: usize, version: u64) -> Result<Self, Restart> {
        let address = self.value(shape, at);
        // Asked for before it is known to be right: the wait for memory is the larger part of a descent.
        prefetch_node(address, shape.level() - 1);
        self.validate(version)?;
        // SAFETY: validated, so it is the value of an inner node's entry.
        Ok(unsafe { Self::from_address(address) })
    }

    /// Makes entry `at` one without a key.
    pub(crate) fn clear_key(self, shape: Shape, at: usize) {
        let entry = shape.first() + at * shape.stride();
        self.set_word(entry, 0);
        if shape.is_general() {
            self.set_word(entry + 2, Tail::new(0, 0, 0).0);
        }
    }

    /// Writes `key` as entry `at`'s head and, where the format has one, tail; what goes to the heap goes to word
    /// `place`.
    pub(crate) fn set_key(self, shape: Shape, at: usize, key: &[u8], place: usize) {
        let prefix = shape.prefix();
        let entry = shape.first() + at * shape.stride();
        self.set_word(entry, word_at(key, prefix));
        if shape.is_general() {
            let length = key.len() - prefix;
            let inline = (word_at(key, prefix + 8) >> 32) as u32;
            self.set_word(entry + 2, Tail::new(inline, length, place).0);
            for i in 0..heap_words(length) {
                self.set_word(place + i, word_at(key, prefix + INLINE_BYTES + 8 * i));
            }
        }
    }
}

/// Asks for the lines of a node that a search may touch: all of a leaf, which comes from memory and is waited for once;
/// of an inner node, which is in a cache near, the three quarters that are full on average.
#[inline(always)]
pub(crate) fn prefetch_node(address: u64, level: usize) {
    const LEAF_BYTES: u64 = 8 * words_of(LEAF_CLASS) as u64;
    const INNER_BYTES: u64 = 8 * words_of(INNER_CLASS) as u64 * 3 / 4;
    for line in (0..if level == 0 { LEAF_BYTES } else { INNER_BYTES }).step_by(64) {
        prefetch(ptr::without_provenance::<u8>((address + line) as usize));
    }
}
