//! SQL types as people spell them, as storage knows them, and as literals carry them.

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, CharacterLength, ExactNumberInfo, TimezoneInfo};
use saki_base::DataType;
use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::value::Value;

use crate::error::{Result, SqlError};

/// The storage type of a type in CREATE TABLE.
pub fn storage_type(spelled: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Sql;
    Ok(match spelled {
        Sql::Bool | Sql::Boolean => DataType::Bool,
        Sql::SmallInt(_) | Sql::Int2(_) | Sql::Int16 => DataType::Int2,
        Sql::Int(_) | Sql::Int4(_) | Sql::Integer(_) | Sql::Int32 => DataType::Int4,
        Sql::BigInt(_) | Sql::Int8(_) | Sql::Int64 => DataType::Int8,
        Sql::Real | Sql::Float4 | Sql::Float32 => DataType::Float4,
        Sql::DoublePrecision | Sql::Float8 | Sql::Float64 | Sql::Double(_) => DataType::Float8,
        Sql::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => DataType::Float4,
        Sql::Float(_) => DataType::Float8,
        Sql::Numeric(info) | Sql::Decimal(info) | Sql::Dec(info) => decimal(spelled, info)?,
        Sql::Text | Sql::String(_) => DataType::Text,
        Sql::Varchar(length) | Sql::CharacterVarying(length) | Sql::CharVarying(length) => {
            match characters(spelled, length)? {
                Some(length) => DataType::Varchar(length),
                None => DataType::Text,
            }
        }
        Sql::Char(length) | Sql::Character(length) => DataType::Char(characters(spelled, length)?.unwrap_or(1)),
        Sql::Bytea | Sql::Blob(None) => DataType::Bytea,
        Sql::Date => DataType::Date,
        Sql::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Timestamp,
        Sql::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => DataType::Timestamptz,
        Sql::Uuid => DataType::Uuid,
        other => {
            return Err(SqlError::unsupported(format!("type {other} is not supported")).hint(
                "use smallint, integer, bigint, numeric(p,s), real, double precision, text, varchar(n), char(n), bytea, \
                 date, timestamp, timestamptz, uuid or boolean",
            ));
        }
    })
}

fn decimal(spelled: &ast::DataType, info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => (38, 9),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let fits = (1..=u64::from(DECIMAL_PRECISION_MAX)).contains(&precision) && scale >= 0 && scale as u64 <= precision;
    if !fits {
        return Err(SqlError::invalid(format!(
            "{spelled}: precision must be 1 to {DECIMAL_PRECISION_MAX} and scale 0 to precision"
        )));
    }
    Ok(DataType::Decimal { precision: precision as u8, scale: scale as u8 })
}

fn characters(spelled: &ast::DataType, length: &Option<CharacterLength>) -> Result<Option<u32>> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => match u32::try_from(*length) {
            Ok(length) if length > 0 => Ok(Some(length)),
            _ => Err(SqlError::invalid(format!("{spelled}: the length must be at least 1"))),
        },
    }
}

/// The type of a table's column for values of an Arrow type; `None`: there is none.
pub fn stored_as(arrow: &arrow_schema::DataType) -> Option<DataType> {
    use arrow_schema::DataType as Arrow;
    Some(match arrow {
        Arrow::Boolean => DataType::Bool,
        Arrow::Int8 | Arrow::Int16 | Arrow::UInt8 => DataType::Int2,
        Arrow::Int32 | Arrow::UInt16 => DataType::Int4,
        Arrow::Int64 | Arrow::UInt32 => DataType::Int8,
        Arrow::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
        Arrow::Float16 | Arrow::Float32 => DataType::Float4,
        Arrow::Float64 => DataType::Float8,
        Arrow::Decimal128(precision, scale) if *scale >= 0 => {
            DataType::Decimal { precision: *precision, scale: *scale as u8 }
        }
        // As PostgreSQL: what has no type of its own is text.
        Arrow::Utf8 | Arrow::Utf8View | Arrow::LargeUtf8 | Arrow::Null => DataType::Text,
        Arrow::Binary | Arrow::BinaryView | Arrow::LargeBinary => DataType::Bytea,
        Arrow::FixedSizeBinary(16) => DataType::Uuid,
        Arrow::Date32 => DataType::Date,
        Arrow::Timestamp(_, None) | Arrow::Date64 => DataType::Timestamp,
        Arrow::Timestamp(_, Some(_)) => DataType::Timestamptz,
        _ => return None,
    })
}

