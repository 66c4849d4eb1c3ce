//! Reading a tree on one thread that may wait: for the catalog, for DDL, for tests.
//! Queries read pages through `exec`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use saki_base::{PageRef, PageSize, TreeId};
use saki_page::{
    CacheReader, InnerPage, IoShare, LeafPage, LeafValue, OverflowRef, PageCache, PageError, PageExpectation, PageStore,
};

use crate::Pair;
use crate::error::TreeError;
use crate::fetch::{Ahead, Fetcher};
use crate::overflow;
use crate::root::TreeRoot;

/// Leaves that a range asks for at first; each leaf read doubles it, so that a look at the first entry costs little.
const REACH_FIRST: usize = 4;

/// Reads trees by key and by range.
pub struct TreeReader {
    fetcher: Fetcher,
}

/// What a leaf says about a key's value, copied out of the page.
enum Found {
    Inline,
    Overflow(OverflowRef),
    Absent,
}

/// One step down: the child, or why there is none.
pub(crate) fn descend<R>(
    fetcher: &mut Fetcher,
    tree: TreeId,
    page: PageRef,
    look: impl FnOnce(&[u8], PageExpectation) -> Result<R, saki_page::FormatError>,
) -> Result<R, TreeError> {
    let expected = fetcher.expectation(tree);
    let looked = fetcher.read(page, |bytes| look(bytes, expected)).map_err(|error| TreeError::Page { tree, error })?;
    looked.map_err(|error| TreeError::malformed(tree, page, fetcher.describe(page), error))
}

/// Opens an inner page and checks that it is of `level`.
pub(crate) fn open_inner(
    bytes: &[u8],
    expected: PageExpectation,
    level: u8,
) -> Result<InnerPage<'_>, saki_page::FormatError> {
    let view = InnerPage::open(bytes, expected)?;
    if view.level() != level {
        return Err(saki_page::FormatError::Malformed {
            kind: saki_page::PageKind::Inner,
            at: 0,
            reason: "not of the level its parent says",
        });
    }
    Ok(view)
}

impl TreeReader {
    /// A reader with a port of its own.
    pub fn new(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>, share: &Arc<IoShare>) -> Result<Self, TreeError> {
        Ok(Self { fetcher: Fetcher::new(cache, store, share)? })
    }

    /// The same for work in the background, such as merges: what it looks at is no warmer for it.
    pub fn background(
        cache: &Arc<PageCache>,
        store: &Arc<dyn PageStore>,
        share: &Arc<IoShare>,
    ) -> Result<Self, TreeError> {
        Ok(Self { fetcher: Fetcher::new(cache, store, share)?.unnoticed() })
    }

    /// The value of a key.
    pub fn get(&mut self, tree: &TreeRoot, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        let mut value = Vec::new();
        Ok(self.get_into(tree, key, &mut value)?.then_some(value))
    }

    /// Replaces `value` by the value of a key; `false` if there is none.
    pub fn get_into(&mut self, tree: &TreeRoot, key: &[u8], value: &mut Vec<u8>) -> Result<bool, TreeError> {
        let Some(mut page) = tree.root else { return Ok(false) };
        for level in (1..tree.height).rev() {
            page = descend(&mut self.fetcher, tree.id, page, |bytes, expected| {
                let view = open_inner(bytes, expected, level)?;
                Ok(view.child(view.child_for(key)))
            })?;
        }
        let found = descend(&mut self.fetcher, tree.id, page, |bytes, expected| look_up(bytes, expected, key, value))?;
        match found {
            Found::Absent => Ok(false),
            Found::Inline => Ok(true),
            Found::Overflow(reference) => {
                overflow::read(&mut self.fetcher, tree.id, reference, value)?;
                Ok(true)
            }
        }
    }

    /// Entries from `low` to below `high`, in key order; the leaves ahead are on their way meanwhile.
    pub fn range(&mut self, tree: &TreeRoot, low: Bound<&[u8]>, high: Bound<&[u8]>) -> TreeRange<'_> {
        let bounds = Bounds { low: low.map(<[u8]>::to_vec), high: high.map(<[u8]>::to_vec) };
        let ahead = tree.root.map(|page| Ahead::new(page, tree.height - 1, (), REACH_FIRST));
        TreeRange {
            fetcher: &mut self.fetcher,
            tree: tree.id,
            bounds,
            ahead,
            leaf: Vec::new(),
            next: 0,
            end: 0,
            entry: Entry::default(),
        }
    }

    /// All entries, in key order.
    pub fn scan(&mut self, tree: &TreeRoot) -> TreeRange<'_> {
        self.range(tree, Bound::Unbounded, Bound::Unbounded)
    }

    /// For the other operations of this crate.
    pub fn fetcher(&mut self) -> &mut Fetcher {
        &mut self.fetcher
    }
}

