//! Page formats as typed access to bytes: nothing above this module parses a page
//! by hand.
//!
//! | kind | holds | access | builder |
//! |---|---|---|---|
//! | leaf | sorted entries: key, value | [`LeafPage`] | [`LeafBuilder`] |
//! | inner | separators and references to children | [`InnerPage`] | [`InnerBuilder`] |
//! | overflow data | a piece of one large value | [`OverflowDataPage`] | [`write_overflow_data`] |
//! | overflow index | references to the pieces | [`OverflowIndexPage`] | [`OverflowIndexBuilder`] |
//!
//! Leaf and inner pages are both *entries* (`entries.rs`, `entries_builder.rs`): sorted entries with
//! their common prefix stored once. A leaf adds overflow values to it, an inner
//! page its first child.
//!
//! ```text
//!                 inner (level 2)
//!            ┌──────────┴──────────┐
//!      inner (level 1)       inner (level 1)
//!      ┌─────┴─────┐         ┌─────┴─────┐
//!    leaf        leaf      leaf        leaf (level 0)
//!                  │ a value too large for a leaf
//!                  ▼
//!           overflow index (level 1)
//!            ┌─────┴──────┐
//!    overflow data   overflow data (level 0)
//! ```
//!
//! Invariants: a page is built once, in full, and never changes; its unused
//! bytes are zero. A page does not hold its
//! own checksum or address: its parent does ([`saki_base::PageRef`]).
//!
//! Failure model: `open` takes a page for what the caller expects it to be, or
//! says in a [`FormatError`] what was expected and what was found. It costs a
//! few comparisons, whatever the page holds. A page with a good checksum is
//! then trusted to be well formed; if it is not, accessors return wrong values
//! but never panic and never read outside the page. `verify` checks all of it.
//!
//! All integers are little-endian. `docs/file-format.md` has the same layouts
//! with their reasons.

#![forbid(unsafe_code)]

mod entries;
mod entries_builder;
mod error;
mod header;
mod inner;
mod kind;
mod leaf;
mod overflow;
mod patch;
#[cfg(test)]
mod tests;

pub use error::FormatError;
pub use header::PageExpectation;
pub use inner::{InnerBuilder, InnerPage, shortest_separator};
pub use kind::PageKind;
pub use leaf::{LeafBuilder, LeafPage, LeafValue, OverflowRef};
pub use overflow::{OverflowDataPage, OverflowIndexBuilder, OverflowIndexPage, OverflowLayout, write_overflow_data};
pub use patch::Edit;

use saki_base::PageSize;

/// Version of all page formats, stored in every page.
pub const FORMAT_VERSION: u8 = 1;

/// Longest key of a tree, in bytes: an eighth of a page, so that every inner
/// page has at least six children.
pub const fn key_bytes_max(page_size: PageSize) -> usize {
    page_size.bytes() / 8
}

/// Longest value stored inside a leaf, in bytes: a quarter of a page. A longer
/// one goes to overflow pages. A leaf then always takes two entries.
pub const fn inline_value_bytes_max(page_size: PageSize) -> usize {
    page_size.bytes() / 4
}

const _: () = assert!(saki_base::PAGE_BYTES_MAX / 8 <= u16::MAX as u32, "two bytes hold a key's length");
