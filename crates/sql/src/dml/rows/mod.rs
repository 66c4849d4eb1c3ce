//! Rows of tables: found by their keys, written, and kept as unique and foreign keys ask for.

mod finder;
mod references;
mod search;
mod writer;

pub use self::finder::Finder;
pub use self::references::{check_deferred, related, see_to};
pub use self::writer::RowWriter;
