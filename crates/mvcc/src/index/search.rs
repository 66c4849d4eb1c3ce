//! Where in a node a key is.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use super::node::key::{leading, word_at};
use super::node::latch::Restart;
use super::node::{HEADER_WORDS, INLINE_BYTES, Node, Shape, heap_words};

/// The first entry that is not less than a key, and whether it is that key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) at: usize,
    pub(crate) found: bool,
}

/// Where `key` is among the entries that have keys.
///
/// # Errors
/// What was read cannot have been there at once. Not every such reading is noticed: the caller validates.
#[inline(always)]
pub(crate) fn locate(node: Node, shape: Shape, key: &[u8]) -> Result<Place, Restart> {
    if shape.prefix() > 0 {
        match compare_prefix(node, shape, key) {
            Ordering::Less => return Ok(Place { at: shape.first_keyed(), found: false }),
            Ordering::Greater => return Ok(Place { at: shape.count(), found: false }),
            Ordering::Equal => {}
        }
    }
    if shape.is_general() { locate_general(node, shape, key) } else { Ok(locate_uniform(node, shape, key)) }
}

/// The child whose keys may include `key`.
#[inline(always)]
pub(crate) fn child_of(node: Node, shape: Shape, key: &[u8]) -> Result<usize, Restart> {
    let place = locate(node, shape, key)?;
    Ok(if place.found { place.at } else { place.at - 1 })
}

/// How `key` compares with the prefix of the node: equal if it begins with it.
#[inline]
pub(crate) fn compare_prefix(node: Node, shape: Shape, key: &[u8]) -> Ordering {
    let prefix = shape.prefix();
    for start in (0..prefix).step_by(8) {
        let ours = leading(word_at(key, start), (prefix - start).min(8));
        let theirs = node.word(HEADER_WORDS + start / 8);
        if ours != theirs {
            return ours.cmp(&theirs);
        }
    }
    // Zeros that pad a short key look like zeros of the prefix.
    if key.len() < prefix { Ordering::Less } else { Ordering::Equal }
}

/// All keys have the same length, at most a head's, so of equal heads there is one.
#[inline(always)]
fn locate_uniform(node: Node, shape: Shape, key: &[u8]) -> Place {
    let head = word_at(key, shape.prefix());
    let at = first_not_less::<2>(node, shape, head);
    if at == shape.count() || node.word(shape.first() + at * 2) != head {
        return Place { at, found: false };
    }
    let length = key.len().wrapping_sub(shape.prefix());
    let order = length.cmp(&usize::from(shape.format()));
    Place { at: at + usize::from(order == Ordering::Greater), found: order == Ordering::Equal }
}

#[inline]
fn locate_general(node: Node, shape: Shape, key: &[u8]) -> Result<Place, Restart> {
    let head = word_at(key, shape.prefix());
    let first = first_not_less::<3>(node, shape, head);
    // Mostly one entry has this head, or none; where many do, the rest of the key halves them.
    let mut from = first;
    let mut to = first;
    while to < shape.count() && to < first + 4 && node.word(shape.first() + to * 3) == head {
        to += 1;
    }
    if to == first + 4 {
        to = head.checked_add(1).map_or(shape.count(), |next| first_not_less::<3>(node, shape, next));
    }
    while from < to {
        let middle = from.midpoint(to);
        match compare_behind_head(node, shape, middle, key)? {
            Ordering::Greater => from = middle + 1,
            Ordering::Equal => return Ok(Place { at: middle, found: true }),
            Ordering::Less => to = middle,
        }
    }
    Ok(Place { at: from, found: false })
}

/// The first entry whose head is not less than `head`: branchless, since the outcome of each comparison is a coin's.
#[inline(always)]
fn first_not_less<const STRIDE: usize>(node: Node, shape: Shape, head: u64) -> usize {
    let first = shape.first();
    let mut from = shape.first_keyed();
    let mut left = shape.count().saturating_sub(from);
    if left == 0 {
        return from;
    }
    while left > 1 {
        let half = left / 2;
        let is_less = node.word(first + (from + half - 1) * STRIDE) < head;
        from = select_unpredictable(is_less, from + half, from);
        left -= half;
    }
    from + usize::from(node.word(first + from * STRIDE) < head)
}

/// How `key` compares with entry `at`, whose head and prefix are equal to the key's.
fn compare_behind_head(node: Node, shape: Shape, at: usize, key: &[u8]) -> Result<Ordering, Restart> {
    let tail = node.tail(shape, at);
    let start = shape.prefix() + 8;
    let inline = (word_at(key, start) >> 32) as u32;
    if inline != tail.inline() {
        return Ok(inline.cmp(&tail.inline()));
    }
    // A key is at least as long as the prefix; behind its end it counts as zeros, as the entry does.
    let length = key.len().saturating_sub(shape.prefix());
    if length > INLINE_BYTES && tail.length() > INLINE_BYTES {
        for i in 0..heap_words(length.min(tail.length())) {
            let (ours, theirs) = (word_at(key, start + 4 + 8 * i), node.heap_word(shape, tail, i)?);
            if ours != theirs {
                return Ok(ours.cmp(&theirs));
            }
        }
    }
    Ok(length.cmp(&tail.length()))
}
