//! Out-of-order execution: pipelines of page visits.

pub mod plan;
pub mod predicate;
