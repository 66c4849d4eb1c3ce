//! Queries within a query that the planner cannot join, or must not run twice, or have to come in turn.

pub mod in_turn;
pub mod nested_loops;
pub mod once;
pub mod recursion;

#[cfg(test)]
mod lifted;
