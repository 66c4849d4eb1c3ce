//! Literals of a plan as values of columns.

use datafusion::common::ScalarValue;
use saki_base::DataType;
use saki_base::value::Value;

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
        (text, DataType::Text | DataType::Varchar(_) | DataType::Char(_)) => {
            Value::Text(text.try_as_str()??.to_owned())
        }
        (ScalarValue::TimestampSecond(Some(v), Some(_)), DataType::Enum(_)) => Value::Int8(*v),
        (ScalarValue::List(list), DataType::Array(element)) => {
            let arrays = saki_exec::lists::encode(element, list.as_ref()).ok()?;
            Value::Bytea(arrays.value(0).to_owned())
        }
        (ScalarValue::LargeUtf8(Some(v)), DataType::Jsonb) => Value::Text(v.clone()),
        (
            ScalarValue::Binary(Some(v)) | ScalarValue::BinaryView(Some(v)) | ScalarValue::LargeBinary(Some(v)),
            // Of an array these are its bytes.
            DataType::Bytea | DataType::Array(_),
        ) => Value::Bytea(v.clone()),
        (ScalarValue::Date32(Some(v)), DataType::Date) => Value::Date(*v),
        (ScalarValue::TimestampMicrosecond(Some(v), None), DataType::Timestamp) => Value::Timestamp(*v),
        (ScalarValue::TimestampMicrosecond(Some(v), Some(_)), DataType::Timestamptz) => Value::Timestamptz(*v),
        (ScalarValue::Time64Microsecond(Some(v)), DataType::Time) => Value::Time(*v),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_literal_of_exactly_the_columns_type_has_a_value() {
        let money = DataType::Decimal { precision: 12, scale: 2 };
        let text = |text: &str| Some(Value::Text(text.into()));
        let cases = [
            (ScalarValue::Boolean(Some(true)), DataType::Bool, Some(Value::Bool(true))),
            (ScalarValue::Int16(Some(-3)), DataType::Int2, Some(Value::Int2(-3))),
            (ScalarValue::Int32(Some(7)), DataType::Int4, Some(Value::Int4(7))),
            (ScalarValue::Int64(Some(7)), DataType::Int4, None),
            (ScalarValue::Int32(None), DataType::Text, Some(Value::Null)),
            (ScalarValue::Float32(Some(1.5)), DataType::Float4, Some(Value::Float4(1.5))),
            (ScalarValue::Float64(Some(1.5)), DataType::Float4, None),
            (ScalarValue::Decimal128(Some(199), 30, 2), money, Some(Value::Decimal(199))),
            (ScalarValue::Decimal128(Some(199), 12, 3), money, None),
            (ScalarValue::Utf8(Some("a".into())), DataType::Varchar(3), text("a")),
            (ScalarValue::Utf8View(Some("a".into())), DataType::Char(3), text("a")),
            (ScalarValue::LargeUtf8(Some("a".into())), DataType::Text, text("a")),
            (ScalarValue::Utf8(Some("a".into())), DataType::Bytea, None),
            (ScalarValue::Binary(Some(vec![1])), DataType::Bytea, Some(Value::Bytea(vec![1]))),
            (ScalarValue::Date32(Some(9)), DataType::Date, Some(Value::Date(9))),
            (ScalarValue::TimestampMicrosecond(Some(9), None), DataType::Timestamp, Some(Value::Timestamp(9))),
            (ScalarValue::TimestampMicrosecond(Some(9), None), DataType::Timestamptz, None),
            (
                ScalarValue::TimestampMicrosecond(Some(9), Some("UTC".into())),
                DataType::Timestamptz,
                Some(Value::Timestamptz(9)),
            ),
            (ScalarValue::FixedSizeBinary(16, Some(vec![3; 16])), DataType::Uuid, Some(Value::Uuid([3; 16]))),
        ];
        for (literal, column, value) in cases {
            assert_eq!(value_of(&literal, column), value, "{literal:?} as {column:?}");
        }
    }

    #[test]
    fn only_numbers_that_binary_and_decimal_agree_on_are_exact() {
        let exact = |unscaled, scale| Some(Exact { unscaled, scale });
        let cases = [
            (ScalarValue::Int8(Some(-1)), exact(-1, 0)),
            (ScalarValue::UInt64(Some(u64::MAX)), exact(u64::MAX.into(), 0)),
            (ScalarValue::Decimal128(Some(-125), 5, 2), exact(-125, 2)),
            (ScalarValue::Decimal128(Some(5), 5, -1), None),
            (ScalarValue::Float64(Some(3.0)), exact(3, 0)),
            (ScalarValue::Float64(Some(-2.5)), exact(-2500, 3)),
            (ScalarValue::Float64(Some(0.125)), exact(125, 3)),
            (ScalarValue::Float64(Some(0.1)), None),
            (ScalarValue::Float64(Some(0.0625)), None),
            (ScalarValue::Float64(Some(1e300)), None),
            (ScalarValue::Float64(Some(f64::NAN)), None),
            (ScalarValue::Float64(Some(f64::INFINITY)), None),
            (ScalarValue::Utf8(Some("1".into())), None),
            (ScalarValue::Int64(None), None),
        ];
        for (literal, number) in cases {
            assert_eq!(exact_number(&literal), number, "{literal:?}");
        }
    }

    #[test]
    fn a_whole_number_beyond_the_columns_range_has_no_value() {
        let money = DataType::Decimal { precision: 4, scale: 2 };
        let cases = [
            (DataType::Int2, 32_767, Some(Value::Int2(32_767))),
            (DataType::Int2, 32_768, None),
            (DataType::Int4, -(1 << 31), Some(Value::Int4(i32::MIN))),
            (DataType::Int8, 1 << 63, None),
            (money, 9_999, Some(Value::Decimal(9_999))),
            (money, 10_000, None),
            (money, -10_000, None),
            (DataType::Float8, 1, None),
        ];
        for (column, units, value) in cases {
            assert_eq!(integral_value(column, units), value, "{units} as {column:?}");
        }
        assert_eq!(integral_scale(money), Some(2));
        assert_eq!((integral_scale(DataType::Int8), integral_scale(DataType::Float8)), (Some(0), None));
    }

    /// Many eighths.
    fn float() -> impl Strategy<Value = f64> {
        prop_oneof![(-1_000_000..1_000_000_i32).prop_map(|n| f64::from(n) / 8.0), any::<f64>()]
    }

    proptest! {
        #[test]
        fn an_exact_float_is_that_number(float in float()) {
            if let Some(Exact { unscaled, scale }) = exact_number(&ScalarValue::Float64(Some(float))) {
                prop_assert_eq!(unscaled as f64 / 10_f64.powi(scale as i32), float);
            } else {
                prop_assert!(float.abs() >= 1e12 || !float.is_finite() || (float * 8.0).fract() != 0.0, "{}", float);
            }
        }
    }
}
