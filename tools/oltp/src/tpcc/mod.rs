//! TPC-C

pub mod load;
pub mod random;
pub mod schema;
