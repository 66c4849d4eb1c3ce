//! What is written besides pages: superblocks, and the journal of changes to the chunk map.

pub mod journal;
pub mod superblock;
