//! What keeps a table's rows as its definition says, for whoever changes rows.
//!
//! | piece | when |
//! |---|---|
//! | [`Defaults`] | before an INSERT's query is planned: what fills the columns it leaves out |
//! | [`RowChecks`] | over each batch of new rows: NOT NULL and CHECK, and what hidden columns have |
//! | [`ForeignKeys`] | over each changed row: keys that must be there, and rows that refer to one that goes |
//! | [`ActionRules`] | over each row that a foreign key's action changes |
//!
//! Uniqueness is the trees' own: a key is there once.

mod actions;
mod defaults;
mod foreign_keys;
mod row_checks;

pub use actions::ActionRules;
pub use defaults::{Defaults, check_width, is_default};
pub use foreign_keys::{Consequence, ForeignKeys, Keys, NewValue, Reference, Verification};
pub use row_checks::{RowChecks, row_schema};
