//! Rows in memory: version chains, ordered indexes, transactions with speculative commit, workers.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)]
pub mod epoch;
#[allow(unsafe_code)]
pub mod index;
#[allow(unsafe_code)]
pub mod placement;
mod sync;
