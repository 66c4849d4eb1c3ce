//! Benchmarks between nodes. `fabric` measures what nodes talk over, without any device: pages that one process lends
//! and another reads, one-sided and by asking, and messages that come back. `remote` measures pages that one process
//! has on a device or in memory and another reads, beside reading them where they are. Every page is verified by its
//! checksum.
//!
//! A benchmark of two processes starts the second one itself, as another run of its own program; on two hosts,
//! `saki-nodes` is started on each.

#![forbid(unsafe_code)]

mod measure;
mod peer;
mod process;
pub mod remote;
mod run;
mod world;

pub use peer::{PeerOptions, serve};
pub use run::{Options, Outcome, run};
