//! Sakigake (introduction follows).
#![forbid(unsafe_code)]

pub mod plot;
