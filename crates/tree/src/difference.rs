//! What two versions of a tree have otherwise.
//!
//! Pages never change, and a changed tree shares those that the changes did not touch. So what is the same in both is
//! left out where it hangs together: level by level, from the top, the pages that both have are struck, and only what
//! is below the others is looked at. What is left are leaves of one version and leaves of the other, and their entries
//! are compared. So it takes as long as there are changed pages, and not as the tree is large.

use std::cmp::Ordering;
use std::collections::HashSet;

use saki_base::{PageRef, TreeId};
use saki_page::{LeafPage, LeafValue};

use crate::error::TreeError;
use crate::fetch::{Ahead, Fetcher};
use crate::overflow;
use crate::read::{AheadError, TreeReader, descend, open_inner};
use crate::root::TreeRoot;

/// Leaves that are asked for at first.
const REACH_FIRST: usize = 32;

/// A key that one version has otherwise than the other; at least one of them has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Differing<'d> {
    pub key: &'d [u8],
    /// What the older version has at the key.
    pub old: Option<&'d [u8]>,
    /// What the newer one has.
    pub new: Option<&'d [u8]>,
}

/// The keys that two versions of a tree have otherwise, in order.
pub struct TreeDifference<'r> {
    fetcher: &'r mut Fetcher,
    old: Side,
    new: Side,
    /// Which of the sides were shown last, and are to go on.
    shown: [bool; 2],
}

impl TreeReader {
    /// What `new` has otherwise than `old`, an earlier version of the same tree. Its pages must still be there: the
    /// generation that has them is to be held. Reads the inner pages that differ before it returns.
    ///
    /// # Errors
    /// Of pages that cannot be read.
    pub fn difference(&mut self, old: &TreeRoot, new: &TreeRoot) -> Result<TreeDifference<'_>, TreeError> {
        let fetcher = self.fetcher();
        let [old, new] = changed_leaves(fetcher, [old, new])?;
        let mut difference = TreeDifference { fetcher, old, new, shown: [false; 2] };
        difference.old.advance(difference.fetcher)?;
        difference.new.advance(difference.fetcher)?;
        Ok(difference)
    }
}

impl TreeDifference<'_> {
    /// The next one, borrowed until the next call.
    ///
    /// # Errors
    /// As [`TreeReader::difference`].
    #[expect(clippy::should_implement_trait, reason = "lends from itself, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<Differing<'_>>, TreeError> {
        let Self { fetcher, old, new, shown } = self;
        loop {
            let [old_goes_on, new_goes_on] = std::mem::take(shown);
            if old_goes_on {
                old.advance(fetcher)?;
            }
            if new_goes_on {
                new.advance(fetcher)?;
            }
            let order = match (old.is_there, new.is_there) {
                (false, false) => return Ok(None),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => old.key.cmp(&new.key),
            };
            *shown = [order.is_le(), order.is_ge()];
            if order.is_ne() || old.value != new.value {
                break;
            }
        }
        let key = if shown[0] { &old.key } else { &new.key };
        Ok(Some(Differing { key, old: shown[0].then_some(&*old.value), new: shown[1].then_some(&*new.value) }))
    }
}

/// The leaves that only one of two versions has.
fn changed_leaves(fetcher: &mut Fetcher, trees: [&TreeRoot; 2]) -> Result<[Side; 2], TreeError> {
    let mut pages: [Vec<PageRef>; 2] = Default::default();
    for level in (0..trees[0].height.max(trees[1].height)).rev() {
        for (tree, pages) in trees.iter().zip(&mut pages) {
            if tree.height == level + 1 {
                pages.extend(tree.root);
            }
        }
        let [old, new] = &mut pages;
        let known: HashSet<PageRef> = old.iter().copied().collect();
        let both: HashSet<PageRef> = new.iter().copied().filter(|page| known.contains(page)).collect();
        old.retain(|page| !both.contains(page));
        new.retain(|page| !both.contains(page));
        if level > 0 {
            for (tree, pages) in trees.iter().zip(&mut pages) {
                *pages = children(fetcher, tree.id, level, pages)?;
            }
        }
    }
    let [old, new] = pages;
    Ok([Side::new(trees[0].id, old), Side::new(trees[1].id, new)])
}

/// The children of inner pages of one level, in order.
fn children(fetcher: &mut Fetcher, tree: TreeId, level: u8, pages: &[PageRef]) -> Result<Vec<PageRef>, TreeError> {
    let mut children = Vec::new();
    for page in pages {
        descend(fetcher, tree, *page, |bytes, expected| {
            let view = open_inner(bytes, expected, level)?;
            children.extend((0..view.count()).map(|child| view.child(child)));
            Ok(())
        })?;
    }
    Ok(children)
}

/// Entries of some leaves of a tree, one after the other.
struct Side {
    tree: TreeId,
    leaves: Ahead<()>,
    /// A copy of the leaf being read.
    leaf: Vec<u8>,
    next: usize,
    end: usize,
    /// Whether there is an entry, `key` and `value`.
    is_there: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Side {
    fn new(tree: TreeId, leaves: Vec<PageRef>) -> Self {
        let leaves = Ahead::of_leaves(leaves, (), REACH_FIRST);
        let (leaf, key, value) = Default::default();
        Self { tree, leaves, leaf, next: 0, end: 0, is_there: false, key, value }
    }

    /// Goes on to the next entry, if there is one.
    fn advance(&mut self, fetcher: &mut Fetcher) -> Result<(), TreeError> {
        while self.next == self.end {
            let next = self.leaves.next(fetcher, |_, _, _, (), _| Ok::<(), AheadError>(()));
            let Some((page, ())) = next.map_err(|error| error.of(self.tree, fetcher))? else {
                self.is_there = false;
                return Ok(());
            };
            let leaf = &mut self.leaf;
            self.end = descend(fetcher, self.tree, page, |bytes, expected| {
                let view = LeafPage::open(bytes, expected)?;
                leaf.clear();
                leaf.extend_from_slice(bytes);
                Ok(view.count())
            })?;
            self.next = 0;
        }
        let leaf = LeafPage::open(&self.leaf, fetcher.expectation(self.tree)).expect("opened when it was copied");
        leaf.key_into(self.next, &mut self.key);
        match leaf.value(self.next) {
            LeafValue::Inline(value) => {
                self.value.clear();
                self.value.extend_from_slice(value);
            }
            LeafValue::Overflow(reference) => overflow::read(fetcher, self.tree, reference, &mut self.value)?,
        }
        (self.is_there, self.next) = (true, self.next + 1);
        Ok(())
    }
}
