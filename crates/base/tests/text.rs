//! Values and their text: what is printed is read back, and both are as
//! PostgreSQL has them.

mod values;

use std::cmp::Ordering;

use proptest::prelude::*;
use saki_base::{DataType, ParseReason, Value, compare};

fn parse(data_type: DataType, text: &str) -> Result<Value, ParseReason> {
    Value::parse(data_type, text).map_err(|error| error.reason)
}

fn print(data_type: DataType, text: &str) -> String {
    Value::parse(data_type, text).unwrap_or_else(|error| panic!("{error}")).display(data_type).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn what_is_printed_is_read_back((data_type, _, values) in values::columns(3)) {
        for value in values.iter().filter(|value| !value.is_null()) {
            let text = value.display(data_type).to_string();
            match Value::parse(data_type, &text) {
                Ok(read) => prop_assert_eq!(compare(read.as_ref(), value.as_ref()), Ordering::Equal, "{}", text),
                // Days and moments beyond those that SQL has.
                Err(error) => prop_assert_eq!(error.reason, ParseReason::OutOfRange, "{}", text),
            }
        }
    }

    #[test]
    fn no_text_panics(
        data_type in values::data_types(),
        text in "\\PC{0,40}",
        near in "[-+0-9:. TZeE\\\\xBC{}a-f]{0,40}",
    ) {
        for text in [text, near] {
            if let Ok(value) = Value::parse(data_type, &text) {
                let printed = value.display(data_type).to_string();
                let again = Value::parse(data_type, &printed).unwrap();
                prop_assert_eq!(compare(again.as_ref(), value.as_ref()), Ordering::Equal);
            }
        }
    }

    #[test]
    fn decimals_round_half_away_from_zero(unscaled in -10_i64.pow(15)..10_i64.pow(15), scale in 0_u8..6) {
        let text = Value::Decimal(unscaled.into()).display(DataType::Decimal { precision: 18, scale: 6 }).to_string();
        let divisor = 10_i128.pow(6 - u32::from(scale));
        let half = divisor / 2 * i128::from(unscaled.signum());
        prop_assert_eq!(
            parse(DataType::Decimal { precision: 18, scale }, &text),
            Ok(Value::Decimal((i128::from(unscaled) + half) / divisor))
        );
    }
}

