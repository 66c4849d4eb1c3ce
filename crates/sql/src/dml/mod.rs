//! Statements that change rows: INSERT, UPDATE, DELETE and MERGE, and queries of WITH that do.
//!
//! ```text
//!   statement ─► query: which rows, and what becomes of them ─► batches ─► entries ─► RowWriter ─► delta
//!                (planned and run like any other, in the                               keys and unique indexes are
//!                 statement's own snapshot)                                            looked up in delta and base
//! ```
//!
//! All rows are found before any is changed, so that a statement never meets its own changes. What RETURNING says is
//! worked out on the new rows before they are written; if another transaction gets in the way, all of it is done again.

mod addition;
mod bulk;
mod change;
mod conflict;
mod delete;
mod insert;
mod lock;
mod merge;
mod planned;
mod query;
mod rows;
mod update;
mod with;

pub use addition::write_stream;
pub use bulk::bulk_load;
pub use change::{ChangeStatement, Concern, Work, change};
pub use conflict::{Arbiter, OnConflict, decoded, refuse_twice, sort};
pub use delete::delete;
pub use insert::insert;
pub use lock::hold_rows;
pub use merge::merge;
pub use query::explain_change;
pub use rows::{RowWriter, check_deferred, related, see_to};
pub use update::update;
pub use with::change_with;
