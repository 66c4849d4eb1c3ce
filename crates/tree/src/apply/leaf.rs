//! Changes to one leaf: found first, then made. A leaf that stays alone, with room for what comes, is made of the old
//! page by copying what lies between the changes; any other takes part in a group, entry by entry.

use std::ops::Range;

use saki_page::{Edit, LeafPage, LeafValue, PageKind, inline_value_bytes_max};

use super::group::{Child, Group, LeafGroup, is_under_full};
use super::{Apply, Effect, Load, Loaded, within};
use crate::error::TreeError;
use crate::read::descend;

/// A change that takes effect.
struct Found {
    change: usize,
    /// The entry with its key, or the one before which it belongs.
    at: usize,
    present: bool,
}

impl Load for LeafGroup {
    fn load(
        &mut self,
        apply: &mut Apply<'_, '_, '_>,
        _level: u8,
        child: &Child,
        changes: Range<usize>,
        high: Option<&[u8]>,
    ) -> Result<Loaded, TreeError> {
        if !changes.is_empty() {
            apply.await_leaf()?;
        }
        // A copy, so that no frame is held while overflow values are read and written.
        let mut page = std::mem::take(&mut self.page);
        let loaded = copy_page(apply, child, high, &mut page).and_then(|()| {
            let expected = apply.fetcher.expectation(apply.tree);
            let leaf = LeafPage::open(&page, expected).expect("opened when it was copied");
            let found = find(apply, &leaf, changes, high)?;
            if self.is_empty()
                && let Some(loaded) = patch(apply, &leaf, &found.0)?
            {
                return Ok(loaded);
            }
            leaf.verify().map_err(|error| {
                TreeError::malformed(apply.tree, child.page, apply.fetcher.describe(child.page), error)
            })?;
            self.take_in(apply, &leaf, &found.0)?;
            Ok(match found {
                (found, _) if found.is_empty() => Loaded::Unchanged,
                (_, true) => Loaded::Appended,
                (_, false) => Loaded::Changed,
            })
        });
        self.page = page;
        loaded
    }
}

/// Replaces `page` by a child's bytes.
fn copy_page(
    apply: &mut Apply<'_, '_, '_>,
    child: &Child,
    high: Option<&[u8]>,
    page: &mut Vec<u8>,
) -> Result<(), TreeError> {
    descend(apply.fetcher, apply.tree, child.page, |bytes, expected| {
        let leaf = LeafPage::open(bytes, expected)?;
        if let Some(last) = leaf.count().checked_sub(1) {
            let below_high = high.is_none_or(|high| leaf.compare(last, high).is_lt());
            within(PageKind::Leaf, leaf.compare(0, &child.separator).is_ge() && below_high, None, None)?;
        }
        page.clear();
        page.extend_from_slice(bytes);
        Ok(())
    })
}

/// The changes that take effect, counted; and whether all of them come behind the tree's last entry.
fn find(
    apply: &mut Apply<'_, '_, '_>,
    leaf: &LeafPage<'_>,
    changes: Range<usize>,
    high: Option<&[u8]>,
) -> Result<(Vec<Found>, bool), TreeError> {
    let all = apply.changes;
    let mut found = Vec::with_capacity(changes.len());
    let mut next = 0;
    for change in changes {
        let at = leaf.lower_bound(all[change].key).max(next);
        let present = at < leaf.count() && leaf.compare(at, all[change].key).is_eq();
        next = at;
        if present {
            let old = leaf.value(at);
            if apply.meet(change, old)? == Effect::Keep {
                continue;
            }
            next = at + 1;
            if let LeafValue::Overflow(overflow) = old {
                apply.free_overflow(overflow)?;
            }
        }
        match (present, all[change].value) {
            (false, None) => continue,
            (true, None) => apply.applied.removed += 1,
            (false, Some(_)) => apply.applied.inserted += 1,
            (true, Some(_)) => apply.applied.replaced += 1,
        }
        found.push(Found { change, at, present });
    }
    let behind = high.is_none() && leaf.count() > 0 && found.first().is_some_and(|first| first.at == leaf.count());
    Ok((found, behind))
}

/// Writes the leaf with the changes made, if it can be made of the old one.
fn patch(apply: &mut Apply<'_, '_, '_>, leaf: &LeafPage<'_>, found: &[Found]) -> Result<Option<Loaded>, TreeError> {
    let all = apply.changes;
    let page_size = apply.fetcher.page_size();
    if found.is_empty() {
        return Ok(Some(Loaded::Unchanged));
    }
    let inline = |found: &Found| all[found.change].value.is_none_or(|v| v.len() <= inline_value_bytes_max(page_size));
    if !found.iter().all(inline) {
        return Ok(None);
    }
    let edit = |Found { change, at, present }: &Found| Edit {
        at: *at,
        removes: *present,
        puts: all[*change].value.map(|value| (all[*change].key, value)),
    };
    let edits: Vec<Edit<'_>> = found.iter().map(edit).collect();
    let page = apply.sink.patched(apply.writer, |page| {
        leaf.patch(&edits, page).is_some_and(|used| !is_under_full(used, page_size.bytes()))
    })?;
    Ok(page.map(Loaded::Replaced))
}

impl LeafGroup {
    /// Takes in a leaf's entries with the changes made.
    fn take_in(
        &mut self,
        apply: &mut Apply<'_, '_, '_>,
        leaf: &LeafPage<'_>,
        found: &[Found],
    ) -> Result<(), TreeError> {
        let all = apply.changes;
        let mut next = 0;
        for Found { change, at, present } in found {
            self.copy(leaf, next..*at);
            if let Some(value) = all[*change].value {
                self.push(all[*change].key, value, &mut apply.sink, apply.writer)?;
            }
            next = at + usize::from(*present);
        }
        self.copy(leaf, next..leaf.count());
        Ok(())
    }
}