/// The storage value of a literal that has exactly the column's Arrow type (text of any kind counts as the same).
pub fn value_of(literal: &ScalarValue, column: DataType) -> Option<Value> {
    Some(match (literal, column) {
        (literal, _) if literal.is_null() => Value::Null,
        (ScalarValue::Boolean(Some(v)), DataType::Bool) => Value::Bool(*v),
        (ScalarValue::Int16(Some(v)), DataType::Int2) => Value::Int2(*v),
        (ScalarValue::Int32(Some(v)), DataType::Int4) => Value::Int4(*v),
        (ScalarValue::Int64(Some(v)), DataType::Int8) => Value::Int8(*v),
        (ScalarValue::Float32(Some(v)), DataType::Float4) => Value::Float4(*v),
        (ScalarValue::Float64(Some(v)), DataType::Float8) => Value::Float8(*v),
        (ScalarValue::Decimal128(Some(v), _, s), DataType::Decimal { scale, .. }) if *s == scale as i8 => {
            Value::Decimal(*v)
        }
        (
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)),
            DataType::Text | DataType::Varchar(_) | DataType::Char(_),
        ) => Value::Text(v.clone()),
        (
            ScalarValue::Binary(Some(v)) | ScalarValue::BinaryView(Some(v)) | ScalarValue::LargeBinary(Some(v)),
            DataType::Bytea,
        ) => Value::Bytea(v.clone()),
        (ScalarValue::Date32(Some(v)), DataType::Date) => Value::Date(*v),
        (ScalarValue::TimestampMicrosecond(Some(v), None), DataType::Timestamp) => Value::Timestamp(*v),
        (ScalarValue::TimestampMicrosecond(Some(v), Some(_)), DataType::Timestamptz) => Value::Timestamptz(*v),
        (ScalarValue::FixedSizeBinary(16, Some(v)), DataType::Uuid) => Value::Uuid(v.as_slice().try_into().ok()?),
        _ => return None,
    })
}

/// An exact number: `unscaled / 10^scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exact {
    pub unscaled: i128,
    pub scale: u32,
}

/// The number a literal denotes, if exactly representable.
pub fn exact_number(literal: &ScalarValue) -> Option<Exact> {
    let integer = |v: i128| Some(Exact { unscaled: v, scale: 0 });
    match literal {
        ScalarValue::Int8(Some(v)) => integer((*v).into()),
        ScalarValue::Int16(Some(v)) => integer((*v).into()),
        ScalarValue::Int32(Some(v)) => integer((*v).into()),
        ScalarValue::Int64(Some(v)) => integer((*v).into()),
        ScalarValue::UInt8(Some(v)) => integer((*v).into()),
        ScalarValue::UInt16(Some(v)) => integer((*v).into()),
        ScalarValue::UInt32(Some(v)) => integer((*v).into()),
        ScalarValue::UInt64(Some(v)) => integer((*v).into()),
        ScalarValue::Decimal128(Some(v), _, scale) if *scale >= 0 => Some(Exact { unscaled: *v, scale: *scale as u32 }),
        ScalarValue::Float64(Some(v)) if v.fract() == 0.0 && v.abs() < 9_007_199_254_740_992.0 => integer(*v as i128),
        ScalarValue::Float64(Some(v)) if v.abs() < 1e12 => {
            // Halves, quarters and eighths are exact in both number systems; others are left to the filter.
            let thousandths = v * 1000.0;
            (thousandths.fract() == 0.0 && thousandths / 1000.0 == *v && (v * 8.0).fract() == 0.0)
                .then_some(Exact { unscaled: thousandths as i128, scale: 3 })
        }
        _ => None,
    }
}

/// A whole number of a column's own unit (integers, or a decimal's unscaled value).
pub fn integral_value(column: DataType, units: i128) -> Option<Value> {
    match column {
        DataType::Int2 => i16::try_from(units).ok().map(Value::Int2),
        DataType::Int4 => i32::try_from(units).ok().map(Value::Int4),
        DataType::Int8 => i64::try_from(units).ok().map(Value::Int8),
        DataType::Decimal { precision, .. } => {
            let limit = 10_i128.checked_pow(precision.into())?;
            (units > -limit && units < limit).then_some(Value::Decimal(units))
        }
        _ => None,
    }
}

/// Digits after the point of a column whose values are whole multiples of a unit.
pub fn integral_scale(column: DataType) -> Option<u32> {
    match column {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => Some(0),
        DataType::Decimal { scale, .. } => Some(scale.into()),
        _ => None,
    }
}
