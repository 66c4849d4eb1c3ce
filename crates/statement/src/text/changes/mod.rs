//! What changes of rows say that the parser does not read: MERGE, and `OVERRIDING`.

pub mod merge;
pub mod overriding;
