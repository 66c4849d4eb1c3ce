//! Changing a tree without changing a page.
//!
//! Changes come sorted. Each level hands the part of the changes that belongs to a
//! child down to it, and takes back the pages that replace it; children without
//! changes stay as they are. The leaves to be touched are known ahead from the inner
//! pages, and many of them are on their way, in any order, while one is worked on.
//!
//! ```text
//!   children   A    B    C    D          changes to B and C; B is left under-full
//!              │    ╳────╳    │
//!              │   group B+C  │          their content flows together,
//!              │    │    │    │          and is cut into pages of even size
//!   replaced   A   B'   C'    D
//! ```
//!
//! A child left under-full takes in its right neighbour, changed or not. Content that no longer
//! fits in one page is cut evenly, so that neither half is full at once; except at the tree's right end,
//! where ascending inserts fill pages to the top. An empty child vanishes, and so does a root with one child.

mod group;
mod leaf;

use std::ops::Range;

use saki_base::{PageAddress, PageRef, TreeId};
use saki_page::{FormatError, InnerPage, LeafValue, OverflowRef, PageKind, key_bytes_max};
use saki_volume::PageWriter;

use crate::build::{Build, Upper, too_long};
use crate::error::TreeError;
use crate::fetch::{Ahead, Fetcher};
use crate::overflow;
use crate::read::{AheadError, descend, open_inner};
use crate::root::TreeRoot;
use crate::sink::PageSink;

use group::{Child, ChildGroup, Group, LeafGroup};

/// What becomes of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'c> {
    pub key: &'c [u8],
    /// The key's new value; none removes the key.
    pub value: Option<&'c [u8]>,
}

/// A tree after changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    pub root: TreeRoot,
    /// Pages of the old tree that the new one does not use.
    pub freed: Vec<PageAddress>,
    /// Keys that were not there before.
    pub inserted: u64,
    /// Keys that have a new value.
    pub replaced: u64,
    /// Keys that are gone. Removing an absent key counts nowhere.
    pub removed: u64,
}

/// What becomes of a change that meets an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The change takes effect.
    Change,
    /// The entry stays as it is; the change counts nowhere.
    Keep,
}

/// Told the number of a change whose key is there, and the value it has, in ascending order; decides what becomes of
/// it.
pub type Met<'m> = dyn FnMut(usize, &[u8]) -> Effect + 'm;

