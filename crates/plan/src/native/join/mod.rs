//! Joins by keys and by ranges: all rows of the left side become a table, and every partition of the right side goes
//! through it.
//!
//! ```text
//!   left 0 ─► JoinBuild ─┐
//!   left 1 ─► JoinBuild ─┼─► JoinTable ─┬─► DynamicKeys ─► the scan of the right side
//!   a task each            once         └─► right 0 ─► Prober ─► output 0
//!                                           right 1 ─► Prober ─► output 1
//! ```
//!
//! Neither side is distributed anew. The right side is asked for nothing before the table is complete: what it does may
//! rest on the keys published. Only columns that are used later are gathered. With a range ([`range`]), the rows of a
//! key, or all if there are no keys, lie in the table sorted by a value, and what a row of the right side looks up are
//! its bounds: of all pairs, only those that match are ever looked at, but for what is left of the filter.

mod node;
mod offer;
mod plan;
mod probe;
mod range;
mod work;

pub use self::node::NativeHashJoinExec;
pub use self::offer::offer_keys;
pub use self::plan::JoinPlan;
pub use self::range::{ranged_loops, with_range};
