//! Against a model: a sorted map from keys to the rows that have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, UInt16Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    FixedSizeBinaryArray, Float64Array, Int16Array, Int32Array, Int64Array, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, UInt16Array,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;
use saki_base::Random;

use super::values::{Integers, Strings, floats, ordered};
use super::*;
use crate::{Batch, Bounds, FloatRange, form};

/// A value of any type, as it sorts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Plain {
    Null,
    Number(i128),
    Bytes(Vec<u8>),
}

const DECIMAL: DataType = DataType::Decimal128(38, 2);
const SHORT_DECIMAL: DataType = DataType::Decimal128(12, 2);

fn types() -> Vec<DataType> {
    vec![
        DataType::Boolean,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Float64,
        DECIMAL,
        SHORT_DECIMAL,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::FixedSizeBinary(16),
    ]
}

/// How the values of a column are spread.
#[derive(Clone, Copy, Debug)]
enum Spread {
    Few,
    Ascending,
    Wide,
    Extreme,
}

/// The values of a column over all rows.
fn values(data_type: &DataType, spread: Spread, nulls: bool, rows: usize, random: &mut Random) -> Vec<Plain> {
    (0..rows)
        .map(|row| {
            if nulls && random.below(5) == 0 {
                return Plain::Null;
            }
            let number = match spread {
                Spread::Few => random.below(4) as i64 - 2,
                Spread::Ascending => row as i64 / 3 * 5 - 20,
                Spread::Wide => random.below(1 << 40) as i64 - (1 << 39),
                Spread::Extreme => [i64::MIN, i64::MAX, 0, -1][random.below(4) as usize],
            };
            let bytes = || match spread {
                Spread::Few => vec![b'a' + number.rem_euclid(5) as u8; number.rem_euclid(3) as usize],
                _ => format!("{number} is a text of some length").into_bytes(),
            };
            match data_type {
                DataType::Boolean => Plain::Number(i128::from(number & 1)),
                DataType::Int16 => Plain::Number(i128::from(number as i16)),
                DataType::Int32 | DataType::Date32 => Plain::Number(i128::from(number as i32)),
                DataType::Float64 => {
                    let special = [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, 0.5];
                    // Small enough for sums not to depend on their order.
                    let float =
                        if random.below(4) == 0 { special[random.below(6) as usize] } else { (number % 4096) as f64 };
                    Plain::Number(i128::from(ordered(float)))
                }
                DataType::Decimal128(38, _) => {
                    let times = if matches!(spread, Spread::Extreme) { 10i128.pow(18) } else { 1 };
                    Plain::Number(i128::from(number) * times)
                }
                DataType::Decimal128(..) => Plain::Number(i128::from(number % 1_000_000)),
                DataType::Utf8View | DataType::BinaryView => Plain::Bytes(bytes()),
                DataType::FixedSizeBinary(_) => Plain::Bytes(i128::from(number).to_le_bytes().to_vec()),
                _ => Plain::Number(i128::from(number)),
            }
        })
        .collect()
}

