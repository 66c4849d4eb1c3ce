//! Rows of tables that have got and lost columns: rows of every era are read as rows of the last one.

mod values;

use proptest::prelude::*;
use saki_base::row::ERA_MAX;
use saki_base::{DataType, EarlierColumn, RowColumn, RowError, RowLayout, Value, ValueRef};

/// A column of a table of some time, and the value of rows that lack it.
#[derive(Clone, Debug)]
struct Known {
    id: usize,
    column: RowColumn,
    missing: Value,
}

/// What becomes of a table.
#[derive(Clone, Debug)]
enum Step {
    Add(DataType, bool, Value),
    Drop(usize),
    /// A row; of each column one of these.
    Write(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let add = values::columns(1)
        .prop_map(|(data_type, nullable, mut values)| Step::Add(data_type, nullable, values.remove(0)));
    let step = prop_oneof![2 => add, 1 => any::<usize>().prop_map(Step::Drop), 3 => any::<u64>().prop_map(Step::Write)];
    prop::collection::vec(step, 1..30)
}

/// The layout of rows with the columns `now`, after those of `eras`.
fn layout(now: &[Known], eras: &[Vec<Known>]) -> RowLayout {
    let place = |known: &Known| now.iter().position(|column| column.id == known.id);
    let earlier = |known: &Known| EarlierColumn { column: known.column, now: place(known) };
    let eras: Vec<Vec<EarlierColumn>> = eras.iter().map(|era| era.iter().map(earlier).collect()).collect();
    let missing: Vec<ValueRef<'_>> = now.iter().map(|known| known.missing.as_ref()).collect();
    RowLayout::new(now.iter().map(|known| known.column)).after(&eras, &missing).unwrap()
}

/// A value by whether the row's number has a bit: the missing one, or NULL.
fn written(known: &Known, number: u64) -> Value {
    match known.column.nullable && number >> (known.id % 64) & 1 == 1 {
        true => Value::Null,
        false => known.missing.clone(),
    }
}

/// Equal bit by bit: a row keeps the sign of zero.
fn same(left: ValueRef<'_>, right: ValueRef<'_>) -> bool {
    match (left, right) {
        (ValueRef::Float4(left), ValueRef::Float4(right)) => left.to_bits() == right.to_bits(),
        (ValueRef::Float8(left), ValueRef::Float8(right)) => left.to_bits() == right.to_bits(),
        (ValueRef::Text(left), ValueRef::Text(right)) => left.trim_end() == right.trim_end(),
        (left, right) => left == right,
    }
}

/// A row as it was encoded, and its values by the ids of columns.
type Written = (Vec<u8>, Vec<(usize, Value)>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn rows_of_all_eras_are_read_by_the_last(steps in steps(), garbage in prop::collection::vec(any::<u8>(), 0..60)) {
        let (mut now, mut eras): (Vec<Known>, Vec<Vec<Known>>) = Default::default();
        let mut rows: Vec<Written> = Vec::new();
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add(data_type, nullable, missing) => {
                    eras.push(now.clone());
                    now.push(Known { id, column: RowColumn { data_type, nullable }, missing });
                }
                Step::Drop(at) if !now.is_empty() => {
                    eras.push(now.clone());
                    now.remove(at % now.len());
                }
                Step::Drop(_) => {}
                Step::Write(number) => {
                    let values: Vec<Value> = now.iter().map(|known| written(known, number)).collect();
                    let mut row = Vec::new();
                    let given: Vec<_> = values.iter().map(Value::as_ref).collect();
                    layout(&now, &eras).encode(&given, &mut row).unwrap();
                    rows.push((row, now.iter().map(|known| known.id).zip(values).collect()));
                }
            }
        }
        let layout = layout(&now, &eras);
        for (row, had) in &rows {
            layout.verify(row).unwrap();
            if let Some(renewed) = layout.renewed(row).unwrap() {
                let again = layout.renewed(&renewed).unwrap();
                prop_assert!(again.is_none_or(|again| again.is_empty()), "it is of the present era");
                for column in 0..now.len() {
                    prop_assert_eq!(layout.view(&renewed).bytes_of(column), layout.view(row).bytes_of(column));
                }
                layout.verify(&renewed).unwrap();
            }
            for (column, known) in now.iter().enumerate() {
                let expected = had.iter().find(|(id, _)| *id == known.id).map_or(&known.missing, |(_, value)| value);
                let read = layout.view(row).value(column).unwrap();
                prop_assert!(same(read, expected.as_ref()), "{read:?} instead of {expected:?}");
                if let Some(at) = layout.fixed_offset(column) {
                    let bytes = layout.view(row).bytes_of(column).unwrap().unwrap();
                    prop_assert_eq!(&row[at..at + bytes.len()], bytes);
                }
            }
            assert!(matches!(layout.view(row).bytes_of(now.len()), Err(RowError::NoColumn { .. })));
        }
        // Hostile bytes are an error or another value.
        for column in 0..=now.len() {
            let _ = layout.view(&garbage).value(column);
        }
        let _ = layout.verify(&garbage);
    }
}

