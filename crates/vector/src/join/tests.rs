//! Joins beside nested loops, over every type and form of keys.

use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalYearMonthArray, StringViewArray,
    TimestampMicrosecondArray, UInt16Array, UInt32Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{JoinBuild, JoinTable, Matches};
use crate::{Batch, Column, form};

/// What a key column is made of. Numbers stand for values: equal numbers, equal values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Boolean,
    Int16,
    Int32,
    Int64 {
        step: i64,
    },
    /// The least and the greatest integers among others.
    Extremes,
    Date,
    Timestamp,
    Decimal {
        step: i64,
    },
    /// Some take more than 8 bytes.
    WideDecimal,
    Real,
    Double,
    Text,
    Binary,
    Uuid,
    Interval,
}

pub(crate) const KINDS: [Kind; 18] = [
    Kind::Boolean,
    Kind::Int16,
    Kind::Int32,
    Kind::Int64 { step: 1 },
    Kind::Int64 { step: 70_000_000 },
    Kind::Int64 { step: 300_000_000_000_000_000 },
    Kind::Extremes,
    Kind::Date,
    Kind::Timestamp,
    Kind::Decimal { step: 1 },
    Kind::Decimal { step: 50_000_000_000 },
    Kind::WideDecimal,
    Kind::Real,
    Kind::Double,
    Kind::Text,
    Kind::Binary,
    Kind::Uuid,
    Kind::Interval,
];

fn text(number: i64) -> String {
    if number % 2 == 0 { format!("{number}") } else { format!("a text of many letters, the {number}th") }
}

