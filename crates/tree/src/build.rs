//! Writing tree pages in key order: leaves, and every inner level in the same pass.
//!
//! ```text
//!   level 2   [ · · ·              one open page per level;
//!   level 1   [ · · · · · ·        a full one is written and
//!   level 0   [ entries            becomes a child of the level above
//! ```

use saki_base::{PageRef, PageSize, TreeId};
use saki_page::{InnerBuilder, LeafBuilder, LeafValue, inline_value_bytes_max, key_bytes_max, shortest_separator};
use saki_volume::PageWriter;

use crate::error::TreeError;
use crate::overflow;
use crate::root::TreeRoot;
use crate::sink::PageSink;

/// Builds inner pages above children that come in key order, until one page is left.
pub(crate) struct Upper {
    tree: TreeId,
    page_size: PageSize,
    /// The open page of each level; `levels[0]` is above the children pushed.
    levels: Vec<Level>,
    /// Level of the children pushed.
    child_level: u8,
}

struct Level {
    open: InnerBuilder,
    last_child: PageRef,
}

impl Upper {
    /// `child_level`: 0 if the children are leaves.
    pub fn new(tree: TreeId, page_size: PageSize, child_level: u8) -> Self {
        Self { tree, page_size, levels: Vec::new(), child_level }
    }

    /// Adds the next child. `separator`: no key below the child is less.
    pub fn push(
        &mut self,
        sink: &mut PageSink,
        writer: &mut PageWriter,
        separator: &[u8],
        child: PageRef,
    ) -> Result<(), TreeError> {
        self.push_at(0, sink, writer, separator, child)
    }

    fn push_at(
        &mut self,
        index: usize,
        sink: &mut PageSink,
        writer: &mut PageWriter,
        separator: &[u8],
        child: PageRef,
    ) -> Result<(), TreeError> {
        if index == self.levels.len() {
            assert!(index < (u8::MAX - self.child_level) as usize, "a tree of {index} inner levels");
            let open = InnerBuilder::new(self.page_size, self.tree, self.child_level + 1 + index as u8);
            self.levels.push(Level { open, last_child: child });
        }
        self.levels[index].last_child = child;
        if self.levels[index].open.try_push(separator, child) {
            return Ok(());
        }
        // Full: it goes one level up, and the child begins the next page.
        self.write(index, sink, writer)?;
        assert!(self.levels[index].open.try_push(separator, child), "an empty inner page takes a child");
        Ok(())
    }

    /// Writes a level's open page and adds it to the level above.
    fn write(&mut self, index: usize, sink: &mut PageSink, writer: &mut PageWriter) -> Result<(), TreeError> {
        let open = &mut self.levels[index].open;
        let separator = open.first_separator().expect("an open page has a child").to_vec();
        let page = sink.inner(writer, open)?;
        self.push_at(index + 1, sink, writer, &separator, page)
    }

    /// The topmost page and its level; none without children.
    pub fn finish(mut self, sink: &mut PageSink, writer: &mut PageWriter) -> Result<Option<(PageRef, u8)>, TreeError> {
        let mut index = 0;
        while index < self.levels.len() {
            let top = index + 1 == self.levels.len();
            if top && self.levels[index].open.count() == 1 {
                return Ok(Some((self.levels[index].last_child, self.child_level + index as u8)));
            }
            self.write(index, sink, writer)?;
            index += 1;
        }
        Ok(None)
    }
}

/// A tree being built from entries in ascending key order: every page is filled, and written as soon as it is.
pub(crate) struct Build {
    tree: TreeId,
    page_size: PageSize,
    sink: PageSink,
    leaf: LeafBuilder,
    upper: Upper,
    /// Last key pushed.
    last_key: Vec<u8>,
    /// Separator of the open leaf.
    separator: Vec<u8>,
    entries: u64,
}

