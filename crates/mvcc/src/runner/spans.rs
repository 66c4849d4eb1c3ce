//! Ranges of keys of many indexes, so that whether a key lies in any of them is found at once.

use std::ops::Bound;

use hashbrown::HashTable;

/// A range of keys of the index at an address.
#[derive(Clone, Copy)]
pub struct Span<'k> {
    pub index: usize,
    pub lower: Bound<&'k [u8]>,
    pub upper: Bound<&'k [u8]>,
}

/// Which of some ranges a key lies in; the ranges themselves are with the caller, by their positions.
#[derive(Default)]
pub struct Spans {
    /// Those of one key.
    points: HashTable<u32>,
    /// The others, by their indexes and lower bounds.
    sorted: Vec<u32>,
    /// Of each of these, and all before it of the same index, the one that reaches furthest.
    furthest: Vec<u32>,
}

impl Spans {
    pub fn new<'k>(count: usize, span: impl Fn(u32) -> Span<'k>) -> Self {
        let hash = |position: &u32| hash_of(span(*position).index, span(*position).point().unwrap_or_default());
        let all = 0..u32::try_from(count).expect("so many ranges are more than memory has room for");
        let (points, mut sorted): (Vec<_>, Vec<_>) = all.partition(|position| span(*position).point().is_some());
        let mut by_key = HashTable::with_capacity(points.len());
        for position in points {
            by_key.insert_unique(hash(&position), position, hash);
        }
        // What is read one after the other is in order already, as a rule.
        sorted.sort_by(|one, other| span(*one).order().cmp(&span(*other).order()));
        let mut furthest: Vec<u32> = Vec::with_capacity(sorted.len());
        for position in &sorted {
            let before = furthest.last().copied().filter(|before| span(*before).index == span(*position).index);
            let reach = |position: u32| reach_of(span(position).upper);
            furthest.push(before.filter(|before| reach(*before) >= reach(*position)).unwrap_or(*position));
        }
        Self { points: by_key, sorted, furthest }
    }

    /// Whether a key of an index lies in one of the ranges, which are those that this was made of.
    pub fn have<'k>(&self, index: usize, key: &[u8], span: impl Fn(u32) -> Span<'k>) -> bool {
        let is_point = |position: &u32| span(*position).index == index && span(*position).point() == Some(key);
        if self.points.find(hash_of(index, key), is_point).is_some() {
            return true;
        }
        let begins = |position: &u32| {
            let Span { index: of, lower, .. } = span(*position);
            of < index || of == index && is_above(key, lower)
        };
        let begun = self.sorted.partition_point(begins);
        let Some(furthest) = begun.checked_sub(1).map(|last| span(self.furthest[last])) else { return false };
        furthest.index == index && is_below(key, furthest.upper)
    }
}

impl<'k> Span<'k> {
    fn point(self) -> Option<&'k [u8]> {
        match (self.lower, self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) if lower == upper => Some(lower),
            _ => None,
        }
    }

    /// By which ranges are sorted.
    fn order(self) -> (usize, bool, &'k [u8], bool) {
        match self.lower {
            Bound::Unbounded => (self.index, false, &[], false),
            Bound::Included(key) => (self.index, true, key, false),
            Bound::Excluded(key) => (self.index, true, key, true),
        }
    }
}

/// How far an upper bound reaches.
fn reach_of(upper: Bound<&[u8]>) -> (bool, &[u8], bool) {
    match upper {
        Bound::Excluded(key) => (false, key, false),
        Bound::Included(key) => (false, key, true),
        Bound::Unbounded => (true, &[], true),
    }
}

fn is_above(key: &[u8], lower: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => lower <= key,
        Bound::Excluded(lower) => lower < key,
    }
}

fn is_below(key: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => key <= upper,
        Bound::Excluded(upper) => key < upper,
    }
}

fn hash_of(index: usize, key: &[u8]) -> u64 {
    saki_base::checksum(key) ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use saki_base::Random;

    use super::*;

    #[test]
    fn a_bound_has_its_own_key_if_it_is_included() {
        let [below, own, above] = [b"a", b"b", b"c"].map(|key| key.as_slice());
        let has = |is_in: fn(&[u8], Bound<&[u8]>) -> bool, bound| [below, own, above].map(|key| is_in(key, bound));
        assert_eq!(has(is_below, Bound::Excluded(own)), [true, false, false]);
        assert_eq!(has(is_below, Bound::Included(own)), [true, true, false]);
        assert_eq!(has(is_above, Bound::Excluded(own)), [false, false, true]);
        assert_eq!(has(is_above, Bound::Included(own)), [false, true, true]);
        assert_eq!(has(is_below, Bound::Unbounded), has(is_above, Bound::Unbounded));
    }

    /// Random ranges, beside looking through all of them.
    #[test]
    fn a_key_is_found_in_the_ranges_that_have_it() {
        let mut random = Random::new(5);
        let mut found = [0, 0];
        for _ in 0..2_000 {
            let mut key = || vec![random.below(6) as u8; random.below(3) as usize];
            let keys: Vec<(Vec<u8>, Vec<u8>)> = (0..8).map(|_| (key(), key())).collect();
            let count = random.below(9) as usize;
            let kinds: Vec<_> = (0..8).map(|_| (random.below(2) as usize, random.below(3), random.below(3))).collect();
            let bound = |kind, key| match kind {
                0 => Bound::Unbounded,
                1 => Bound::Included(key),
                _ => Bound::Excluded(key),
            };
            let span = |position: u32| {
                let ((lower, upper), (index, above, below)) = (&keys[position as usize], kinds[position as usize]);
                Span { index, lower: bound(above, lower.as_slice()), upper: bound(below, upper.as_slice()) }
            };
            let spans = Spans::new(count, span);
            for index in 0..2 {
                for (key, _) in &keys {
                    let has =
                        |span: Span<'_>| span.index == index && is_above(key, span.lower) && is_below(key, span.upper);
                    let expected = (0..count as u32).any(|position| has(span(position)));
                    found[usize::from(expected)] += 1;
                    assert_eq!(spans.have(index, key, span), expected, "{index} {key:?} {keys:?} {kinds:?}");
                }
            }
        }
        assert!(found[0] > 1_000 && found[1] > 1_000, "{found:?}");
    }
}
