//! Scans: leaf by leaf, each copied out and then validated.

use std::ops::{Bound, Range};

use super::node::latch::Restart;
use super::node::{HEADER_WORDS, INLINE_BYTES, Node, Shape, Tail, heap_words, prefetch_node};
use super::path::{Step, enter};
use super::search::locate;
use super::{Index, Observed};
use crate::epoch::Pin;
use crate::sync::Backoff;

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Reverse,
}

/// Memory of scans, to be used for one after the other.
#[derive(Default)]
pub struct ScanBuffer {
    /// Inner nodes on the way to the leaf.
    path: Vec<Step>,
    /// Never shrinks; what is in use is what `entries` say.
    keys: Vec<u8>,
    entries: Vec<Entry>,
    /// The last key of the leaf before.
    resume: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    start: u32,
    length: u32,
    value: u64,
}

/// A scan of a range of keys. See [`Index::cursor`].
pub struct Cursor<'c> {
    index: &'c Index,
    lower: Bound<&'c [u8]>,
    upper: Bound<&'c [u8]>,
    direction: Direction,
    buffer: &'c mut ScanBuffer,
    next: Next,
    /// `buffer.resume` is a key of this scan.
    is_resumed: bool,
    _pin: &'c Pin<'c>,
}

/// What the next step begins with.
#[derive(Clone, Copy)]
enum Next {
    /// From the root.
    Descend,
    /// The leaf was not copied to its end: the entries left, in case its version is still this one.
    Within(Node, u64, usize),
    /// By the path.
    Neighbour,
    Nothing,
}

/// One leaf's entries in a range, in the order of the scan: what was there at one moment.
pub struct Scanned<'b> {
    /// The leaf that is responsible for them, also if there are none.
    pub observed: Observed,
    keys: &'b [u8],
    entries: &'b [Entry],
}

impl<'b> Scanned<'b> {
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Key and value of entry `at`.
    #[inline]
    pub fn entry(&self, at: usize) -> (&'b [u8], u64) {
        let entry = self.entries[at];
        (&self.keys[entry.start as usize..][..entry.length as usize], entry.value)
    }

    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'b [u8], u64)> + use<'b> {
        let keys = self.keys;
        self.entries.iter().map(move |entry| (&keys[entry.start as usize..][..entry.length as usize], entry.value))
    }
}

impl Index {
    /// A scan of the keys between `lower` and `upper`.
    #[inline]
    pub fn cursor<'c>(
        &'c self,
        (lower, upper): (Bound<&'c [u8]>, Bound<&'c [u8]>),
        direction: Direction,
        buffer: &'c mut ScanBuffer,
        pin: &'c Pin<'c>,
    ) -> Cursor<'c> {
        buffer.entries.clear();
        Cursor { index: self, lower, upper, direction, buffer, next: Next::Descend, is_resumed: false, _pin: pin }
    }
}