impl Build {
    pub fn new(page_size: PageSize, tree: TreeId) -> Self {
        Self {
            tree,
            page_size,
            sink: PageSink::new(page_size, tree),
            leaf: LeafBuilder::new(page_size, tree),
            upper: Upper::new(tree, page_size, 0),
            last_key: Vec::new(),
            separator: Vec::new(),
            entries: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, writer: &mut PageWriter, key: &[u8], value: &[u8]) -> Result<(), TreeError> {
        if self.entries > 0 && key <= self.last_key.as_slice() {
            return Err(self.disorder(key));
        }
        if key.len() > key_bytes_max(self.page_size) {
            return Err(too_long(self.tree, key, self.page_size));
        }
        if value.len() <= inline_value_bytes_max(self.page_size) {
            self.push_value(writer, key, LeafValue::Inline(value))?;
        } else {
            let overflow = overflow::write(&mut self.sink, writer, self.page_size, self.tree, value)?;
            self.push_value(writer, key, LeafValue::Overflow(overflow))?;
        }
        self.entries += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    #[inline]
    fn push_value(&mut self, writer: &mut PageWriter, key: &[u8], value: LeafValue<'_>) -> Result<(), TreeError> {
        if self.leaf.try_push(key, value) {
            return Ok(());
        }
        self.write_leaf(writer)?;
        shortest_separator(&self.last_key, key, &mut self.separator);
        assert!(self.leaf.try_push(key, value), "an empty leaf takes an entry");
        Ok(())
    }

    fn write_leaf(&mut self, writer: &mut PageWriter) -> Result<(), TreeError> {
        let page = self.sink.leaf(writer, &mut self.leaf)?;
        self.upper.push(&mut self.sink, writer, &self.separator, page)
    }

    #[cold]
    fn disorder(&self, key: &[u8]) -> TreeError {
        let (tree, key) = (self.tree, key.to_vec());
        if key == self.last_key {
            TreeError::DuplicateKey { tree, key }
        } else {
            TreeError::OutOfOrder { tree, previous: self.last_key.clone(), key }
        }
    }

    /// Writes what is open.
    pub fn finish(mut self, writer: &mut PageWriter) -> Result<TreeRoot, TreeError> {
        if self.leaf.count() > 0 {
            self.write_leaf(writer)?;
        }
        let top = self.upper.finish(&mut self.sink, writer)?;
        assert_eq!(self.entries > 0, top.is_some(), "a tree of {} entries", self.entries);
        assert!(self.sink.leaf_pages <= self.entries, "{} leaves hold {} entries", self.sink.leaf_pages, self.entries);
        Ok(TreeRoot {
            id: self.tree,
            root: top.map(|(page, _)| page),
            height: top.map_or(0, |(_, level)| level + 1),
            entries: self.entries,
            leaf_pages: self.sink.leaf_pages,
            inner_pages: self.sink.inner_pages,
            overflow_pages: self.sink.overflow_pages,
        })
    }
}

/// Builds a tree from sorted entries, at the device's bandwidth or more than 5 million small entries
/// per second per core. Memory: a page per level, and the writer's buffers.
pub struct BulkLoader {
    writer: PageWriter,
    build: Build,
}

impl BulkLoader {
    /// `writer` of a volume with pages of `page_size`.
    pub fn new(writer: PageWriter, page_size: PageSize, tree: TreeId) -> Self {
        assert_eq!(writer.page_bytes(), page_size.bytes(), "the writer's page size");
        Self { writer, build: Build::new(page_size, tree) }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// `OutOfOrder` or `DuplicateKey` if the key is not greater than the last one, `KeyTooLong`, or `Volume`. The
    /// load cannot go on after an error of the volume; after the others the entry is just not there.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), TreeError> {
        self.build.push(&mut self.writer, key, value)
    }

    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.build.entries
    }

    /// Writes what is open and waits for it; gives the writer back, to be finished or used for the next tree. The
    /// tree can be read now, and is published by the commit of the writer's publication.
    pub fn finish(mut self) -> Result<(TreeRoot, PageWriter), TreeError> {
        let root = self.build.finish(&mut self.writer)?;
        self.writer.settle()?;
        Ok((root, self.writer))
    }
}

pub(crate) fn too_long(tree: TreeId, key: &[u8], page_size: PageSize) -> TreeError {
    TreeError::KeyTooLong { tree, bytes: key.len(), bytes_max: key_bytes_max(page_size) }
}
