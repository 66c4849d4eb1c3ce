//! Our own plan nodes.
//!
//! DataFusion knows nodes as `dyn ExecutionPlan`, and tells them apart by their types alone. Ours are told apart by
//! what they can do: each is a [`SakiNode`], and [`SakiExec`] is the only type under which one enters a plan. [`find`]
//! is the one place that looks for a node of ours behind DataFusion's; a node that is not found cannot be made.
//!
//! ```text
//!   Arc<dyn ExecutionPlan> ─► find ─► &dyn SakiNode ─┬─ native: its rows without a change of form
//!                                                    ├─ renewed: the node for another run (plan cache)
//!                                                    ├─ as_scan, as_outer: what joins can make of it
//!                                                    └─ progress, measured: how it went
//! ```

mod base;
mod each_node;
mod env;
pub mod explain;
mod forecast;
mod keys;
mod passing;
mod plan;
mod renewal;
mod saki_node;
mod stream;

pub use self::base::{NodeBase, read_alike};
pub use self::each_node::EachNode;
pub use self::env::{Asking, QueryEnv, StandIns};
pub use self::forecast::Forecast;
pub use self::keys::DynamicKeys;
pub use self::passing::{Passing, PassingExec};
pub use self::plan::{Plan, column_index, partitions_of, statistics_of};
pub use self::renewal::Renewal;
pub use self::saki_node::{Native, Outer, PlainScan, Progress, Projection, SakiNode, find, find_native, native_input};
pub use self::stream::{NativeStream, from_surface};
