//! Queries of WITH: those that run once, and those that are recursive.

mod once;
mod recursion;

pub use self::once::{mark, mark_repeated};
pub use self::recursion::{Recursions, typed};
