//! What benchmarks run on: databases with TPC-H data, and the systems beside which ours is measured.

pub mod rival;
pub mod tpch;
