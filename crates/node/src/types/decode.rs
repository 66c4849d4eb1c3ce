//! Values that a client sends, in either format.

use std::sync::Arc;

use arrow::compute::{CastOptions, cast_with_options};
use arrow_array::StringArray;
use arrow_buffer::{IntervalMonthDayNano, i256};
use arrow_schema::{DataType, Field};
use saki_base::civil::MICROS_PER_DAY;
use saki_base::{DataType as Storage, Value};
use saki_sql::{ScalarValue, SessionTime, SqlError, enumeration};

use super::{EPOCH_DAYS, EPOCH_MICROS, Format, JSONB_VERSION, arrow_type, numeric};
use crate::failure::{Failure, Result};

/// Reads a value of type `data_type`; `None` is NULL.
///
/// # Errors
/// 22P02, of times 22007 and 22008, for text, and 22P03 for bytes that are no value of the type.
pub fn value(data_type: &DataType, format: Format, bytes: Option<&[u8]>, time: &SessionTime) -> Result<ScalarValue> {
    let Some(bytes) = bytes else {
        return ScalarValue::try_from(data_type).map_err(|error| Failure::new("0A000", error.to_string()));
    };
    match format {
        Format::Text => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Failure::new("22021", "a parameter is not text in the encoding UTF8"))?;
            of_text(data_type, text, time)
        }
        // A label is sent as its text.
        Format::Binary if enumeration(data_type).is_some() => value(data_type, Format::Text, Some(bytes), time),
        Format::Binary if matches!(data_type, DataType::LargeBinary | DataType::LargeUtf8) => {
            let text = match (data_type, bytes) {
                (DataType::LargeUtf8, [JSONB_VERSION, text @ ..]) => text,
                (DataType::LargeUtf8, _) => return Err(Failure::new("22P03", "unsupported jsonb version number")),
                (_, text) => text,
            };
            let text = std::str::from_utf8(text)
                .map_err(|_| Failure::new("22021", "a parameter is not text in the encoding UTF8"))?;
            of_text(data_type, text, time)
        }
        Format::Binary => of_binary(data_type, bytes)
            .ok_or_else(|| Failure::new("22P03", format!("{} bytes are no value of type {data_type}", bytes.len()))),
    }
}

/// The storage type of which text is read.
fn storage(data_type: &DataType) -> Option<Storage> {
    Some(match data_type {
        DataType::Boolean => Storage::Bool,
        DataType::Int16 => Storage::Int2,
        DataType::Int32 => Storage::Int4,
        DataType::Int64 => Storage::Int8,
        DataType::Float32 => Storage::Float4,
        DataType::Float64 => Storage::Float8,
        DataType::Utf8 => Storage::Text,
        DataType::Binary => Storage::Bytea,
        DataType::Date32 => Storage::Date,
        DataType::Timestamp(_, None) => Storage::Timestamp,
        DataType::Timestamp(_, Some(_)) => Storage::Timestamptz,
        DataType::Time64(_) => Storage::Time,
        DataType::Interval(_) => Storage::Interval,
        DataType::FixedSizeBinary(16) => Storage::Uuid,
        DataType::LargeBinary => Storage::Json,
        DataType::LargeUtf8 => Storage::Jsonb,
        _ => return None,
    })
}

