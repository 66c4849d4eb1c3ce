//! Benchmarks that live in crates of their own, drawn and reported like the others.

pub mod fabric;
pub mod oltp;