impl Kind {
    pub(crate) fn logical(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 { .. } | Self::Extremes => DataType::Int64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Decimal { .. } | Self::WideDecimal => DataType::Decimal128(38, 2),
            Self::Real => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::Interval => DataType::Interval(IntervalUnit::YearMonth),
        }
    }

    /// The number of distinct values is limited.
    pub(crate) fn number(self, number: u8) -> i64 {
        i64::from(if self == Self::Boolean { number % 2 } else { number % 24 })
    }

    /// A column of values in one of the forms of its type, sliced out of a longer one.
    pub(crate) fn column(self, numbers: &[Option<i64>], shape: u8) -> Column {
        let padded: Vec<Option<i64>> = [Some(1), None].iter().chain(numbers).chain(&[None, Some(0)]).copied().collect();
        Column::new(self.array(&padded, shape)).slice(2, numbers.len())
    }

    fn array(self, numbers: &[Option<i64>], shape: u8) -> ArrayRef {
        // What lies under a NULL is a value as well.
        let nulls = || Some(NullBuffer::from_iter(numbers.iter().map(Option::is_some)));
        let number = |number: &Option<i64>| number.unwrap_or(1);
        let numbers_of = |of: &dyn Fn(i64) -> i64| -> Vec<i64> { numbers.iter().map(|n| of(number(n))).collect() };
        let decimals = |values: Vec<i128>| -> ArrayRef {
            let wide = Decimal128Array::new(values.into(), nulls()).with_precision_and_scale(38, 2).unwrap();
            match form::narrow_decimals(&wide) {
                Some(narrow) if shape.is_multiple_of(2) => Arc::new(narrow),
                _ => Arc::new(wide),
            }
        };
        match self {
            Self::Boolean => Arc::new(BooleanArray::new(numbers.iter().map(|n| number(n) % 2 == 1).collect(), nulls())),
            Self::Int16 => Arc::new(Int16Array::new(numbers.iter().map(|n| number(n) as i16 - 5).collect(), nulls())),
            Self::Int32 => Arc::new(Int32Array::new(numbers.iter().map(|n| number(n) as i32 * 7).collect(), nulls())),
            Self::Int64 { step } => Arc::new(Int64Array::new(numbers_of(&|n| (n - 9) * step).into(), nulls())),
            Self::Extremes => {
                let value = |n| [i64::MIN, i64::MAX, -1, 0].get(n as usize).copied().unwrap_or(n);
                Arc::new(Int64Array::new(numbers_of(&value).into(), nulls()))
            }
            Self::Date => Arc::new(Date32Array::new(numbers.iter().map(|n| number(n) as i32 - 3).collect(), nulls())),
            Self::Timestamp => {
                Arc::new(TimestampMicrosecondArray::new(numbers_of(&|n| n * 86_400_000_000).into(), nulls()))
            }
            Self::Decimal { step } => decimals(numbers_of(&|n| n * step).into_iter().map(i128::from).collect()),
            Self::WideDecimal => {
                decimals(numbers_of(&|n| n).into_iter().map(|n| i128::from(n) << (n % 8 * 12)).collect())
            }
            // Zero and what is not a number have two faces each.
            Self::Real => {
                let zero = if shape.is_multiple_of(2) { 0.0 } else { -0.0 };
                let nan = if shape.is_multiple_of(2) { f32::NAN } else { -f32::NAN };
                let value = |n: i64| match n {
                    0 => zero,
                    1 => nan,
                    n => n as f32 / 3.0 - 4.1,
                };
                Arc::new(Float32Array::new(numbers.iter().map(|n| value(number(n))).collect(), nulls()))
            }
            Self::Double => {
                let zero = if shape.is_multiple_of(2) { 0.0 } else { -0.0 };
                let nan = if shape.is_multiple_of(2) { f64::NAN } else { -f64::NAN };
                let value = |n: i64| match n {
                    0 => zero,
                    1 => nan,
                    n => n as f64 / 3.0 - 4.1,
                };
                Arc::new(Float64Array::new(numbers.iter().map(|n| value(number(n))).collect(), nulls()))
            }
            Self::Text if shape.is_multiple_of(3) => {
                // Values that no row has, one of them twice, and no order.
                let values = StringViewArray::from_iter_values((0..26).rev().map(|n| text(n % 25)));
                let codes = numbers.iter().map(|n| 25 - number(n) as u16).collect();
                Arc::new(DictionaryArray::<UInt16Type>::new(UInt16Array::new(codes, nulls()), Arc::new(values)))
            }
            Self::Text => Arc::new(StringViewArray::from_iter(numbers.iter().map(|n| n.map(text)))),
            Self::Binary => {
                Arc::new(BinaryViewArray::from_iter(numbers.iter().map(|n| n.map(|n| text(n).into_bytes()))))
            }
            Self::Uuid => {
                let mut values = FixedSizeBinaryBuilder::new(16);
                for n in numbers {
                    match n {
                        Some(n) => {
                            values.append_value((*n as u128 * 0x1234_5678_9abc_def0_1234_5678).to_be_bytes()).unwrap()
                        }
                        None => values.append_null(),
                    }
                }
                Arc::new(values.finish())
            }
            Self::Interval => {
                Arc::new(IntervalYearMonthArray::new(numbers.iter().map(|n| number(n) as i32).collect(), nulls()))
            }
        }
    }
}

/// A row's numbers, one for each key column.
type Row = [Option<u8>; 3];

#[derive(Clone, Debug)]
struct Rows {
    rows: Vec<Row>,
    shape: u8,
}

impl Rows {
    fn keys(&self, kinds: &[Kind]) -> Vec<Column> {
        let numbers = |column: usize, kind: Kind| -> Vec<Option<i64>> {
            self.rows.iter().map(|row| row[column].map(|number| kind.number(number))).collect()
        };
        let columns = kinds.iter().enumerate();
        columns.map(|(column, kind)| kind.column(&numbers(column, *kind), self.shape + column as u8)).collect()
    }

    fn numbers(&self, kinds: &[Kind]) -> Vec<Vec<Option<i64>>> {
        let number = |(kind, number): (&Kind, &Option<u8>)| number.map(|number| kind.number(number));
        self.rows.iter().map(|row| kinds.iter().zip(row).map(number).collect()).collect()
    }
}

