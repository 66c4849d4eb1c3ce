//! Transaction workloads.
#![forbid(unsafe_code)]
