//! Calls that PostgreSQL refuses whatever they are given.

mod foreign;
mod misplaced;

pub use self::foreign::refuse_foreign;
pub use self::misplaced::{called_rows, refuse_misplaced, refuse_sets};
