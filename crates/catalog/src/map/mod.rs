//! A persistent map: a copy costs nothing, and shares with its original all that neither has changed since.
//!
//! It is a weight-balanced tree whose nodes are shared. A change copies the nodes on the way from the root to its key
//! and no others, so that what two versions have in common is told by the addresses of their nodes:
//!
//! ```text
//!   before ─► root          after ─► root'          put(k):  the nodes on the way to k are new,
//!             ╱   ╲                  ╱   ╲                   all others are those of `before`
//!            a     b ◄──────────────┼─── k'         differing: shared subtrees are passed by unseen
//!           ╱ ╲   ╱ ╲               └──► a
//! ```
//!
//! # Invariants
//! - A node that two maps may reach is never changed ([`Arc::make_mut`]).
//! - Of two children neither is more than [`node::WEIGHT_MAX`] times as large as the other, unless both are tiny: the
//!   tree of n entries is about 2 log₂ n deep at most.

mod difference;
mod node;

use std::borrow::Borrow;
use std::fmt;

use self::node::{Link, Node};

/// A map in the order of its keys.
pub struct SharedMap<K, V> {
    root: Link<K, V>,
}

impl<K, V> SharedMap<K, V> {
    pub fn len(&self) -> usize {
        node::size(&self.root)
    }

    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// All entries, in the order of keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut pending = Vec::new();
        down(&mut pending, self.root.as_deref());
        Iter { pending }
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut next = self.root.as_deref();
        while let Some(node) = next {
            next = match key.cmp(node.key.borrow()) {
                std::cmp::Ordering::Less => node.left.as_deref(),
                std::cmp::Ordering::Equal => return Some(&node.value),
                std::cmp::Ordering::Greater => node.right.as_deref(),
            };
        }
        None
    }

    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The entries from a key on, whether it is there or not.
    pub fn starting_at<Q: Ord + ?Sized>(&self, key: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let (mut pending, mut next) = (Vec::new(), self.root.as_deref());
        while let Some(node) = next {
            let own: &Q = node.key.borrow();
            if own < key {
                next = node.right.as_deref();
            } else {
                pending.push(node);
                next = node.left.as_deref();
            }
        }
        Iter { pending }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// What the key had before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        node::insert(&mut self.root, key, value)
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // A key that is not there has nothing copied.
        if self.contains_key(key) { node::remove(&mut self.root, key) } else { None }
    }
}

/// Entries in the order of keys.
pub struct Iter<'m, K, V> {
    /// Nodes whose entries and right subtrees are to come, the next one last.
    pending: Vec<&'m Node<K, V>>,
}

impl<'m, K, V> Iterator for Iter<'m, K, V> {
    type Item = (&'m K, &'m V);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.pending.pop()?;
        down(&mut self.pending, node.right.as_deref());
        Some((&node.key, &node.value))
    }
}

/// A subtree is to come, its least entry first.
fn down<'m, K, V>(pending: &mut Vec<&'m Node<K, V>>, mut next: Option<&'m Node<K, V>>) {
    while let Some(node) = next {
        pending.push(node);
        next = node.left.as_deref();
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entries(map: &SharedMap<u16, u32>) -> Vec<(u16, u32)> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    proptest! {
        /// What a map says after any changes is what another kind of map says, and its copies stay as they were.
        #[test]
        fn it_is_a_map(changes in prop::collection::vec((0..300_u16, prop::option::of(any::<u32>())), 0..600)) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (at, (key, value)) in changes.into_iter().enumerate() {
                if at % 50 == 0 {
                    copies.push((map.clone(), model.clone()));
                }
                let (said, expected) = match value {
                    Some(value) => (map.insert(key, value), model.insert(key, value)),
                    None => (map.remove(&key), model.remove(&key)),
                };
                prop_assert_eq!(said, expected);
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
            }
            copies.push((map, model));
            for (map, model) in &copies {
                prop_assert!(node::is_balanced(&map.root));
                prop_assert_eq!(entries(map), model.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
                for key in [0, 7, 150, 299, 400] {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                    prop_assert!(map.starting_at(&key).map(|(key, _)| key).eq(model.range(key..).map(|(key, _)| key)));
                }
            }
        }
    }

    #[test]
    fn keys_that_come_in_order_make_no_list() {
        let map: SharedMap<u32, ()> = (0..10_000).map(|key| (key, ())).collect();
        assert!(node::is_balanced(&map.root));
        assert!(node::depth(&map.root) <= 28, "{} deep", node::depth(&map.root));
    }
}
