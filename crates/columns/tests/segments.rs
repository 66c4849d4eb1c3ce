//! Segments of random tables, built in a simulated volume and read back.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, FixedSizeBinaryBuilder, StringViewBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow_buffer::IntervalMonthDayNano;
use proptest::prelude::*;
use saki_base::value::{Value, compare};
use saki_base::{ChunkId, DataType, Interval, PageSize, Random, TreeId};
use saki_columns::{
    Bloom, BuildOptions, Codec, ColumnType, InspectColumns, SegmentBuilder, SegmentTable, SegmentsRoot,
    SegmentsVerification, Test, VerifySource, codec, values::for_each_value, verify,
};
use saki_io::{Device, SimDevice, SimOptions};
use saki_page::{IoShare, PageCache, PageStore};
use saki_tree::{LivePages, TreeReader};
use saki_vector::expr::CompareOp;
use saki_vector::{Batch, Column};
use saki_volume::{Volume, VolumeOptions};

const DIRECTORY: TreeId = TreeId(7);

/// A table of random values, its rows keyed by their number.
struct Model {
    columns: Vec<ColumnType>,
    /// By column.
    values: Vec<Vec<Value>>,
    rows: usize,
}

const TYPES: [DataType; 20] = [
    DataType::Bool,
    DataType::Int2,
    DataType::Int4,
    DataType::Int8,
    DataType::Float4,
    DataType::Float8,
    DataType::Decimal { precision: 9, scale: 2 },
    DataType::Decimal { precision: 38, scale: 4 },
    DataType::Text,
    DataType::Varchar(40),
    DataType::Char(9),
    DataType::Bytea,
    DataType::Date,
    DataType::Timestamp,
    DataType::Timestamptz,
    DataType::Time,
    DataType::Interval,
    DataType::Uuid,
    DataType::Json,
    DataType::Jsonb,
];

/// How a column's values are spread.
#[derive(Clone, Copy)]
enum Spread {
    Nulls,
    Equal,
    Few,
    Ascending,
    Any,
    Long,
}

const SPREADS: [Spread; 6] = [Spread::Nulls, Spread::Equal, Spread::Few, Spread::Ascending, Spread::Any, Spread::Long];

impl Model {
    fn random(random: &mut Random, rows: usize) -> Self {
        let mut columns = Vec::new();
        let mut values = Vec::new();
        for index in 0..1 + random.below(6) {
            let data_type = TYPES[random.below(TYPES.len() as u64) as usize];
            let spread = SPREADS[random.below(SPREADS.len() as u64) as usize];
            let nullable = matches!(spread, Spread::Nulls) || random.chance(0.5);
            let mut value = |row: usize| match spread {
                Spread::Nulls => Value::Null,
                _ if nullable && random.chance(0.2) => Value::Null,
                Spread::Equal => value_of(data_type, 5, 3),
                Spread::Few => value_of(data_type, random.below(7), 3),
                Spread::Ascending => value_of(data_type, row as u64, 8),
                Spread::Any => value_of(data_type, random.next_u64(), 20),
                Spread::Long => value_of(data_type, random.next_u64(), 200 + random.below(5000) as usize),
            };
            values.push((0..rows).map(&mut value).collect());
            columns.push(ColumnType { name: format!("c{index}"), data_type, nullable, missing: None });
        }
        Self { columns, values, rows }
    }

    fn batch(&self, start: usize, rows: usize) -> Batch {
        let column = |(column, values): (&ColumnType, &Vec<Value>)| {
            Column::new(array_of(column.data_type, &values[start..start + rows]))
        };
        Batch::new(self.columns.iter().zip(&self.values).map(column).collect(), rows)
    }
}

fn key(row: usize) -> Vec<u8> {
    (row as u64).to_be_bytes().to_vec()
}

