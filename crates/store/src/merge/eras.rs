//! Columns that are added and dropped while there are rows: what rows lack is told in memory, by trees and by segments,
//! before and after merges, what they have besides nobody sees, and to old snapshots nothing has changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;
use saki_base::{Column, DataType, Interval, Value, ValueRef};
use saki_catalog::{ColumnDetail, EntryDecoder, EntryEncoder, Table};
use saki_mvcc::KeyRange;

use crate::fixture::{Bench, Moment, Shape};
use crate::{Delta, Pace};

/// Rows by id: the values of all columns behind it.
type Rows = BTreeMap<i64, Vec<Value>>;

#[derive(Clone, Debug)]
enum Step {
    /// Rows from an id on, whose values are of a seed.
    Write(i64, i64, u8),
    Delete(i64, i64),
    /// Writes rows as they are read, which holds them.
    Hold(i64, i64),
    /// A column of the type with that number; none of its values is NULL, or the missing one is.
    Add(usize, bool),
    /// One of those that were added.
    Drop(usize),
    Merge,
    Reopen,
    /// A snapshot that is looked at again at the end.
    Keep,
}

const TYPES: [DataType; 12] = [
    DataType::Int8,
    DataType::Text,
    DataType::Bool,
    DataType::Decimal { precision: 12, scale: 2 },
    DataType::Decimal { precision: 30, scale: 3 },
    DataType::Float8,
    DataType::Date,
    DataType::Uuid,
    DataType::Bytea,
    DataType::Timestamptz,
    DataType::Time,
    DataType::Interval,
];

fn value(data_type: DataType, seed: u8) -> Value {
    match data_type {
        DataType::Int8 => Value::Int8(seed.into()),
        DataType::Bool => Value::Bool(seed % 2 == 1),
        DataType::Decimal { .. } => Value::Decimal(seed.into()),
        DataType::Float8 => Value::Float8(if seed == 0 { -0.0 } else { f64::from(seed) / 4.0 }),
        DataType::Date => Value::Date(seed.into()),
        DataType::Uuid => Value::Uuid([seed; 16]),
        DataType::Bytea => Value::Bytea(vec![seed; usize::from(seed)]),
        DataType::Timestamptz => Value::Timestamptz(seed.into()),
        DataType::Time => Value::Time(seed.into()),
        DataType::Interval => Value::Interval(Interval { months: seed.into(), days: -1, micros: seed.into() }),
        _ => Value::Text("long ".repeat(usize::from(seed))),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..1_500_i64, 1..400_i64, any::<u8>()).prop_map(|(from, count, seed)| Step::Write(from, count, seed)),
        2 => (0..1_500_i64, 1..100_i64).prop_map(|(from, count)| Step::Delete(from, count)),
        2 => (0..1_500_i64, 1..100_i64).prop_map(|(from, count)| Step::Hold(from, count)),
        3 => (0..TYPES.len(), any::<bool>()).prop_map(|(number, nullable)| Step::Add(number, nullable)),
        2 => any::<usize>().prop_map(Step::Drop),
        2 => Just(Step::Merge),
        1 => Just(Step::Reopen),
        1 => Just(Step::Keep),
    ];
    prop::collection::vec(step, 1..20)
}

/// Adds a column as ALTER TABLE does; what rows have that lack it.
fn add(bench: &Bench, data_type: DataType, nullable: bool) -> Value {
    let _alone = bench.db().alone(&["t".to_owned()]).expect("alone");
    let mut missing = if nullable { Value::Null } else { value(data_type, 3) };
    let added = bench.db().write(|writer| {
        let mut table = Table::clone(writer.catalog.table("t")?);
        let (first, id) = (table.columns.len(), table.next_column_id);
        if first % 3 == 0 {
            missing = value(data_type, 0);
        }
        table.columns.push(Column { name: format!("c{id}"), data_type, nullable });
        table.details.push(ColumnDetail { id, ..ColumnDetail::default() });
        table.next_column_id += 1;
        let before = Table::clone(&table);
        table.change_layout(&before, first, std::slice::from_ref(&missing))?;
        writer.catalog.put(table);
        Ok(())
    });
    added.expect("added");
    missing
}

/// Drops a column as ALTER TABLE does.
fn drop_column(bench: &Bench, position: usize) {
    let _alone = bench.db().alone(&["t".to_owned()]).expect("alone");
    let dropped = bench.db().write(|writer| {
        let before = Table::clone(writer.catalog.table("t")?);
        let mut table = before.clone();
        table.columns.remove(position);
        table.details.remove(position);
        table.change_layout(&before, table.columns.len(), &[])?;
        writer.catalog.put(table);
        Ok(())
    });
    dropped.expect("dropped");
}

