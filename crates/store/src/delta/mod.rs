//! The newer half of every table: its **delta**, rows in memory over the published trees, its **base**.
//!
//! ```text
//!   INSERT, UPDATE, DELETE ─► Delta (rows in `saki-mvcc`, one table of its own for each of ours) ─► logs
//!                                │ hides base rows of its keys                │
//!   queries ◄── TableReader ◄────┤                                            │ cut
//!                 │              ▼ merge (`checkpoint`)                       ▼
//!                 └────────► base: trees and column segments of a generation
//! ```
//!
//! # Invariants
//! - Which versions of a delta count, and hide the base row of their key in every access path, `reader` says, and
//!   nobody else.
//! - A snapshot is (timestamp, generation): the generation is taken first, so the timestamp is never before the merge
//!   that made it, and the rows a generation is without are still in memory for as long as somebody holds it.
//! - A delta belongs to one layout of its table. A statement that changes the layout merges the delta first and begins
//!   a new one.
//!
//! # Failure model
//! Logs lie in a directory beside the database. The catalog says whether there are any, so a database without its logs
//! is refused, not opened with rows missing.

mod engine;
mod logs;
mod room;
mod row_ids;
mod sim_logs;
mod table;

pub use engine::{Engine, range_of};
pub use logs::{LogDirectory, LogStore};
pub use room::Room;
pub use row_ids::RowIds;
pub use sim_logs::{Held, SimLogs};
pub use table::{Delta, PerTable};
