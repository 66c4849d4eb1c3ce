//! Expressions over the columns of a batch.
//!
//! Plans translate what they understand into [`Expr`]; what they do not is a [`Foreign`] call, which sees surface
//! arrays. NULL follows SQL: three-valued logic, and arithmetic with NULL is NULL.
//!
//! ```text
//!   select ──► logic ── narrows a Mask by ──► compare, text, in_list       conditions: sets of rows, as bits
//!                 ▲                              │ operands
//!   evaluate ─────┴──► arithmetic, decimal, case, cast, dates, text        values: native columns, or one constant
//! ```
//!
//! # Invariants
//! - A constant never becomes an array, unless it is the result.
//! - Values in the place of NULLs are anything: they cause no error and decide nothing.
//! - A value that a condition guards is computed where the condition lets it: errors of rows that a `CASE` or an `AND`
//!   has ruled out do not surface.

mod arithmetic;
mod case;
mod cast;
mod compare;
mod dates;
mod display;
mod evaluate;
mod logic;
mod mask;
mod operand;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub(crate) use arithmetic::Number;
pub use arithmetic::compute_arrays;
pub use compare::ValueSet;
pub use saki_base::CompareOp;
pub use text::LikePattern;
pub use tree::{ArithmeticOp, DatePart, Expr, Foreign};