/// Applies changes in strictly ascending key order to a tree. The new pages can be read at once.
///
/// # Errors
/// `OutOfOrder`, `DuplicateKey` and `KeyTooLong` are found before anything is read; after any other error the new
/// pages are of no use and the writer should be dropped.
pub fn apply(
    fetcher: &mut Fetcher,
    writer: &mut PageWriter,
    tree: &TreeRoot,
    changes: &[Change<'_>],
) -> Result<Applied, TreeError> {
    apply_met(fetcher, writer, tree, changes, None)
}

/// As [`apply`], telling `met` of every entry that a change meets: whoever needs old values has them from the visit
/// that replaces them, and need not look them up.
///
/// # Errors
/// As [`apply`].
pub fn apply_met(
    fetcher: &mut Fetcher,
    writer: &mut PageWriter,
    tree: &TreeRoot,
    changes: &[Change<'_>],
    met: Option<&mut Met<'_>>,
) -> Result<Applied, TreeError> {
    check(tree.id, changes, fetcher, writer)?;
    let page_size = fetcher.page_size();
    let mut applied = Applied { root: *tree, freed: Vec::new(), inserted: 0, replaced: 0, removed: 0 };
    if changes.is_empty() {
        return Ok(applied);
    }
    let Some(root) = tree.root else {
        let mut build = Build::new(page_size, tree.id);
        for change in changes {
            if let Some(value) = change.value {
                build.push(writer, change.key, value)?;
            }
        }
        applied.root = build.finish(writer)?;
        applied.inserted = applied.root.entries;
        writer.settle()?;
        return Ok(applied);
    };
    let all = 0..changes.len();
    let ahead = Ahead::new(root, tree.height - 1, all.clone(), usize::MAX);
    let sink = PageSink::replacing(page_size, tree.id, fetcher.cache());
    let root_heat = fetcher.heat(root);
    let mut work = Apply {
        changes,
        tree: tree.id,
        fetcher,
        writer,
        sink,
        ahead,
        met,
        old: Vec::new(),
        applied: &mut applied,
        gone: Gone::default(),
    };
    let replaced = work.children(tree.height - 1, vec![Child { separator: Vec::new(), page: root }], all, None)?;
    let mut upper = Upper::new(tree.id, page_size, tree.height - 1);
    work.sink.heat = root_heat;
    for child in &replaced {
        upper.push(&mut work.sink, work.writer, &child.separator, child.page)?;
    }
    let mut top = upper.finish(&mut work.sink, work.writer)?;
    work.writer.settle()?;
    while let Some((page, level)) = top
        && let Some(only) = work.only_child(page, level)?
    {
        top = Some((only, level - 1));
    }
    let Apply { sink, gone, .. } = work;
    let changed = applied.inserted + applied.replaced + applied.removed;
    assert!(changed <= changes.len() as u64, "{changed} keys changed by {} changes", changes.len());
    applied.root = root_after(tree, top, &applied, &sink, &gone);
    Ok(applied)
}

/// The root of a changed tree, whose topmost page and its level are `top`. A damaged tree may hold less than it counts.
fn root_after(
    tree: &TreeRoot,
    top: Option<(PageRef, u8)>,
    applied: &Applied,
    sink: &PageSink,
    gone: &Gone,
) -> TreeRoot {
    TreeRoot {
        id: tree.id,
        root: top.map(|(page, _)| page),
        height: top.map_or(0, |(_, level)| level + 1),
        entries: (tree.entries + applied.inserted).saturating_sub(applied.removed),
        leaf_pages: (tree.leaf_pages + sink.leaf_pages).saturating_sub(gone.leaf_pages),
        inner_pages: (tree.inner_pages + sink.inner_pages).saturating_sub(gone.inner_pages),
        overflow_pages: (tree.overflow_pages + sink.overflow_pages).saturating_sub(gone.overflow_pages),
    }
}

fn check(tree: TreeId, changes: &[Change<'_>], fetcher: &Fetcher, writer: &PageWriter) -> Result<(), TreeError> {
    assert_eq!(writer.page_bytes(), fetcher.page_size().bytes(), "the writer's page size");
    for pair in changes.windows(2) {
        if pair[0].key >= pair[1].key {
            let key = pair[1].key.to_vec();
            return Err(match pair[0].key == pair[1].key {
                true => TreeError::DuplicateKey { tree, key },
                false => TreeError::OutOfOrder { tree, previous: pair[0].key.to_vec(), key },
            });
        }
    }
    let page_size = fetcher.page_size();
    match changes.iter().find(|change| change.key.len() > key_bytes_max(page_size)) {
        Some(change) => Err(too_long(tree, change.key, page_size)),
        None => Ok(()),
    }
}

/// Pages of the old tree that the new one does not use.
#[derive(Default)]
pub(crate) struct Gone {
    leaf_pages: u64,
    inner_pages: u64,
    overflow_pages: u64,
}

pub(crate) struct Apply<'a, 'c, 'm> {
    pub changes: &'a [Change<'c>],
    pub tree: TreeId,
    pub fetcher: &'a mut Fetcher,
    pub writer: &'a mut PageWriter,
    pub sink: PageSink,
    /// The leaves that changes lead to, in order, each with its changes.
    ahead: Ahead<Range<usize>>,
    met: Option<&'a mut Met<'m>>,
    /// A value out of overflow pages, for `met`.
    old: Vec<u8>,
    pub applied: &'a mut Applied,
    gone: Gone,
}

impl Apply<'_, '_, '_> {
    /// Applies the changes of `range` to the children of one page; `level` is theirs. Returns the children
    /// that the page has then. `high`: the separator of what comes after the last child; none at the tree's right end.
    fn children(
        &mut self,
        level: u8,
        children: Vec<Child>,
        range: Range<usize>,
        high: Option<&[u8]>,
    ) -> Result<Vec<Child>, TreeError> {
        assert!(range.start <= range.end && range.end <= self.changes.len(), "changes {range:?} are not there");
        let page_size = self.fetcher.page_size();
        match level {
            0 => self.siblings(level, children, range, high, LeafGroup::new(page_size, self.tree)),
            _ => self.siblings(level, children, range, high, ChildGroup::new(page_size, self.tree, level)),
        }
    }

    fn siblings<G: Load>(
        &mut self,
        level: u8,
        children: Vec<Child>,
        range: Range<usize>,
        high: Option<&[u8]>,
        mut group: G,
    ) -> Result<Vec<Child>, TreeError> {
        let mut replaced = Vec::with_capacity(children.len() + 1);
        // The separator of the group's first page.
        let mut separator: Option<Vec<u8>> = None;
        // That of the warmest page whose content is in the group.
        let mut heat = 0;
        let mut from = range.start;
        let mut children = children.into_iter().peekable();
        while let Some(child) = children.next() {
            let until = match children.peek() {
                None => range.end,
                Some(next) => {
                    from + self.changes[from..range.end].partition_point(|c| c.key < next.separator.as_slice())
                }
            };
            let mine = from..until;
            from = until;
            let alone = group.is_empty();
            if mine.is_empty() && alone {
                replaced.push(child);
                continue;
            }
            let own_heat = self.fetcher.heat(child.page);
            heat = if alone { own_heat } else { own_heat.max(heat) };
            self.sink.heat = heat;
            let last = children.peek().is_none();
            let bound = children.peek().map_or(high, |next| Some(&next.separator));
            let loaded = group.load(self, level, &child, mine, bound)?;
            if let Loaded::Replaced(page) = loaded {
                self.applied.freed.push(child.page.address);
                self.gone.leaf_pages += 1;
                replaced.push(Child { separator: child.separator, page });
                continue;
            }
            if alone && loaded == Loaded::Unchanged {
                // Removals of absent keys only.
                group.clear();
                replaced.push(child);
                continue;
            }
            self.applied.freed.push(child.page.address);
            match level {
                0 => self.gone.leaf_pages += 1,
                _ => self.gone.inner_pages += 1,
            }
            if group.is_empty() {
                continue;
            }
            let first = separator.take().unwrap_or(child.separator);
            if !last && group.is_under_full() {
                separator = Some(first);
                continue;
            }
            let even = loaded != Loaded::Appended;
            // Pages below have been written meanwhile.
            self.sink.heat = heat;
            group.cut(first, even, &mut self.sink, self.writer, &mut replaced)?;
        }
        Ok(replaced)
    }

    /// The child of a page that has no other; the page is freed. None for leaves.
    fn only_child(&mut self, page: PageRef, level: u8) -> Result<Option<PageRef>, TreeError> {
        if level == 0 {
            return Ok(None);
        }
        let only = descend(self.fetcher, self.tree, page, |bytes, expected| {
            let view = open_inner(bytes, expected, level)?;
            Ok((view.count() == 1).then(|| view.child(0)))
        })?;
        if only.is_some() {
            self.applied.freed.push(page.address);
            self.gone.inner_pages += 1;
        }
        Ok(only)
    }

    /// Waits for the next leaf that changes lead to; those behind it are asked for.
    pub(crate) fn await_leaf(&mut self) -> Result<(), TreeError> {
        let (changes, tree) = (self.changes, self.tree);
        let expected = self.fetcher.expectation(tree);
        let mut separator = Vec::new();
        let next = self.ahead.next(self.fetcher, |bytes, page, level, range, children| {
            let view = open_inner(bytes, expected, level).map_err(|error| AheadError::Malformed(page, error))?;
            let mut from = range.start;
            while from < range.end {
                let child = view.child_for(changes[from].key);
                let mut until = range.end;
                if child + 1 < view.count() {
                    view.separator_into(child + 1, &mut separator);
                    until = from + changes[from..range.end].partition_point(|c| c.key < separator.as_slice());
                }
                // At least one, whatever a malformed page says.
                until = until.max(from + 1);
                children.push((view.child(child), from..until));
                from = until;
            }
            Ok::<(), AheadError>(())
        });
        next.map(drop).map_err(|error| error.of(tree, self.fetcher))
    }

    /// What becomes of a change that meets an entry with this value.
    pub(crate) fn meet(&mut self, change: usize, value: LeafValue<'_>) -> Result<Effect, TreeError> {
        let Some(met) = &mut self.met else { return Ok(Effect::Change) };
        Ok(match value {
            LeafValue::Inline(value) => met(change, value),
            LeafValue::Overflow(overflow) => {
                overflow::read(self.fetcher, self.tree, overflow, &mut self.old)?;
                met(change, &self.old)
            }
        })
    }

    /// Counts the pages of a value as freed.
    pub(crate) fn free_overflow(&mut self, overflow: OverflowRef) -> Result<(), TreeError> {
        let before = self.applied.freed.len();
        overflow::list(self.fetcher, self.tree, overflow, &mut self.applied.freed)?;
        self.gone.overflow_pages += (self.applied.freed.len() - before) as u64;
        Ok(())
    }
}

