//! Benchmarks that live in crates of their own, drawn and reported like the others; and that of devices side by side.

pub mod fabric;
pub mod oltp;
pub mod tiering;
