//! Casts that mean something else here than to the planner: [`text`] is how values are written, [`narrow`] are those to
//! types that not all values fit in, [`labels`] those to enumerations.

pub mod labels;
pub mod narrow;
pub mod text;
