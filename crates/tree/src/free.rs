//! Listing all pages of a tree, so that dropping it can free them.

use saki_base::{PageAddress, PageRef};
use saki_page::{LeafPage, LeafValue, OverflowRef};

use crate::error::TreeError;
use crate::fetch::Fetcher;
use crate::overflow::{self, Part};
use crate::read::open_inner;
use crate::root::TreeRoot;

/// The pages of a tree.
#[derive(Clone, Debug, Default)]
pub struct TreePages {
    pub pages: Vec<PageAddress>,
    /// Pages that could not be looked into: what lies below them is not listed, and stays taken if the rest is freed.
    pub unreadable: Vec<TreeError>,
}

#[derive(Clone)]
enum Task {
    Node { level: u8 },
    Part { length: u64, part: Part },
}

/// Lists every page of a tree, reading only inner pages; leaves too if the tree has overflow pages. A damaged
/// tree can be freed all the same: what is unreadable is reported beside the rest.
pub fn free_all(fetcher: &mut Fetcher, root: &TreeRoot) -> TreePages {
    let mut listed = TreePages::default();
    let Some(top) = root.root else { return listed };
    let tree = root.id;
    let expected = fetcher.expectation(tree);
    let last_level_read = u8::from(root.overflow_pages == 0);
    let mut faults: Vec<(PageRef, String)> = Vec::new();
    listed.pages.push(top.address);
    let mut work = Vec::new();
    if root.height > last_level_read {
        work.push((top, Task::Node { level: root.height - 1 }));
    }
    let walked = fetcher.walk(&mut work, |work, page, task, bytes| {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => {
                listed.unreadable.push(TreeError::Page { tree, error });
                return Ok(());
            }
        };
        let pages = &mut listed.pages;
        let looked = match task {
            Task::Node { level: 0 } => LeafPage::open(bytes, expected).map_err(|error| error.to_string()).map(|leaf| {
                for index in 0..leaf.count() {
                    if let LeafValue::Overflow(overflow) = leaf.value(index) {
                        pages.push(overflow.root.address);
                        value(work, overflow, expected.page_size);
                    }
                }
            }),
            Task::Node { level } => open_inner(bytes, expected, level).map_err(|error| error.to_string()).map(|view| {
                for child in (0..view.count()).map(|child| view.child(child)) {
                    pages.push(child.address);
                    if level > last_level_read {
                        work.push((child, Task::Node { level: level - 1 }));
                    }
                }
            }),
            Task::Part { length, part } => {
                let mut children = Vec::new();
                overflow::children(bytes, expected, length, part, &mut children).map_err(|fault| fault.to_string()).map(
                    |()| {
                        for (child, part) in children {
                            pages.push(child.address);
                            if part.level > 0 {
                                work.push((child, Task::Part { length, part }));
                            }
                        }
                    },
                )
            }
        };
        if let Err(what) = looked {
            faults.push((page, what));
        }
        Ok::<(), std::convert::Infallible>(())
    });
    match walked {
        Ok(()) => {}
        Err(never) => match never {},
    }
    let malformed = |(page, what)| TreeError::Malformed { tree, page, device: fetcher.describe(page), what };
    listed.unreadable.extend(faults.into_iter().map(malformed));
    listed
}

/// Adds an overflow value's index pages to the walk; its data pages are listed by them.
fn value(work: &mut Vec<(PageRef, Task)>, overflow: OverflowRef, page_size: saki_base::PageSize) {
    let part = overflow::top(overflow, page_size);
    if part.level > 0 {
        work.push((overflow.root, Task::Part { length: overflow.length, part }));
    }
}