/// The values of a row behind its id, where NULL may be for some seeds.
fn row_of(table: &Table, seed: u8) -> Vec<Value> {
    let value = |(column, at): (&Column, u8)| match column.nullable && (seed ^ at) % 4 == 1 {
        true => Value::Null,
        false => value(column.data_type, seed.wrapping_add(at)),
    };
    table.columns[1..].iter().zip(0..).map(value).collect()
}

/// Rows that are there, with new values, or none.
fn write(bench: &Bench, ids: std::ops::Range<i64>, row: Option<&[Value]>) {
    let work = |table: &Table, delta: &Delta, transaction: &mut saki_mvcc::Transaction<'_>| {
        let mut encoder = EntryEncoder::new(table.primary_layout());
        let fallback = row_of(table, 0);
        let row_or = row.unwrap_or(&fallback);
        for id in ids {
            let mut values = vec![Value::Int8(id)];
            values.extend(row_or.iter().cloned());
            encoder.encode(&mut Vec::new(), |column| values[column].as_ref())?;
            delta.write(transaction, &encoder.key, row.map(|_| encoder.row.as_slice()))?;
        }
        Ok(())
    };
    bench.transact(work).expect("nobody is in the way");
}

/// Writes rows just as they are read.
fn hold(bench: &Bench, ids: std::ops::Range<i64>) {
    let moment = bench.moment();
    let mut found = Vec::new();
    for id in ids {
        let (mut encoder, values) = (EntryEncoder::new(moment.table().primary_layout()), row_of(moment.table(), 0));
        let value = |column: usize| if column == 0 { ValueRef::Int8(id) } else { values[column - 1].as_ref() };
        encoder.encode(&mut Vec::new(), value).expect("a row");
        let row = moment.read(|reader, base| reader.get(base, &encoder.key).expect("readable"));
        found.extend(row.map(|row| (encoder.key, row)));
    }
    let work = |_: &Table, delta: &Delta, transaction: &mut saki_mvcc::Transaction<'_>| {
        found.iter().try_for_each(|(key, row)| Ok(delta.write(transaction, key, Some(row))?))
    };
    bench.transact(work).expect("nobody is in the way");
}

/// How often there is each value of the index.
fn counted(rows: &Rows) -> BTreeMap<i64, usize> {
    let mut counts = BTreeMap::new();
    for row in rows.values() {
        let Value::Int8(v) = row[0] else { panic!("{row:?}") };
        *counts.entry(v).or_default() += 1;
    }
    counts
}

fn seen(moment: &Moment) -> Rows {
    let table = moment.table();
    let mut decoder = EntryDecoder::new(table.primary_layout());
    let mut rows = Rows::new();
    moment.read(|reader, base| {
        let read = reader.range(base, &KeyRange::all(), |key, row| {
            decoder.decode(table, key, row, |values| {
                let Value::Int8(id) = values[0].into() else { panic!("{:?} is no id", values[0]) };
                rows.insert(id, values[1..].iter().map(|value| Value::from(*value)).collect());
            })?;
            Ok(ControlFlow::Continue(()))
        });
        read.expect("readable");
    });
    rows
}

fn merge(bench: &Bench) {
    bench.db().checkpoint(&Pace::full()).expect("merged");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_have_the_columns_that_they_lack(steps in steps(), resident: bool) {
        let mut bench = Bench::new(Shape { resident, ..Shape::default() });
        let mut rows = Rows::new();
        let mut kept: Vec<(Moment, Rows)> = Vec::new();
        for step in steps {
            match step {
                Step::Write(from, count, seed) => {
                    let row = row_of(&bench.table(), seed);
                    write(&bench, from..from + count, Some(&row));
                    rows.extend((from..from + count).map(|id| (id, row.clone())));
                }
                Step::Delete(from, count) => {
                    write(&bench, from..from + count, None);
                    rows.retain(|id, _| !(from..from + count).contains(id));
                }
                Step::Add(number, nullable) => {
                    let missing = add(&bench, TYPES[number], nullable);
                    rows.values_mut().for_each(|row| row.push(missing.clone()));
                }
                Step::Drop(number) => {
                    let extras = bench.table().columns.len() - 2;
                    if extras > 0 {
                        let position = 2 + number % extras;
                        drop_column(&bench, position);
                        rows.values_mut().for_each(|row| drop(row.remove(position - 1)));
                    }
                }
                Step::Hold(from, count) => hold(&bench, from..from + count),
                Step::Merge => merge(&bench),
                Step::Reopen => {
                    kept.clear();
                    bench.reopen();
                }
                Step::Keep => kept.push((bench.moment(), rows.clone())),
            }
            prop_assert_eq!(&seen(&bench.moment()), &rows);
            prop_assert_eq!(bench.moment().values(), counted(&rows));
            bench.check();
        }
        for (moment, rows) in &kept {
            prop_assert_eq!(&seen(moment), rows);
        }
        merge(&bench);
        prop_assert_eq!(&seen(&bench.moment()), &rows);
        bench.check();
    }
}

