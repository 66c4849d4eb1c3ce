//! What a page is part of.

use std::fmt;

use crate::TreeId;

/// A kind of pages of a tree, or of a table's columns. Pages of one part are read together, and so lie together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Part {
    /// The tree; of columns, the one that is their directory.
    pub tree: TreeId,
    pub kind: PartKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PartKind {
    /// Inner pages of a tree: few, and read by whoever looks for anything.
    Inner,
    Leaves,
    /// Values too large for a leaf.
    Overflow,
    /// The runs of a column, by its position in the table.
    Column(u16),
}

impl Part {
    pub const fn new(tree: TreeId, kind: PartKind) -> Self {
        Self { tree, kind }
    }

    /// A table's column at `position`. Those beyond 65 535, which no table has, count as one.
    pub fn column(directory: TreeId, position: usize) -> Self {
        Self::new(directory, PartKind::Column(u16::try_from(position).unwrap_or(u16::MAX)))
    }

    /// Whether it is inner pages.
    pub const fn is_inner(self) -> bool {
        matches!(self.kind, PartKind::Inner)
    }
}

impl PartKind {
    /// Number of the kind, and the column's position: what is stored.
    pub const fn code(self) -> (u8, u16) {
        match self {
            Self::Inner => (1, 0),
            Self::Leaves => (2, 0),
            Self::Overflow => (3, 0),
            Self::Column(position) => (4, position),
        }
    }

    /// The kind that has this code, if any.
    pub const fn from_code(kind: u8, position: u16) -> Option<Self> {
        match (kind, position) {
            (1, 0) => Some(Self::Inner),
            (2, 0) => Some(Self::Leaves),
            (3, 0) => Some(Self::Overflow),
            (4, _) => Some(Self::Column(position)),
            _ => None,
        }
    }
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner => f.write_str("inner pages"),
            Self::Leaves => f.write_str("leaves"),
            Self::Overflow => f.write_str("large values"),
            Self::Column(position) => write!(f, "column {position}"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, self.tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_their_kinds() {
        let kinds = [PartKind::Inner, PartKind::Leaves, PartKind::Overflow, PartKind::Column(0), PartKind::Column(900)];
        for kind in kinds {
            let (code, position) = kind.code();
            assert_eq!(PartKind::from_code(code, position), Some(kind));
        }
        for (code, position) in [(0, 0), (1, 1), (3, 7), (5, 0), (255, 9)] {
            assert_eq!(PartKind::from_code(code, position), None);
        }
    }
}
