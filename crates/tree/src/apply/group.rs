//! The content of one or several neighbouring pages, to be cut into pages anew.

use std::ops::Range;

use saki_base::{PageRef, PageSize, TreeId};
use saki_page::{
    InnerBuilder, LeafBuilder, LeafPage, LeafValue, OverflowRef, inline_value_bytes_max, shortest_separator,
};
use saki_volume::PageWriter;

use crate::error::TreeError;
use crate::overflow;
use crate::sink::PageSink;

/// A page as its parent knows it: no key below it is less than the separator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Child {
    pub separator: Vec<u8>,
    pub page: PageRef,
}

/// Content lighter than this part of a page takes in its neighbour. A third: two such halves of a page
/// that was just cut evenly stay well above it.
const UNDER_FULL_PART: usize = 3;
/// What an item costs beside its bytes, roughly.
const ITEM_BYTES: usize = 6;

/// Whether content of so many bytes takes in its neighbour.
pub(crate) fn is_under_full(bytes: usize, page_bytes: usize) -> bool {
    bytes < page_bytes / UNDER_FULL_PART
}

/// Items in key order, and the builder of the pages they go to.
pub(crate) trait Group {
    fn len(&self) -> usize;
    /// Bytes of an item, roughly: good enough to cut evenly.
    fn weight(&self, item: usize) -> usize;
    fn page_bytes(&self) -> usize;
    /// Adds an item to the open page; `false` if that is full.
    fn try_push(&mut self, item: usize) -> bool;
    fn reset_page(&mut self);
    fn write_page(&mut self, sink: &mut PageSink, writer: &mut PageWriter) -> Result<PageRef, TreeError>;
    /// What separates a page that begins with this item (not the first) from the one before.
    fn separator_before(&self, item: usize) -> Vec<u8>;
    fn clear(&mut self);

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_under_full(&self) -> bool {
        is_under_full((0..self.len()).map(|item| self.weight(item)).sum(), self.page_bytes())
    }

    /// Fills the open page with items from `from` on until it weighs `target`; returns the first item that is not in
    /// it.
    fn fill(&mut self, from: usize, target: usize) -> usize {
        let mut weight = 0;
        let mut item = from;
        while item < self.len() && weight < target && self.try_push(item) {
            weight += self.weight(item);
            item += 1;
        }
        item
    }

    /// Writes everything as pages, each added to `pages`; `first` separates the first of them.
    /// `even`: pages of about the same weight; otherwise all but the last are full.
    fn cut(
        &mut self,
        first: Vec<u8>,
        even: bool,
        sink: &mut PageSink,
        writer: &mut PageWriter,
        pages: &mut Vec<Child>,
    ) -> Result<(), TreeError> {
        assert!(!self.is_empty(), "nothing to cut into pages");
        let mut target = usize::MAX;
        let mut end = self.fill(0, target);
        if even && end < self.len() {
            let full: usize = (0..end).map(|item| self.weight(item)).sum();
            let total: usize = (0..self.len()).map(|item| self.weight(item)).sum();
            target = total.div_ceil(total.div_ceil(full));
            self.reset_page();
            end = self.fill(0, target);
        }
        let mut separator = first;
        loop {
            let page = self.write_page(sink, writer)?;
            pages.push(Child { separator, page });
            if end == self.len() {
                self.clear();
                return Ok(());
            }
            separator = self.separator_before(end);
            let start = end;
            end = self.fill(start, target);
            assert!(end > start, "an empty page takes an item");
        }
    }
}

/// Children of inner pages.
pub(crate) struct ChildGroup {
    children: Vec<Child>,
    open: InnerBuilder,
    page_bytes: usize,
}

impl ChildGroup {
    /// `level` of the pages whose children these are.
    pub fn new(page_size: PageSize, tree: TreeId, level: u8) -> Self {
        let open = InnerBuilder::new(page_size, tree, level);
        Self { children: Vec::new(), open, page_bytes: page_size.bytes() }
    }

    pub fn extend(&mut self, children: Vec<Child>) {
        self.children.extend(children);
    }
}

