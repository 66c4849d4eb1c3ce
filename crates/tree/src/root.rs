//! A published tree, as whoever refers to it keeps it.

use saki_base::bytes::{put_u32, put_u64, u32_at, u64_at};
use saki_base::{PageAddress, PageRef, TreeId};
use serde::{Deserialize, Serialize};

/// Bytes of a root in its fixed form, [`TreeRoot::to_bytes`].
pub const TREE_ROOT_BYTES: usize = 64;

/// Where a tree begins, and how large it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TreeRoot {
    pub id: TreeId,
    /// The topmost page; none if the tree is empty.
    pub root: Option<PageRef>,
    /// Levels: 0 if empty, 1 if the root is a leaf.
    pub height: u8,
    pub entries: u64,
    pub leaf_pages: u64,
    pub inner_pages: u64,
    pub overflow_pages: u64,
}

impl TreeRoot {
    /// A tree without entries.
    pub const fn empty(id: TreeId) -> Self {
        Self { id, root: None, height: 0, entries: 0, leaf_pages: 0, inner_pages: 0, overflow_pages: 0 }
    }

    pub const fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Pages of all kinds.
    pub const fn pages(&self) -> u64 {
        self.leaf_pages + self.inner_pages + self.overflow_pages
    }

    /// The fixed form, for a volume's root: id 4, height 1, zero 3, address 8, checksum 8, entries 8,
    /// leaf, inner and overflow pages 8 each, zero 8.
    pub fn to_bytes(&self) -> [u8; TREE_ROOT_BYTES] {
        assert_eq!(self.root.is_some(), self.height > 0, "{} has {} levels", self.id, self.height);
        let mut bytes = [0; TREE_ROOT_BYTES];
        let root = self.root.unwrap_or_default();
        put_u32(&mut bytes, 0, self.id.0);
        bytes[4] = self.height;
        let numbers =
            [root.address.0, root.checksum, self.entries, self.leaf_pages, self.inner_pages, self.overflow_pages];
        for (index, number) in numbers.into_iter().enumerate() {
            put_u64(&mut bytes, 8 + index * 8, number);
        }
        bytes
    }

    /// Reads the fixed form; `None` if the bytes are not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TREE_ROOT_BYTES] = bytes.try_into().ok()?;
        let number = |index: usize| u64_at(bytes, 8 + index * 8);
        let height = bytes[4];
        let root = PageRef { address: PageAddress(number(0)?), checksum: number(1)? };
        Some(Self {
            id: TreeId(u32_at(bytes, 0)?),
            root: (height > 0).then_some(root),
            height,
            entries: number(2)?,
            leaf_pages: number(3)?,
            inner_pages: number(4)?,
            overflow_pages: number(5)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_format() {
        let page = PageRef { address: PageAddress(1), checksum: 2 };
        let (id, root) = (TreeId(258), Some(page));
        let root = TreeRoot { id, root, height: 3, entries: 4, leaf_pages: 5, inner_pages: 6, overflow_pages: 7 };
        let mut expected = vec![2, 1, 0, 0, 3, 0, 0, 0];
        for number in [1u64, 2, 4, 5, 6, 7, 0] {
            expected.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(root.to_bytes().as_slice(), expected);
    }

    #[test]
    fn what_is_written_is_read() {
        let page = PageRef { address: PageAddress(77), checksum: u64::MAX };
        let root = TreeRoot {
            id: TreeId(3),
            root: Some(page),
            height: 2,
            entries: 9,
            leaf_pages: 4,
            inner_pages: 1,
            overflow_pages: 6,
        };
        assert_eq!(TreeRoot::from_bytes(&root.to_bytes()), Some(root));
        assert_eq!(TreeRoot::from_bytes(&[0; 64]), Some(TreeRoot::empty(TreeId(0))));
        let empty = TreeRoot::empty(TreeId(5));
        assert_eq!(TreeRoot::from_bytes(&empty.to_bytes()), Some(empty));
        assert_eq!(TreeRoot::from_bytes(&[0; 63]), None);
    }
}
