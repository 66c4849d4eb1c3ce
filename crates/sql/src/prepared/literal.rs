//! Values as the literals that a statement would have in their place.

use arrow_array::Array;
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, CastKind, ExactNumberInfo, Expr, TimezoneInfo, Value, ValueWithSpan,
};

use saki_catalog::{Result, SqlError};
use saki_parameters::TimeStyle;
use saki_postgres::types::enumeration_name;

/// The literal that means `value`, with its type. NULL is bare, so that it goes everywhere.
pub fn literal(value: &ScalarValue) -> Result<Expr> {
    if value.is_null() {
        return Ok(bare(Value::Null));
    }
    Ok(match value {
        ScalarValue::Boolean(Some(value)) => bare(Value::Boolean(*value)),
        // Text is read as what it is compared with or stored in; so a uuid is given as text.
        ScalarValue::Utf8(Some(text)) => bare(Value::SingleQuotedString(text.clone())),
        ScalarValue::FixedSizeBinary(16, Some(bytes)) => bare(Value::SingleQuotedString(uuid_text(bytes))),
        ScalarValue::Binary(Some(bytes)) => bare(Value::HexStringLiteral(hex(bytes))),
        // A bare number with a point has its own precision and scale; a cast would force others upon it.
        ScalarValue::Decimal128(Some(_), ..) | ScalarValue::Decimal256(Some(_), ..) => number(&text_of(value)?),
        ScalarValue::List(list) => {
            let elements = list.value(0);
            let elements = (0..elements.len())
                .map(|index| literal(&ScalarValue::try_from_array(&elements, index)?))
                .collect::<Result<Vec<_>>>()?;
            let array = Expr::Array(ast::Array { elem: elements, named: true });
            if list.value(0).is_empty() { cast(array, spelled(&value.data_type())?) } else { array }
        }
        other => cast(bare(Value::SingleQuotedString(text_of(other)?)), spelled(&other.data_type())?),
    })
}

/// Something of the type of `value`: NULL where that serves.
pub fn typed_null(value: &ScalarValue) -> Result<Expr> {
    let data_type = value.data_type();
    match data_type {
        // Read as whatever it meets.
        DataType::FixedSizeBinary(_) => Ok(bare(Value::SingleQuotedString(uuid_text(&[0; 16])))),
        // Functions that are planned by their arguments refuse a NULL.
        DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            Ok(cast(bare(Value::SingleQuotedString("1".into())), spelled(&data_type)?))
        }
        _ => Ok(cast(bare(Value::Null), spelled(&data_type)?)),
    }
}

fn bare(value: Value) -> Expr {
    Expr::Value(ValueWithSpan::from(value))
}

fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// A number that may be negative, so that no `-` before it becomes a comment.
fn number(text: &str) -> Expr {
    match text.strip_prefix('-') {
        None => bare(Value::Number(text.to_owned(), false)),
        Some(positive) => {
            let expr = Box::new(bare(Value::Number(positive.to_owned(), false)));
            Expr::Nested(Box::new(Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr }))
        }
    }
}

fn text_of(value: &ScalarValue) -> Result<String> {
    let plain = TimeStyle::default();
    let mut text = String::new();
    let written = match value {
        ScalarValue::Date32(Some(days)) => plain.write_date(*days, &mut text),
        ScalarValue::Time64Microsecond(Some(micros)) => plain.write_time(*micros, &mut text),
        ScalarValue::TimestampMicrosecond(Some(micros), None) => plain.write_timestamp(*micros, &mut text),
        ScalarValue::TimestampMicrosecond(Some(micros), Some(_)) => plain.write_timestamptz(*micros, &mut text),
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            let micros = interval.nanoseconds.div_euclid(1_000);
            plain.write_interval(interval.months, interval.days, micros, &mut text)
        }
        ScalarValue::TimestampSecond(Some(number), _) if let Some(of) = saki_exec::enumeration(&value.data_type()) => {
            text.push_str(of.label(*number).unwrap_or_default());
            Ok(())
        }
        other => return cast_to_text(other),
    };
    written.map(|()| text).map_err(|error| SqlError::internal(error.to_string()))
}

fn cast_to_text(value: &ScalarValue) -> Result<String> {
    let array = value.to_array()?;
    let text = arrow::compute::cast(&array, &DataType::Utf8)?;
    let text = ScalarValue::try_from_array(&text, 0)?;
    match text {
        ScalarValue::Utf8(Some(text)) => Ok(text),
        other => Err(SqlError::internal(format!("a literal as {other:?}"))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid_text(bytes: &[u8]) -> String {
    let hex = hex(bytes);
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
}

/// The name of a type in a cast.
fn spelled(data_type: &DataType) -> Result<ast::DataType> {
    use ast::DataType as Sql;
    Ok(match data_type {
        DataType::Boolean => Sql::Boolean,
        DataType::Int16 => Sql::SmallInt(None),
        DataType::Int32 => Sql::Integer(None),
        DataType::Int64 => Sql::BigInt(None),
        DataType::Float32 => Sql::Real,
        DataType::Float64 => Sql::DoublePrecision,
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Sql::Numeric(ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)))
        }
        DataType::Utf8 | DataType::Utf8View => Sql::Text,
        DataType::LargeBinary => Sql::JSON,
        DataType::LargeUtf8 => Sql::JSONB,
        DataType::Binary => Sql::Bytea,
        DataType::Date32 => Sql::Date,
        DataType::Time64(_) => Sql::Time(None, TimezoneInfo::None),
        labels if let Some(of) = saki_exec::enumeration(labels) => Sql::Custom(enumeration_name(of), Vec::new()),
        // Microseconds: a bare timestamp would be cast to nanoseconds, which end in 2262.
        DataType::Timestamp(TimeUnit::Microsecond, None) => Sql::Timestamp(Some(6), TimezoneInfo::None),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Sql::Timestamp(Some(6), TimezoneInfo::WithTimeZone),
        DataType::Timestamp(_, None) => Sql::Timestamp(None, TimezoneInfo::None),
        DataType::Timestamp(_, Some(_)) => Sql::Timestamp(None, TimezoneInfo::WithTimeZone),
        DataType::Interval(_) => Sql::Interval { fields: None, precision: None },
        DataType::List(field) => {
            Sql::Array(ArrayElemTypeDef::SquareBracket(Box::new(spelled(field.data_type())?), None))
        }
        other => return Err(SqlError::unsupported(format!("a parameter of type {other} is not supported"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_safe_text() {
        let text = |value: ScalarValue| literal(&value).unwrap().to_string();
        assert_eq!(text(ScalarValue::Utf8(Some("it's".into()))), "'it''s'");
        assert_eq!(text(ScalarValue::Int64(Some(7))), "CAST('7' AS BIGINT)");
        assert_eq!(text(ScalarValue::Int64(Some(i64::MIN))), "CAST('-9223372036854775808' AS BIGINT)");
        assert_eq!(text(ScalarValue::Decimal128(Some(-1250), 38, 2)), "(-12.50)");
        assert_eq!(text(ScalarValue::Binary(Some(vec![1, 255]))), "X'01ff'");
        assert_eq!(text(ScalarValue::Date32(None)), "NULL");
    }
}