fn number(nullable: bool) -> RowColumn {
    RowColumn { data_type: DataType::Int4, nullable }
}

/// The bytes themselves: they are on disk, so they may never change.
#[test]
fn the_era_is_in_the_flags() {
    let earlier = [vec![EarlierColumn { column: number(false), now: Some(0) }], Vec::new()];
    let missing = [ValueRef::Int4(1), ValueRef::Int4(2)];
    let layout = RowLayout::new([number(false), number(false)]).after(&earlier, &missing).unwrap();
    let mut row = Vec::new();
    layout.encode(&[ValueRef::Int4(7), ValueRef::Int4(8)], &mut row).unwrap();
    assert_eq!(row, [2 << 2, 7, 0, 0, 0, 8, 0, 0, 0]);
    let read = |row: &[u8]| [0, 1].map(|column| layout.view(row).value(column).map(Value::from).ok());
    assert_eq!(read(&row), [Some(Value::Int4(7)), Some(Value::Int4(8))]);
    assert_eq!(read(&[0, 9, 0, 0, 0]), [Some(Value::Int4(9)), Some(Value::Int4(2))]);
    assert_eq!(read(&[]), [Some(Value::Int4(1)), Some(Value::Int4(2))], "of an era without columns");
    assert_eq!(read(&[3 << 2, 9, 0, 0, 0, 9, 0, 0, 0]), [None, None], "of no era");
    assert!(layout.verify(&[3 << 2, 9, 0, 0, 0, 9, 0, 0, 0]).is_err());
    assert_eq!(layout.fixed_offset(0), None, "not every row has it");
}

#[test]
fn a_row_says_every_era_there_may_be() {
    let earlier = vec![vec![EarlierColumn { column: number(false), now: Some(0) }]; usize::from(ERA_MAX)];
    let layout = RowLayout::new([number(false)]).after(&earlier, &[ValueRef::Null]).unwrap();
    let mut row = Vec::new();
    layout.encode(&[ValueRef::Int4(7)], &mut row).unwrap();
    assert_eq!(row[0], ERA_MAX << 2);
    layout.verify(&row).unwrap();
    assert_eq!(layout.fixed_offset(0), Some(1), "every row has it there");
}

#[test]
fn a_missing_value_is_of_its_columns_type() {
    let of = |value| RowLayout::new([number(true)]).after(&[Vec::new()], &[value]);
    assert_eq!(
        of(ValueRef::Int8(1)).unwrap_err(),
        RowError::WrongType { column: 0, expected: DataType::Int4, found: ValueRef::Int8(1).kind() }
    );
    assert!(of(ValueRef::Text("x")).is_err());
    assert!(of(ValueRef::Null).is_ok());
}
