//! Ranges beside nested loops, over every type of values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type};
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
    UInt16Array, UInt32Array,
};
use arrow_schema::{DataType, TimeUnit};
use proptest::collection::vec;
use proptest::prelude::*;
use saki_base::CompareOp;

use super::super::{JoinBuild, JoinTable, Matches, RangeKey};
use crate::{Batch, Column, form};

/// Types of values. Numbers from 0 to 23 stand for values in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Boolean,
    Int16,
    Int32,
    Int64,
    Date,
    Timestamp,
    Numeric,
    WideNumeric,
    Real,
    Double,
    Text,
    Bytea,
    Uuid,
}

const KINDS: [Kind; 13] = [
    Kind::Boolean,
    Kind::Int16,
    Kind::Int32,
    Kind::Int64,
    Kind::Date,
    Kind::Timestamp,
    Kind::Numeric,
    Kind::WideNumeric,
    Kind::Real,
    Kind::Double,
    Kind::Text,
    Kind::Bytea,
    Kind::Uuid,
];

/// A float: below all others -∞, above them ∞ and then what is no number, which has two signs, as zero has.
fn float(number: u8, other_sign: bool) -> f64 {
    match number {
        0 => f64::NEG_INFINITY,
        12 => {
            if other_sign {
                -0.0
            } else {
                0.0
            }
        }
        22 => f64::INFINITY,
        23 => {
            if other_sign {
                -f64::NAN
            } else {
                f64::NAN
            }
        }
        number => f64::from(number) * 0.5 - 6.0,
    }
}

/// Texts in the order of their bytes: prefixes of each other, long ones, and letters beyond ASCII.
fn text(number: u8) -> String {
    match number {
        0 => String::new(),
        1..8 => "a".repeat(usize::from(number) * 3),
        8..16 => format!("b, and more than twelve bytes {number:02}"),
        _ => format!("é{number}"),
    }
}

impl Kind {
    fn logical(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Numeric | Self::WideNumeric => DataType::Decimal128(38, 2),
            Self::Real => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Bytea => DataType::Binary,
            Self::Uuid => DataType::FixedSizeBinary(16),
        }
    }

    /// What numbers are compared by.
    fn number(self, number: u8) -> u8 {
        let number = number % 24;
        if self == Self::Boolean { number % 2 } else { number }
    }

    fn column(self, numbers: &[Option<u8>], shape: u8) -> Column {
        let numbers: Vec<Option<u8>> = numbers.iter().map(|number| number.map(|number| self.number(number))).collect();
        let of = |value: &dyn Fn(i64) -> i64| -> Vec<Option<i64>> {
            numbers.iter().map(|number| number.map(|n| value(i64::from(n)))).collect()
        };
        let decimals = |value: &dyn Fn(u8) -> i128| -> ArrayRef {
            let wide: Decimal128Array = numbers.iter().map(|number| number.map(value)).collect();
            let wide = wide.with_precision_and_scale(38, 2).unwrap();
            match form::narrow_decimals(&wide) {
                Some(narrow) if shape.is_multiple_of(2) => Arc::new(narrow),
                _ => Arc::new(wide),
            }
        };
        let odd = !shape.is_multiple_of(2);
        Column::new(match self {
            Self::Boolean => {
                Arc::new(numbers.iter().map(|number| number.map(|n| n == 1)).collect::<BooleanArray>()) as ArrayRef
            }
            Self::Int16 => Arc::new(of(&|n| n - 9).into_iter().map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
            Self::Int32 => Arc::new(of(&|n| n - 9).into_iter().map(|n| n.map(|n| n as i32)).collect::<Int32Array>()),
            Self::Int64 => {
                let value = |n| {
                    if n == 0 {
                        i64::MIN
                    } else if n == 23 {
                        i64::MAX
                    } else {
                        n - 9
                    }
                };
                Arc::new(Int64Array::from(of(&value)))
            }
            Self::Date => Arc::new(of(&|n| n - 3).into_iter().map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
            Self::Timestamp => Arc::new(TimestampMicrosecondArray::from(of(&|n| (n - 5) * 86_400_000_000))),
            Self::Numeric => decimals(&|n| i128::from(n) * 7 - 50),
            Self::WideNumeric => decimals(&|n| (i128::from(n) - 12).pow(3) << 60),
            Self::Real => {
                Arc::new(numbers.iter().map(|number| number.map(|n| float(n, odd) as f32)).collect::<Float32Array>())
            }
            Self::Double => {
                Arc::new(numbers.iter().map(|number| number.map(|n| float(n, odd))).collect::<Float64Array>())
            }
            Self::Text if odd => {
                let values = StringViewArray::from_iter_values((0..24).rev().map(text));
                let codes = numbers.iter().map(|number| number.map(|n| u16::from(23 - n))).collect::<UInt16Array>();
                Arc::new(DictionaryArray::<UInt16Type>::new(codes, Arc::new(values)))
            }
            Self::Text => Arc::new(numbers.iter().map(|number| number.map(text)).collect::<StringViewArray>()),
            Self::Bytea => {
                Arc::new(numbers.iter().map(|number| number.map(|n| text(n).into_bytes())).collect::<BinaryViewArray>())
            }
            Self::Uuid => {
                let value = |n: u8| (u128::from(n) * 0x0b00_0000_0000_0000_0000_0000_0000_0001).to_be_bytes();
                let values = numbers.iter().map(|number| number.map(value));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).unwrap())
            }
        })
    }
}

