//! Columns of every type, on each way into segments: from batches as they are loaded, from rows of the primary tree,
//! and spliced by a merge. The check compares what they hold with the rows, value by value.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, LargeBinaryArray, LargeStringArray, RecordBatch, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use saki_base::{Column, DataType, Element, Interval, Random, TableId, ValueRef, array};
use saki_catalog::{ColumnDetail, PUBLIC, Table};
use saki_columns::SegmentsRoot;
use saki_tree::TreeRoot;

use crate::fixture::{Bench, Shape};
use crate::load::{append, load};
use crate::{OnDuplicate, Writer};

static TYPES: LazyLock<Vec<(&str, DataType)>> = LazyLock::new(|| {
    vec![
        ("bool", DataType::Bool),
        ("int2", DataType::Int2),
        ("int4", DataType::Int4),
        ("int8", DataType::Int8),
        ("float4", DataType::Float4),
        ("float8", DataType::Float8),
        ("short", DataType::Decimal { precision: 12, scale: 2 }),
        ("long", DataType::Decimal { precision: 38, scale: 4 }),
        ("date", DataType::Date),
        ("timestamp", DataType::Timestamp),
        ("timestamptz", DataType::Timestamptz),
        ("time", DataType::Time),
        ("interval", DataType::Interval),
        ("uuid", DataType::Uuid),
        ("text", DataType::Text),
        ("varchar", DataType::Varchar(200)),
        ("bytea", DataType::Bytea),
        ("json", DataType::Json),
        ("jsonb", DataType::Jsonb),
        ("numbers", DataType::Array(Element::new(DataType::Int4).expect("there are arrays of these"))),
    ]
});

/// A table `typed` with a column of each type, after its key `id`.
fn typed(writer: &mut Writer<'_>) -> Table {
    let column = |name: &str, data_type, nullable| Column { name: name.to_owned(), data_type, nullable };
    let columns: Vec<Column> = [column("id", DataType::Int8, false)]
        .into_iter()
        .chain(TYPES.iter().map(|(name, data_type)| column(name, *data_type, true)))
        .collect();
    let catalog = &mut writer.catalog;
    Table {
        id: catalog.new_table_id(),
        name: "typed".to_owned(),
        schema: PUBLIC.to_owned(),
        details: (0..columns.len() as u32).map(|id| ColumnDetail { id, ..ColumnDetail::default() }).collect(),
        next_column_id: columns.len() as u32,
        columns,
        stored: saki_catalog::StoredColumns::default(),
        layout_version: 0,
        primary_key: vec![0],
        primary_key_constraint: None,
        primary_key_comment: None,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        resident: false,
        tier: saki_catalog::TableTier::Auto,
        comment: None,
        next_row_id: 0,
        root: TreeRoot::empty(catalog.new_tree_id()),
        indexes: Vec::new(),
        segments: Some(SegmentsRoot::empty(catalog.new_tree_id())),
        bloom: Vec::new(),
        statistics: None,
        delta: TableId(0),
        merged_through: 0,
    }
}

