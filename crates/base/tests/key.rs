//! Keys: byte order is typed order, decoding gives back what was encoded, and
//! hostile bytes are an error.

mod values;

use std::cmp::Ordering;

use proptest::prelude::*;
use saki_base::key::prefix_successor;
use saki_base::{DataType, KeyColumn, KeyError, KeyLayout, Value, ValueRef, compare};

/// A key's layout and two keys, as values.
fn key_pairs() -> impl Strategy<Value = (KeyLayout, Vec<Value>, Vec<Value>)> {
    let keyed = values::columns(2).prop_filter("equal ones have several keys", |(of, ..)| *of != DataType::Interval);
    prop::collection::vec((keyed, any::<bool>(), any::<bool>()), 1..5).prop_map(|columns| {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut layout = Vec::new();
        for ((data_type, nullable, values), descending, equal) in columns {
            layout.push(KeyColumn { data_type, nullable, descending });
            left.push(values[0].clone());
            right.push(values[if equal { 0 } else { 1 }].clone());
        }
        (KeyLayout::new(layout), left, right)
    })
}

fn encode(layout: &KeyLayout, values: &[Value]) -> Vec<u8> {
    let references: Vec<_> = values.iter().map(Value::as_ref).collect();
    let mut key = Vec::new();
    layout.encode(&references, &mut key).unwrap();
    key
}