/// A row: its key, and numbers for its value or bounds.
type Row = [Option<u8>; 3];

fn rows(most: usize) -> impl Strategy<Value = Vec<(Vec<Row>, u8)>> {
    let number = || prop_oneof![1 => Just(None), 9 => (0..24_u8).prop_map(Some)];
    let key = prop_oneof![1 => Just(None), 9 => (0..4_u8).prop_map(Some)];
    let row = (key, number(), number()).prop_map(|(key, a, b)| [key, a, b]);
    vec((vec(row, 0..most), any::<u8>()), 0..5)
}

fn ops() -> impl Strategy<Value = Vec<CompareOp>> {
    use CompareOp::{Greater, GreaterOrEqual, Less, LessOrEqual};
    vec(proptest::sample::select(vec![Less, LessOrEqual, Greater, GreaterOrEqual]), 1..=2)
}

fn column(rows: &[Row], of: usize) -> Vec<Option<u8>> {
    rows.iter().map(|row| row[of]).collect()
}

/// The key columns of rows, then those of their values or bounds.
fn keys(kind: Kind, keyed: Option<Kind>, rows: &[Row], shape: u8, ranged: usize) -> Vec<Column> {
    let keys = keyed.map(|kind| kind.column(&column(rows, 0), shape));
    keys.into_iter().chain((1..=ranged).map(|of| kind.column(&column(rows, of), shape))).collect()
}

fn built(
    kind: Kind,
    keyed: Option<Kind>,
    ops: &[CompareOp],
    batches: &[(Vec<Row>, u8)],
    parts: usize,
) -> Arc<JoinTable> {
    let types: Vec<DataType> = keyed.map(Kind::logical).into_iter().collect();
    let range = RangeKey { data_type: kind.logical(), ops: ops.to_vec() };
    let mut first = 0;
    let mut part = |batches: &[(Vec<Row>, u8)]| {
        let mut build = JoinBuild::new(&types, &[DataType::Int64]).with_range(Some(range.clone()));
        for (rows, shape) in batches {
            let numbers = Int64Array::from_iter_values((first..).take(rows.len()));
            first += rows.len() as i64;
            let payload = Batch::new(vec![Column::new(Arc::new(numbers))], rows.len());
            build.push(&keys(kind, keyed, rows, *shape, 1), &payload).unwrap();
        }
        build
    };
    let share = batches.len().div_ceil(parts).max(1);
    let mut built: Vec<JoinBuild> = batches.chunks(share).map(&mut part).collect();
    if built.is_empty() {
        built.push(part(&[]));
    }
    JoinTable::build(built, true, 2).unwrap()
}

