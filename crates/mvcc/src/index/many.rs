//! Many lookups at once, so that their waits for memory overlap.

use super::node::Node;
use super::node::latch::Restart;
use super::path::enter;
use super::search::{child_of, locate};
use super::{Index, Observed};
use crate::epoch::Pin;

/// Lookups under way at a time: as many as memory serves at once, about.
pub const LANES: usize = 16;

/// A lookup on its way: the node it goes to, whose lines have been asked for, and the node it comes from.
#[derive(Clone, Copy)]
struct Lane {
    from: Node,
    version: u64,
    to: Node,
}

impl Index {
    /// The values of `keys`.
    ///
    /// # Panics
    /// If there are fewer places in `out` than keys.
    pub fn get_many(&self, keys: &[&[u8]], out: &mut [Option<u64>], pin: &Pin<'_>) {
        let out = &mut out[..keys.len()];
        self.get_many_observed(keys.len(), |at| keys[at], |at, value, _| out[at] = value, pin);
    }

    /// Looks up the keys `key(0)` to `key(count - 1)`, and tells `found` of each its place among them, its value and
    /// the leaf where it is or would be, in no order.
    pub fn get_many_observed<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        mut found: impl FnMut(usize, Option<u64>, Observed),
        pin: &Pin<'_>,
    ) {
        for start in (0..count).step_by(LANES) {
            let lanes = (count - start).min(LANES);
            let late = self.walk_together(
                lanes,
                |lane| key(start + lane),
                |lane, value, leaf| found(start + lane, value, leaf),
            );
            for lane in (0..lanes).filter(|lane| late & 1 << lane != 0) {
                let (value, leaf) = self.get_observed(key(start + lane), pin);
                found(start + lane, value, leaf);
            }
        }
    }

    /// One level after the other, all keys on each. Returns the bits of those that met a writer.
    #[inline]
    fn walk_together<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        mut found: impl FnMut(usize, Option<u64>, Observed),
    ) -> u64 {
        let all = (1 << count) - 1;
        let Ok((root, version)) = self.root() else { return all };
        let height = root.shape().level();
        let mut late = 0;
        let mut lanes = [Lane { from: root, version, to: root }; LANES];
        for level in (1..=height).rev() {
            for (i, lane) in lanes[..count].iter_mut().enumerate() {
                match go_down(*lane, level, key(i)) {
                    Ok(next) => *lane = next,
                    Err(Restart) => late |= 1 << i,
                }
            }
        }
        for (i, lane) in lanes[..count].iter().enumerate() {
            if late & 1 << i != 0 {
                continue;
            }
            match resolve(*lane, key(i)) {
                Ok((value, leaf)) => found(i, value, leaf),
                Err(Restart) => late |= 1 << i,
            }
        }
        late
    }
}

#[inline(always)]
fn go_down(lane: Lane, level: usize, key: &[u8]) -> Result<Lane, Restart> {
    let (node, version) = enter(lane.from, lane.to, lane.version)?;
    let shape = node.shape();
    if shape.level() != level {
        // The root was replaced meanwhile, or this lane has failed before.
        return Err(Restart);
    }
    let to = node.child(shape, child_of(node, shape, key)?, version)?;
    Ok(Lane { from: node, version, to })
}

#[inline(always)]
fn resolve(lane: Lane, key: &[u8]) -> Result<(Option<u64>, Observed), Restart> {
    let (leaf, version) = enter(lane.from, lane.to, lane.version)?;
    let shape = leaf.shape();
    if shape.level() != 0 {
        return Err(Restart);
    }
    let place = locate(leaf, shape, key)?;
    let value = place.found.then(|| leaf.value(shape, place.at));
    leaf.validate(version)?;
    Ok((value, Observed { leaf, version }))
}
