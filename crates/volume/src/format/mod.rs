//! What is written besides pages: superblocks with the device table, labels, and the journal of changes to the chunk
//! map.

pub mod journal;
pub mod label;
pub mod superblock;
pub mod table;