fn rows(most: usize, batches: usize) -> impl Strategy<Value = Vec<Rows>> {
    let number = || prop_oneof![1 => Just(None), 9 => any::<u8>().prop_map(Some)];
    let row = (number(), number(), number()).prop_map(|(a, b, c)| [a, b, c]);
    vec((vec(row, 0..most), 0..6_u8).prop_map(|(rows, shape)| Rows { rows, shape }), 0..batches)
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = proptest::sample::select(KINDS.to_vec());
    prop_oneof![4 => vec(kind.clone(), 1..=1), 3 => vec(kind, 0..=3)]
}

fn payload(start: usize, rows: &Rows) -> Batch {
    let numbers: Vec<i64> = (start as i64..).take(rows.rows.len()).collect();
    let some: Vec<Option<i64>> = numbers.iter().map(|n| (n % 5 != 0).then_some(n % 24)).collect();
    let columns = vec![
        Column::new(Arc::new(Int64Array::from(numbers)) as ArrayRef),
        Kind::Text.column(&some, rows.shape),
        Kind::WideDecimal.column(&some, rows.shape),
        Kind::Boolean.column(&some, rows.shape),
    ];
    Batch::new(columns, rows.rows.len())
}

fn table(kinds: &[Kind], batches: &[Rows], parts: usize, nulls_equal: bool, threads: usize) -> Arc<JoinTable> {
    let keys: Vec<DataType> = kinds.iter().map(|kind| kind.logical()).collect();
    let payload_types = [DataType::Int64, DataType::Utf8, DataType::Decimal128(38, 2), DataType::Boolean];
    let mut start = 0;
    let share = batches.len().div_ceil(parts).max(1);
    let mut built: Vec<JoinBuild> = batches
        .chunks(share)
        .map(|batches| {
            let mut part = JoinBuild::new(&keys, &payload_types);
            if nulls_equal {
                part = part.with_nulls_equal();
            }
            for rows in batches {
                part.push(&rows.keys(kinds), &payload(start, rows)).unwrap();
                start += rows.rows.len();
            }
            part
        })
        .collect();
    if built.is_empty() {
        let part = JoinBuild::new(&keys, &payload_types);
        built.push(if nulls_equal { part.with_nulls_equal() } else { part });
    }
    JoinTable::build(built, true, threads).unwrap()
}

