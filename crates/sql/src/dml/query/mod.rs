//! The queries of statements that change rows: which rows, what becomes of them, and what RETURNING says of them.

mod explain;
mod find;
mod found;
mod returning;

pub use self::explain::explain_change;
pub use self::find::{Target, assignments, named, relation, select, stand_in, table_batch, width_of};
pub use self::found::{first_of_each, old_columns, old_readers};
pub use self::returning::Returning;
