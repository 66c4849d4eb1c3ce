//! Pages of ranges brought to memory, of many ranges together: those of a level are asked for at once, whatever ranges
//! and trees they are of, and arrive in any order.

use std::ops::Bound;

use saki_base::{PageRef, TreeId};
use saki_page::{FormatError, LeafPage, LeafValue, PageExpectation};

use super::reader::{AheadError, Bounds, TreeReader, open_inner};
use crate::error::TreeError;
use crate::fetch::Fetcher;
use crate::overflow::{self, Part};
use crate::root::TreeRoot;

/// A range of a tree whose first pages are wanted in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub tree: TreeRoot,
    pub low: Bound<Vec<u8>>,
    pub high: Bound<Vec<u8>>,
    /// Its last pages are.
    pub is_reverse: bool,
}

/// A range on the way down.
struct Descent {
    tree: TreeId,
    bounds: Bounds,
    is_reverse: bool,
    /// Of `pages`, of which there are no more than are wanted, in the order of reading.
    level: u8,
    pages: Vec<PageRef>,
}

/// What is looked at when a page arrives.
enum What {
    /// A page of a descent, both by number.
    Page(usize, usize),
    /// A page of a value of `length` bytes.
    Value { tree: TreeId, length: u64, part: Part },
}

impl Wanted {
    pub fn range(tree: &TreeRoot, (low, high): (Bound<&[u8]>, Bound<&[u8]>), is_reverse: bool) -> Self {
        Self { tree: *tree, low: low.map(<[u8]>::to_vec), high: high.map(<[u8]>::to_vec), is_reverse }
    }

    /// The way to a key.
    pub fn key(tree: &TreeRoot, key: &[u8]) -> Self {
        Self::range(tree, (Bound::Included(key), Bound::Included(key)), false)
    }
}

impl TreeReader {
    /// Brings to memory the first `leaves` leaves of each range, what leads to them, and values of these ranges that
    /// have pages of their own. Waits for storage once for each level.
    ///
    /// # Errors
    /// A page cannot be read, or is not what its parent says.
    pub fn bring(&mut self, wanted: &[Wanted], leaves: usize) -> Result<(), TreeError> {
        let mut descents: Vec<Descent> = wanted.iter().filter_map(Descent::new).collect();
        while !descents.is_empty() {
            let below = visit(self.fetcher(), &descents)?;
            for (descent, below) in descents.iter_mut().zip(below) {
                descent.go_down(below, leaves);
            }
            descents.retain(|descent| !descent.pages.is_empty());
        }
        Ok(())
    }
}

/// Looks at all pages of descents: the children that are wanted, by page.
fn visit(fetcher: &mut Fetcher, descents: &[Descent]) -> Result<Vec<Vec<Vec<PageRef>>>, TreeError> {
    let mut below: Vec<_> = descents.iter().map(|descent| vec![Vec::new(); descent.pages.len()]).collect();
    let mut work = Vec::new();
    for (number, descent) in descents.iter().enumerate() {
        work.extend(descent.pages.iter().enumerate().map(|(place, page)| (*page, What::Page(number, place))));
    }
    let page_size = fetcher.page_size();
    let walked = fetcher.walk(&mut work, |work, page, what, bytes| match what {
        What::Page(number, place) => {
            let descent = &descents[number];
            let bytes = bytes.map_err(|error| (descent.tree, error.into()))?;
            let expected = PageExpectation { page_size, tree: descent.tree };
            let looked = descent.look(bytes, expected, &mut below[number][place], work);
            looked.map_err(|error| (descent.tree, AheadError::Malformed(page, error)))
        }
        What::Value { tree, length, part } => {
            let bytes = bytes.map_err(|error| (tree, error.into()))?;
            let mut pages = Vec::new();
            // Whoever reads the value says what is wrong with it.
            if part.level > 0
                && overflow::children(bytes, PageExpectation { page_size, tree }, length, part, &mut pages).is_ok()
            {
                work.extend(pages.into_iter().map(|(page, part)| (page, What::Value { tree, length, part })));
            }
            Ok(())
        }
    });
    walked.map_err(|(tree, error)| error.of(tree, fetcher))?;
    Ok(below)
}

impl Descent {
    /// At the top; `None` in an empty tree.
    fn new(wanted: &Wanted) -> Option<Self> {
        let bounds = Bounds { low: wanted.low.clone(), high: wanted.high.clone() };
        let (tree, is_reverse) = (wanted.tree.id, wanted.is_reverse);
        wanted.tree.root.map(|page| Self { tree, bounds, is_reverse, level: wanted.tree.height - 1, pages: vec![page] })
    }

    /// Lists the children of an inner page, and the pages of the values of a leaf.
    fn look(
        &self,
        bytes: &[u8],
        expected: PageExpectation,
        below: &mut Vec<PageRef>,
        work: &mut Vec<(PageRef, What)>,
    ) -> Result<(), FormatError> {
        if self.level > 0 {
            let mut children = Vec::new();
            self.bounds.children(&open_inner(bytes, expected, self.level)?, &mut children);
            below.extend(children.into_iter().map(|(child, ())| child));
            return Ok(());
        }
        let leaf = LeafPage::open(bytes, expected)?;
        let (start, end) = self.bounds.entries(&leaf);
        for entry in start..end {
            if let LeafValue::Overflow(value) = leaf.value(entry) {
                let part = overflow::top(value, expected.page_size);
                work.push((value.root, What::Value { tree: self.tree, length: value.length, part }));
            }
        }
        Ok(())
    }

    /// Goes on with the children of its pages; of a leaf there are none.
    fn go_down(&mut self, mut below: Vec<Vec<PageRef>>, leaves: usize) {
        if self.is_reverse {
            below.iter_mut().for_each(|children| children.reverse());
        }
        self.pages = below.into_iter().flatten().take(leaves).collect();
        self.level = self.level.saturating_sub(1);
    }
}
