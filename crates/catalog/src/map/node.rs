//! Nodes of the tree, and what keeps it balanced.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;

/// How many times as large as its sibling a child may be.
pub const WEIGHT_MAX: usize = 3;
/// From how many times as large an inner grandchild is, than the outer one, it becomes the top.
const INNER_MAX: usize = 2;

pub type Link<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone)]
pub struct Node<K, V> {
    pub key: K,
    pub value: V,
    /// Entries of it and all below.
    pub size: usize,
    pub left: Link<K, V>,
    pub right: Link<K, V>,
}

pub fn size<K, V>(link: &Link<K, V>) -> usize {
    link.as_ref().map_or(0, |node| node.size)
}

pub fn insert<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>, key: K, value: V) -> Option<V> {
    let Some(node) = link else {
        *link = Some(Arc::new(Node { key, value, size: 1, left: None, right: None }));
        return None;
    };
    let node = Arc::make_mut(node);
    let before = match key.cmp(&node.key) {
        Ordering::Equal => return Some(mem::replace(&mut node.value, value)),
        Ordering::Less => insert(&mut node.left, key, value),
        Ordering::Greater => insert(&mut node.right, key, value),
    };
    node.mend();
    before
}

/// Takes out a key that is there.
pub fn remove<K, V, Q>(link: &mut Link<K, V>, key: &Q) -> Option<V>
where
    K: Ord + Clone + Borrow<Q>,
    V: Clone,
    Q: Ord + ?Sized,
{
    let node = Arc::make_mut(link.as_mut()?);
    let removed = match key.cmp(node.key.borrow()) {
        Ordering::Less => remove(&mut node.left, key),
        Ordering::Greater => remove(&mut node.right, key),
        Ordering::Equal => {
            // The next entry takes its place.
            let Some((key, value)) = remove_first(&mut node.right) else {
                let (value, left) = (node.value.clone(), node.left.take());
                *link = left;
                return Some(value);
            };
            node.key = key;
            Some(mem::replace(&mut node.value, value))
        }
    };
    node.mend();
    removed
}

fn remove_first<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>) -> Option<(K, V)> {
    let node = Arc::make_mut(link.as_mut()?);
    if let Some(first) = remove_first(&mut node.left) {
        node.mend();
        return Some(first);
    }
    let (first, right) = ((node.key.clone(), node.value.clone()), node.right.take());
    *link = right;
    Some(first)
}

impl<K: Clone, V: Clone> Node<K, V> {
    fn count(&mut self) {
        self.size = 1 + size(&self.left) + size(&self.right);
    }

    /// Balances it again after one entry below has come or gone.
    fn mend(&mut self) {
        self.count();
        let (left, right) = (size(&self.left), size(&self.right));
        if left + right <= 1 {
            return;
        }
        if right > WEIGHT_MAX * left {
            if let Some(right) = &mut self.right
                && size(&right.left) >= INNER_MAX * size(&right.right)
            {
                Arc::make_mut(right).turn_right();
            }
            self.turn_left();
        } else if left > WEIGHT_MAX * right {
            if let Some(left) = &mut self.left
                && size(&left.right) >= INNER_MAX * size(&left.left)
            {
                Arc::make_mut(left).turn_left();
            }
            self.turn_right();
        }
    }

    /// Its right child takes its place, and it becomes that one's left.
    fn turn_left(&mut self) {
        let Some(mut child) = self.right.take() else { return };
        let top = Arc::make_mut(&mut child);
        self.right = top.left.take();
        self.count();
        mem::swap(self, top);
        self.left = Some(child);
        self.count();
    }

    fn turn_right(&mut self) {
        let Some(mut child) = self.left.take() else { return };
        let top = Arc::make_mut(&mut child);
        self.left = top.right.take();
        self.count();
        mem::swap(self, top);
        self.right = Some(child);
        self.count();
    }
}

#[cfg(test)]
pub fn depth<K, V>(link: &Link<K, V>) -> usize {
    link.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
}

#[cfg(test)]
pub fn is_balanced<K, V>(link: &Link<K, V>) -> bool {
    link.as_ref().is_none_or(|node| {
        let (left, right) = (size(&node.left), size(&node.right));
        let is_even = left + right <= 1 || left.max(right) <= WEIGHT_MAX * left.min(right);
        is_even && node.size == 1 + left + right && is_balanced(&node.left) && is_balanced(&node.right)
    })
}
