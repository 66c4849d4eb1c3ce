//! Atomics by one path: the real ones, or `loom`'s under `--cfg saki_loom`, so that the horizon is model-checked as
//! written.

#[cfg(not(saki_loom))]
pub use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(saki_loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering};
