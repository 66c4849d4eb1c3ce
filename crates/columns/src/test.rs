//! Tests of a column against constants: what zone maps and encoded columns can decide.

use saki_base::value::Value;
use saki_vector::expr::CompareOp;

/// A test of one column. NULL passes none but `IsNull`.
#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    /// With a constant that is not NULL, of the column's type.
    Compare(CompareOp, Value),
    OneOf(Vec<Value>),
    IsNull,
    IsNotNull,
}