/// Some values of a type, extreme ones among them; `nulls`: how many of them are NULL.
fn values(random: &mut Random, data_type: DataType, rows: usize, nulls: f64) -> ArrayRef {
    fn some<T>(
        random: &mut Random,
        rows: usize,
        nulls: f64,
        mut value: impl FnMut(&mut Random) -> T,
    ) -> Vec<Option<T>> {
        (0..rows).map(|_| (!random.chance(nulls)).then(|| value(random))).collect()
    }
    let text = |random: &mut Random| {
        let length = if random.chance(0.02) { 190 } else { random.below(20) as usize };
        (0..length).map(|_| ['a', 'b', ' ', 'é', '\\', '"'][random.below(6) as usize]).collect::<String>()
    };
    let number = |random: &mut Random| match random.below(10) {
        0 => i64::MIN,
        1 => i64::MAX,
        _ => random.below(1_000) as i64 - 500,
    };
    let float = |random: &mut Random| match random.below(10) {
        0 => f64::NAN,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        _ => random.below(1_000) as f64 / 8.0,
    };
    match data_type {
        DataType::Bool => Arc::new(BooleanArray::from(some(random, rows, nulls, |random| random.chance(0.5)))),
        DataType::Int2 => Arc::new(Int16Array::from(some(random, rows, nulls, |random| number(random) as i16))),
        DataType::Int4 => Arc::new(Int32Array::from(some(random, rows, nulls, |random| number(random) as i32))),
        DataType::Int8 | DataType::Enum(_) => Arc::new(Int64Array::from(some(random, rows, nulls, number))),
        DataType::Float4 => Arc::new(Float32Array::from(some(random, rows, nulls, |random| float(random) as f32))),
        DataType::Float8 => Arc::new(Float64Array::from(some(random, rows, nulls, float))),
        DataType::Decimal { precision, scale } => {
            let digits = some(random, rows, nulls, |random| i128::from(number(random) % 1_000_000_000_000));
            let array = Decimal128Array::from(digits).with_precision_and_scale(precision, scale as i8);
            Arc::new(array.expect("few digits"))
        }
        DataType::Date => {
            Arc::new(Date32Array::from(some(random, rows, nulls, |random| random.below(40_000) as i32 - 20_000)))
        }
        DataType::Timestamp | DataType::Timestamptz => {
            let moments = some(random, rows, nulls, |random| random.below(1 << 52) as i64 - (1 << 51));
            let array = TimestampMicrosecondArray::from(moments);
            Arc::new(if data_type == DataType::Timestamptz { array.with_timezone("UTC") } else { array })
        }
        DataType::Time => Arc::new(Time64MicrosecondArray::from(some(random, rows, nulls, |random| {
            random.below(86_400_000_001) as i64
        }))),
        DataType::Interval => {
            let interval = |random: &mut Random| {
                let parts = (random.below(9) as i32 - 4, number(random) as i32, number(random) / 1_000);
                saki_exec::arrow_interval(Interval { months: parts.0, days: parts.1, micros: parts.2 })
            };
            Arc::new(IntervalMonthDayNanoArray::from(some(random, rows, nulls, interval)))
        }
        DataType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            for value in some(random, rows, nulls, |random| u128::from(random.next_u64()) << 64) {
                match value {
                    Some(value) => builder.append_value(value.to_be_bytes()).expect("16 bytes"),
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Jsonb => Arc::new(LargeStringArray::from(some(random, rows, nulls, text))),
        DataType::Json => Arc::new(LargeBinaryArray::from(LargeStringArray::from(some(random, rows, nulls, text)))),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
            Arc::new(StringArray::from(some(random, rows, nulls, text)))
        }
        DataType::Array(element) => {
            let arrays = some(random, rows, nulls, |random| {
                let mut array = Vec::new();
                (0..random.below(4)).for_each(|_| {
                    let value = ValueRef::Int4(random.below(9) as i32);
                    array::push(element, value, &mut array).expect("of numbers");
                });
                array
            });
            Arc::new(saki_exec::lists::decode(element, arrays.iter().map(Option::as_deref)).expect("arrays"))
        }
        DataType::Bytea => {
            let bytes = some(random, rows, nulls, |random| text(random).into_bytes());
            Arc::new(BinaryArray::from_iter(bytes))
        }
    }
}

/// Rows with these ids, in batches of some hundred.
fn batches(random: &mut Random, ids: &[i64], nulls: f64) -> Vec<saki_catalog::Result<RecordBatch>> {
    let batch = |ids: &[i64]| {
        let id = ("id", Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef, false);
        let others: Vec<_> =
            TYPES.iter().map(|(name, data_type)| (*name, values(random, *data_type, ids.len(), nulls), true)).collect();
        Ok(RecordBatch::try_from_iter_with_nullable([id].into_iter().chain(others)).expect("as many rows each"))
    };
    ids.chunks(333).map(batch).collect()
}

/// A database with these rows, loaded at once.
fn loaded(seed: u64, ids: &[i64], nulls: f64) -> Bench {
    let bench = Bench::new(Shape::default());
    let batches = batches(&mut Random::new(seed), ids, nulls);
    let rows = bench.db().write(|writer| {
        let table = typed(writer);
        writer.catalog.put(table);
        load(writer, "typed", batches.into_iter(), &mut |_| {})
    });
    assert_eq!(rows.expect("loaded"), ids.len() as u64);
    whole(&bench, ids.len() as u64);
    bench
}

/// Nothing is wrong, and the table has so many rows.
fn whole(bench: &Bench, rows: u64) {
    let report = bench.db().check(&mut |_| {}).expect("checked");
    assert_eq!((report.faults, report.rows), (Vec::new(), rows));
    assert_eq!(report.segments > 0, rows > 0);
}

#[test]
fn values_of_every_type_come_from_batches_and_from_rows_alike() {
    let ascending: Vec<i64> = (0..1_500).collect();
    let shuffled: Vec<i64> = ascending.iter().map(|id| id * 7 % 1_500).collect();
    for (seed, nulls) in [(1, 0.0), (2, 0.3), (3, 1.0)] {
        // In order they are taken from the batches, else from the primary tree.
        loaded(seed, &ascending, nulls);
        loaded(seed, &shuffled, nulls);
    }
}

#[test]
fn values_of_every_type_are_spliced_into_segments() {
    let mut random = Random::new(4);
    let ids: Vec<i64> = (0..2_000).map(|id| id * 3).collect();
    let bench = loaded(4, &ids, 0.2);
    // Into one segment, into all of them, behind them all.
    let strokes = [vec![301, 302, 305], (0..1_000).map(|id| id * 6 + 4).collect(), (9_000..9_900).collect()];
    let mut rows = 2_000;
    for new in strokes {
        let batches = batches(&mut random, &new, 0.2);
        let added = bench.db().write(|writer| append(writer, "typed", batches.into_iter(), OnDuplicate::Refuse));
        rows += added.expect("added");
        whole(&bench, rows);
    }
    let batches = batches(&mut random, &ids, 0.5);
    let replaced = bench.db().write(|writer| append(writer, "typed", batches.into_iter(), OnDuplicate::Replace));
    assert_eq!(replaced.expect("replaced"), 2_000);
    whole(&bench, rows);
}

/// The column `float8` of the table's first segment, as bits.
fn stored_floats(bench: &Bench) -> Vec<u64> {
    let generation = bench.db().generation();
    let table = generation.catalog.table("typed").expect("made");
    let segments = generation.segments(table).expect("readable").expect("columns are on");
    let run = &segments.segments[0].columns[table.column("float8").expect("a column")];
    let mut lane = saki_page::RunStore::open_run_lane(&*bench.db().volume).expect("a lane");
    let share = saki_page::IoShare::new(u32::MAX);
    lane.try_read(&share, run.first_page, run.bytes as usize, run.checksum, 0).expect("mapped");
    let mut read = Vec::new();
    while read.is_empty() {
        lane.poll(Some(std::time::Duration::from_secs(1)), &mut read);
    }
    let bytes = read.remove(0).result.expect("readable");
    let blob = arrow_buffer::Buffer::from(&bytes[..run.bytes as usize]);
    let rows = segments.segments[0].rows as usize;
    let column = bench.db().codec.decode(&blob, DataType::Float8, rows).expect("a column");
    let floats = saki_vector::form::to_surface(&column, &saki_exec::arrow_type(DataType::Float8)).expect("floats");
    floats.as_primitive::<Float64Type>().values().iter().map(|float| float.to_bits()).collect()
}

#[test]
fn a_zero_with_a_sign_takes_the_place_of_one_without() {
    let ids: Vec<i64> = (0..10).collect();
    let with = |zero: f64| {
        let batch = batches(&mut Random::new(6), &ids, 1.0).remove(0).expect("made");
        let mut columns = batch.columns().to_vec();
        columns[batch.schema().index_of("float8").expect("a column")] = Arc::new(Float64Array::from(vec![zero; 10]));
        [RecordBatch::try_new(batch.schema(), columns).map_err(saki_catalog::SqlError::from)]
    };
    let bench = Bench::new(Shape::default());
    for zero in [0.0, -0.0, 0.0] {
        let merged = bench.db().write(|writer| {
            if writer.catalog.get("typed").is_none() {
                let table = typed(writer);
                writer.catalog.put(table);
            }
            append(writer, "typed", with(zero).into_iter(), OnDuplicate::Replace)
        });
        merged.expect("merged");
        assert_eq!(stored_floats(&bench), vec![zero.to_bits(); 10]);
    }
}

#[test]
fn segments_built_anew_hold_what_those_did_that_were_freed() {
    let bench = loaded(5, &(0..1_000).collect::<Vec<_>>(), 0.1);
    for _ in 0..2 {
        let built = bench.db().write(|writer| {
            let mut table = Table::clone(writer.catalog.table("typed")?);
            let before = table.segments.expect("columns are on");
            writer.free_segments(&table, &before)?;
            table.segments = Some(super::build(writer.trees(), &table, &before)?);
            writer.catalog.put(table);
            Ok(())
        });
        built.expect("built");
        whole(&bench, 1_000);
    }
    let without = bench.db().write(|writer| {
        let mut table = Table::clone(writer.catalog.table("typed")?);
        let before = table.segments.take().expect("columns are on");
        writer.free_segments(&table, &before)?;
        writer.catalog.put(table);
        Ok(())
    });
    without.expect("freed");
    let report = bench.db().check(&mut |_| {}).expect("checked");
    assert_eq!((report.faults, report.segments), (Vec::new(), 0));
}
