//! The aggregates of a query.

use arrow_schema::DataType;

use super::keys::rows;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// Of rows, or of the argument's values that are not NULL: an `Int64`.
    Count,
    /// Of integers an `Int64`, of decimals one of the same scale, of floats a float.
    Sum,
    /// Of integers and floats a float; of decimals one of at least their scale, with the digits beyond it cut off.
    Average,
    Min,
    Max,
}

/// One aggregate of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub function: Function,
    /// Logical type of the argument; `None`: COUNT(*).
    pub argument: Option<DataType>,
    /// Logical type of the result, as the plan states it.
    pub result: DataType,
}

impl Call {
    /// Whether there is such a function from this argument to this result.
    pub fn is_supported(&self) -> bool {
        use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64};
        let Some(argument) = &self.argument else { return self.function == Function::Count && self.result == Int64 };
        match (self.function, argument, &self.result) {
            (Function::Count, _, result) => *result == Int64,
            (Function::Sum, Int16 | Int32 | Int64, result) => *result == Int64,
            (Function::Sum | Function::Average, Float32 | Float64, Float32 | Float64) => true,
            (Function::Sum, Decimal128(_, from), Decimal128(_, to)) => from == to,
            (Function::Average, Int16 | Int32 | Int64, result) => *result == Float64,
            (Function::Average, Decimal128(_, from), Decimal128(_, to)) => from <= to,
            (Function::Min | Function::Max, argument, result) => argument == result && rows::is_key(argument),
            (Function::Sum | Function::Average, _, _) => false,
        }
    }
}