impl Group for ChildGroup {
    fn len(&self) -> usize {
        self.children.len()
    }

    fn weight(&self, item: usize) -> usize {
        self.children[item].separator.len() + size_of::<PageRef>() + ITEM_BYTES
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn try_push(&mut self, item: usize) -> bool {
        let child = &self.children[item];
        self.open.try_push(&child.separator, child.page)
    }

    fn reset_page(&mut self) {
        self.open.reset();
    }

    fn write_page(&mut self, sink: &mut PageSink, writer: &mut PageWriter) -> Result<PageRef, TreeError> {
        sink.inner(writer, &mut self.open)
    }

    fn separator_before(&self, item: usize) -> Vec<u8> {
        self.children[item].separator.clone()
    }

    fn clear(&mut self) {
        self.children.clear();
    }
}

/// Entries of leaves.
pub(crate) struct LeafGroup {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    open: LeafBuilder,
    page_size: PageSize,
    tree: TreeId,
    key: Vec<u8>,
    /// The page being loaded; its memory is kept.
    pub page: Vec<u8>,
}

struct Entry {
    key: Range<usize>,
    value: Value,
}

enum Value {
    Inline(Range<usize>),
    Overflow(OverflowRef),
}

impl LeafGroup {
    pub fn new(page_size: PageSize, tree: TreeId) -> Self {
        let open = LeafBuilder::new(page_size, tree);
        Self { arena: Vec::new(), entries: Vec::new(), open, page_size, tree, key: Vec::new(), page: Vec::new() }
    }

    /// Takes over entries of a leaf as they are.
    pub fn copy(&mut self, leaf: &LeafPage<'_>, entries: Range<usize>) {
        let mut key = std::mem::take(&mut self.key);
        for index in entries {
            leaf.key_into(index, &mut key);
            let key = self.store(&key);
            let value = match leaf.value(index) {
                LeafValue::Inline(value) => Value::Inline(self.store(value)),
                LeafValue::Overflow(overflow) => Value::Overflow(overflow),
            };
            self.entries.push(Entry { key, value });
        }
        self.key = key;
    }

    /// Adds an entry; a large value is written to overflow pages now.
    pub fn push(
        &mut self,
        key: &[u8],
        value: &[u8],
        sink: &mut PageSink,
        writer: &mut PageWriter,
    ) -> Result<(), TreeError> {
        let value = if value.len() <= inline_value_bytes_max(self.page_size) {
            Value::Inline(self.store(value))
        } else {
            Value::Overflow(overflow::write(sink, writer, self.page_size, self.tree, value)?)
        };
        let key = self.store(key);
        self.entries.push(Entry { key, value });
        Ok(())
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        start..self.arena.len()
    }

    fn key(&self, item: usize) -> &[u8] {
        &self.arena[self.entries[item].key.clone()]
    }
}

impl Group for LeafGroup {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn weight(&self, item: usize) -> usize {
        let entry = &self.entries[item];
        let value = match &entry.value {
            Value::Inline(value) => value.len(),
            Value::Overflow(_) => size_of::<OverflowRef>(),
        };
        entry.key.len() + value + ITEM_BYTES
    }

    fn page_bytes(&self) -> usize {
        self.page_size.bytes()
    }

    fn try_push(&mut self, item: usize) -> bool {
        let entry = &self.entries[item];
        let value = match &entry.value {
            Value::Inline(value) => LeafValue::Inline(&self.arena[value.clone()]),
            Value::Overflow(overflow) => LeafValue::Overflow(*overflow),
        };
        self.open.try_push(&self.arena[entry.key.clone()], value)
    }

    fn reset_page(&mut self) {
        self.open.reset();
    }

    fn write_page(&mut self, sink: &mut PageSink, writer: &mut PageWriter) -> Result<PageRef, TreeError> {
        sink.leaf(writer, &mut self.open)
    }

    fn separator_before(&self, item: usize) -> Vec<u8> {
        let mut separator = Vec::new();
        shortest_separator(self.key(item - 1), self.key(item), &mut separator);
        separator
    }

    fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
    }
}
