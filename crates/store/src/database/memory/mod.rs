//! What memory there is, and what it is for.

mod budget;
mod machine;

pub use self::budget::Budget;
pub use self::machine::memory_bytes;