/// A batch's column, in one of the forms of its type.
fn column(data_type: &DataType, values: &[Plain], random: &mut Random) -> Column {
    let number = |value: &Plain| match value {
        Plain::Number(number) => Some(*number),
        _ => None,
    };
    let bytes = |value: &Plain| match value {
        Plain::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let text = |value: &Plain| bytes(value).map(|bytes| String::from_utf8(bytes).unwrap());
    let narrow = |value: &Plain| number(value).map(|number| number as i64);
    let array: ArrayRef = match data_type {
        DataType::Boolean => Arc::new(values.iter().map(|v| number(v).map(|v| v != 0)).collect::<BooleanArray>()),
        DataType::Int16 => Arc::new(values.iter().map(|v| narrow(v).map(|v| v as i16)).collect::<Int16Array>()),
        DataType::Int32 => Arc::new(values.iter().map(|v| narrow(v).map(|v| v as i32)).collect::<Int32Array>()),
        DataType::Date32 => Arc::new(values.iter().map(|v| narrow(v).map(|v| v as i32)).collect::<Date32Array>()),
        DataType::Int64 => Arc::new(values.iter().map(narrow).collect::<Int64Array>()),
        DataType::Time64(_) => Arc::new(values.iter().map(narrow).collect::<Time64MicrosecondArray>()),
        DataType::Timestamp(..) => {
            Arc::new(values.iter().map(narrow).collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
        }
        DataType::Float64 => {
            Arc::new(values.iter().map(|v| narrow(v).map(super::values::unordered)).collect::<Float64Array>())
        }
        DataType::Decimal128(precision, scale) => {
            let wide = values.iter().map(number).collect::<Decimal128Array>();
            let wide = wide.with_precision_and_scale(*precision, *scale).unwrap();
            match form::narrow_decimals(&wide).filter(|_| random.below(3) > 0) {
                Some(narrow) => Arc::new(narrow),
                None => Arc::new(wide),
            }
        }
        DataType::Utf8View if random.below(2) == 0 => {
            // With a value that no row has.
            let mut words = vec!["unused".to_owned()];
            let codes = values.iter().map(|value| {
                let word = text(value)?;
                let code = words.iter().position(|known| *known == word).unwrap_or_else(|| {
                    words.push(word);
                    words.len() - 1
                });
                Some(code as u16)
            });
            let codes: UInt16Array = codes.collect();
            let words = Arc::new(words.iter().map(Some).collect::<StringViewArray>());
            Arc::new(DictionaryArray::<UInt16Type>::try_new(codes, words).unwrap())
        }
        DataType::Utf8View => Arc::new(values.iter().map(text).collect::<StringViewArray>()),
        DataType::BinaryView => Arc::new(values.iter().map(bytes).collect::<BinaryViewArray>()),
        DataType::FixedSizeBinary(width) => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.iter().map(bytes), *width).unwrap())
        }
        other => panic!("{other}"),
    };
    let numbers = values.iter().filter_map(number);
    match (numbers.clone().min(), numbers.max()) {
        (Some(min), Some(max)) if Integers::of(&Column::new(Arc::clone(&array))).is_some() && random.below(2) == 0 => {
            Column::with_bounds(array, Bounds { min: min as i64, max: max as i64 })
        }
        _ => Column::new(array),
    }
}

/// The values of a column, in whichever form.
fn plain(column: &Column) -> Vec<Plain> {
    let array = column.array();
    let value = |row: usize| {
        if let Some(strings) = Strings::of(column) {
            return Plain::Bytes(strings.get(row).to_vec());
        }
        if let Some(floats) = floats(column) {
            return Plain::Number(i128::from(ordered(floats[row])));
        }
        match Integers::of(column) {
            Some(integers) => Plain::Number(i128::from(integers.widen(None, 0)[row])),
            None => Plain::Number(array.as_primitive::<Decimal128Type>().value(row)),
        }
    };
    (0..array.len()).map(|row| if array.is_null(row) { Plain::Null } else { value(row) }).collect()
}

/// The type of a call's result; `None`: there is no such call.
fn result(function: Function, argument: &DataType) -> Option<DataType> {
    let call = |result: DataType| Call { function, argument: Some(argument.clone()), result };
    let candidates = [
        DataType::Int64,
        DataType::Float64,
        argument.clone(),
        DataType::Decimal128(38, 2),
        DataType::Decimal128(38, 6),
    ];
    let wanted = |result: &DataType| match (function, argument) {
        (Function::Average, DataType::Decimal128(..)) => *result == DataType::Decimal128(38, 6),
        (Function::Sum, DataType::Decimal128(..)) => *result == DataType::Decimal128(38, 2),
        _ => call(result.clone()).is_supported(),
    };
    candidates.into_iter().find(wanted)
}

