//! Ways to a table's rows: which tree, which part of its keys, and what is looked up from there.

pub mod alternatives;
pub mod chain;
pub mod conditions;
pub mod hidden;
mod like;
pub mod path;
pub mod scalar;
pub mod scan;
#[cfg(test)]
mod seams;
pub mod text;
mod units;
