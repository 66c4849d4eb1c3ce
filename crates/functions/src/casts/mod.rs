//! Casts that mean something else here than to the planner: [`text`] is how values are written, [`narrow`] are those to
//! types that not all values fit in, [`labels`] those to enumerations, [`lists`] those of texts to arrays. How both
//! read texts is in `read`.

pub mod labels;
pub mod lists;
pub mod narrow;
mod read;
pub mod text;
