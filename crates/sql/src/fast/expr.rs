//! Values of fast statements: what they are made of, and how they are worked out.

use datafusion::common::ScalarValue;
use saki_base::{DataType, Value, ValueRef};

use saki_catalog::{Result, SqlError};

/// A value to be.
#[derive(Clone, Debug)]
pub enum Expr {
    /// Of the row that is there.
    Column(usize),
    /// By number, from 0.
    Parameter(usize),
    Literal(Value),
    /// The moment at which the transaction began, in microseconds since 1970.
    Now,
    Arithmetic(Operator, Box<Self>, Box<Self>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
}

/// What expressions are worked out with.
pub struct Inputs<'i> {
    /// Of the row that is there, by table column.
    pub row: &'i [ValueRef<'i>],
    pub parameters: &'i [ScalarValue],
    /// Microseconds since 1970.
    pub now: i64,
}

impl Expr {
    /// The value, as one of `data_type`.
    ///
    /// # Errors
    /// 22003 where it is out of the type's range; `Internal` where types do not fit, which compiling has ruled out.
    pub fn value<'v>(&'v self, data_type: DataType, inputs: &Inputs<'v>) -> Result<ValueRef<'v>> {
        let value = match self {
            Self::Column(column) => inputs.row[*column],
            Self::Parameter(parameter) => scalar(&inputs.parameters[*parameter])?,
            Self::Literal(value) => value.as_ref(),
            Self::Now if data_type == DataType::Timestamptz => ValueRef::Timestamptz(inputs.now),
            Self::Now => ValueRef::Timestamp(inputs.now),
            Self::Arithmetic(operator, left, right) => {
                return operator.apply(left.value(data_type, inputs)?, right.value(data_type, inputs)?, data_type);
            }
        };
        fitted(value, data_type)
    }
}

impl Operator {
    fn apply(self, left: ValueRef<'_>, right: ValueRef<'_>, data_type: DataType) -> Result<ValueRef<'static>> {
        let (Some(left), Some(right)) = (integer(left), integer(right)) else { return Ok(ValueRef::Null) };
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
        };
        result.and_then(|value| of_integer(value, data_type)).ok_or_else(|| out_of_range(data_type))
    }
}

fn out_of_range(data_type: DataType) -> SqlError {
    SqlError::data(format!("{data_type} out of range")).code("22003")
}

fn integer(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int2(value) => Some(i128::from(value)),
        ValueRef::Int4(value) => Some(i128::from(value)),
        ValueRef::Int8(value) => Some(i128::from(value)),
        _ => None,
    }
}

fn of_integer(value: i128, data_type: DataType) -> Option<ValueRef<'static>> {
    match data_type {
        DataType::Int2 => value.try_into().ok().map(ValueRef::Int2),
        DataType::Int4 => value.try_into().ok().map(ValueRef::Int4),
        DataType::Int8 => value.try_into().ok().map(ValueRef::Int8),
        _ => None,
    }
}

/// An integer as one of the column's type; anything else as it is.
fn fitted<'v>(value: ValueRef<'v>, data_type: DataType) -> Result<ValueRef<'v>> {
    match (integer(value), data_type) {
        (Some(number), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            of_integer(number, data_type).ok_or_else(|| out_of_range(data_type))
        }
        _ => Ok(value),
    }
}

/// A parameter as a value.
fn scalar(value: &ScalarValue) -> Result<ValueRef<'_>> {
    Ok(match value {
        value if value.is_null() => ValueRef::Null,
        ScalarValue::Boolean(Some(value)) => ValueRef::Bool(*value),
        ScalarValue::Int16(Some(value)) => ValueRef::Int2(*value),
        ScalarValue::Int32(Some(value)) => ValueRef::Int4(*value),
        ScalarValue::Int64(Some(value)) => ValueRef::Int8(*value),
        ScalarValue::Float32(Some(value)) => ValueRef::Float4(*value),
        ScalarValue::Float64(Some(value)) => ValueRef::Float8(*value),
        ScalarValue::Utf8(Some(value)) => ValueRef::Text(value),
        ScalarValue::Binary(Some(value)) => ValueRef::Bytea(value),
        ScalarValue::Date32(Some(value)) => ValueRef::Date(*value),
        ScalarValue::TimestampMicrosecond(Some(value), None) => ValueRef::Timestamp(*value),
        ScalarValue::TimestampMicrosecond(Some(value), Some(_)) => ValueRef::Timestamptz(*value),
        other => return Err(SqlError::internal(format!("a parameter of type {}", other.data_type()))),
    })
}

/// Whether a parameter may be of this type.
pub fn is_simple(data_type: DataType) -> bool {
    // Numbers with a scale, and text that is padded, change on their way.
    !matches!(data_type, DataType::Decimal { .. } | DataType::Char(_) | DataType::Uuid)
}