/// What loading a child into a group found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loaded {
    Unchanged,
    Changed,
    /// Everything new comes after everything old, at the tree's right end.
    Appended,
    /// The group is as it was: another leaf, written already, takes the child's place.
    Replaced(PageRef),
}

/// Groups that can take in a child's content, with changes applied.
pub(crate) trait Load: Group {
    fn load(
        &mut self,
        apply: &mut Apply<'_, '_, '_>,
        level: u8,
        child: &Child,
        changes: Range<usize>,
        high: Option<&[u8]>,
    ) -> Result<Loaded, TreeError>;
}

impl Load for ChildGroup {
    fn load(
        &mut self,
        apply: &mut Apply<'_, '_, '_>,
        level: u8,
        child: &Child,
        changes: Range<usize>,
        high: Option<&[u8]>,
    ) -> Result<Loaded, TreeError> {
        let children = descend(apply.fetcher, apply.tree, child.page, |bytes, expected| {
            let view = open_inner(bytes, expected, level)?;
            view.verify()?;
            let children = children_of(&view, &child.separator);
            let last = children.last().filter(|_| children.len() > 1).map(|last| last.separator.as_slice());
            let first = children.get(1).map(|first| first.separator.as_slice());
            within(PageKind::Inner, first.is_none_or(|first| first > &*child.separator), last, high)?;
            Ok(children)
        })?;
        if changes.is_empty() {
            self.extend(children);
            return Ok(Loaded::Unchanged);
        }
        let before = apply.applied.freed.len();
        self.extend(apply.children(level - 1, children, changes, high)?);
        Ok(match apply.applied.freed.len() == before {
            true => Loaded::Unchanged,
            false if high.is_none() => Loaded::Appended,
            false => Loaded::Changed,
        })
    }
}

/// Checks that a page keeps within its parents' separators: what is built from its content relies on the order.
pub(crate) fn within(
    kind: PageKind,
    above_low: bool,
    last: Option<&[u8]>,
    high: Option<&[u8]>,
) -> Result<(), FormatError> {
    let below_high = last.is_none_or(|last| high.is_none_or(|high| last < high));
    if above_low && below_high {
        return Ok(());
    }
    Err(FormatError::Malformed { kind, at: 0, reason: "keys are not within the separators of its parents" })
}

fn children_of(view: &InnerPage<'_>, first_separator: &[u8]) -> Vec<Child> {
    let child = |index| {
        let mut separator = Vec::new();
        match index {
            0 => separator.extend_from_slice(first_separator),
            _ => view.separator_into(index, &mut separator),
        }
        Child { separator, page: view.child(index) }
    };
    (0..view.count()).map(child).collect()
}