/// What a call gives for the values of one group; `None`: out of range.
fn expected(call: &Call, values: &[Plain]) -> Option<Plain> {
    let present: Vec<&Plain> = values.iter().filter(|value| **value != Plain::Null).collect();
    if call.function == Function::Count {
        return Some(Plain::Number(if call.argument.is_some() { present.len() } else { values.len() } as i128));
    }
    if present.is_empty() {
        return Some(Plain::Null);
    }
    let numbers: Vec<i128> =
        present.iter().filter_map(|v| if let Plain::Number(v) = v { Some(*v) } else { None }).collect();
    let float = |value: f64| Plain::Number(i128::from(ordered(value)));
    Some(match (call.function, call.argument.as_ref()?) {
        (Function::Min, _) => (*present.iter().min()?).clone(),
        (Function::Max, _) => (*present.iter().max()?).clone(),
        (function, DataType::Float64) => {
            let sum = numbers.iter().fold(0.0, |sum, v| sum + super::values::unordered(*v as i64));
            float(if function == Function::Sum { sum } else { sum / numbers.len() as f64 })
        }
        (Function::Sum, DataType::Decimal128(..)) => {
            Plain::Number(exact(&numbers).to_i128()?).in_range(10i128.pow(38))?
        }
        (Function::Average, DataType::Decimal128(..)) => {
            let scaled = exact(&numbers).checked_mul(i256::from(10_000))?;
            let count = i256::from(numbers.len() as i64);
            // The half of a place more, and then cut.
            let half = scaled.signum().checked_mul(count)?;
            let average =
                scaled.checked_mul(i256::from(2))?.checked_add(half)?.checked_div(count.checked_mul(i256::from(2))?)?;
            Plain::Number(average.to_i128()?).in_range(10i128.pow(38))?
        }
        (Function::Sum, _) => Plain::Number(i128::from(i64::try_from(numbers.iter().sum::<i128>()).ok()?)),
        _ => float(numbers.iter().sum::<i128>() as f64 / numbers.len() as f64),
    })
}

fn exact(numbers: &[i128]) -> i256 {
    numbers.iter().fold(i256::ZERO, |sum, number| sum.wrapping_add(i256::from_i128(*number)))
}

impl Plain {
    fn in_range(self, limit: i128) -> Option<Self> {
        match self {
            Self::Number(number) if number.abs() >= limit => None,
            other => Some(other),
        }
    }
}

/// The groups that parts give, by key.
fn groups(parts: Vec<Part>, keys: usize) -> Result<BTreeMap<Vec<Plain>, Vec<Plain>>> {
    let mut groups = BTreeMap::new();
    for part in parts {
        for Batch { columns, rows } in part.finish()? {
            assert!(rows > 0 && rows <= crate::BATCH_ROWS);
            let columns: Vec<Vec<Plain>> = columns.iter().map(plain).collect();
            for row in 0..rows {
                let mut key: Vec<Plain> = columns.iter().map(|column| column[row].clone()).collect();
                let results = key.split_off(keys);
                assert_eq!(groups.insert(key, results), None, "a group came twice");
            }
        }
    }
    Ok(groups)
}

#[derive(Debug)]
struct Case {
    keys: Vec<(usize, Spread, bool)>,
    arguments: Vec<(usize, Spread, bool)>,
    rows: usize,
    batch: usize,
    threads: usize,
    partitions: usize,
    filtered: bool,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let spread = prop_oneof![Just(Spread::Few), Just(Spread::Ascending), Just(Spread::Wide), Just(Spread::Extreme)];
    let column = (0..types().len(), spread, any::<bool>());
    let keys = prop::collection::vec(column.clone(), 0..4);
    let arguments = prop::collection::vec(column, 1..3);
    let rows = prop_oneof![9 => 0..300usize, 1 => 9000..12_000usize];
    let threads = (1..4usize, 1..5usize);
    (keys, arguments, rows, 1..3000usize, threads, any::<bool>(), any::<u64>()).prop_map(
        |(keys, arguments, rows, batch, (threads, partitions), filtered, seed)| Case {
            keys,
            arguments,
            rows,
            batch: batch.max(rows / 50),
            threads,
            partitions,
            filtered,
            seed,
        },
    )
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let random = &mut Random::new(case.seed);
    let types = types();
    let mut make = |columns: &[(usize, Spread, bool)]| -> Vec<(DataType, Vec<Plain>)> {
        let make = |(data_type, spread, nulls): &(usize, Spread, bool)| {
            (types[*data_type].clone(), values(&types[*data_type], *spread, *nulls, case.rows, random))
        };
        columns.iter().map(make).collect()
    };
    let (keys, arguments) = (make(&case.keys), make(&case.arguments));
    let mut calls = vec![(Call { function: Function::Count, argument: None, result: DataType::Int64 }, None)];
    for (argument, (data_type, _)) in arguments.iter().enumerate() {
        for function in [Function::Count, Function::Sum, Function::Average, Function::Min, Function::Max] {
            if let Some(result) = result(function, data_type) {
                calls.push((Call { function, argument: Some(data_type.clone()), result }, Some(argument)));
            }
        }
    }
    let filter: Vec<Option<bool>> =
        (0..case.rows).map(|_| [Some(true), Some(false), None][random.below(3) as usize]).collect();