fn surface(column: &Column, logical: &DataType) -> ArrayRef {
    form::to_surface(column, logical).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn joins_are_nested_loops(
        kinds in kinds(),
        build in rows(40, 6),
        probe in rows(40, 4),
        parts in 1..4_usize,
        nulls_equal: bool,
        pairs_max in prop_oneof![1..20_usize, Just(usize::MAX)],
    ) {
        let table = table(&kinds, &build, parts, nulls_equal, 2);
        let build_numbers: Vec<_> = build.iter().flat_map(|rows| rows.numbers(&kinds)).collect();
        prop_assert_eq!(table.rows(), build_numbers.len());
        let equal = |a: &[Option<i64>], b: &[Option<i64>]| {
            a == b && (nulls_equal || a.iter().all(Option::is_some))
        };
        let has_key = |row: &[Option<i64>]| nulls_equal || row.iter().all(Option::is_some);
        let twice = (0..build_numbers.len()).any(|a| {
            has_key(&build_numbers[a]) && build_numbers[..a].contains(&build_numbers[a])
        });
        prop_assert_eq!(table.is_unique(), !twice);
        // Batches may have changed places: a row's first payload column says where it was.
        let original = pushed_rows(&table);
        let pushed = |matches: &Matches| -> Vec<(u32, u32)> {
            assert!(matches.probe.is_sorted());
            let row = |row: &u32| original.get(*row as usize).copied().unwrap_or(Matches::NO_ROW);
            let mut pairs: Vec<_> = matches.probe.iter().copied().zip(matches.build.iter().map(row)).collect();
            pairs.sort_unstable();
            pairs
        };
        let mut marked = vec![false; table.rows()];
        for probe in &probe {
            let (keys, numbers) = (probe.keys(&kinds), probe.numbers(&kinds));
            let (mut pairs, mut outer_pairs, mut exists) = (Vec::new(), Vec::new(), Vec::new());
            for (row, key) in numbers.iter().enumerate() {
                let partners = (0..build_numbers.len()).filter(|build| equal(&build_numbers[*build], key));
                let partners: Vec<_> = partners.map(|build| (row as u32, build as u32)).collect();
                exists.push(!partners.is_empty());
                outer_pairs.extend_from_slice(&partners);
                if partners.is_empty() {
                    outer_pairs.push((row as u32, Matches::NO_ROW));
                }
                pairs.extend(partners);
            }
            let inner = looked_up(&table, &keys, numbers.len(), pairs_max, false);
            prop_assert_eq!(pushed(&inner), pairs);
            let outer = looked_up(&table, &keys, numbers.len(), pairs_max, true);
            prop_assert_eq!(pushed(&outer), outer_pairs);
            prop_assert_eq!(table.probe_semi(&keys, numbers.len()).unwrap(), BooleanArray::from(exists));
            table.mark(&outer.build);
            inner.build.iter().for_each(|row| marked[*row as usize] = true);
            check_gather(&table, &build, &outer.build_rows(), &original);
        }
        for (part, wanted) in [(0, true), (1, true), (0, false), (1, false)] {
            let half = [0, table.rows() / 2, table.rows()];
            let rows = half[part]..half[part + 1];
            let rows: Vec<u32> = rows.filter(|row| marked[*row] == wanted).map(|row| row as u32).collect();
            prop_assert_eq!(table.marked(wanted, part, 2), rows);
        }
    }
}

/// All pairs, looked up until there are `pairs_max` of them, and again from where that has ended.
fn looked_up(table: &JoinTable, keys: &[Column], rows: usize, pairs_max: usize, outer: bool) -> Matches {
    let (mut all, mut some, mut next) = (Matches::default(), Matches::default(), 0);
    while next < rows {
        some.clear();
        let rest: Vec<Column> = keys.iter().map(|key| key.slice(next, rows - next)).collect();
        let probe = if outer { JoinTable::probe_outer } else { JoinTable::probe };
        let done = probe(table, &rest, rows - next, pairs_max, &mut some).unwrap();
        assert!(done > 0 && done <= rows - next, "{done} rows");
        // Only the last row goes beyond; keys of one row each are looked up together.
        let of_last = some.probe.iter().filter(|row| **row as usize + 1 == done).count();
        assert!(table.is_unique() || some.probe.len() - of_last < pairs_max, "{} pairs", some.probe.len());
        all.build.extend_from_slice(&some.build);
        all.probe.extend(some.probe.iter().map(|row| row + next as u32));
        next += done;
    }
    all
}

/// For each build row, the how manieth it was when it was pushed.
fn pushed_rows(table: &JoinTable) -> Vec<u32> {
    let all = UInt32Array::from_iter_values(0..table.rows() as u32);
    let rows = table.gather(&all, &[0]).unwrap();
    rows[0].array().as_primitive::<Int64Type>().values().iter().map(|row| *row as u32).collect()
}

