//! Rows: what is written is read, one encoding for each row, and hostile bytes
//! are an error.

mod values;

use std::cmp::Ordering;

use proptest::prelude::*;
use saki_base::{DataType, RowColumn, RowError, RowLayout, Value, ValueRef, compare};

fn rows() -> impl Strategy<Value = (RowLayout, Vec<Value>)> {
    prop::collection::vec(values::columns(1), 0..20).prop_map(|columns| {
        let layout = RowLayout::new(
            columns.iter().map(|(data_type, nullable, _)| RowColumn { data_type: *data_type, nullable: *nullable }),
        );
        (layout, columns.into_iter().map(|(_, _, mut values)| values.remove(0)).collect())
    })
}

fn encode(layout: &RowLayout, values: &[Value]) -> Vec<u8> {
    let references: Vec<_> = values.iter().map(Value::as_ref).collect();
    let mut row = b"before".to_vec();
    layout.encode(&references, &mut row).unwrap();
    row.split_off(b"before".len())
}

fn check(layout: &RowLayout, values: &[Value]) {
    let row = encode(layout, values);
    layout.verify(&row).unwrap();
    let view = layout.view(&row);
    for (index, value) in values.iter().enumerate() {
        let read = view.value(index).unwrap();
        // Bit by bit: a row keeps the sign of zero and the payload of NaN.
        match (read, value.as_ref()) {
            (ValueRef::Float4(read), ValueRef::Float4(value)) => assert_eq!(read.to_bits(), value.to_bits()),
            (ValueRef::Float8(read), ValueRef::Float8(value)) => assert_eq!(read.to_bits(), value.to_bits()),
            (read, value) => assert_eq!(compare(read, value), Ordering::Equal),
        }
        if let Some(offset) = layout.fixed_offset(index) {
            let bytes = view.bytes_of(index).unwrap().unwrap();
            assert_eq!(&row[offset..offset + bytes.len()], bytes);
        }
    }
    assert!(matches!(view.bytes_of(values.len()), Err(RowError::NoColumn { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_is_read((layout, values) in rows()) {
        check(&layout, &values);
    }

    #[test]
    fn hostile_rows_never_panic(
        (layout, values) in rows(),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        cut in any::<usize>(),
        random in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let original = encode(&layout, &values);
        let mut row = original.clone();
        for (at, byte) in damage {
            if !row.is_empty() {
                let at = at % row.len();
                row[at] = byte;
            }
        }
        if cut % 2 == 0 {
            row.truncate(cut / 2 % (row.len() + 1));
        }
        for row in [row, random] {
            let view = layout.view(&row);
            let read: Vec<_> = (0..=values.len()).map(|column| (view.bytes_of(column), view.value(column))).collect();
            if layout.verify(&row).is_ok() {
                // What passes is the encoding of what it reads as, byte by byte.
                let values: Vec<_> = read.iter().filter_map(|(_, value)| value.clone().ok()).map(Value::from).collect();
                prop_assert_eq!(encode(&layout, &values), row);
            }
        }
    }
}

#[test]
fn long_rows_have_wider_offsets() {
    let column = |data_type| RowColumn { data_type, nullable: true };
    let layout = RowLayout::new([column(DataType::Text), column(DataType::Int4), column(DataType::Bytea)]);
    for (length, width) in [(0, 1), (254, 1), (255, 2), (65_534, 2), (65_535, 4), (3_000_000, 4)] {
        let values = [Value::from("x"), Value::Int4(7), Value::Bytea(vec![9; length])];
        check(&layout, &values);
        assert_eq!(encode(&layout, &values).len(), 1 + 1 + 4 + 2 * width + 1 + length);
    }
}

/// The bytes themselves: they are on disk, so they may never change.
#[test]
fn bytes_are_those_of_the_format() {
    let layout = RowLayout::new([
        RowColumn { data_type: DataType::Int2, nullable: false },
        RowColumn { data_type: DataType::Text, nullable: true },
        RowColumn { data_type: DataType::Int4, nullable: true },
        RowColumn { data_type: DataType::Char(5), nullable: false },
    ]);
    assert_eq!(
        encode(&layout, &[Value::Int2(-2), Value::from("hi"), Value::Null, Value::from("x  ")]),
        [0, 0b10, 0xfe, 0xff, 0, 0, 0, 0, 2, 3, b'h', b'i', b'x']
    );
    assert!(encode(&RowLayout::new([]), &[]).is_empty());
}

#[test]
fn faults_name_the_column() {
    let layout = RowLayout::new(
        [DataType::Int4, DataType::Decimal { precision: 3, scale: 1 }]
            .map(|data_type| RowColumn { data_type, nullable: false }),
    );
    let mut row = vec![9];
    let mut fault = |values: &[ValueRef<'_>]| layout.encode(values, &mut row).unwrap_err();
    assert_eq!(
        fault(&[ValueRef::Text("a"), ValueRef::Decimal(1)]).to_string(),
        "column 0 is of type integer, found a value of type text"
    );
    assert_eq!(fault(&[ValueRef::Int4(1), ValueRef::Null]), RowError::NullInNotNull { column: 1 });
    assert_eq!(
        fault(&[ValueRef::Int4(1), ValueRef::Decimal(-1_000)]),
        RowError::DecimalOverflow { column: 1, precision: 3 }
    );
    assert_eq!(fault(&[ValueRef::Int4(1)]), RowError::ColumnCount { expected: 2, found: 1 });
    assert_eq!(row, [9], "a fault leaves no half of a row");
}
