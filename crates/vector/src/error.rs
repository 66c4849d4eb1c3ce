//! Why an operator could not go on.

use std::fmt;
use std::sync::Arc;

/// What went wrong with a statement's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VectorError {
    /// A value left its type: SQLSTATE 22003.
    OutOfRange(String),
    /// A float that would be too large, or too close to zero: SQLSTATE 22003.
    FloatRange(FloatRange),
    /// SQLSTATE 22012.
    DivisionByZero,
    /// A value that cannot become one of another type: SQLSTATE 22P02.
    Invalid(String),
    /// What an expression of somebody else's failed with.
    Foreign(ForeignError),
    /// An operator was given what it was not made for: ours, not the user's.
    Internal(String),
}

/// Which end of its range a float has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatRange {
    Overflow,
    Underflow,
}

/// An error that only who evaluates the expression can read.
#[derive(Clone, Debug)]
pub struct ForeignError(pub Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for ForeignError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ForeignError {}

impl VectorError {
    pub(crate) fn internal(what: impl Into<String>) -> Self {
        Self::Internal(what.into())
    }
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(what) => write!(f, "{what} out of range"),
            Self::FloatRange(FloatRange::Overflow) => f.write_str("value out of range: overflow"),
            Self::FloatRange(FloatRange::Underflow) => f.write_str("value out of range: underflow"),
            Self::DivisionByZero => f.write_str("division by zero"),
            Self::Invalid(what) => f.write_str(what),
            Self::Foreign(error) => error.0.fmt(f),
            Self::Internal(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl std::error::Error for VectorError {}

impl From<arrow_schema::ArrowError> for VectorError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        use arrow_schema::ArrowError;
        match error {
            ArrowError::DivideByZero => Self::DivisionByZero,
            ArrowError::ArithmeticOverflow(what) => Self::OutOfRange(what),
            ArrowError::CastError(what) | ArrowError::ParseError(what) => Self::Invalid(what),
            other => Self::Internal(other.to_string()),
        }
    }
}