impl Cursor<'_> {
    /// The next entries, at most `limit` and all of one leaf; `None` behind the last leaf of the range. A leaf may
    /// contribute none, and one that is being changed may come more than once.
    #[inline]
    pub fn step(&mut self, limit: usize) -> Option<Scanned<'_>> {
        debug_assert!(limit > 0);
        if let Some(&Entry { start, length, .. }) = self.buffer.entries.last() {
            self.buffer.resume.clear();
            self.buffer.resume.extend_from_slice(&self.buffer.keys[start as usize..][..length as usize]);
            self.is_resumed = true;
        }
        let mut backoff = Backoff::default();
        loop {
            match self.try_step(limit) {
                Ok(observed) => {
                    let (keys, entries) = (&self.buffer.keys[..], &self.buffer.entries[..]);
                    return observed.map(|observed| Scanned { observed, keys, entries });
                }
                Err(Restart) => {
                    self.buffer.entries.clear();
                    self.next = Next::Descend;
                    backoff.wait();
                }
            }
        }
    }

    #[inline]
    fn try_step(&mut self, limit: usize) -> Result<Option<Observed>, Restart> {
        self.buffer.entries.clear();
        let (leaf, version, edge) = match self.next {
            Next::Nothing => return Ok(None),
            Next::Within(leaf, version, at) => (leaf, version, Some(at)),
            Next::Descend => {
                let (leaf, version) = self.descend(limit)?;
                let shape = leaf.shape();
                let edge = match self.direction {
                    Direction::Forward => first_of(leaf, shape, self.lower_left())?,
                    Direction::Reverse => end_of(leaf, shape, self.upper_left())?,
                };
                (leaf, version, Some(edge))
            }
            Next::Neighbour => match self.neighbour(limit)? {
                Some((leaf, version)) => (leaf, version, None),
                None => {
                    self.next = Next::Nothing;
                    return Ok(None);
                }
            },
        };
        let shape = leaf.shape();
        let next = match self.direction {
            Direction::Forward => {
                let from = edge.unwrap_or(0);
                let end = end_of(leaf, shape, self.upper)?.max(from);
                let to = end.min(from.saturating_add(limit));
                self.buffer.copy(leaf, shape, from..to, false)?;
                match () {
                    () if to < end => Next::Within(leaf, version, to),
                    () if end < shape.count() => Next::Nothing,
                    () => Next::Neighbour,
                }
            }
            Direction::Reverse => {
                // The leaf may have become smaller since `edge` was found; then what follows is not used.
                let to = edge.unwrap_or(usize::MAX).min(shape.count());
                let end = first_of(leaf, shape, self.lower)?.min(to);
                let from = end.max(to.saturating_sub(limit));
                self.buffer.copy(leaf, shape, from..to, true)?;
                match () {
                    () if from > end => Next::Within(leaf, version, from),
                    () if end > 0 => Next::Nothing,
                    () => Next::Neighbour,
                }
            }
        };
        leaf.validate(version)?;
        self.next = next;
        Ok(Some(Observed { leaf, version }))
    }

    /// The lower end of what is left of a forward scan.
    fn lower_left(&self) -> Bound<&[u8]> {
        if self.is_resumed { Bound::Excluded(&self.buffer.resume) } else { self.lower }
    }

    /// The upper end of what is left of a reverse scan.
    fn upper_left(&self) -> Bound<&[u8]> {
        if self.is_resumed { Bound::Excluded(&self.buffer.resume) } else { self.upper }
    }

    /// The leaf to begin with, or to begin again with.
    fn descend(&mut self, limit: usize) -> Result<(Node, u64), Restart> {
        let mut path = std::mem::take(&mut self.buffer.path);
        path.clear();
        let leaf = self.try_descend(&mut path, limit);
        self.buffer.path = path;
        leaf
    }

    #[inline]
    fn try_descend(&self, path: &mut Vec<Step>, limit: usize) -> Result<(Node, u64), Restart> {
        let (mut node, mut version) = self.index.root()?;
        loop {
            let shape = node.shape();
            if shape.level() == 0 {
                return Ok((node, version));
            }
            let at = match self.direction {
                Direction::Forward => child_at_lower(node, shape, self.lower_left())?,
                Direction::Reverse => child_at_upper(node, shape, self.upper_left())?,
            };
            (node, version) = self.enter(path, Step { node, version, at }, shape, limit)?;
        }
    }

    /// The leaf next to the one that the path leads to, in the direction of the scan; `None` if it is outside of the
    /// range.
    #[inline]
    fn neighbour(&mut self, limit: usize) -> Result<Option<(Node, u64)>, Restart> {
        let mut path = std::mem::take(&mut self.buffer.path);
        let leaf = self.try_neighbour(&mut path, limit);
        self.buffer.path = path;
        leaf
    }

    #[inline]
    fn try_neighbour(&self, path: &mut Vec<Step>, limit: usize) -> Result<Option<(Node, u64)>, Restart> {
        while let Some(Step { node, version, at }) = path.pop() {
            let shape = node.shape();
            let next = match self.direction {
                Direction::Forward => Some(at + 1).filter(|&next| next < shape.count()),
                Direction::Reverse => at.checked_sub(1),
            };
            // At the end of the range the next child need not be looked at, nor observed.
            let last = match self.direction {
                Direction::Forward => child_at_upper(node, shape, self.upper)?,
                Direction::Reverse => child_at_lower(node, shape, self.lower)?,
            };
            node.validate(version)?;
            if at == last && next.is_some() {
                return Ok(None);
            }
            let Some(at) = next else { continue };
            let (mut node, mut version) = self.enter(path, Step { node, version, at }, shape, limit)?;
            loop {
                let shape = node.shape();
                if shape.level() == 0 {
                    return Ok(Some((node, version)));
                }
                let at = if self.direction == Direction::Forward { 0 } else { shape.count() - 1 };
                (node, version) = self.enter(path, Step { node, version, at }, shape, limit)?;
            }
        }
        Ok(None)
    }

    /// Goes on to the child that `step` leads to.
    #[inline]
    fn enter(&self, path: &mut Vec<Step>, step: Step, shape: Shape, limit: usize) -> Result<(Node, u64), Restart> {
        let Step { node, version, at } = step;
        path.push(step);
        let child = node.child(shape, at, version)?;
        if shape.level() == 1 && limit > LIMIT_OF_ONE_LEAF {
            let beyond = if self.direction == Direction::Forward { at + 1 } else { at.wrapping_sub(1) };
            if beyond < shape.count() {
                // Needed soon, so that its lines come together with the child's.
                prefetch_node(node.value(shape, beyond), 0);
            }
        }
        enter(node, child, version)
    }
}

/// Scans of up to so many entries probably end in the leaf where they begin.
const LIMIT_OF_ONE_LEAF: usize = 8;

/// The first entry that `lower` admits.
#[inline]
fn first_of(node: Node, shape: Shape, lower: Bound<&[u8]>) -> Result<usize, Restart> {
    Ok(match lower {
        Bound::Unbounded => 0,
        Bound::Included(key) => locate(node, shape, key)?.at,
        Bound::Excluded(key) => {
            let place = locate(node, shape, key)?;
            place.at + usize::from(place.found)
        }
    })
}