fn of_text(data_type: &DataType, text: &str, time: &SessionTime) -> Result<ScalarValue> {
    let invalid = |why: &dyn std::fmt::Display| Failure::new("22P02", format!("{text:?}: {why}"));
    if let Some(of) = enumeration(data_type) {
        let none = || Failure::new("22P02", format!("invalid input value for enum {}: \"{text}\"", of.name()));
        return label(data_type, text).ok_or_else(none);
    }
    if let Some(storage) = storage(data_type) {
        return match storage {
            Storage::Date | Storage::Timestamp | Storage::Timestamptz | Storage::Time | Storage::Interval => {
                Ok(scalar(time.read_value(storage, text)?))
            }
            Storage::Json | Storage::Jsonb => json(storage, text),
            other => Value::parse(other, text).map(scalar).map_err(|error| invalid(&error)),
        };
    }
    match data_type {
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            decimal(text).ok_or_else(|| invalid(&"not a number of up to 76 digits"))
        }
        DataType::List(field) => {
            let elements = saki_base::array_elements(text).map_err(SqlError::from)?;
            let read = |element: Option<String>| {
                value(field.data_type(), Format::Text, element.as_deref().map(str::as_bytes), time)
            };
            list(field, elements.into_iter().map(read).collect::<Result<_>>()?)
                .ok_or_else(|| invalid(&"elements of several types"))
        }
        other => {
            let array: arrow_array::ArrayRef = Arc::new(StringArray::from(vec![text]));
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let cast = cast_with_options(&array, other, &options).map_err(|error| invalid(&error))?;
            ScalarValue::try_from_array(&cast, 0).map_err(|error| invalid(&error))
        }
    }
}

/// A text of JSON, checked, or in the one form that `jsonb` has.
fn json(storage: Storage, text: &str) -> Result<ScalarValue> {
    let value = Value::parse(storage, text).map_err(|error| Failure::from(SqlError::from(error)))?;
    Ok(match (storage, value) {
        (Storage::Json, Value::Text(text)) => ScalarValue::LargeBinary(Some(text.into_bytes())),
        (_, Value::Text(text)) => ScalarValue::LargeUtf8(Some(text)),
        (_, other) => scalar(other),
    })
}

/// A number with just the precision and scale that its text has.
fn decimal(text: &str) -> Option<ScalarValue> {
    let (unscaled, scale) = numeric::parse(text)?;
    let fits = |unscaled: &i128| unscaled.unsigned_abs() < 10_u128.pow(38) && scale <= 38;
    Some(match unscaled.to_i128().filter(fits) {
        Some(unscaled) => ScalarValue::Decimal128(Some(unscaled), 38, scale),
        None => ScalarValue::Decimal256(Some(unscaled), 76, scale),
    })
}

fn scalar(value: Value) -> ScalarValue {
    match value {
        Value::Null => ScalarValue::Null,
        Value::Bool(value) => ScalarValue::Boolean(Some(value)),
        Value::Int2(value) => ScalarValue::Int16(Some(value)),
        Value::Int4(value) => ScalarValue::Int32(Some(value)),
        Value::Int8(value) => ScalarValue::Int64(Some(value)),
        Value::Float4(value) => ScalarValue::Float32(Some(value)),
        Value::Float8(value) => ScalarValue::Float64(Some(value)),
        Value::Decimal(value) => ScalarValue::Decimal256(Some(i256::from_i128(value)), 76, 0),
        Value::Text(value) => ScalarValue::Utf8(Some(value)),
        Value::Bytea(value) => ScalarValue::Binary(Some(value)),
        Value::Date(value) => ScalarValue::Date32(Some(value)),
        Value::Timestamp(value) => ScalarValue::TimestampMicrosecond(Some(value), None),
        Value::Timestamptz(value) => ScalarValue::TimestampMicrosecond(Some(value), Some("UTC".into())),
        Value::Time(value) => ScalarValue::Time64Microsecond(Some(value)),
        Value::Interval(value) => {
            let value = IntervalMonthDayNano::new(value.months, value.days, value.nanos());
            ScalarValue::IntervalMonthDayNano(Some(value))
        }
        Value::Uuid(value) => ScalarValue::FixedSizeBinary(16, Some(value.to_vec())),
    }
}

/// A label of an enumeration, if it has this one.
fn label(data_type: &DataType, text: &str) -> Option<ScalarValue> {
    let (Some(of), DataType::Timestamp(_, zone)) = (enumeration(data_type), data_type) else { return None };
    Some(ScalarValue::TimestampSecond(Some(of.value(text)?), zone.clone()))
}

