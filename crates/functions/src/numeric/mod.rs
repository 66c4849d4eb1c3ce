//! Functions of numbers that have PostgreSQL's digits: `/`, `sqrt`, `exp`, `ln`, `log` and `power` of type numeric.
//!
//! PostgreSQL chooses the digits behind the point for each value. A column here has as many for all of its values. So
//! what is computed of constants is computed where types are resolved, with PostgreSQL's digits, and what is computed
//! of columns has a scale that is PostgreSQL's for most values.

mod averages;
pub mod buckets;
mod calls;
mod deviations;
pub mod divisors;
pub mod domains;
mod fixed;
mod functions;
mod number;
pub mod scales;
#[cfg(test)]
mod tests;
mod thresholds;
pub mod whole;

pub use self::averages::average;
pub use self::calls::{exact, folded, long_product};
pub use self::deviations::deviations;