fn check_gather(table: &JoinTable, build: &[Rows], rows: &UInt32Array, original: &[u32]) {
    let gathered = table.gather(rows, &[1, 0, 2, 3]).unwrap();
    let numbers: Vec<Option<i64>> = rows.iter().map(|row| row.map(|row| i64::from(original[row as usize]))).collect();
    assert_eq!(gathered[1].array().as_primitive::<Int64Type>(), &Int64Array::from(numbers.clone()));
    let wanted: Vec<Option<i64>> = numbers.iter().map(|n| n.filter(|n| n % 5 != 0).map(|n| n % 24)).collect();
    for (column, kind) in [(0, Kind::Text), (2, Kind::WideDecimal), (3, Kind::Boolean)] {
        let shape = build.first().map_or(1, |rows| rows.shape);
        let wanted = kind.column(&wanted, shape);
        assert_eq!(&surface(&gathered[column], &kind.logical()), &surface(&wanted, &kind.logical()));
    }
}

/// Enough rows for every thread to have a share.
fn large(step: i64, copies: usize, threads: usize) {
    const ROWS: usize = 300_000;
    let key = |row: usize| ((row / copies) as i64 * 7919 % 1_000_003) * step;
    let mut parts = Vec::new();
    for part in 0..3 {
        let mut build = JoinBuild::new(&[DataType::Int64], &[DataType::Int64]);
        for start in (part * ROWS / 3..(part + 1) * ROWS / 3).step_by(5000) {
            let keys = Int64Array::from_iter_values((start..start + 5000).map(key));
            let rows = Int64Array::from_iter_values((start as i64..).take(5000));
            let batch = Batch::new(vec![Column::new(Arc::new(rows))], 5000);
            build.push(&[Column::new(Arc::new(keys))], &batch).unwrap();
        }
        parts.push(build);
    }
    let table = JoinTable::build(parts, false, threads).unwrap();
    assert_eq!(table.is_unique(), copies == 1);
    // Batches may have changed places.
    let original = pushed_rows(&table);
    let mut matches = Matches::default();
    for start in (0..ROWS).step_by(6000) {
        matches.clear();
        let probe: Vec<i64> = (start..start + 6000).map(|row| key(row) + step * i64::from(row % 11 == 0)).collect();
        table.probe(&[Column::new(Arc::new(Int64Array::from(probe.clone())))], 6000, usize::MAX, &mut matches).unwrap();
        for (build, probe_row) in matches.build.iter().zip(&matches.probe) {
            assert_eq!(key(original[*build as usize] as usize), probe[*probe_row as usize]);
        }
        let hits = |row: &usize| !(start + row).is_multiple_of(11);
        let partners = (0..6000).filter(hits).count() * copies;
        assert!(matches.build.len() >= partners, "{} < {partners}", matches.build.len());
        let pairs = matches.probe.iter().zip(&matches.build);
        assert!(pairs.is_sorted(), "ascending, each pair once");
    }
}

#[test]
fn threads_build_dense_tables() {
    large(1, 1, 2);
    large(1, 4, 3);
}

/// Batches of ascending keys, dealt out to threads.
#[test]
fn rows_in_the_order_of_their_keys_are_counted() {
    const BATCHES: usize = 300;
    const ROWS: usize = 1000;
    let key = |row: usize| (row / 8 * 32 + row % 8) as i64 - 1_000_000;
    for (parts, disorder) in [(1, false), (2, false), (3, false), (2, true)] {
        let mut built: Vec<_> = (0..parts).map(|_| JoinBuild::new(&[DataType::Int64], &[DataType::Int64])).collect();
        for batch in 0..BATCHES {
            let rows = batch * ROWS..(batch + 1) * ROWS;
            let mut keys: Vec<i64> = rows.clone().map(key).collect();
            if disorder && batch == BATCHES / 2 {
                keys.swap(100, 101);
            }
            let rows = Column::new(Arc::new(Int64Array::from(keys.clone())));
            let batch_of = Batch::new(vec![rows.clone()], ROWS);
            built[batch % parts].push(&[rows], &batch_of).unwrap();
        }
        let table = JoinTable::build(built, false, 2).unwrap();
        assert_eq!(table.memory_bytes() > 16 * BATCHES * ROWS + 1_000_000, disorder, "positions are larger than ranks");
        let mut matches = Matches::default();
        let probe: Vec<i64> = (-1_000_100..300_000).map(|key| key * 3 % 1_500_000).collect();
        table
            .probe(&[Column::new(Arc::new(Int64Array::from(probe.clone())))], probe.len(), usize::MAX, &mut matches)
            .unwrap();
        let found = table.gather(&matches.build_rows(), &[0]).unwrap();
        let found = found[0].array().as_primitive::<Int64Type>().values();
        let pairs = found.iter().zip(&matches.probe);
        assert!(pairs.clone().all(|(found, row)| *found == probe[*row as usize]));
        let last = key(BATCHES * ROWS - 1);
        let hits = probe.iter().filter(|key| (-1_000_000..=last).contains(*key) && (**key + 1_000_000) % 32 < 8);
        assert_eq!(pairs.count(), hits.count());
    }
}

