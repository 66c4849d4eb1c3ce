//! Transaction workloads.
#![forbid(unsafe_code)]

pub mod index;
