//! Values, conditions and ranges of keys of statements that run without a plan: what they are made of, and how they are
//! worked out for a row.

pub mod condition;
pub mod expr;
pub mod range;