/// All pairs, a few at a time.
fn pairs(table: &JoinTable, keys: &[Column], rows: usize, pairs_max: usize, skipped: Option<usize>) -> Vec<(u32, i64)> {
    let mut runs = table.runs(keys, rows).unwrap().unwrap();
    let (mut pairs, mut some, mut more) = (Vec::new(), Matches::default(), true);
    while more {
        some.clear();
        more = runs.pairs(pairs_max, |row| Some(row) == skipped, &mut some);
        assert!(some.build.len() <= pairs_max && some.build.len() == some.probe.len());
        assert!(!more || some.build.len() == pairs_max);
        let original = table.gather(&UInt32Array::from(some.build.clone()), &[0]).unwrap();
        let original = original[0].array().as_primitive::<Int64Type>().values();
        pairs.extend(some.probe.iter().copied().zip(original.iter().copied()));
    }
    assert!(pairs.is_sorted_by_key(|(probe, _)| *probe));
    pairs.sort_unstable();
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn ranges_are_nested_loops(
        kind in proptest::sample::select(KINDS.to_vec()),
        keyed in proptest::option::of(proptest::sample::select(vec![Kind::Int32, Kind::Text, Kind::Double])),
        ops in ops(),
        build in rows(30),
        probe in rows(12),
        parts in 1..3_usize,
        pairs_max in prop_oneof![1..9_usize, Just(100_000)],
    ) {
        let table = built(kind, keyed, &ops, &build, parts);
        let all: Vec<Row> = build.iter().flat_map(|(rows, _)| rows.iter().copied()).collect();
        prop_assert_eq!(table.rows(), all.len());
        let matches = |build: &Row, probe: &Row| {
            let holds = |(op, bound): (&CompareOp, Option<u8>)| {
                build[1].zip(bound).is_some_and(|(value, bound)| op.holds(kind.number(value).cmp(&kind.number(bound))))
            };
            (keyed.is_none() || (build[0].is_some() && build[0] == probe[0]))
                && ops.iter().zip(probe[1..].iter().copied()).all(holds)
        };
        for (rows, shape) in &probe {
            let keys = keys(kind, keyed, rows, *shape, ops.len());
            let mut expected = Vec::new();
            for (row, probe) in rows.iter().enumerate() {
                let partners = (0..all.len()).filter(|build| matches(&all[*build], probe));
                expected.extend(partners.map(|build| (row as u32, build as i64)));
            }
            let has_partner = |row| expected.iter().any(|pair| pair.0 == row);
            let found: Vec<bool> = (0..rows.len() as u32).map(has_partner).collect();
            let runs = table.runs(&keys, rows.len()).unwrap().unwrap();
            prop_assert_eq!(runs.found().iter().collect::<Vec<_>>(), found);
            prop_assert_eq!(&pairs(&table, &keys, rows.len(), pairs_max, None), &expected);
            expected.retain(|pair| pair.0 != 1);
            prop_assert_eq!(&pairs(&table, &keys, rows.len(), pairs_max, Some(1)), &expected);
        }
    }
}

#[test]
fn a_range_needs_inequalities_and_all_of_its_bounds() {
    let rows = vec![(vec![[Some(1), Some(2), Some(3)]; 4], 0)];
    let table = built(Kind::Int64, None, &[CompareOp::Less, CompareOp::Greater], &rows, 1);
    assert!(table.runs(&keys(Kind::Int64, None, &rows[0].0, 0, 1), 4).is_err());
    let equal = RangeKey { data_type: DataType::Int64, ops: vec![CompareOp::Equal] };
    assert!(JoinTable::build(vec![JoinBuild::new(&[], &[]).with_range(Some(equal))], false, 1).is_err());
    let none = JoinTable::build(vec![JoinBuild::new(&[DataType::Int64], &[])], false, 1).unwrap();
    assert!(none.runs(&[], 0).unwrap().is_none());
}

/// Sorting takes memory that is counted before it is taken.
#[test]
fn what_sorting_takes_is_counted() {
    let build = |range: Option<RangeKey>| {
        let mut build = JoinBuild::new(&[], &[]).with_range(range.clone());
        let values = Column::new(Arc::new(Int64Array::from_iter_values(0..1000)));
        build
            .push(if range.is_some() { std::slice::from_ref(&values) } else { &[] }, &Batch::new(Vec::new(), 1000))
            .unwrap();
        build.memory_bytes()
    };
    let range = RangeKey { data_type: DataType::Int64, ops: vec![CompareOp::Less] };
    assert!(build(Some(range)) >= build(None) + 1000 * 48);
}