/// Looks keys up in pages that are in memory. It never waits and, unlike a [`TreeReader`], may be used by one thread
/// after another.
pub struct CachedReader {
    reader: CacheReader,
    page_size: PageSize,
}

impl CachedReader {
    pub fn new(cache: &Arc<PageCache>, page_size: PageSize) -> Self {
        Self { reader: cache.reader(), page_size }
    }

    /// Replaces `value` by the value of a key: whether there is one. `None` if a page on the way is not in memory.
    ///
    /// # Errors
    /// A page is not what its parent says, or malformed.
    pub fn get(&self, tree: &TreeRoot, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>, TreeError> {
        let Some(mut page) = tree.root else { return Ok(Some(false)) };
        let expected = PageExpectation { page_size: self.page_size, tree: tree.id };
        for level in (1..tree.height).rev() {
            let child = self.peek(tree.id, page, |bytes| {
                let view = open_inner(bytes, expected, level)?;
                Ok(view.child(view.child_for(key)))
            })?;
            let Some(child) = child else { return Ok(None) };
            page = child;
        }
        Ok(match self.peek(tree.id, page, |bytes| look_up(bytes, expected, key, value))? {
            None => None,
            Some(Found::Overflow(reference)) => self.value(tree.id, reference, value)?.then_some(true),
            Some(Found::Absent) => Some(false),
            Some(Found::Inline) => Some(true),
        })
    }

    /// Replaces `value` by a value in overflow pages; `false` if one of them is not in memory.
    fn value(&self, tree: TreeId, reference: OverflowRef, value: &mut Vec<u8>) -> Result<bool, TreeError> {
        let expected = PageExpectation { page_size: self.page_size, tree };
        let mut work = vec![(reference.root, overflow::top(reference, self.page_size))];
        value.clear();
        while let Some((page, part)) = work.pop() {
            let looked = self.peek(tree, page, |bytes| {
                Ok(match part.level {
                    0 => overflow::piece(bytes, expected, reference.length, part)
                        .map(|piece| overflow::place(piece, part, self.page_size, value)),
                    _ => overflow::children(bytes, expected, reference.length, part, &mut work),
                })
            })?;
            match looked {
                None => return Ok(false),
                Some(Ok(())) => {}
                Some(Err(fault)) => {
                    let (device, what) = ("page cache".into(), fault.to_string());
                    return Err(TreeError::Malformed { tree, page, device, what });
                }
            }
        }
        Ok(true)
    }

    /// Visits the entries of a range until `visit` breaks off, in key order or, if `is_reverse`, against it. `false` if
    /// a page on the way, or a value of its own pages, is not in memory: then some entries may have been visited.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn range(
        &self,
        tree: &TreeRoot,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        is_reverse: bool,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<bool, TreeError> {
        let Some(root) = tree.root else { return Ok(true) };
        let bounds = Bounds { low: low.map(<[u8]>::to_vec), high: high.map(<[u8]>::to_vec) };
        let mut walk =
            CachedWalk { reader: self, tree: tree.id, bounds, is_reverse, visit, key: Vec::new(), long: Vec::new() };
        let step = walk.page(root, tree.height - 1)?;
        Ok(!matches!(step, ControlFlow::Break(Stop::Away)))
    }

    /// Tells the leaves that may have keys of a range, in key order, without a look into them. `false` if an inner page
    /// is not in memory: then only some have been told.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn leaves(
        &self,
        tree: &TreeRoot,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        mut each: impl FnMut(PageRef),
    ) -> Result<bool, TreeError> {
        let Some(root) = tree.root else { return Ok(true) };
        let bounds = Bounds { low: low.map(<[u8]>::to_vec), high: high.map(<[u8]>::to_vec) };
        let expected = PageExpectation { page_size: self.page_size, tree: tree.id };
        let (mut waiting, mut children) = (vec![(root, tree.height - 1)], Vec::new());
        while let Some((page, level)) = waiting.pop() {
            if level == 0 {
                each(page);
                continue;
            }
            let looked = self.peek(tree.id, page, |bytes| {
                bounds.children(&open_inner(bytes, expected, level)?, &mut children);
                Ok(())
            })?;
            if looked.is_none() {
                return Ok(false);
            }
            waiting.extend(children.drain(..).rev().map(|(child, ())| (child, level - 1)));
        }
        Ok(true)
    }

