//! Functions of arrays that the planner has not, or in which NULL means something else; `labels` are those of
//! enumerations, `order` and `extremes` compare arrays, `contain` looks for elements.

pub mod contain;
pub mod extremes;
pub mod fill;
pub mod labels;
pub mod order;
pub mod remove;