fn of_binary(data_type: &DataType, bytes: &[u8]) -> Option<ScalarValue> {
    let i32_of = |bytes: &[u8]| Some(i32::from_be_bytes(bytes.try_into().ok()?));
    let i64_of = |bytes: &[u8]| Some(i64::from_be_bytes(bytes.try_into().ok()?));
    Some(match data_type {
        labels if enumeration(labels).is_some() => label(labels, std::str::from_utf8(bytes).ok()?)?,
        DataType::Boolean => ScalarValue::Boolean(Some(match bytes {
            [byte] => *byte != 0,
            _ => return None,
        })),
        DataType::Int16 => ScalarValue::Int16(Some(i16::from_be_bytes(bytes.try_into().ok()?))),
        DataType::Int32 => ScalarValue::Int32(Some(i32_of(bytes)?)),
        // What a client states as `oid` has four bytes.
        DataType::Int64 if bytes.len() == 4 => ScalarValue::Int64(Some(i32_of(bytes)? as u32 as i64)),
        DataType::Int64 => ScalarValue::Int64(Some(i64_of(bytes)?)),
        DataType::Float32 => ScalarValue::Float32(Some(f32::from_be_bytes(bytes.try_into().ok()?))),
        DataType::Float64 => ScalarValue::Float64(Some(f64::from_be_bytes(bytes.try_into().ok()?))),
        DataType::Decimal128(..) | DataType::Decimal256(..) => decimal(&numeric::decode(bytes)?)?,
        DataType::Utf8 => ScalarValue::Utf8(Some(std::str::from_utf8(bytes).ok()?.to_owned())),
        DataType::Binary => ScalarValue::Binary(Some(bytes.to_vec())),
        DataType::FixedSizeBinary(16) if bytes.len() == 16 => ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
        DataType::Date32 => ScalarValue::Date32(Some(match i32_of(bytes)? {
            infinite @ (i32::MAX | i32::MIN) => infinite,
            days => days.checked_add(EPOCH_DAYS)?,
        })),
        DataType::Time64(_) => {
            let micros = Some(i64_of(bytes)?).filter(|micros| (0..=MICROS_PER_DAY).contains(micros));
            ScalarValue::Time64Microsecond(Some(micros?))
        }
        DataType::Timestamp(_, zone) => {
            let micros = match i64_of(bytes)? {
                infinite @ (i64::MAX | i64::MIN) => infinite,
                micros => micros.checked_add(EPOCH_MICROS)?,
            };
            ScalarValue::TimestampMicrosecond(Some(micros), zone.clone())
        }
        DataType::Interval(_) => {
            let (micros, rest) = bytes.split_at_checked(8)?;
            let (days, months) = rest.split_at_checked(4)?;
            let nanoseconds = i64_of(micros)?.checked_mul(1_000)?;
            let value = IntervalMonthDayNano { months: i32_of(months)?, days: i32_of(days)?, nanoseconds };
            ScalarValue::IntervalMonthDayNano(Some(value))
        }
        DataType::List(field) => return list_of_binary(field, bytes),
        _ => return None,
    })
}

fn list_of_binary(field: &Arc<Field>, bytes: &[u8]) -> Option<ScalarValue> {
    let word = |index: usize| Some(i32::from_be_bytes(bytes.get(index * 4..index * 4 + 4)?.try_into().ok()?));
    let (dimensions, oid) = (word(0)?, word(2)? as u32);
    if dimensions == 0 {
        return list(field, Vec::new());
    }
    let is_sent = match enumeration(field.data_type()) {
        Some(of) => of.oid() == oid,
        None => arrow_type(oid)? == *field.data_type(),
    };
    let count = usize::try_from(word(3)?).ok()?;
    if dimensions != 1 || !is_sent {
        return None;
    }
    let mut rest = bytes.get(20..)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let element = match i32::from_be_bytes(*length) {
            -1 => {
                rest = after;
                None
            }
            length => {
                let (element, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
                rest = after;
                Some(element)
            }
        };
        elements.push(match element {
            None => ScalarValue::try_from(field.data_type()).ok()?,
            Some(element) => of_binary(field.data_type(), element)?,
        });
    }
    rest.is_empty().then_some(())?;
    list(field, elements)
}