/// A value made of a number; of text, about `length` bytes.
fn value_of(data_type: DataType, number: u64, length: usize) -> Value {
    let text = || {
        let letters = ["a", "ß", "中", "\u{10ffff}", "\0", "z"];
        let mut text = format!("{number:x}");
        while text.len() < length {
            text.push_str(letters[(number as usize + text.len()) % letters.len()]);
        }
        text
    };
    match data_type {
        DataType::Bool => Value::Bool(number.is_multiple_of(2)),
        DataType::Int2 => Value::Int2(number as i16),
        DataType::Int4 => Value::Int4(number as i32),
        DataType::Int8 | DataType::Enum(_) => Value::Int8(number as i64),
        DataType::Float4 => Value::Float4(float(number) as f32),
        DataType::Float8 => Value::Float8(float(number)),
        DataType::Decimal { precision, .. } if precision <= 18 => {
            Value::Decimal(i128::from(number % 1_000_000_000) - 7)
        }
        DataType::Decimal { .. } => Value::Decimal(i128::from(number as i64) * if length > 8 { 1 << 60 } else { 1 }),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb if number == 0 => {
            Value::Text(String::new())
        }
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            Value::Text(text())
        }
        DataType::Bytea if number == 3 => Value::Bytea(vec![0xff; length]),
        DataType::Bytea | DataType::Array(_) => Value::Bytea(text().into_bytes()),
        DataType::Date => Value::Date(number as i32),
        DataType::Timestamp => Value::Timestamp(number as i64),
        DataType::Timestamptz => Value::Timestamptz(number as i64),
        DataType::Time => Value::Time(number as i64),
        // Of one length only where they are the same.
        DataType::Interval => {
            Value::Interval(Interval { months: number as i32 % 9, days: 0, micros: number as i64 % 1_000_000 })
        }
        DataType::Uuid => Value::Uuid(u128::from(number).to_be_bytes()),
    }
}

fn float(number: u64) -> f64 {
    match number % 9 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        4 => 0.0,
        _ => number as i64 as f64 / 8.0,
    }
}

