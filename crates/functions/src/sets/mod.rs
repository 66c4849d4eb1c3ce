//! Functions of sets: one that gives a set of rows, and aggregates over a set in an order or of intervals.

pub mod intervals;
pub mod ordered;
pub mod series;
