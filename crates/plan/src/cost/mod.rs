//! What plans are expected to cost: seconds on the device at hand.

mod model;
pub mod text;

pub use self::model::{ColumnWork, CostModel, Costs, Estimate, distinct_pages};
