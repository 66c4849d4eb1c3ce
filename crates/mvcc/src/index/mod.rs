//! Ordered index: byte keys to addresses of rows.
//!
//! A B+-tree with optimistic lock coupling (Leis et al., *The ART of Practical Synchronization*): a node has a version;
//! readers compare versions instead of locking, and write nothing that is shared; a writer locks the one leaf that it
//! changes, and on the way of a split the nodes above as far as they change. There are no links between leaves and no
//! fences in nodes: a scan goes on by the path that it came by, as long as that has the versions it had.
//!
//! ```text
//!   anchor ─► root      inner node: head │ child, head │ child, …        (`node` draws the words)
//!               │ child = the last one whose key is not greater; the first child has no key
//!             inner …
//!               │
//!             leaf      head │ value, head │ value, …
//! ```
//!
//! - `key`: keys as words · `node`: words of a node · `search`: where a key is · `contents`: layout of a node's entries
//! - `latch`: versions · `slab`: memory · `path`: descents · `insert`, `remove`, `cursor`, `many`, `verify`: the
//!   operations
//!
//! # Who may rely on what
//! - Every operation takes a [`Pin`]: nodes that were taken out of the tree are retired, and stay what they were until
//!   the pin ends.
//! - A leaf's version changes with every insert into it, remove from it and split of it. The keys a leaf is responsible
//!   for become fewer only with such a change; so as long as every leaf that a scan saw [is
//!   unchanged](Observed::is_unchanged), no key has appeared in the range that it scanned (the node sets of Silo).
//! - All leaves are equally deep. Nodes that lose their last entry leave the tree; others are not merged.

mod contents;
mod cursor;
mod insert;
mod many;
mod map;
mod node;
mod path;
mod remove;
mod search;
#[cfg(all(test, not(saki_loom)))]
mod tests;
mod verify;

pub use cursor::{Cursor, Direction, ScanBuffer, Scanned};
pub use many::LANES;
pub use map::{Index, KEY_BYTES_MAX, LeafChange, Observed, Occupied};
use map::{retire, retry};
pub use node::slab::bytes_in_use;
pub use verify::Statistics;
