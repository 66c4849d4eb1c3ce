//! Queries within a query that the planner cannot join, or must not run twice.

pub mod lifted;
pub mod nested_loops;
pub mod once;