/// The entry behind the last that `upper` admits.
#[inline]
fn end_of(node: Node, shape: Shape, upper: Bound<&[u8]>) -> Result<usize, Restart> {
    Ok(match upper {
        Bound::Unbounded => shape.count(),
        Bound::Excluded(key) => locate(node, shape, key)?.at,
        Bound::Included(key) => {
            let place = locate(node, shape, key)?;
            place.at + usize::from(place.found)
        }
    })
}

/// The first child with keys that `lower` admits.
#[inline]
fn child_at_lower(node: Node, shape: Shape, lower: Bound<&[u8]>) -> Result<usize, Restart> {
    match lower {
        Bound::Unbounded => Ok(0),
        Bound::Included(key) | Bound::Excluded(key) => super::search::child_of(node, shape, key),
    }
}

/// The last child with keys that `upper` admits.
#[inline]
fn child_at_upper(node: Node, shape: Shape, upper: Bound<&[u8]>) -> Result<usize, Restart> {
    match upper {
        Bound::Unbounded => Ok(shape.count() - 1),
        Bound::Included(key) => super::search::child_of(node, shape, key),
        Bound::Excluded(key) => Ok(locate(node, shape, key)?.at - 1),
    }
}

impl ScanBuffer {
    /// Copies entries, which the caller validates.
    #[inline]
    fn copy(&mut self, node: Node, shape: Shape, range: Range<usize>, is_reverse: bool) -> Result<(), Restart> {
        let count = range.len();
        let in_order = |to: usize| if is_reverse { range.end - 1 - to } else { range.start + to };
        if shape.prefix() == 0 && shape.format() == 8 {
            self.copy_words(node, shape, count, in_order);
            return Ok(());
        }
        self.entries.reserve(count);
        let mut start = 0;
        for at in (0..count).map(in_order) {
            let length = self.copy_key(node, shape, at, start)?;
            self.entries.push(Entry { start: start as u32, length: length as u32, value: node.value(shape, at) });
            start += length;
        }
        Ok(())
    }

    /// Entries whose keys are their heads.
    #[inline]
    fn copy_words(&mut self, node: Node, shape: Shape, count: usize, in_order: impl Fn(usize) -> usize) {
        self.grow(8 * count);
        let keys = self.keys.as_chunks_mut::<8>().0[..count].iter_mut();
        self.entries.extend(keys.enumerate().map(|(to, key)| {
            let at = in_order(to);
            *key = node.head(shape, at).to_be_bytes();
            Entry { start: (8 * to) as u32, length: 8, value: node.value(shape, at) }
        }));
    }

    /// Writes the key of entry `at` to `start`, in words, each of which overwrites what the one before had too much;
    /// returns the key's length.
    #[inline]
    fn copy_key(&mut self, node: Node, shape: Shape, at: usize, start: usize) -> Result<usize, Restart> {
        let prefix = shape.prefix();
        let tail = if shape.is_general() { node.tail(shape, at) } else { Tail::new(0, usize::from(shape.format()), 0) };
        let length = tail.length();
        self.grow(start + prefix + length + 16);
        let to = &mut self.keys[start..];
        for word in 0..prefix.div_ceil(8) {
            set_word(to, 8 * word, node.word(HEADER_WORDS + word));
        }
        set_word(to, prefix, node.head(shape, at));
        if length > 8 {
            set_word(to, prefix + 8, u64::from(tail.inline()) << 32);
            for word in 0..heap_words(length) {
                set_word(to, prefix + INLINE_BYTES + 8 * word, node.heap_word(shape, tail, word)?);
            }
        }
        Ok(prefix + length)
    }

    #[inline]
    fn grow(&mut self, bytes: usize) {
        if self.keys.len() < bytes {
            self.keys.resize(bytes.next_power_of_two().max(1024), 0);
        }
    }
}

#[inline(always)]
fn set_word(to: &mut [u8], at: usize, word: u64) {
    to[at..at + 8].copy_from_slice(&word.to_be_bytes());
}

impl Index {
    /// Entries. Walks all leaves, so the answer is exact only if nobody writes.
    pub fn len(&self, pin: &Pin<'_>) -> usize {
        let mut buffer = ScanBuffer::default();
        let mut cursor = self.cursor((Bound::Unbounded, Bound::Unbounded), Direction::Forward, &mut buffer, pin);
        let mut entries = 0;
        while let Some(leaf) = cursor.step(usize::MAX) {
            entries += leaf.len();
        }
        entries
    }

    pub fn is_empty(&self, pin: &Pin<'_>) -> bool {
        let mut buffer = ScanBuffer::default();
        let mut cursor = self.cursor((Bound::Unbounded, Bound::Unbounded), Direction::Forward, &mut buffer, pin);
        while let Some(leaf) = cursor.step(1) {
            if !leaf.is_empty() {
                return false;
            }
        }
        true
    }
}
