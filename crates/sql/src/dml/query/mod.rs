//! The queries of statements that change rows: which rows, what becomes of them, and what RETURNING says of them.

mod assigned;
mod columns;
mod explain;
mod find;
mod found;
mod ordinals;
mod returning;

pub use self::assigned::Assigned;
pub use self::columns::{columns, first_columns};
pub use self::explain::explain_change;
pub use self::find::{Target, distinctly_named, merged, named, relation, select, stand_in, table_batch, width_of};
pub use self::found::{first_of_each, keys_of, old_columns, old_readers};
pub use self::ordinals::{ordinal_item, ordinals_of, same_ordinal, with_ordinals};
pub use self::returning::Returning;
