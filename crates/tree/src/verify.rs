//! Walking a whole tree, with many reads in flight, to find everything that is wrong with it.
//!
//! Checked: every page's checksum against its parent, its kind, version, tree and level; its inner layout; keys
//! in order within pages, and within the bounds that the parents' separators set, which makes them ordered
//! between pages; overflow values' shape and length; that no page is referred to twice; and that entries and
//! pages are as many as the root says. What is *not* checked here: what rows mean (the caller's callback
//! does) and the live counts of chunks ([`LivePages::differences`] does, once all trees are walked).

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use saki_base::{PageAddress, PageRef, PartKind, TreeId};
use saki_page::{LeafPage, LeafValue, OverflowLayout, OverflowRef, PageError, PageExpectation};

use crate::fetch::Fetcher;
use crate::live::LivePages;
use crate::overflow::{self, Part};
use crate::read::open_inner;
use crate::root::TreeRoot;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub tree: TreeId,
    /// The page it was found in; none if it concerns the whole tree.
    pub page: Option<PageAddress>,
    /// Device and position of the page.
    pub device: String,
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.page {
            Some(page) => write!(f, "{}: {page} on {}: {}", self.tree, self.device, self.what),
            None => write!(f, "{}: {}", self.tree, self.what),
        }
    }
}

/// What a walk has seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// Everything that is wrong.
    pub faults: Vec<Fault>,
    pub entries: u64,
    pub leaf_pages: u64,
    pub inner_pages: u64,
    pub overflow_pages: u64,
}

impl Verification {
    pub fn pages(&self) -> u64 {
        self.leaf_pages + self.inner_pages + self.overflow_pages
    }
}

/// What the caller adds to a walk.
pub trait Inspect {
    /// Called for every entry, in no order, with its whole value; says what is wrong with it.
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), String>;

    /// Called every now and then, with the number of pages seen so far and of those that the root says there are.
    fn progress(&mut self, _pages: u64, _pages_expected: u64) {}
}

/// Looks at nothing.
pub struct NoInspection;

