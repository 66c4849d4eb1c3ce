//! Texts whose type is unknown until they stand beside something: `'5'` beside an integer is one.

use arrow_schema::{DataType as Arrow, Field, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, cast};
use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::{DataType, Value};

use super::common::stored;
use saki_catalog::SqlError;
use saki_catalog::convert::array_of;
use saki_exec::lists;

const INTERVAL: Arrow = Arrow::Interval(IntervalUnit::MonthDayNano);
/// Digits behind the point of a number that is written with an exponent.
const EXPONENT_SCALE: u8 = 10;

/// The text of a literal without a type.
pub fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// A literal or parameter without a type as one of a type, or a cast to it; anything else as it is.
///
/// # Errors
/// What is said of text that is no value of the type: 22P02, 22003.
pub fn typed(expr: Expr, target: &Arrow) -> Result<Expr> {
    if let Expr::Placeholder(Placeholder { id, field: None }) = expr {
        let field = Field::new(&id, target.clone(), true).into();
        return Ok(Expr::Placeholder(Placeholder { id, field: Some(field) }));
    }
    let Some(text) = text_of(&expr) else { return Ok(expr) };
    if let Some(element) = lists::element_of(target) {
        return match element.data_type() {
            // By the session's zone and styles, where that is known.
            DataType::Date | DataType::Timestamp | DataType::Timestamptz | DataType::Time | DataType::Interval => {
                Ok(expr)
            }
            _ => read(DataType::Array(element), text),
        };
    }
    let data_type = match stored(target) {
        Some(DataType::Text) => return Ok(expr),
        Some(DataType::Decimal { .. }) => decimal_type(text),
        // By the session's zone and styles, once they are known.
        Some(DataType::Date | DataType::Timestamp | DataType::Timestamptz | DataType::Time) => {
            return Ok(cast(expr, target.clone()));
        }
        Some(DataType::Interval) => return Ok(cast(expr, INTERVAL)),
        Some(data_type) => data_type,
        None => return Ok(expr),
    };
    read(data_type, text)
}

/// The value of a type that a text spells, as a literal.
fn read(data_type: DataType, text: &str) -> Result<Expr> {
    let value = Value::parse(data_type, text).map_err(SqlError::from)?;
    Ok(Expr::Literal(ScalarValue::try_from_array(&array_of(data_type, &[value]), 0)?, None))
}

/// The decimal type that keeps all digits of a number as it is written.
fn decimal_type(text: &str) -> DataType {
    let digits = text.trim().trim_start_matches(['-', '+']);
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return DataType::Decimal { precision: DECIMAL_PRECISION_MAX, scale: EXPONENT_SCALE };
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let max = usize::from(DECIMAL_PRECISION_MAX);
    let scale = fraction.len().min(max);
    let precision = (whole.len() + scale).clamp(1, max);
    DataType::Decimal { precision: precision as u8, scale: scale as u8 }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::lit;

    use super::*;

    fn read(text: &str, target: Arrow) -> String {
        match typed(lit(text), &target) {
            Ok(Expr::Literal(value, _)) => format!("{value:?}"),
            Ok(other) => other.to_string(),
            Err(error) => SqlError::from(error).sqlstate().to_owned(),
        }
    }

    #[test]
    fn text_takes_the_type_of_what_stands_beside_it() {
        assert_eq!(read(" 5 ", Arrow::Int32), "Int32(5)");
        assert_eq!(read("1.50", Arrow::Decimal128(10, 1)), "Decimal128(1.50,3,2)");
        assert_eq!(read("-.5", Arrow::Decimal128(10, 1)), "Decimal128(-0.5,1,1)");
        assert_eq!(read("t", Arrow::Boolean), "Boolean(true)");
        assert_eq!(read("2024-01-31", Arrow::Date32), "CAST(Utf8(\"2024-01-31\") AS Date32)");
        assert_eq!(read("a", Arrow::Utf8), "Utf8(\"a\")");
        assert_eq!(read("1.5", Arrow::Int32), "22P02");
        assert_eq!(read("x", Arrow::Decimal128(10, 1)), "22P02");
        assert_eq!(read("99999999999", Arrow::Int32), "22003");
    }
}
