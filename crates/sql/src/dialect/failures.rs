//! The PostgreSQL conditions of what the planner and its kernels report.

use arrow_schema::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};

use crate::error::SqlError;

/// The condition of an error, if one is known that is more exact than its kind's.
pub fn condition(error: &DataFusionError) -> Option<&'static str> {
    match error {
        DataFusionError::SchemaError(schema, _) => Some(match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => match &field.relation {
                Some(table) if valid_fields.iter().all(|valid| valid.relation.as_ref() != Some(table)) => "42P01",
                _ => "42703",
            },
            SchemaError::AmbiguousReference { .. } => "42702",
            SchemaError::DuplicateQualifiedField { .. } => "42712",
            SchemaError::DuplicateUnqualifiedField { .. } => "42701",
        }),
        DataFusionError::ArrowError(arrow, _) => of_arrow(arrow),
        DataFusionError::Plan(message) => first(message, PLANNING),
        DataFusionError::Execution(message) => first(message, VALUES),
        DataFusionError::NotImplemented(message) if message.contains("Decimal scale") => Some("22003"),
        DataFusionError::ResourcesExhausted(_) => Some("53200"),
        _ => None,
    }
}

/// The same of an error of a kernel.
pub fn of_arrow(error: &ArrowError) -> Option<&'static str> {
    match error {
        ArrowError::DivideByZero => Some("22012"),
        ArrowError::ArithmeticOverflow(_) => Some("22003"),
        ArrowError::CastError(message) if is_too_large(message) => Some("22003"),
        ArrowError::CastError(message) | ArrowError::ParseError(message) | ArrowError::ComputeError(message) => {
            first(message, VALUES)
        }
        ArrowError::InvalidArgumentError(message) => first(message, VALUES),
        _ => None,
    }
}

/// Words of a message, and what they are a sign of.
type Signs = &'static [(&'static str, &'static str)];

const PLANNING: Signs = &[
    ("not allowed in the WHERE", "42803"),
    ("cannot be nested", "42803"),
    ("boolean", "42804"),
    ("only return one column", "42601"),
    ("LIMIT must be", "2201W"),
    ("OFFSET must be", "2201X"),
    ("out of bounds, specified", "42P10"),
    (" not found", "42P01"),
    ("Invalid function", "42883"),
    ("does not support zero arguments", "42883"),
    ("Function '", "42883"),
    ("No function matches", "42883"),
    ("Failed to coerce", "42883"),
    ("Cannot coerce", "42883"),
    ("Cannot infer common argument type", "42883"),
    ("Cannot get result type", "42883"),
    ("must be in GROUP BY", "42803"),
    ("must appear in the GROUP BY", "42803"),
    ("could not be resolved from available columns", "42803"),
    ("more than one row", "21000"),
    ("incompatible", "42804"),
    ("type Boolean", "42804"),
    ("different number of columns", "42601"),
    ("not in select list", "42P10"),
    ("Cannot find column with position", "42P10"),
    ("does not exist", "42704"),
];

const VALUES: Signs = &[
    ("ivide by zero", "22012"),
    ("division by zero", "22012"),
    ("logarithm", "2201E"),
    ("square root", "2201F"),
    ("verflow", "22003"),
    ("out of range", "22003"),
    ("Can't cast value", "22003"),
    ("Cannot cast to Decimal", "22003"),
    ("too large to store", "22003"),
    ("too small to store", "22003"),
    ("Date32", "22007"),
    ("Timestamp", "22007"),
    ("timestamp", "22007"),
    ("Cannot cast string", "22P02"),
    ("Cannot cast value", "22P02"),
    ("rror parsing", "22007"),
    ("more than one row", "21000"),
    ("egex", "2201B"),
];

/// An error of a value of which only the message is left.
pub fn data_error(message: String) -> SqlError {
    let code = first(&message, VALUES);
    SqlError { code, ..SqlError::data(message) }
}

/// Digits that cannot be read are too many.
fn is_too_large(message: &str) -> bool {
    let text = message.split('\'').nth(1).unwrap_or_default().trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    message.contains("to value of Int") && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn first(message: &str, signs: Signs) -> Option<&'static str> {
    signs.iter().find(|(sign, _)| message.contains(sign)).map(|(_, code)| *code)
}