/// An array of elements; decimals, which have each their own scale, take the widest.
fn list(field: &Arc<Field>, elements: Vec<ScalarValue>) -> Option<ScalarValue> {
    let mut data_type = field.data_type().clone();
    let mut elements = elements;
    if data_type.is_decimal() {
        let scale = elements.iter().map(|element| scale_of(element).unwrap_or(0)).max().unwrap_or(0);
        data_type = DataType::Decimal256(76, scale);
        elements = elements.iter().map(|element| element.cast_to(&data_type).ok()).collect::<Option<_>>()?;
    }
    elements.iter().all(|element| element.data_type() == data_type).then_some(())?;
    Some(ScalarValue::List(ScalarValue::new_list_nullable(&elements, &data_type)))
}

fn scale_of(value: &ScalarValue) -> Option<i8> {
    match value {
        ScalarValue::Decimal128(Some(_), _, scale) | ScalarValue::Decimal256(Some(_), _, scale) => Some(*scale),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{IntervalUnit, TimeUnit};
    use bytes::BytesMut;

    use super::super::encode::Column;
    use super::*;

    /// Text of each type, read, written in both formats and read again.
    #[test]
    fn values_survive_both_formats() {
        let list = |element: DataType| DataType::List(Field::new_list_field(element, true).into());
        let cases = [
            (DataType::Boolean, "t"),
            (DataType::Int16, "-32768"),
            (DataType::Int32, "7"),
            (DataType::Int64, "-9223372036854775808"),
            (DataType::Float32, "1e+20"),
            (DataType::Float64, "-0.1"),
            (DataType::Decimal128(38, 10), "-123456789012345678901234567890.12345"),
            (DataType::Decimal128(38, 10), "1234567890123456789012345678901234567890123456789.5"),
            (DataType::Utf8, "grüße"),
            (DataType::Binary, "\\x00ff"),
            (DataType::LargeBinary, "{\"b\":1, \"a\":[1e2]}"),
            (DataType::LargeUtf8, "{\"a\": [100], \"b\": 1.50}"),
            (DataType::Date32, "1815-12-10"),
            (DataType::Date32, "infinity"),
            (DataType::Time64(TimeUnit::Microsecond), "12:34:56.789"),
            (DataType::Time64(TimeUnit::Microsecond), "24:00:00"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "1 year 2 mons -3 days +01:01:01.000001"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "1 day -00:00:01.5"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "2024-02-29 12:00:00.5"),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "1999-12-31 23:59:59+00"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "1 year 2 mons 3 days 04:05:06"),
            (DataType::FixedSizeBinary(16), "6ecd8c99-4036-403d-bf84-cf8400f67836"),
            (list(DataType::Int32), "{1,NULL,3}"),
            (list(DataType::Utf8), "{\"a b\",\"\",c}"),
            (list(DataType::Decimal128(38, 10)), "{1.50,2.25}"),
        ];
        for (data_type, text) in cases {
            let read = value(&data_type, Format::Text, Some(text.as_bytes()), &SessionTime::default()).unwrap();
            for format in [Format::Text, Format::Binary] {
                let mut out = BytesMut::new();
                Column::new(&read.to_array().unwrap(), format, &None).unwrap().value(0, &mut out);
                if format == Format::Text {
                    assert_eq!(std::str::from_utf8(&out).unwrap(), text);
                }
                let again = value(&data_type, format, Some(&out), &SessionTime::default()).unwrap();
                assert_eq!(again, read, "{data_type} {format:?}");
            }
        }
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        let code = |data_type: &DataType, format, bytes: &[u8]| {
            value(data_type, format, Some(bytes), &SessionTime::default()).unwrap_err().code
        };
        let cases = [
            (DataType::Int32, "22P02"),
            (DataType::Boolean, "22P02"),
            (DataType::Decimal128(38, 10), "22P02"),
            (DataType::Date32, "22007"),
            (DataType::Time64(TimeUnit::Microsecond), "22007"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "22007"),
        ];
        for (data_type, expected) in cases {
            assert_eq!(code(&data_type, Format::Text, b"x"), expected);
            assert_eq!(code(&data_type, Format::Binary, b"xyz"), "22P03");
        }
    }
}
