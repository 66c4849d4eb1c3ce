//! Functions of arrays that the planner has not, or in which NULL means something else; `labels` are those of
//! enumerations.

pub mod fill;
pub mod labels;
pub mod remove;
