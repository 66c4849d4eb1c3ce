//! What one map has otherwise than another, at the cost of what that is.

use std::cmp::Ordering;
use std::sync::Arc;

use super::SharedMap;
use super::node::{Link, Node};

/// Part of a map that is still to be compared.
enum Part<'m, K, V> {
    Tree(&'m Arc<Node<K, V>>),
    Entry(&'m Node<K, V>),
}

/// The parts of a map in the order of keys, the next one last.
struct Parts<'m, K, V>(Vec<Part<'m, K, V>>);

impl<'m, K, V> Parts<'m, K, V> {
    fn of(link: &'m Link<K, V>) -> Self {
        Self(link.iter().map(Part::Tree).collect())
    }

    /// Puts what it is made of in the place of the next part, a tree.
    fn open(&mut self) {
        let Some(Part::Tree(node)) = self.0.pop() else { return };
        self.0.extend(node.right.iter().map(Part::Tree));
        self.0.push(Part::Entry(node));
        self.0.extend(node.left.iter().map(Part::Tree));
    }
}

/// What a key has in the older map, and in the newer one; at least one of the two is there.
pub type Differing<'m, V> = (Option<&'m V>, Option<&'m V>);

impl<K: Ord, V> SharedMap<K, V> {
    /// The values that are not the same as in an older version, in the order of keys. Trees that both have are not
    /// looked into: if one came of the other by d changes of n entries, about d log n of them are seen.
    pub fn differing<'m>(&'m self, older: &'m Self, is_same: impl Fn(&V, &V) -> bool) -> Vec<Differing<'m, V>> {
        let (mut old, mut new, mut found) = (Parts::of(&older.root), Parts::of(&self.root), Vec::new());
        loop {
            let order = match (old.0.last(), new.0.last()) {
                (None, None) => return found,
                (Some(Part::Tree(left)), Some(Part::Tree(right))) => {
                    if Arc::ptr_eq(left, right) {
                        old.0.pop();
                        new.0.pop();
                        continue;
                    }
                    // The larger one, so that those that both have come to be the next of both.
                    let (is_left, is_right) = (left.size >= right.size, right.size >= left.size);
                    if is_left {
                        old.open();
                    }
                    if is_right {
                        new.open();
                    }
                    continue;
                }
                (Some(Part::Tree(_)), _) => {
                    old.open();
                    continue;
                }
                (_, Some(Part::Tree(_))) => {
                    new.open();
                    continue;
                }
                (Some(Part::Entry(left)), Some(Part::Entry(right))) => left.key.cmp(&right.key),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let before = if order.is_le() { value(old.0.pop()) } else { None };
            let after = if order.is_ge() { value(new.0.pop()) } else { None };
            if !before.zip(after).is_some_and(|(before, after)| is_same(before, after)) {
                found.push((before, after));
            }
        }
    }
}

fn value<'m, K, V>(part: Option<Part<'m, K, V>>) -> Option<&'m V> {
    match part? {
        Part::Entry(node) => Some(&node.value),
        Part::Tree(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_a_walk_over_both_finds(
            first in prop::collection::btree_map(0..200_u16, 0..3_u8, 0..200),
            changes in prop::collection::vec((0..220_u16, prop::option::of(0..3_u8)), 0..60),
        ) {
            let older: SharedMap<u16, u8> = first.clone().into_iter().collect();
            let (mut newer, mut model) = (older.clone(), first.clone());
            for (key, value) in changes {
                match value {
                    Some(value) => (newer.insert(key, value), model.insert(key, value)),
                    None => (newer.remove(&key), model.remove(&key)),
                };
            }
            let keys: BTreeMap<u16, ()> = first.keys().chain(model.keys()).map(|key| (*key, ())).collect();
            let all = keys.keys().map(|key| (first.get(key), model.get(key)));
            let expected: Vec<_> = all.filter(|(before, after)| before != after).collect();
            prop_assert_eq!(newer.differing(&older, |before, after| before == after), expected.clone());
            let back: Vec<_> = expected.iter().map(|(before, after)| (*after, *before)).collect();
            prop_assert_eq!(older.differing(&newer, |before, after| before == after), back);
            // Of maps that share nothing as well.
            let apart: SharedMap<u16, u8> = model.clone().into_iter().collect();
            prop_assert_eq!(apart.differing(&older, |before, after| before == after), expected);
        }
    }

    thread_local! {
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// A key that counts how often it is compared.
    #[derive(Clone, PartialEq, Eq)]
    struct Counted(u32);

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    /// Comparisons that it takes to change a map of so many entries, and to find what was changed.
    fn compared(entries: u32) -> u64 {
        let older: SharedMap<Counted, u32> = (0..entries).map(|key| (Counted(2 * key), 0)).collect();
        COMPARED.set(0);
        let mut newer = older.clone();
        newer.insert(Counted(entries | 1), 1);
        newer.remove(&Counted(0));
        newer.insert(Counted(entries / 2 * 2), 1);
        let found = newer.differing(&older, |before, after| before == after);
        assert_eq!(found.len(), 3);
        COMPARED.get()
    }

    #[test]
    fn a_change_costs_what_it_changes() {
        let (few, many) = (compared(100), compared(100_000));
        assert!(many < 300 && many < 6 * few, "{few} comparisons among 100, {many} among 100 000");
    }
}
