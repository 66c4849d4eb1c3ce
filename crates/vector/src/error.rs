//! Why an operator could not go on.

use std::fmt;

/// What went wrong with a statement's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VectorError {
    /// A value left its type: SQLSTATE 22003.
    OutOfRange(String),
    /// SQLSTATE 22012.
    DivisionByZero,
    /// A value that cannot become one of another type: SQLSTATE 22P02.
    Invalid(String),
    /// An operator was given what it was not made for: ours, not the user's.
    Internal(String),
}

impl VectorError {
    pub(crate) fn internal(what: impl Into<String>) -> Self {
        Self::Internal(what.into())
    }
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(what) => write!(f, "{what} out of range"),
            Self::DivisionByZero => f.write_str("division by zero"),
            Self::Invalid(what) => f.write_str(what),
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
