//! Sizes of nodes.

/// Sizes of nodes double from class to class.
pub(crate) const CLASSES: usize = 6;

/// Words of a node of `class`: 512 bytes to 16 KiB.
#[inline(always)]
pub(crate) const fn words_of(class: usize) -> usize {
    64 << class
}

/// The class of leaves and of inner nodes, unless keys are long. Checkers take small ones, so that trees become deep.
pub(crate) const LEAF_CLASS: usize = if cfg!(any(test, miri, saki_loom)) { 0 } else { 1 };
pub(crate) const INNER_CLASS: usize = if cfg!(any(test, miri, saki_loom)) { 0 } else { 2 };