#[test]
fn threads_build_hashed_tables() {
    large(1000, 1, 3);
    large(1000, 4, 2);
    large(1 << 40, 1, 2);
    large(1 << 40, 3, 4);
}

#[test]
fn threads_build_tables_of_text() {
    const ROWS: usize = 200_000;
    for copies in [1, 2] {
        let key = |row: usize| text((row / copies) as i64);
        let mut build = JoinBuild::new(&[DataType::Utf8], &[]);
        for start in (0..ROWS).step_by(4000) {
            let keys = StringViewArray::from_iter_values((start..start + 4000).map(key));
            build.push(&[Column::new(Arc::new(keys))], &Batch::new(Vec::new(), 4000)).unwrap();
        }
        let table = JoinTable::build(vec![build], false, 3).unwrap();
        let keys = StringViewArray::from_iter_values((0..ROWS).step_by(copies).map(key));
        let rows = keys.len();
        let mut matches = Matches::default();
        table.probe(&[Column::new(Arc::new(keys))], rows, usize::MAX, &mut matches).unwrap();
        assert_eq!(matches.build, (0..ROWS as u32).collect::<Vec<_>>());
    }
}

/// More keys have their homes in the first share than it has buckets: the table is built as one share.
#[test]
fn crowded_shares_become_one() {
    use crate::key_index::hashed::{Hashed, Hashes};
    const ROWS: u64 = 200_000;
    const CROWD: u64 = 135_000;
    for copies in [1, 2] {
        let third = (1 << 32) / 3;
        let home = |key: u64| match key * copies {
            row if row < CROWD => row * third / CROWD,
            row => third + (row - CROWD) * third / (ROWS - CROWD),
        };
        // Tags are alike, so that keys are compared.
        let words: Vec<u64> = (0..ROWS).map(|row| home(row / copies) << 32 | 7).collect();
        let same = |a: u32, b: u32| u64::from(a) / copies == u64::from(b) / copies;
        let (index, groups) = Hashed::<Hashes>::build(&words, same, 3).unwrap();
        assert_eq!(groups.is_some(), copies > 1);
        for rows in (0..words.len()).collect::<Vec<_>>().chunks(1000) {
            let mut positions = vec![0; rows.len()];
            let wanted: Vec<u64> = rows.iter().map(|row| words[*row]).collect();
            let first = |position| groups.as_ref().map_or(position, |groups| groups.first(position));
            let same = |row: usize, position| u64::from(first(position)) / copies == rows[row] as u64 / copies;
            index.find(&wanted, same, &mut positions);
            for (row, position) in rows.iter().zip(positions) {
                assert_eq!(u64::from(first(position)), *row as u64 / copies * copies);
            }
        }
    }
}

#[test]
fn parts_of_different_joins_are_refused() {
    let parts = vec![JoinBuild::new(&[DataType::Int64], &[]), JoinBuild::new(&[DataType::Int32], &[])];
    assert!(JoinTable::build(parts, false, 1).is_err());
    assert!(JoinTable::build(Vec::new(), false, 1).is_err());
}
