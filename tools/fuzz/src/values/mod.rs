//! Rows, keys and text. The input begins with the columns of a layout.

pub mod texts;

use saki_base::{DataType, Interval, KeyColumn, KeyLayout, Random, RowColumn, RowLayout, Value, ValueRef, compare};

use crate::input::{DATA_TYPES, Input, data_type};

/// A row: every column is a value, NULL or an error; a row that verifies is the one encoding of its values.
pub fn row(data: &[u8]) {
    let mut input = Input(data);
    let columns = input.columns();
    let layout = RowLayout::new(
        columns.iter().map(|(data_type, nullable, _)| RowColumn { data_type: *data_type, nullable: *nullable }),
    );
    let bytes = input.0;
    let view = layout.view(bytes);
    let values: Result<Vec<_>, _> = (0..columns.len()).map(|column| view.value(column)).collect();
    // One column too many is a mistake of the caller's that must not touch memory either.
    assert!(view.value(columns.len()).is_err());
    if layout.verify(bytes).is_ok() {
        let values = values.expect("a sound row is readable");
        let mut again = Vec::new();
        layout.encode(&values, &mut again).expect("what was read can be written");
        assert_eq!(again, bytes, "a sound row has another encoding");
    }
}

/// A key: every column is a value, NULL or an error; what is read, written and read again is the same.
pub fn key(data: &[u8]) {
    let mut input = Input(data);
    let columns = input.columns();
    let layout = KeyLayout::new(columns.iter().map(|&(data_type, nullable, descending)| KeyColumn {
        data_type,
        nullable,
        descending,
    }));
    let bytes = input.0;
    let mut values = Vec::new();
    for column in 0..columns.len() {
        let mut scratch = Vec::new();
        match layout.decode(bytes, column, &mut scratch) {
            Ok(value) => values.push(Value::from(value)),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
    let borrowed: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
    let mut again = Vec::new();
    // Bytes may spell what no writer writes (a decimal with too many digits): an error then.
    if layout.encode(&borrowed, &mut again).is_err() {
        return;
    }
    assert_eq!(layout.offset(&again, columns.len()), Ok(again.len()));
    for (column, value) in borrowed.iter().enumerate() {
        let mut scratch = Vec::new();
        let read = layout.decode(&again, column, &mut scratch).expect("what was written can be read");
        let same = if matches!(columns[column].0, DataType::Char(_)) {
            trimmed(read) == trimmed(*value)
        } else {
            compare(read, *value).is_eq()
        };
        assert!(same, "column {column}: {value:?} became {read:?}");
    }
}

/// `character(n)` is compared, and kept in keys, without trailing blanks.
fn trimmed(value: ValueRef<'_>) -> Option<&str> {
    match value {
        ValueRef::Text(text) => Some(text.trim_end_matches(' ')),
        _ => None,
    }
}

/// Text of any type: refused with a message, or a value that prints as text that is read as the same value.
pub fn text(data: &[u8]) {
    let mut input = Input(data);
    let data_type = input.data_type();
    let Ok(text) = std::str::from_utf8(input.0) else { return };
    match Value::parse(data_type, text) {
        Ok(value) => {
            let printed = value.display(data_type).to_string();
            let again = Value::parse(data_type, &printed);
            let same = again.as_ref().is_ok_and(|again| compare(again.as_ref(), value.as_ref()).is_eq());
            assert!(same, "{data_type}: {value:?} prints as {printed:?}, which is read as {again:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A value of a type, often an extreme one.
pub(crate) fn some_value(data_type: DataType, random: &mut Random) -> Value {
    let number = random.next_u64() >> random.below(64);
    let signed = if random.chance(0.5) { number as i64 } else { (number as i64).wrapping_neg() };
    match data_type {
        DataType::Bool => Value::Bool(number.is_multiple_of(2)),
        DataType::Int2 => Value::Int2(signed as i16),
        DataType::Int4 => Value::Int4(signed as i32),
        DataType::Int8 | DataType::Enum(_) => Value::Int8(signed),
        DataType::Float4 => Value::Float4(f32::from_bits(number as u32)),
        DataType::Float8 => Value::Float8(f64::from_bits(number)),
        DataType::Decimal { .. } => Value::Decimal(i128::from(signed % 1_000_000_000_000)),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            Value::Text(format!("{number:x}\0ä"))
        }
        DataType::Bytea => Value::Bytea(number.to_be_bytes().to_vec()),
        DataType::Array(element) => {
            let mut array = Vec::new();
            for _ in 0..random.below(3) {
                let value = some_value(element.data_type(), random);
                saki_base::array::push(element, value.as_ref(), &mut array).expect("of its elements");
            }
            Value::Bytea(array)
        }
        DataType::Date => Value::Date(signed as i32 % 1_000_000),
        DataType::Timestamp => Value::Timestamp(signed % 1_000_000_000_000_000),
        DataType::Timestamptz => Value::Timestamptz(signed % 1_000_000_000_000_000),
        DataType::Time => Value::Time(signed.rem_euclid(86_400_000_001)),
        DataType::Interval => Value::Interval(Interval {
            months: signed as i32,
            days: (signed >> 32) as i32,
            micros: signed % 1_000_000_000_000_000,
        }),
        DataType::Uuid => Value::Uuid([number as u8; 16]),
    }
}

/// Layouts of up to eight columns with values for them: what `Input::columns` reads, and the values.
fn examples() -> Vec<(Vec<u8>, Vec<Value>)> {
    let mut random = Random::new(5);
    (0..40_u8)
        .map(|example| {
            let count = example % 8 + 1;
            let mut header = vec![count];
            let values = (0..count)
                .map(|_| {
                    let choice = random.next_u64() as u8;
                    header.push(choice);
                    let data_type = data_type(choice & 0x3f);
                    let null = choice & 0x40 != 0 && random.chance(0.3);
                    if null { Value::Null } else { some_value(data_type, &mut random) }
                })
                .collect();
            (header, values)
        })
        .collect()
}

/// Sound rows.
pub fn row_seeds() -> Vec<Vec<u8>> {
    let encode = |(mut seed, values): (Vec<u8>, Vec<Value>)| {
        let columns = Input(&seed).columns();
        let layout = RowLayout::new(columns.iter().map(|&(data_type, nullable, _)| RowColumn { data_type, nullable }));
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        layout.encode(&values, &mut seed).expect("values of the layout's types");
        seed
    };
    examples().into_iter().map(encode).collect()
}

/// Sound keys.
pub fn key_seeds() -> Vec<Vec<u8>> {
    let encode = |(mut seed, values): (Vec<u8>, Vec<Value>)| {
        let columns = Input(&seed).columns();
        let layout = KeyLayout::new(columns.iter().map(|&(data_type, nullable, descending)| KeyColumn {
            data_type,
            nullable,
            descending,
        }));
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        layout.encode(&values, &mut seed).expect("values of the layout's types");
        seed
    };
    examples().into_iter().map(encode).collect()
}

/// Values as text, of every type.
pub fn text_seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(6);
    let mut seeds = Vec::new();
    for (choice, data_type) in (0_u8..).zip(DATA_TYPES) {
        for _ in 0..4 {
            let mut seed = vec![choice];
            seed.extend_from_slice(some_value(data_type, &mut random).display(data_type).to_string().as_bytes());
            seeds.push(seed);
        }
    }
    for text in ["infinity", "-infinity", "2024-02-29 23:59:60.999999+15:59", "0044-03-15 BC", "NaN", "1e400", "-0"] {
        for choice in [4, 5, 6, 12, 13, 14] {
            seeds.push([&[choice], text.as_bytes()].concat());
        }
    }
    seeds
}
