//! Predicates on encoded entries: evaluated on key and row bytes before a column is copied.

pub use saki_base::CompareOp;
use saki_base::value::Value;

/// A test of one column; `column` indexes `TreeAccess::columns`. NULL fails every comparison.
#[derive(Clone, PartialEq, Debug)]
pub enum Predicate {
    /// `value` has exactly the column's type (decimals: its scale).
    Compare {
        column: usize,
        op: CompareOp,
        value: Value,
    },
    /// Equal to one of the values (`negated`: to none of them).
    OneOf {
        column: usize,
        values: Vec<Value>,
        negated: bool,
    },
    IsNull {
        column: usize,
    },
    IsNotNull {
        column: usize,
    },
}