fn typed_order(layout: &KeyLayout, left: &[Value], right: &[Value]) -> Ordering {
    layout.columns().iter().zip(left.iter().zip(right)).fold(Ordering::Equal, |ordering, (column, (left, right))| {
        let here = compare(left.as_ref(), right.as_ref());
        ordering.then(if column.descending { here.reverse() } else { here })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn byte_order_is_typed_order((layout, left, right) in key_pairs(), columns in 1..5_usize) {
        let columns = columns.min(left.len());
        let (left_key, right_key) = (encode(&layout, &left[..columns]), encode(&layout, &right[..columns]));
        prop_assert_eq!(left_key.cmp(&right_key), typed_order(&layout, &left[..columns], &right[..columns]));
        // The first columns' encoding is a prefix of exactly the keys with those values.
        let whole = encode(&layout, &right);
        prop_assert_eq!(whole.starts_with(&left_key), left_key == right_key);
        let mut successor = left_key.clone();
        if prefix_successor(&mut successor) {
            prop_assert!(encode(&layout, &left) < successor);
            prop_assert_eq!(whole >= left_key && whole < successor, whole.starts_with(&left_key));
        }
    }

    #[test]
    fn intervals_are_ordered_by_their_length(
        left in values::values(DataType::Interval),
        right in values::values(DataType::Interval),
        descending in any::<bool>(),
    ) {
        let layout = KeyLayout::new([KeyColumn { data_type: DataType::Interval, nullable: true, descending }]);
        let keys = [&left, &right].map(|value| encode(&layout, std::slice::from_ref(value)));
        let (order, typed) = (keys[0].cmp(&keys[1]), typed_order(&layout, std::slice::from_ref(&left), &[right]));
        prop_assert!(typed.is_eq() || order == typed);
        prop_assert_eq!(Value::from(layout.decode(&keys[0], 0, &mut Vec::new()).unwrap()), left);
    }

    #[test]
    fn decoding_gives_back_what_was_encoded((layout, values, _) in key_pairs()) {
        let key = encode(&layout, &values);
        let mut offset = 0;
        for (index, value) in values.iter().enumerate() {
            let mut scratch = b"left over".to_vec();
            let decoded = layout.decode(&key, index, &mut scratch).unwrap();
            prop_assert_eq!(compare(decoded, value.as_ref()), Ordering::Equal);
            prop_assert_eq!(layout.offset(&key, index).unwrap(), offset);
            prop_assert!(layout.fixed_offset(index).is_none_or(|fixed| fixed == offset));
            offset += layout.column_width(index, &key[offset..]).unwrap();
        }
        prop_assert_eq!(offset, key.len());
        prop_assert_eq!(layout.offset(&key, values.len()).unwrap(), key.len());
    }

    #[test]
    fn hostile_keys_never_panic(
        (layout, values, _) in key_pairs(),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        cut in any::<usize>(),
        random in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut key = encode(&layout, &values);
        for (at, byte) in damage {
            let at = at % key.len();
            key[at] = byte;
        }
        key.truncate(cut % (key.len() + 1));
        for key in [key, random] {
            for column in 0..=layout.columns().len() + 1 {
                let mut scratch = Vec::new();
                let _ = (layout.column_width(column, &key), layout.offset(&key, column));
                let _ = layout.decode(&key, column, &mut scratch);
            }
        }
    }
}

/// The bytes themselves: they are on disk, so they may never change.
#[test]
fn bytes_are_those_of_the_format() {
    let column = |data_type| KeyColumn { data_type, nullable: false, descending: false };
    let key = |column: KeyColumn, value| encode(&KeyLayout::new([column]), &[value]);
    assert_eq!(key(column(DataType::Bool), Value::Bool(true)), [1]);
    assert_eq!(key(column(DataType::Int2), Value::Int2(-1)), [0x7f, 0xff]);
    assert_eq!(key(column(DataType::Int4), Value::Int4(1)), [0x80, 0, 0, 1]);
    assert_eq!(key(column(DataType::Float4), Value::Float4(-0.0)), [0x80, 0, 0, 0]);
    assert_eq!(key(column(DataType::Float4), Value::Float4(-1.0)), [0x40, 0x7f, 0xff, 0xff]);
    assert_eq!(key(column(DataType::Float4), Value::Float4(-f32::NAN)), [0xff, 0xc0, 0, 0]);
    assert_eq!(key(column(DataType::Text), Value::from("a")), [b'a', 0, 0]);
    assert_eq!(key(column(DataType::Char(9)), Value::from("a  ")), [b'a', 0, 0]);
    assert_eq!(key(column(DataType::Bytea), Value::Bytea(vec![0, 1])), [0, 0xff, 1, 0, 0]);
    assert_eq!(
        key(column(DataType::Decimal { precision: 18, scale: 2 }), Value::Decimal(0)),
        [0x80, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(key(column(DataType::Decimal { precision: 19, scale: 2 }), Value::Decimal(-1))[0], 0x7f);
    let nullable = KeyColumn { nullable: true, ..column(DataType::Int2) };
    assert_eq!(key(nullable, Value::Int2(0)), [1, 0x80, 0]);
    assert_eq!(key(nullable, Value::Null), [2]);
    let descending = KeyColumn { descending: true, ..nullable };
    assert_eq!(key(descending, Value::Int2(0)), [0xfe, 0x7f, 0xff]);
    assert_eq!(key(descending, Value::Null), [0xfd]);
}

#[test]
fn faults_name_the_column() {
    let layout =
        KeyLayout::new([DataType::Int4, DataType::Decimal { precision: 3, scale: 0 }].map(|data_type| KeyColumn {
            data_type,
            nullable: false,
            descending: false,
        }));
    let mut key = vec![9];
    let mut fault = |values: &[ValueRef<'_>]| layout.encode(values, &mut key).unwrap_err();
    assert_eq!(
        fault(&[ValueRef::Int4(1), ValueRef::Int4(1)]),
        KeyError::WrongType { column: 1, expected: DataType::Decimal { precision: 3, scale: 0 }, found: "integer" }
    );
    assert_eq!(fault(&[ValueRef::Null]), KeyError::NullInNotNull { column: 0 });
    assert_eq!(
        fault(&[ValueRef::Int4(1), ValueRef::Decimal(1_000)]),
        KeyError::DecimalOverflow { column: 1, precision: 3 }
    );
    assert_eq!(fault(&[ValueRef::Int4(1); 3]), KeyError::ColumnCount { expected: 2, found: 3 });
    assert_eq!(key, [9], "a fault leaves no half of a key");
    assert!(layout.decode(&[1, 2, 3], 0, &mut Vec::new()).unwrap_err().to_string().contains("column 0"));
}
