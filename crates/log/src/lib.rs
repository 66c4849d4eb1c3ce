//! Parallel write-ahead logs.

#![forbid(unsafe_code)]