impl Inspect for NoInspection {
    fn entry(&mut self, _key: &[u8], _value: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// Pages between two calls of `progress`.
const PROGRESS_PAGES: u64 = 1024;
/// Memory for overflow values that are being put together, in bytes, about.
const ASSEMBLY_BYTES: u64 = 64 << 20;

/// Walks a tree; every page met is noted in `live`. Never fails: what cannot be read is a fault like any other.
pub fn verify(fetcher: &mut Fetcher, root: &TreeRoot, live: &mut LivePages, inspect: &mut dyn Inspect) -> Verification {
    let expected = fetcher.expectation(root.id);
    let mut walk = Walk {
        root,
        expected,
        live,
        inspect,
        seen: Verification::default(),
        found: Vec::new(),
        assemblies: HashMap::new(),
        next_assembly: 0,
    };
    if let Some(page) = root.root {
        let mut work = Vec::new();
        walk.meet(&mut work, page, page, Task::Node { level: root.height.saturating_sub(1), low: None, high: None });
        // Each leaf on its way may bring values that are held until their last page has come.
        let overflow_bytes = root.overflow_pages.saturating_mul(expected.page_size.bytes() as u64);
        let per_leaf = overflow_bytes / root.leaf_pages.max(1);
        let window = ASSEMBLY_BYTES.checked_div(per_leaf).map_or(usize::MAX, |leaves| leaves.max(16) as usize);
        let walked = fetcher.walk_within(window, &mut work, |work, page, task, bytes| {
            walk.visit(work, page, task, bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        match walked {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }
    walk.compare_counts();
    let Walk { mut seen, found, .. } = walk;
    seen.faults = found
        .into_iter()
        .map(|(page, what)| Fault {
            tree: root.id,
            page: page.map(|page| page.address),
            device: page.map_or_else(String::new, |page| fetcher.describe(page)),
            what,
        })
        .collect();
    seen
}

/// What a page met is expected to be.
#[derive(Clone)]
enum Task {
    /// A page of the tree, whose keys are at least `low` and below `high`.
    Node { level: u8, low: Option<Arc<[u8]>>, high: Option<Arc<[u8]>> },
    /// A page of an overflow value.
    Part { assembly: u64, length: u64, part: Part },
}

/// An overflow value being put together.
struct Assembly {
    key: Vec<u8>,
    leaf: PageRef,
    value: Vec<u8>,
    missing: u64,
}

struct Walk<'a> {
    root: &'a TreeRoot,
    expected: PageExpectation,
    live: &'a mut LivePages,
    inspect: &'a mut dyn Inspect,
    seen: Verification,
    /// Faults, before their pages' devices are looked up.
    found: Vec<(Option<PageRef>, String)>,
    assemblies: HashMap<u64, Assembly>,
    next_assembly: u64,
}

impl Walk<'_> {
    fn fault(&mut self, page: PageRef, what: impl fmt::Display) {
        self.found.push((Some(page), what.to_string()));
    }

    /// A reference to a page was read: it is to be visited, unless it was before.
    fn meet(&mut self, work: &mut Vec<(PageRef, Task)>, parent: PageRef, page: PageRef, task: Task) {
        let kind = match &task {
            Task::Node { level: 0, .. } => PartKind::Leaves,
            Task::Node { .. } => PartKind::Inner,
            Task::Part { .. } => PartKind::Overflow,
        };
        if self.live.insert(page.address, saki_base::Part::new(self.root.id, kind)) {
            work.push((page, task));
        } else {
            self.fault(parent, format_args!("refers to {}, which another page refers to as well", page.address));
        }
    }

    fn visit(&mut self, work: &mut Vec<(PageRef, Task)>, page: PageRef, task: Task, bytes: Result<&[u8], PageError>) {
        match &task {
            Task::Node { level: 0, .. } => self.seen.leaf_pages += 1,
            Task::Node { .. } => self.seen.inner_pages += 1,
            Task::Part { .. } => self.seen.overflow_pages += 1,
        }
        if self.seen.pages().is_multiple_of(PROGRESS_PAGES) {
            self.inspect.progress(self.seen.pages(), self.root.pages());
        }
        let looked = match bytes {
            Err(error) => Err(error.to_string()),
            Ok(bytes) => match task {
                Task::Node { level: 0, low, high } => self.leaf(work, page, bytes, low.as_deref(), high.as_deref()),
                Task::Node { level, low, high } => self.inner(work, page, bytes, level, low, high),
                Task::Part { assembly, length, part } => self.part(work, page, bytes, assembly, length, part),
            },
        };
        if let Err(what) = looked {
            self.fault(page, what);
        }
    }

    fn inner(
        &mut self,
        work: &mut Vec<(PageRef, Task)>,
        page: PageRef,
        bytes: &[u8],
        level: u8,
        low: Option<Arc<[u8]>>,
        high: Option<Arc<[u8]>>,
    ) -> Result<(), String> {
        let view = open_inner(bytes, self.expected, level).map_err(|error| error.to_string())?;
        view.verify().map_err(|error| error.to_string())?;
        let mut separators = Vec::with_capacity(view.count() + 1);
        let mut key = Vec::new();
        separators.push(low.clone());
        for child in 1..view.count() {
            view.separator_into(child, &mut key);
            if low.as_deref().is_some_and(|low| key.as_slice() < low)
                || high.as_deref().is_some_and(|high| key.as_slice() >= high)
            {
                self.fault(page, format_args!("separator {child} is not within the bounds that the parents set"));
            }
            separators.push(Some(Arc::from(key.as_slice())));
        }
        separators.push(high);
        for child in (0..view.count()).rev() {
            let task =
                Task::Node { level: level - 1, low: separators[child].clone(), high: separators[child + 1].clone() };
            self.meet(work, page, view.child(child), task);
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        work: &mut Vec<(PageRef, Task)>,
        page: PageRef,
        bytes: &[u8],
        low: Option<&[u8]>,
        high: Option<&[u8]>,
    ) -> Result<(), String> {
        let leaf = LeafPage::open(bytes, self.expected).map_err(|error| error.to_string())?;
        leaf.verify().map_err(|error| error.to_string())?;
        self.seen.entries += leaf.count() as u64;
        if leaf.count() == 0 {
            return Err("a leaf without entries".to_owned());
        }
        if low.is_some_and(|low| leaf.compare(0, low).is_lt()) {
            self.fault(page, "its first key is less than its separator");
        }
        if high.is_some_and(|high| leaf.compare(leaf.count() - 1, high).is_ge()) {
            self.fault(page, "its last key is not less than the next separator");
        }
        let mut key = Vec::new();
        for index in 0..leaf.count() {
            leaf.key_into(index, &mut key);
            match leaf.value(index) {
                LeafValue::Inline(value) => {
                    if let Err(what) = self.inspect.entry(&key, value) {
                        self.fault(page, format_args!("entry {index}: {what}"));
                    }
                }
                LeafValue::Overflow(overflow) => self.begin_value(work, page, &key, overflow),
            }
        }
        Ok(())
    }

    fn begin_value(&mut self, work: &mut Vec<(PageRef, Task)>, leaf: PageRef, key: &[u8], overflow: OverflowRef) {
        let layout = OverflowLayout::for_length(overflow.length, self.expected.page_size);
        let assembly = self.next_assembly;
        self.next_assembly += 1;
        let held = Assembly { key: key.to_vec(), leaf, value: Vec::new(), missing: layout.data_pages };
        self.assemblies.insert(assembly, held);
        let part = overflow::top(overflow, self.expected.page_size);
        self.meet(work, leaf, overflow.root, Task::Part { assembly, length: overflow.length, part });
    }

    fn part(
        &mut self,
        work: &mut Vec<(PageRef, Task)>,
        page: PageRef,
        bytes: &[u8],
        assembly: u64,
        length: u64,
        part: Part,
    ) -> Result<(), String> {
        if part.level > 0 {
            let mut children = Vec::new();
            overflow::children(bytes, self.expected, length, part, &mut children).map_err(|fault| fault.to_string())?;
            for (child, part) in children {
                self.meet(work, page, child, Task::Part { assembly, length, part });
            }
            return Ok(());
        }
        let piece = overflow::piece(bytes, self.expected, length, part).map_err(|fault| fault.to_string())?;
        let Some(held) = self.assemblies.get_mut(&assembly) else { return Ok(()) };
        overflow::place(piece, part, self.expected.page_size, &mut held.value);
        held.missing -= 1;
        if held.missing == 0 {
            let Assembly { key, leaf, value, .. } = self.assemblies.remove(&assembly).expect("just seen");
            if let Err(what) = self.inspect.entry(&key, &value) {
                self.fault(leaf, format_args!("an entry with an overflow value: {what}"));
            }
        }
        Ok(())
    }

    fn compare_counts(&mut self) {
        let counts = [
            ("entries", self.seen.entries, self.root.entries),
            ("leaf pages", self.seen.leaf_pages, self.root.leaf_pages),
            ("inner pages", self.seen.inner_pages, self.root.inner_pages),
            ("overflow pages", self.seen.overflow_pages, self.root.overflow_pages),
        ];
        for (what, found, promised) in counts {
            if found != promised {
                self.found.push((None, format!("the root says {promised} {what}, {found} were found")));
            }
        }
    }
}
