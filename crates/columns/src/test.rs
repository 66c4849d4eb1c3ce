//! Tests of a column against constants: what zone maps and encoded columns can decide.

use saki_base::ValueRef;
use saki_base::value::{Value, compare};
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

impl Test {
    /// Whether a value of the column's type passes: what the test means.
    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (Self::IsNull, value) => value == ValueRef::Null,
            (_, ValueRef::Null) => false,
            (Self::IsNotNull, _) => true,
            (Self::Compare(op, constant), value) => op.holds(compare(value, constant.as_ref())),
            (Self::OneOf(constants), value) => {
                constants.iter().any(|constant| compare(value, constant.as_ref()).is_eq())
            }
        }
    }
}