fn array_of(data_type: DataType, values: &[Value]) -> ArrayRef {
    fn numbers<T: ArrowPrimitiveType>(
        values: &[Value],
        native: impl Fn(&Value) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        values.iter().map(native).collect()
    }
    macro_rules! primitive {
        ($arrow:ty, $variant:ident) => {
            Arc::new(numbers::<$arrow>(values, |value| match value {
                Value::$variant(value) => Some(*value),
                _ => None,
            }))
        };
    }
    let text = |value: &Value| match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    match data_type {
        DataType::Bool => Arc::new(BooleanArray::from_iter(values.iter().map(|value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }))),
        DataType::Int2 => primitive!(Int16Type, Int2),
        DataType::Int4 => primitive!(Int32Type, Int4),
        DataType::Int8 | DataType::Enum(_) => primitive!(Int64Type, Int8),
        DataType::Float4 => primitive!(Float32Type, Float4),
        DataType::Float8 => primitive!(Float64Type, Float8),
        DataType::Date => primitive!(Date32Type, Date),
        DataType::Timestamp => primitive!(TimestampMicrosecondType, Timestamp),
        DataType::Timestamptz => {
            let utc = numbers::<TimestampMicrosecondType>(values, |value| match value {
                Value::Timestamptz(value) => Some(*value),
                _ => None,
            });
            Arc::new(utc.with_timezone("UTC"))
        }
        DataType::Decimal { precision, .. } if precision <= 18 => {
            Arc::new(numbers::<Int64Type>(values, |value| match value {
                Value::Decimal(value) => Some(*value as i64),
                _ => None,
            }))
        }
        DataType::Decimal { precision, scale } => {
            let wide: Decimal128Array = values
                .iter()
                .map(|value| match value {
                    Value::Decimal(value) => Some(*value),
                    _ => None,
                })
                .collect();
            Arc::new(wide.with_precision_and_scale(precision, scale as i8).expect("valid"))
        }
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            let mut builder = StringViewBuilder::new();
            values.iter().for_each(|value| builder.append_option(text(value)));
            Arc::new(builder.finish())
        }
        DataType::Bytea | DataType::Array(_) => {
            let mut builder = BinaryViewBuilder::new();
            for value in values {
                match value {
                    Value::Bytea(bytes) => builder.append_value(bytes),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Time => primitive!(Time64MicrosecondType, Time),
        DataType::Interval => Arc::new(numbers::<IntervalMonthDayNanoType>(values, |value| match value {
            Value::Interval(of) => Some(IntervalMonthDayNano::new(of.months, of.days, of.nanos())),
            _ => None,
        })),
        DataType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            for value in values {
                match value {
                    Value::Uuid(bytes) => builder.append_value(bytes).expect("16 bytes"),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}

/// A volume with the segments of one table.
struct Bench {
    device: Arc<SimDevice>,
    volume: Arc<Volume>,
    cache: Arc<PageCache>,
    reader: TreeReader,
    codec: Arc<dyn Codec>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let device = SimDevice::new(SimOptions { seed, length_bytes: 0, ..SimOptions::default() });
        let page_size = PageSize::new(4096).expect("valid");
        let volume = Volume::create(Arc::clone(&device) as Arc<dyn Device>, VolumeOptions::new(page_size));
        let volume = volume.expect("created");
        let cache = PageCache::new(page_size, 64).expect("mapped");
        let store: Arc<dyn PageStore> = Arc::clone(&volume) as Arc<dyn PageStore>;
        let reader = TreeReader::new(&cache, &store, &IoShare::new(u32::MAX)).expect("opened");
        Self { device, volume, cache, reader, codec: codec() }
    }

    fn build(&mut self, model: &Model, options: BuildOptions, random: &mut Random) -> SegmentsRoot {
        let publication = self.volume.begin();
        let mut builder =
            SegmentBuilder::new(self.codec.as_ref(), model.columns.clone(), DIRECTORY, publication.writer(), options);
        let mut start = 0;
        while start < model.rows {
            let rows = (1 + random.below(400) as usize).min(model.rows - start);
            builder.push(&model.batch(start, rows), &mut |row| Ok(key(start + row))).expect("built");
            start += rows;
        }
        let (root, writer) = builder.finish(self.volume.page_size()).expect("built");
        writer.finish().expect("finished");
        publication.commit(&root.directory.to_bytes()).expect("committed");
        root
    }

    fn verify(
        &mut self,
        root: &SegmentsRoot,
        columns: &[ColumnType],
        inspect: &mut dyn InspectColumns,
    ) -> SegmentsVerification {
        self.cache.clear();
        let mut live = LivePages::new(self.volume.page_size());
        let source = VerifySource { fetcher: self.reader.fetcher(), runs: &*self.volume, codec: self.codec.as_ref() };
        let seen = verify(source, root, &columns.to_vec().into(), &mut live, inspect);
        let recorded: Vec<(ChunkId, u32)> =
            self.volume.live_pages().into_iter().filter(|(_, pages)| *pages > 0).collect();
        assert_eq!(live.differences(&recorded), []);
        seen
    }
}

/// Gathers the values of every column of every segment.
struct Gather<'m> {
    columns: &'m [ColumnType],
    found: Vec<(usize, usize, Vec<Value>)>,
}

impl InspectColumns for Gather<'_> {
    fn column(&mut self, segment: usize, column: usize, values: &Column) {
        let mut found = Vec::new();
        for_each_value(values, self.columns[column].data_type, |value| found.push(value.into())).expect("native");
        self.found.push((segment, column, found));
    }
}

fn same(left: &Value, right: &Value) -> bool {
    compare(left.as_ref(), right.as_ref()).is_eq()
}

/// Zones never decide against the values they are of.
fn check_zones(table: &SegmentTable, model: &Model, random: &mut Random) {
    let mut start = 0;
    for segment in table.segments.iter() {
        let rows = segment.rows as usize;
        for (run, values) in segment.columns.iter().zip(&model.values) {
            let values = &values[start..start + rows];
            let constants: Vec<&Value> = values.iter().filter(|value| !value.is_null()).collect();
            let mut tests = vec![Test::IsNull, Test::IsNotNull];
            for _ in 0..if constants.is_empty() { 0 } else { 6 } {
                let mut constant = || constants[random.below(constants.len() as u64) as usize].clone();
                let (one, other) = (constant(), constant());
                for op in [
                    CompareOp::Equal,
                    CompareOp::NotEqual,
                    CompareOp::Less,
                    CompareOp::LessOrEqual,
                    CompareOp::Greater,
                    CompareOp::GreaterOrEqual,
                ] {
                    tests.push(Test::Compare(op, one.clone()));
                }
                tests.push(Test::OneOf(vec![one, other]));
            }
            for test in tests {
                let passing = values.iter().filter(|value| test.passes(value.as_ref())).count();
                assert!(run.zone.may_pass(&test, segment.rows) || passing == 0, "{test:?} on {:?}", run.zone);
                assert!(!run.zone.all_pass(&test, segment.rows) || passing == rows, "{test:?} on {:?}", run.zone);
            }
        }
        start += rows;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_is_built_is_read_back(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let rows = [0, 1, 100, 1500][random.below(4) as usize];
        let model = Model::random(random, rows);
        let options = BuildOptions {
            rows: 1 + random.below(600) as u32,
            bytes: 1 + random.below(100_000) as usize,
            threads: 1 + random.below(3) as usize,
            bloom: (0..model.columns.len()).filter(|_| random.chance(0.6)).collect(),
        };
        let mut bench = Bench::new(seed);
        let root = bench.build(&model, options.clone(), random);
        prop_assert_eq!(root.rows, rows as u64);
        let mut gather = Gather { columns: &model.columns, found: Vec::new() };
        let seen = bench.verify(&root, &model.columns, &mut gather);
        prop_assert_eq!(seen.directory_faults, []);
        prop_assert_eq!(seen.faults, []);
        gather.found.sort_by_key(|(segment, column, _)| (*column, *segment));
        for (column, expected) in model.values.iter().enumerate() {
            let found: Vec<&Value> =
                gather.found.iter().filter(|(_, c, _)| *c == column).flat_map(|(.., values)| values).collect();
            prop_assert_eq!(found.len(), rows);
            prop_assert!(found.iter().zip(expected).all(|(found, expected)| same(found, expected)));
        }
        let columns = model.columns.clone().into();
        let table = SegmentTable::read(&mut bench.reader, &root, "t".into(), &columns).expect("read");
        prop_assert!(table.segments.iter().all(|segment| segment.rows <= options.rows));
        let mut at = 0;
        for segment in table.segments.iter() {
            prop_assert_eq!(&segment.first_key, &key(at));
            at += segment.rows as usize;
        }
        let runs = table.segments.iter().flat_map(|segment| &segment.columns);
        for (column, zone) in runs.map(|run| &run.zone).enumerate() {
            let wanted = options.bloom.contains(&(column % model.columns.len()));
            prop_assert_eq!(zone.bloom.is_some(), wanted && zone.values.is_none());
        }
        check_zones(&table, &model, random);
    }
}

/// Columns are looked at for faults alone.
struct Nothing;

impl InspectColumns for Nothing {
    fn column(&mut self, _segment: usize, _column: usize, _values: &Column) {}
}

#[test]
fn a_flipped_bit_is_found_by_segment_and_column() {
    let random = &mut Random::new(5);
    let columns = ["a", "b"].map(|name| ColumnType {
        name: name.into(),
        data_type: DataType::Int4,
        nullable: false,
        missing: None,
    });
    let values = (0..2).map(|_| (0..900).map(|_| Value::Int4(random.next_u64() as i32)).collect()).collect();
    let model = Model { columns: columns.to_vec(), values, rows: 900 };
    let mut bench = Bench::new(5);
    let options = BuildOptions { rows: 300, ..BuildOptions::default() };
    let root = bench.build(&model, options, random);
    let seen = bench.verify(&root, &model.columns, &mut Nothing);
    assert_eq!((seen.faults.len(), seen.segments.len()), (0, 3));
    let run = &seen.segments[1].columns[1];
    let location = bench.volume.locate(run.first_page).expect("mapped");
    let page_size = bench.volume.page_size();
    let at = location.offset() + page_size.offset_in_chunk(run.first_page) as u64 + 17;
    bench.device.flip_bit(at, 3);
    let seen = bench.verify(&root, &model.columns, &mut Nothing);
    let [fault] = &seen.faults[..] else { panic!("one fault, not {:?}", seen.faults) };
    assert_eq!((fault.segment, fault.column), (1, Some(1)));
    assert!(fault.what.contains("checksum"), "{}", fault.what);
}

/// 900 distinct integers in three segments, with a Bloom filter.
fn filtered(bench: &mut Bench) -> (Model, SegmentTable) {
    let random = &mut Random::new(9);
    let columns = vec![ColumnType { name: "a".into(), data_type: DataType::Int4, nullable: false, missing: None }];
    let values = vec![(0..900).map(|row: i32| Value::Int4(row.wrapping_mul(7919) % 1000 * 2)).collect()];
    let model = Model { columns, values, rows: 900 };
    let options = BuildOptions { rows: 300, bloom: vec![0], ..BuildOptions::default() };
    let root = bench.build(&model, options, random);
    assert_eq!(bench.verify(&root, &model.columns, &mut Nothing).faults, []);
    let table = SegmentTable::read(&mut bench.reader, &root, "t".into(), &model.columns.clone().into()).expect("read");
    (model, table)
}

#[test]
fn filters_decide_what_bounds_do_not() {
    let (_, table) = filtered(&mut Bench::new(9));
    let equal = |value| Test::Compare(CompareOp::Equal, Value::Int4(value));
    let unequal = |value| Test::Compare(CompareOp::NotEqual, Value::Int4(value));
    for segment in table.segments.iter() {
        let zone = &segment.columns[0].zone;
        // Odd numbers are of no row.
        let odd = || (1..1999).step_by(2);
        let passed = odd().filter(|value| zone.may_pass(&equal(*value), 300)).count();
        assert!(passed < 60, "{passed} of 999");
        for value in odd() {
            let one_of = zone.may_pass(&Test::OneOf(vec![Value::Int4(value), Value::Int4(-1)]), 300);
            assert_eq!(one_of, zone.may_pass(&equal(value), 300));
            assert_eq!(zone.all_pass(&unequal(value), 300), !zone.may_pass(&equal(value), 300));
        }
        assert!(zone.may_pass(&Test::Compare(CompareOp::Less, Value::Int4(501)), 300), "only equality is decided");
    }
}

#[test]
fn a_filter_of_other_values_is_a_fault() {
    let mut bench = Bench::new(9);
    let (model, table) = filtered(&mut bench);
    let publication = bench.volume.begin();
    let codec = codec();
    let options = BuildOptions::default();
    let mut builder =
        SegmentBuilder::new(codec.as_ref(), model.columns.clone(), DIRECTORY, publication.writer(), options);
    for (index, segment) in table.segments.iter().enumerate() {
        let mut segment = segment.clone();
        if index == 1 {
            segment.columns[0].zone.bloom = Bloom::read(&[0; 32]).map(Arc::new);
        }
        builder.keep(segment).expect("kept");
    }
    let (root, writer) = builder.finish(bench.volume.page_size()).expect("built");
    writer.finish().expect("finished");
    let mut live = LivePages::new(bench.volume.page_size());
    let source = VerifySource { fetcher: bench.reader.fetcher(), runs: &*bench.volume, codec: codec.as_ref() };
    let seen = verify(source, &root, &model.columns.clone().into(), &mut live, &mut Nothing);
    let [fault] = &seen.faults[..] else { panic!("one fault, not {:?}", seen.faults) };
    assert_eq!((fault.segment, fault.column), (1, Some(0)));
    assert_eq!(fault.what, "300 of its values do not pass its Bloom filter");
}

#[test]
fn a_row_larger_than_a_segment_is_a_segment() {
    let random = &mut Random::new(1);
    let columns = vec![ColumnType { name: "c".into(), data_type: DataType::Text, nullable: false, missing: None }];
    let values = vec![(0..5).map(|row| Value::Text("x".repeat(40_000 + row))).collect()];
    let model = Model { columns, values, rows: 5 };
    let mut bench = Bench::new(1);
    let root = bench.build(&model, BuildOptions { bytes: 1000, ..BuildOptions::default() }, random);
    assert_eq!((root.segments, root.rows), (5, 5));
    assert_eq!(bench.verify(&root, &model.columns, &mut Nothing).faults, []);
}