#[test]
fn no_page_of_a_table_is_written_when_a_column_is_added() {
    let mut bench = Bench::new(Shape::default());
    bench.load((0..3_000).map(|id| (id, id % 7))).expect("loaded");
    let before = bench.table();
    for (number, nullable) in [(0, true), (1, false), (7, false)] {
        add(&bench, TYPES[number], nullable);
    }
    bench.reopen();
    let after = bench.table();
    assert_eq!((after.root, after.segments), (before.root, before.segments));
    assert_eq!(after.indexes[0].root, before.indexes[0].root);
    assert_eq!(after.columns.len(), 5);
    bench.check();
    // Of a merge, only what it touches is written: segments that it does not touch lack the columns still.
    let row = row_of(&after, 9);
    write(&bench, 0..1, Some(&row));
    merge(&bench);
    bench.check();
    let generation = bench.db().generation();
    let segments = generation.segments(&bench.table()).expect("readable").expect("columns are on");
    let lacking: Vec<bool> = segments.segments.iter().map(|segment| segment.columns[3].is_missing()).collect();
    assert_eq!((lacking[0], lacking[1..].iter().all(|lacking| *lacking)), (false, true), "{lacking:?}");
    assert_eq!(seen(&bench.moment()).get(&0), Some(&row));
}

#[test]
fn no_page_of_a_table_is_written_when_columns_are_dropped() {
    let mut bench = Bench::new(Shape::default());
    for number in [1, 0, 7] {
        add(&bench, TYPES[number], true);
    }
    let row = [Value::Int8(1), Value::Text("text".to_owned()), Value::Int8(3), Value::Uuid([4; 16])];
    write(&bench, 0..3_000, Some(&row));
    merge(&bench);
    let before = bench.table();
    let kept = bench.moment();
    drop_column(&bench, 2);
    drop_column(&bench, 3);
    let after = bench.table();
    assert_eq!((after.root, after.segments), (before.root, before.segments));
    assert_eq!(after.indexes[0].root, before.indexes[0].root);
    let left = vec![row[0].clone(), row[2].clone()];
    assert_eq!(seen(&bench.moment()).get(&2_999), Some(&left));
    assert_eq!(seen(&kept).get(&2_999).map(Vec::as_slice), Some(&row[..]), "a snapshot of before has them");
    drop(kept);
    bench.reopen();
    bench.check();
    let having = |bench: &Bench| {
        let generation = bench.db().generation();
        let segments = generation.segments(&bench.table()).expect("readable").expect("columns are on");
        segments.segments.iter().map(|segment| segment.dropped.len()).collect::<Vec<_>>()
    };
    let held = having(&bench);
    assert!(held.len() > 2 && held.iter().all(|runs| *runs == 2), "{held:?}");
    assert_eq!(seen(&bench.moment()).get(&0), Some(&left));
    // A merge gives back the runs of all segments, whichever it touches.
    write(&bench, 0..1, Some(&[Value::Int8(1), Value::Int8(9)]));
    merge(&bench);
    bench.check();
    assert!(having(&bench).iter().all(|runs| *runs == 0));
    assert_eq!(bench.table().segments.expect("columns are on").pages, pages(&bench));
    assert_eq!(seen(&bench.moment()).get(&0), Some(&vec![Value::Int8(1), Value::Int8(9)]));
    assert_eq!(seen(&bench.moment()).get(&1), Some(&left));
}

/// Pages of all runs that the table's segments have.
fn pages(bench: &Bench) -> u64 {
    let page_bytes = bench.db().page_size().bytes();
    let segments = bench.db().generation().segments(&bench.table()).expect("readable").expect("columns are on");
    segments.segments.iter().map(|segment| segment.pages(page_bytes).count() as u64).sum()
}

#[test]
fn a_segment_that_lacks_columns_keeps_those_that_an_update_does_not_change() {
    let bench = Bench::new(Shape::default());
    bench.load((0..500).map(|id| (id, 1))).expect("loaded");
    for number in [0, 1, 2] {
        add(&bench, TYPES[number], true);
    }
    let mut row = vec![Value::Int8(1), Value::Null, Value::Null, Value::Bool(true)];
    write(&bench, 3..4, Some(&row));
    merge(&bench);
    bench.check();
    let generation = bench.db().generation();
    let segments = generation.segments(&bench.table()).expect("readable").expect("columns are on");
    let lacking = segments.segments[0].columns.iter().map(|run| run.is_missing()).collect::<Vec<_>>();
    let (lacks, table) = (seen(&bench.moment())[&7].clone(), bench.table());
    assert_eq!(lacking[..2], [false, false]);
    // A column that is the same in all rows, changed ones too, has not been written.
    let same: Vec<bool> = (1..table.columns.len()).map(|column| row[column - 1] == lacks[column - 1]).collect();
    assert_eq!(lacking[2..], same[1..], "{lacks:?}");
    row[3] = Value::Null;
    write(&bench, 0..500, Some(&row));
    merge(&bench);
    bench.check();
}