    // The model.
    let mut rows_by_key: BTreeMap<Vec<Plain>, Vec<usize>> = BTreeMap::new();
    for row in 0..case.rows {
        rows_by_key.entry(keys.iter().map(|(_, values)| values[row].clone()).collect()).or_default().push(row);
    }
    if keys.is_empty() {
        rows_by_key.entry(Vec::new()).or_default();
    }
    // Calls at even places have the filter.
    let takes = |position: usize, row: usize| !case.filtered || position % 2 == 1 || filter[row] == Some(true);
    let model: Option<BTreeMap<Vec<Plain>, Vec<Plain>>> = rows_by_key
        .into_iter()
        .map(|(key, rows)| {
            let results: Option<Vec<Plain>> = calls
                .iter()
                .enumerate()
                .map(|(position, (call, argument))| {
                    let taken = rows.iter().filter(|row| takes(position, **row));
                    let values = taken
                        .map(|row| argument.map_or(Plain::Number(0), |argument| arguments[argument].1[*row].clone()));
                    expected(call, &values.collect::<Vec<_>>())
                })
                .collect();
            Some((key, results?))
        })
        .collect();

    let aggregation = Aggregation {
        keys: keys.iter().map(|(data_type, _)| data_type.clone()).collect(),
        calls: calls.iter().map(|(call, _)| call.clone()).collect(),
    };
    prop_assert!(aggregation.is_supported());
    let mut aggregators: Vec<Aggregator> = (0..case.threads).map(|_| Aggregator::new(&aggregation)).collect();
    for (batch, start) in (0..case.rows).step_by(case.batch).enumerate() {
        let rows = start..case.rows.min(start + case.batch);
        let keys: Vec<Column> = keys.iter().map(|(t, values)| column(t, &values[rows.clone()], random)).collect();
        // Mostly calls over the same values have the same array.
        let shared: Vec<Column> =
            arguments.iter().map(|(t, values)| column(t, &values[rows.clone()], random)).collect();
        let arguments: Vec<Option<Column>> = calls
            .iter()
            .map(|(call, argument)| {
                let (argument, data_type) = ((*argument)?, call.argument.as_ref()?);
                Some(match random.below(20) {
                    0 => column(data_type, &arguments[argument].1[rows.clone()], random),
                    _ => shared[argument].clone(),
                })
            })
            .collect();
        let filters: Vec<Option<BooleanArray>> = (0..calls.len())
            .map(|position| (position % 2 == 0).then(|| filter[rows.clone()].iter().copied().collect()))
            .collect();
        let filters = if case.filtered { filters.as_slice() } else { &[] };
        let thread = batch % case.threads;
        aggregators[thread].update_filtered(&keys, &arguments, filters, rows.len()).unwrap();
        prop_assert!(aggregators[thread].memory_bytes() > 0);
    }
    let found = merge(aggregators, case.partitions).and_then(|parts| groups(parts, keys.len()));
    match model {
        Some(model) => {
            let found = found.unwrap();
            prop_assert_eq!(found.len(), model.len());
            let different = model.iter().find(|(key, results)| found.get(*key) != Some(results));
            prop_assert_eq!(different, None, "found {:?}", different.and_then(|(key, _)| found.get(key)));
        }
        None => prop_assert!(matches!(found, Err(VectorError::OutOfRange(_)))),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn groups_are_those_of_the_model(case in cases()) {
        check(&case)?;
    }
}

fn call(function: Function, argument: Option<DataType>, result: DataType) -> Call {
    Call { function, argument, result }
}

/// The results over batches of rows without keys.
fn whole(calls: Vec<Call>, batches: &[ArrayRef]) -> Result<Vec<Plain>> {
    let mut aggregator = Aggregator::new(&Aggregation { keys: Vec::new(), calls: calls.clone() });
    for batch in batches {
        let arguments: Vec<Option<Column>> =
            calls.iter().map(|call| call.argument.is_some().then(|| Column::new(Arc::clone(batch)))).collect();
        aggregator.update(&[], &arguments, batch.len())?;
    }
    let groups = groups(merge(vec![aggregator], 2)?, 0)?;
    Ok(groups.into_values().next().unwrap_or_default())
}

#[test]
fn without_keys_no_rows_are_one_group() {
    let calls = vec![
        call(Function::Count, None, DataType::Int64),
        call(Function::Sum, Some(DataType::Int64), DataType::Int64),
        call(Function::Average, Some(DECIMAL), DataType::Decimal128(38, 6)),
        call(Function::Min, Some(DataType::Utf8View), DataType::Utf8View),
        call(Function::Max, Some(DataType::Date32), DataType::Date32),
    ];
    let nothing = [Plain::Number(0), Plain::Null, Plain::Null, Plain::Null, Plain::Null];
    assert_eq!(whole(calls.clone(), &[]).unwrap(), nothing);
    let keyed = Aggregation { keys: vec![DataType::Int64], calls };
    assert!(merge(vec![Aggregator::new(&keyed), Aggregator::new(&keyed)], 3).unwrap().is_empty());
}

#[test]
fn a_sum_may_leave_64_bits_and_come_back() {
    let sum = || vec![call(Function::Sum, Some(DataType::Int64), DataType::Int64)];
    let largest: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX; 3]));
    let least: ArrayRef = Arc::new(Int64Array::from(vec![-i64::MAX; 3]));
    assert_eq!(whole(sum(), &[Arc::clone(&largest), least]).unwrap(), [Plain::Number(0)]);
    assert_eq!(whole(sum(), &[largest]), Err(VectorError::OutOfRange("bigint".to_owned())));
}

