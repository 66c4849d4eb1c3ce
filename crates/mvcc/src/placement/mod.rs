//! Where threads run and memory lies.

mod memory;

pub use memory::{MAPPING_BYTES, Mapping};
