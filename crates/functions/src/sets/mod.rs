//! Functions of sets: one that gives a set of rows, and aggregates over a set in an order.

pub mod ordered;
pub mod series;