#[test]
fn a_sum_of_finite_floats_is_finite_or_refused() {
    let of = |floats: Vec<f64>| -> ArrayRef { Arc::new(Float64Array::from(floats)) };
    let overflow = Err(VectorError::FloatRange(FloatRange::Overflow));
    for function in [Function::Sum, Function::Average] {
        let calls = || vec![call(function, Some(DataType::Float64), DataType::Float64)];
        assert_eq!(whole(calls(), &[of(vec![1e308, 1.5e308])]), overflow);
        assert_eq!(whole(calls(), &[of(vec![1e308]), of(vec![1.5e308])]), overflow);
        assert!(whole(calls(), &[of(vec![1e308, f64::INFINITY, 1.5e308])]).is_ok(), "infinity is a value");
    }
}

#[test]
fn decimals_keep_to_their_precision() {
    let nines: ArrayRef = Arc::new(Int64Array::from(vec![99]));
    let to =
        |precision| vec![call(Function::Sum, Some(DataType::Decimal128(2, 0)), DataType::Decimal128(precision, 0))];
    let twice = [Arc::clone(&nines), nines];
    assert_eq!(whole(to(3), &twice).unwrap(), [Plain::Number(198)]);
    assert_eq!(whole(to(2), &twice), Err(VectorError::OutOfRange("numeric".to_owned())));
}

#[test]
fn averages_of_decimals_are_rounded() {
    let average = vec![call(Function::Average, Some(DECIMAL), DataType::Decimal128(38, 6))];
    let thirds = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value, 0, 0])) };
    assert_eq!(whole(average.clone(), &[thirds(2)]).unwrap(), [Plain::Number(6667)]);
    assert_eq!(whole(average, &[thirds(-2)]).unwrap(), [Plain::Number(-6667)]);
}

#[test]
fn sums_of_floats_do_not_depend_on_batches() {
    let sum = || vec![call(Function::Sum, Some(DataType::Float64), DataType::Float64)];
    let random = &mut Random::new(7);
    let values: Vec<f64> = (0..1000).map(|_| random.next_u64() as f64 / 1e3).collect();
    let cut = |rows: usize| -> Vec<ArrayRef> {
        values.chunks(rows).map(|values| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef).collect()
    };
    let at_once = whole(sum(), &cut(1000)).unwrap();
    for rows in [1, 7, 64, 333] {
        assert_eq!(whole(sum(), &cut(rows)).unwrap(), at_once);
    }
}

#[test]
fn columns_that_do_not_fit_are_errors() {
    let aggregation =
        Aggregation { keys: vec![DataType::Int64], calls: vec![call(Function::Count, None, DataType::Int64)] };
    let mut aggregator = Aggregator::new(&aggregation);
    let text = Column::new(Arc::new(StringViewArray::from(vec!["a"])));
    assert!(matches!(aggregator.update(&[], &[None], 1), Err(VectorError::Internal(_))));
    assert!(matches!(aggregator.update(std::slice::from_ref(&text), &[None], 2), Err(VectorError::Internal(_))));
    assert!(matches!(aggregator.update(&[text], &[None], 1), Err(VectorError::Internal(_))));
}
