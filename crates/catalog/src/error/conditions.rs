//! The PostgreSQL conditions of what kernels report: they say it in words only.

use std::fmt;

use arrow_schema::ArrowError;

use super::SqlError;

/// Words of a message, and what they are a sign of.
pub(super) type Signs = &'static [(&'static str, &'static str)];

pub(super) const VALUES: Signs = &[
    ("ivide by zero", "22012"),
    ("division by zero", "22012"),
    ("logarithm", "2201E"),
    ("square root", "2201F"),
    ("verflow", "22003"),
    ("Unable to parse date from", "22008"),
    ("Day value", "22008"),
    ("Month value", "22008"),
    ("Year value", "22008"),
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
    ("Regular expression did not compile", "2201B"),
    ("negative count not allowed", "22011"),
    ("field position must not be zero", "22023"),
    ("zero raised to a negative power", "2201F"),
];

/// The condition of a kernel's error, if one is known that is more exact than its kind's.
pub(super) fn of_arrow(error: &ArrowError) -> Option<&'static str> {
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

/// An error of a value of which only the message is left.
pub fn data_error(message: String) -> SqlError {
    let code = first(&message, VALUES);
    SqlError { code, ..SqlError::data(message) }
}

/// The server's memory is in use.
pub(super) fn out_of_memory(reason: impl fmt::Display) -> SqlError {
    SqlError::invalid(format!("out of memory: {reason}"))
        .code("53200")
        .hint("let the statement make or change less, or give saki serve more --memory")
}

/// Digits that cannot be read are too many.
fn is_too_large(message: &str) -> bool {
    let text = message.split('\'').nth(1).unwrap_or_default().trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    message.contains("to value of Int") && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn first(message: &str, signs: Signs) -> Option<&'static str> {
    signs.iter().find(|(sign, _)| message.contains(sign)).map(|(_, code)| *code)
}

impl From<arrow::error::ArrowError> for SqlError {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self { code: of_arrow(&error), ..Self::data(clean(&error.to_string())) }
    }
}

/// Drops the layer names that libraries put before their messages.
pub(super) fn clean(message: &str) -> String {
    const PREFIXES: [&str; 9] = [
        "sql parser error: ",
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "SQL error: ",
        "This feature is not implemented: ",
        "Schema error: ",
        "Cast error: ",
        "Parser error: ",
    ];
    let mut rest = message;
    while let Some(cut) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = cut;
    }
    match rest.lines().next().unwrap_or_default().trim_end() {
        "Divide by zero error" => "division by zero".to_owned(),
        message => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_kernels_become_conditions() {
        let cases = [
            (ArrowError::DivideByZero, Some("22012")),
            (ArrowError::ArithmeticOverflow("x".into()), Some("22003")),
            (ArrowError::CastError("Cannot cast string '99999999999' to value of Int32 type".into()), Some("22003")),
            (ArrowError::CastError("Cannot cast string 'x' to value of Int32 type".into()), Some("22P02")),
            (ArrowError::ParseError("Error parsing timestamp from 'x'".into()), Some("22007")),
            (ArrowError::ComputeError("Regular expression did not compile: CompiledTooBig(1)".into()), Some("2201B")),
            (ArrowError::MemoryError("x".into()), None),
        ];
        for (error, code) in cases {
            assert_eq!(of_arrow(&error), code, "{error}");
        }
        assert_eq!(data_error("Divide by zero error".into()).sqlstate(), "22012");
        assert_eq!(data_error("something else".into()).sqlstate(), "22000");
    }

    #[test]
    fn names_of_layers_are_dropped_from_messages() {
        assert_eq!(clean("Execution error: Arrow error: Cast error: no number\nbacktrace"), "no number");
        assert_eq!(clean("no prefix"), "no prefix");
    }
}