#[test]
fn numbers_are_as_postgresql_has_them() {
    for (text, printed) in [
        ("0", "0"),
        ("-0", "-0"),
        ("1e14", "100000000000000"),
        ("1e15", "1e+15"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("123.456", "123.456"),
        ("-1.5e300", "-1.5e+300"),
        ("5e-324", "5e-324"),
        (" inf ", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("nan", "NaN"),
        (".5", "0.5"),
        ("12345.", "12345"),
    ] {
        assert_eq!(print(DataType::Float8, text), printed);
    }
    assert_eq!(print(DataType::Float4, "1000000"), "1e+06");
    assert_eq!(print(DataType::Float4, "999999"), "999999");
    assert_eq!(print(DataType::Float4, "0.1"), "0.1");
    for (data_type, text) in [
        (DataType::Float8, "1e400"),
        (DataType::Float8, "1e-400"),
        (DataType::Float4, "1e39"),
        (DataType::Int2, "32768"),
        (DataType::Int4, "-2147483649"),
        (DataType::Int8, "9223372036854775808"),
    ] {
        assert_eq!(parse(data_type, text), Err(ParseReason::OutOfRange), "{text}");
    }
    assert_eq!(parse(DataType::Int4, " +7 "), Ok(Value::Int4(7)));
    for text in ["", "1.0", "1e3", "seven", "0x1f", "--1"] {
        assert!(matches!(parse(DataType::Int4, text), Err(ParseReason::Syntax { .. })), "{text}");
    }
}

#[test]
fn decimals_are_as_postgresql_has_them() {
    let money = DataType::Decimal { precision: 5, scale: 2 };
    for (text, printed) in [
        ("1", "1.00"),
        ("-0.005", "-0.01"),
        ("0.0049999", "0.00"),
        ("999.994", "999.99"),
        ("1.5e2", "150.00"),
        ("0e999999999999", "0.00"),
        ("1e-999999999999", "0.00"),
        (".5", "0.50"),
        ("5.", "5.00"),
        ("-.5", "-0.50"),
    ] {
        assert_eq!(print(money, text), printed, "{text}");
    }
    for text in ["999.995", "1000", "1e999999999999", "123456789012345678901234567890123456789012345678901234567890"] {
        assert_eq!(parse(money, text), Err(ParseReason::NumericOverflow { precision: 5, scale: 2 }), "{text}");
    }
    for text in ["", ".", "-", "1e", "1e+", "1.2.3", "1 2", "NaN", "1e5x"] {
        assert!(matches!(parse(money, text), Err(ParseReason::Syntax { .. })), "{text}");
    }
    let widest = DataType::Decimal { precision: 38, scale: 0 };
    let nines = "9".repeat(38);
    assert_eq!(print(widest, &nines), nines);
    assert!(parse(widest, &format!("{nines}.5")).is_err());
    assert_eq!(
        Value::parse(money, "1000").unwrap_err().to_string(),
        "numeric field overflow: \"1000\": a field with precision 5, scale 2 must round to \
         an absolute value less than 10^3"
    );
}

#[test]
fn more_digits_than_any_decimal_has_are_an_overflow() {
    let widest = DataType::Decimal { precision: 38, scale: 0 };
    let nines = "9".repeat(38);
    assert_eq!(parse(widest, &nines), Ok(Value::Decimal(10_i128.pow(38) - 1)));
    for text in [format!("{nines}9"), format!("{nines}.5"), format!("{nines}e1"), "2".repeat(5_000)] {
        assert_eq!(parse(widest, &text), Err(ParseReason::NumericOverflow { precision: 38, scale: 0 }), "{text}");
    }
}

#[test]
fn dates_and_times_are_as_postgresql_has_them() {
    for (text, printed) in [
        ("1970-01-01", "1970-01-01"),
        ("2024-2-9", "2024-02-09"),
        ("20240229", "2024-02-29"),
        ("0044-03-15 BC", "0044-03-15 BC"),
        ("0001-12-31 BC", "0001-12-31 BC"),
        ("infinity", "infinity"),
        ("-Infinity", "-infinity"),
        ("5874897-12-31", "5874897-12-31"),
        ("4714-11-24 BC", "4714-11-24 BC"),
        ("2024-01-02 23:59:59", "2024-01-02"),
    ] {
        assert_eq!(print(DataType::Date, text), printed);
    }
    for (text, printed) in [
        ("2024-01-02", "2024-01-02 00:00:00"),
        ("2024-01-02T03:04", "2024-01-02 03:04:00"),
        ("2024-01-02 03:04:05.678900", "2024-01-02 03:04:05.6789"),
        ("1969-12-31 23:59:59.9999995", "1970-01-01 00:00:00"),
        ("2024-12-31 24:00", "2025-01-01 00:00:00"),
        ("2016-12-31 23:59:60", "2017-01-01 00:00:00"),
        ("2024-01-02 03:04:05+09", "2024-01-02 03:04:05"),
        ("0044-03-15 12:00 BC", "0044-03-15 12:00:00 BC"),
    ] {
        assert_eq!(print(DataType::Timestamp, text), printed);
    }
    for (text, printed) in [
        ("2024-01-02 03:04:05+09", "2024-01-01 18:04:05+00"),
        ("2024-01-02 03:04:05 -0330", "2024-01-02 06:34:05+00"),
        ("2024-01-02T03:04:05.5Z", "2024-01-02 03:04:05.5+00"),
        ("2024-01-02 03:04:05 UTC", "2024-01-02 03:04:05+00"),
        ("2024-01-02", "2024-01-02 00:00:00+00"),
        ("2024-01-02 00:00:00+00:30:15", "2024-01-01 23:29:45+00"),
    ] {
        assert_eq!(print(DataType::Timestamptz, text), printed);
    }
    for (text, field) in [
        ("2023-02-29", "day"),
        ("1900-02-29", "day"),
        ("2024-13-01", "month"),
        ("2024-00-01", "month"),
        ("0000-01-01", "year"),
        ("2024-01-01 25:00", "hour"),
        ("2024-01-01 24:00:01", "hour"),
        ("2024-01-01 00:60", "minute"),
        ("2024-01-01 00:00:61", "second"),
        ("2024-01-01 00:00+16", "time zone"),
    ] {
        assert_eq!(parse(DataType::Timestamptz, text), Err(ParseReason::FieldOutOfRange { field }), "{text}");
    }
    for text in ["", "2024", "24-01-01", "2024-01", "2024-01-01 1", "2024-01-01 01:02:", "2024-01-01x", "01/02/2024"] {
        assert!(matches!(parse(DataType::Timestamp, text), Err(ParseReason::Syntax { .. })), "{text}");
    }
    assert_eq!(parse(DataType::Date, "5874898-01-01"), Err(ParseReason::OutOfRange));
    assert_eq!(parse(DataType::Timestamp, "300000-01-01"), Err(ParseReason::OutOfRange));
}

#[test]
fn other_types_are_as_postgresql_has_them() {
    for (text, printed) in
        [("TRUE", "t"), ("ye", "t"), ("on", "t"), ("1", "t"), ("f", "f"), ("of", "f"), (" no ", "f"), ("0", "f")]
    {
        assert_eq!(print(DataType::Bool, text), printed);
    }
    for text in ["", "o", "truely", "2", "10"] {
        assert!(parse(DataType::Bool, text).is_err(), "{text}");
    }
    assert_eq!(parse(DataType::Bytea, "\\xDEad be"), Ok(Value::Bytea(vec![0xde, 0xad, 0xbe])));
    assert_eq!(parse(DataType::Bytea, "a\\\\b\\001"), Ok(Value::Bytea(b"a\\b\x01".to_vec())));
    for text in ["\\xabc", "\\xzz", "\\", "\\9"] {
        assert!(parse(DataType::Bytea, text).is_err(), "{text}");
    }
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for text in [
        uuid,
        "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
    ] {
        assert_eq!(print(DataType::Uuid, text), uuid);
    }
    for text in [
        "",
        "a0eebc99",
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc99--9c0b4ef8bb6d6bb9bd380a11",
        "a0e-ebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
    ] {
        assert!(parse(DataType::Uuid, text).is_err(), "{text}");
    }
    assert_eq!(print(DataType::Char(4), "山 "), "山   ");
    assert_eq!(parse(DataType::Varchar(2), "山川  "), Ok(Value::from("山川")));
    assert_eq!(parse(DataType::Varchar(2), "abc"), Err(ParseReason::TooLong { limit: 2, found: 3 }));
    assert_eq!(parse(DataType::Text, "a\0"), Err(ParseReason::ZeroCharacter));
    assert_eq!(
        Value::parse(DataType::Int4, &"x".repeat(200)).unwrap_err().to_string(),
        format!("invalid input syntax for type integer: \"{}…\": expected a whole number", "x".repeat(80))
    );
}
