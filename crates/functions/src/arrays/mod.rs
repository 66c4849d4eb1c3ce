//! Functions of arrays that the planner has not, or in which NULL means something else.

pub mod fill;
pub mod remove;
