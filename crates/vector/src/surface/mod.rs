//! Columns in Arrow's own types, as they come from clients and go to them: [`types`] says which Arrow type a SQL type
//! has, [`buffer`] gathers values, [`labels`] are those of enumerations, [`lists`] are arrays.

pub mod buffer;
pub mod labels;
pub mod lists;
pub mod types;

pub use self::buffer::ColumnBuffer;
pub use self::types::{array_value, arrow_interval, arrow_type, data_type, interval};