    fn peek<R>(
        &self,
        tree: TreeId,
        page: PageRef,
        look: impl FnOnce(&[u8]) -> Result<R, saki_page::FormatError>,
    ) -> Result<Option<R>, TreeError> {
        let found = self.reader.find(page).map_err(|error| TreeError::Page { tree, error })?;
        let looked = found.map(|guard| look(&guard)).transpose();
        looked.map_err(|error| TreeError::malformed(tree, page, "page cache".into(), error))
    }
}

/// Why a walk ends early.
enum Stop {
    /// The visitor has enough.
    Enough,
    /// Something is not in memory.
    Away,
}

/// A walk over a range in memory.
struct CachedWalk<'r, V> {
    reader: &'r CachedReader,
    tree: TreeId,
    bounds: Bounds,
    is_reverse: bool,
    visit: V,
    key: Vec<u8>,
    /// A value out of pages of its own.
    long: Vec<u8>,
}

impl<V: FnMut(&[u8], &[u8]) -> ControlFlow<()>> CachedWalk<'_, V> {
    fn page(&mut self, page: PageRef, level: u8) -> Result<ControlFlow<Stop>, TreeError> {
        if level == 0 {
            return self.leaf(page);
        }
        let expected = PageExpectation { page_size: self.reader.page_size, tree: self.tree };
        let mut children = Vec::new();
        let looked = self.reader.peek(self.tree, page, |bytes| {
            self.bounds.children(&open_inner(bytes, expected, level)?, &mut children);
            Ok(())
        })?;
        if looked.is_none() {
            return Ok(ControlFlow::Break(Stop::Away));
        }
        if self.is_reverse {
            children.reverse();
        }
        for (child, ()) in children {
            let step = self.page(child, level - 1)?;
            if step.is_break() {
                return Ok(step);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn leaf(&mut self, page: PageRef) -> Result<ControlFlow<Stop>, TreeError> {
        let Self { reader, tree, bounds, is_reverse, visit, key, long } = self;
        let expected = PageExpectation { page_size: reader.page_size, tree: *tree };
        let looked = reader.peek(*tree, page, |bytes| {
            let leaf = LeafPage::open(bytes, expected)?;
            let (start, end) = bounds.entries(&leaf);
            for step in start..end {
                let index = if *is_reverse { start + end - 1 - step } else { step };
                leaf.key_into(index, key);
                let value = match leaf.value(index) {
                    LeafValue::Inline(value) => value,
                    LeafValue::Overflow(reference) => match reader.value(*tree, reference, long) {
                        Ok(true) => &long[..],
                        Ok(false) => return Ok(Ok(ControlFlow::Break(Stop::Away))),
                        Err(error) => return Ok(Err(error)),
                    },
                };
                if visit(key, value).is_break() {
                    return Ok(Ok(ControlFlow::Break(Stop::Enough)));
                }
            }
            Ok(Ok(ControlFlow::Continue(())))
        })?;
        looked.unwrap_or(Ok(ControlFlow::Break(Stop::Away)))
    }
}

/// Replaces `value` by what a leaf has of a key, if it lies there.
fn look_up(
    bytes: &[u8],
    expected: PageExpectation,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Result<Found, saki_page::FormatError> {
    let leaf = LeafPage::open(bytes, expected)?;
    let index = leaf.lower_bound(key);
    if index == leaf.count() || leaf.compare(index, key).is_ne() {
        return Ok(Found::Absent);
    }
    Ok(match leaf.value(index) {
        LeafValue::Overflow(overflow) => Found::Overflow(overflow),
        LeafValue::Inline(bytes) => {
            value.clear();
            value.extend_from_slice(bytes);
            Found::Inline
        }
    })
}

/// A range of keys.
pub(crate) struct Bounds {
    pub low: Bound<Vec<u8>>,
    pub high: Bound<Vec<u8>>,
}

impl Bounds {
    fn low_key(&self) -> Option<&[u8]> {
        match &self.low {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        }
    }

    /// Lists the children of an inner page that can hold keys within the bounds.
    pub fn children(&self, view: &InnerPage<'_>, children: &mut Vec<(PageRef, ())>) {
        let first = self.low_key().map_or(0, |low| view.child_for(low));
        let last = match &self.high {
            Bound::Unbounded => view.count() - 1,
            Bound::Included(high) | Bound::Excluded(high) => view.child_for(high),
        };
        children.extend((first..=last).map(|child| (view.child(child), ())));
    }

    /// The entries of a leaf within the bounds.
    pub fn entries(&self, leaf: &LeafPage<'_>) -> (usize, usize) {
        let behind = |key: &[u8]| {
            let at = leaf.lower_bound(key);
            at + usize::from(at < leaf.count() && leaf.compare(at, key).is_eq())
        };
        let start = match &self.low {
            Bound::Unbounded => 0,
            Bound::Included(low) => leaf.lower_bound(low),
            Bound::Excluded(low) => behind(low),
        };
        let end = match &self.high {
            Bound::Unbounded => leaf.count(),
            Bound::Included(high) => behind(high),
            Bound::Excluded(high) => leaf.lower_bound(high),
        };
        (start, end.max(start))
    }
}

#[derive(Default)]
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Entries of a range, one after the other.
pub struct TreeRange<'r> {
    fetcher: &'r mut Fetcher,
    tree: TreeId,
    bounds: Bounds,
    ahead: Option<Ahead<()>>,
    /// A copy of the leaf being read: its frame is not held while the caller works.
    leaf: Vec<u8>,
    next: usize,
    end: usize,
    entry: Entry,
}

/// An error on the way to a page; the look-ahead does not know the tree.
pub(crate) enum AheadError {
    Page(PageError),
    Malformed(PageRef, saki_page::FormatError),
}

impl From<PageError> for AheadError {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

impl AheadError {
    pub fn of(self, tree: TreeId, fetcher: &Fetcher) -> TreeError {
        match self {
            Self::Page(error) => TreeError::Page { tree, error },
            Self::Malformed(page, error) => TreeError::malformed(tree, page, fetcher.describe(page), error),
        }
    }
}

impl TreeRange<'_> {
    /// The next entry, borrowed until the next call.
    #[expect(clippy::should_implement_trait, reason = "lends from itself, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<Pair<'_>>, TreeError> {
        while self.next == self.end {
            if !self.next_leaf()? {
                return Ok(None);
            }
        }
        let leaf = LeafPage::open(&self.leaf, self.fetcher.expectation(self.tree)).expect("opened when it was copied");
        leaf.key_into(self.next, &mut self.entry.key);
        let value = leaf.value(self.next);
        self.next += 1;
        match value {
            LeafValue::Inline(value) => {
                self.entry.value.clear();
                self.entry.value.extend_from_slice(value);
            }
            LeafValue::Overflow(reference) => {
                overflow::read(self.fetcher, self.tree, reference, &mut self.entry.value)?;
            }
        }
        Ok(Some((&self.entry.key, &self.entry.value)))
    }

    fn next_leaf(&mut self) -> Result<bool, TreeError> {
        let (tree, bounds, leaf) = (self.tree, &self.bounds, &mut self.leaf);
        let Some(ahead) = &mut self.ahead else { return Ok(false) };
        let expected = self.fetcher.expectation(tree);
        let next = ahead.next(self.fetcher, |bytes, page, level, (), children| {
            let view = open_inner(bytes, expected, level).map_err(|error| AheadError::Malformed(page, error))?;
            bounds.children(&view, children);
            Ok::<(), AheadError>(())
        });
        let next = next.map_err(|error| error.of(tree, self.fetcher));
        let Some((page, ())) = next? else { return Ok(false) };
        (self.next, self.end) = descend(self.fetcher, tree, page, |bytes, expected| {
            let view = LeafPage::open(bytes, expected)?;
            leaf.clear();
            leaf.extend_from_slice(bytes);
            Ok(bounds.entries(&view))
        })?;
        Ok(true)
    }
}
