//! What grouped aggregation costs, in nanoseconds of CPU time for a row, on one thread.
//!
//! ```text
//! cargo run --release -p saki-vector --example aggregate_rate [million rows]
//! ```
//! Beside it: the same groups found by a hash map over rows of `arrow-row`, with a 16-byte sum for each call.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Date32Array, DictionaryArray, Int64Array, StringViewArray, UInt16Array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use hashbrown::HashMap;
use saki_vector::aggregate::{Aggregation, Aggregator, Call, Function, merge};
use saki_vector::{BATCH_ROWS, Bounds, Column};

const DECIMAL: DataType = DataType::Decimal128(15, 2);

/// A batch's columns, as they come to an aggregator.
struct Input {
    keys: Vec<Column>,
    arguments: Vec<Option<Column>>,
    rows: usize,
}

struct Case {
    name: &'static str,
    aggregation: Aggregation,
    /// Gives the keys of the rows from here on, so many.
    keys: Box<dyn Fn(usize, usize) -> Vec<Column>>,
}

/// Nanoseconds that this thread has run: others may be on the machine.
fn cpu_time() -> u128 {
    // The kernel brings the figure up to date when it schedules.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0)
}

/// A number without pattern for each row.
fn mix(row: usize) -> usize {
    let mixed = (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20) as usize
}

fn sum(argument: DataType, result: DataType) -> Call {
    Call { function: Function::Sum, argument: Some(argument), result }
}

fn integers(value: impl Fn(usize) -> i64, start: usize, rows: usize) -> Column {
    let array: ArrayRef = Arc::new((start..start + rows).map(value).collect::<Int64Array>());
    let bounds = Column::new(Arc::clone(&array)).bounds().unwrap_or(Bounds { min: i64::MIN, max: i64::MAX });
    Column::with_bounds(array, bounds)
}

fn dictionary(words: &[&str], code: impl Fn(usize) -> usize, start: usize, rows: usize) -> Column {
    let codes: UInt16Array = (start..start + rows).map(|row| code(row) as u16).collect();
    let words: StringViewArray = words.iter().map(Some).collect();
    Column::new(Arc::new(DictionaryArray::new(codes, Arc::new(words))))
}

fn texts(groups: usize, start: usize, rows: usize) -> Column {
    let texts = (start..start + rows).map(|row| Some(format!("Customer#{:011}", mix(row) % groups)));
    Column::new(Arc::new(texts.collect::<StringViewArray>()))
}

fn grouped(keys: Vec<DataType>, calls: Vec<Call>) -> Aggregation {
    Aggregation { keys, calls }
}

fn cases() -> Vec<Case> {
    let one_sum = || vec![sum(DECIMAL, DataType::Decimal128(25, 2))];
    let average = |result| Call { function: Function::Average, argument: Some(DECIMAL), result };
    let eight = || {
        let mut calls: Vec<Call> = (0..4).map(|_| sum(DECIMAL, DataType::Decimal128(25, 2))).collect();
        calls.extend((0..3).map(|_| average(DataType::Decimal128(19, 6))));
        calls.push(Call { function: Function::Count, argument: None, result: DataType::Int64 });
        calls
    };
    let integer_key = |name, calls, range: usize| Case {
        name,
        aggregation: grouped(vec![DataType::Int64], calls),
        keys: Box::new(move |start, rows| vec![integers(|row| (mix(row) % range) as i64 * 4, start, rows)]),
    };
    vec![
        Case { name: "no keys, 8 calls", aggregation: grouped(Vec::new(), eight()), keys: Box::new(|_, _| Vec::new()) },
        Case {
            name: "4 groups by 2 dictionaries, 8 calls (Q1)",
            aggregation: grouped(vec![DataType::Utf8View; 2], eight()),
            keys: Box::new(|start, rows| {
                // Half of the rows in one group, hardly any in another; neighbours often alike.
                let group = |row| [0, 0, 0, 1, 2, 2, 0, 0, 1, 2, 0, 1][mix(row) % 12];
                let group = move |row| if mix(row).is_multiple_of(160) { 3 } else { group(row) };
                let flag = dictionary(&["N", "A", "R"], move |row| [0, 1, 2, 0][group(row)], start, rows);
                let status = dictionary(&["O", "F"], move |row| [0, 1, 1, 1][group(row)], start, rows);
                vec![flag, status]
            }),
        },
        Case {
            name: "ascending keys, 4 rows each (Q18)",
            aggregation: grouped(vec![DataType::Int64], one_sum()),
            keys: Box::new(|start, rows| {
                let key = |row: usize| (row / 4 + row / 4 / 8 * 24) as i64;
                vec![integers(key, start, rows)]
            }),
        },
        integer_key("200 k random integers", one_sum(), 200_000),
        integer_key("1.5 M random integers", one_sum(), 1_500_000),
        integer_key("1.5 M random integers, distinct only", Vec::new(), 1_500_000),
        Case {
            name: "two random integers, 600 k (Q20)",
            aggregation: grouped(vec![DataType::Int64; 2], one_sum()),
            keys: Box::new(|start, rows| {
                let part = integers(|row| (mix(row) % 600_000 / 4) as i64, start, rows);
                let supplier = integers(|row| (mix(row) % 600_000 * 17 % 9973) as i64, start, rows);
                vec![part, supplier]
            }),
        },
        Case {
            name: "integer, date, integer, clustered (Q3)",
            aggregation: grouped(vec![DataType::Int64, DataType::Date32, DataType::Int64], one_sum()),
            keys: Box::new(|start, rows| {
                let date = (start..start + rows).map(|row| Some((8000 + mix(row / 4) % 2500) as i32));
                let date = Column::new(Arc::new(date.collect::<Date32Array>()));
                vec![integers(|row| row as i64 / 4, start, rows), date, integers(|_| 0, start, rows)]
            }),
        },
        Case {
            name: "25 texts of 20 bytes",
            aggregation: grouped(vec![DataType::Utf8View], one_sum()),
            keys: Box::new(|start, rows| vec![texts(25, start, rows)]),
        },
        Case {
            name: "100 k texts of 20 bytes",
            aggregation: grouped(vec![DataType::Utf8View], one_sum()),
            keys: Box::new(|start, rows| vec![texts(100_000, start, rows)]),
        },
    ]
}

fn inputs(case: &Case, rows: usize) -> Vec<Input> {
    let cached = vec![OnceCell::new(); case.aggregation.calls.len()];
    (0..rows)
        .step_by(BATCH_ROWS)
        .map(|start| {
            let rows = BATCH_ROWS.min(rows - start);
            let arguments = case.aggregation.calls.iter().zip(&cached).enumerate().map(|(position, (call, cached))| {
                call.argument.as_ref()?;
                let value = move |row: usize| (mix(row + position) % 10_000_000) as i64;
                if rows < BATCH_ROWS {
                    return Some(integers(value, start, rows));
                }
                // As if just computed: from the processor's cache.
                Some(cached.get_or_init(|| integers(value, start, rows)).clone())
            });
            Input { keys: (case.keys)(start, rows), arguments: arguments.collect(), rows }
        })
        .collect()
}

/// Groups by rows of bytes in a hash map.
fn naive(aggregation: &Aggregation, inputs: &[Input]) -> usize {
    let surface = |data_type: &DataType| match data_type {
        DataType::Utf8View => DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8View)),
        other => other.clone(),
    };
    let has_dictionaries = inputs
        .iter()
        .any(|input| input.keys.iter().any(|key| matches!(key.array().data_type(), DataType::Dictionary(..))));
    let types = aggregation.keys.iter().map(|key| if has_dictionaries { surface(key) } else { key.clone() });
    let Ok(converter) = RowConverter::new(types.map(SortField::new).collect()) else { return 0 };
    let mut groups: HashMap<Box<[u8]>, usize> = HashMap::new();
    let mut sums: Vec<Vec<i128>> = vec![Vec::new(); aggregation.calls.len()];
    for input in inputs {
        let keys: Vec<ArrayRef> = input.keys.iter().map(|key| Arc::clone(key.array())).collect();
        let Ok(rows) = converter.convert_columns(&keys) else { return 0 };
        let assigned: Vec<usize> = (0..input.rows)
            .map(|row| {
                if keys.is_empty() {
                    return 0;
                }
                let next = groups.len();
                *groups.entry_ref(rows.row(row).data()).or_insert(next)
            })
            .collect();
        for (sums, argument) in sums.iter_mut().zip(&input.arguments) {
            sums.resize(groups.len().max(1), 0);
            match argument {
                None => assigned.iter().for_each(|group| sums[*group] += 1),
                Some(column) => {
                    let values = column.array().as_primitive::<Int64Type>().values();
                    values.iter().zip(&assigned).for_each(|(value, group)| sums[*group] += i128::from(*value));
                }
            }
        }
    }
    std::hint::black_box(&sums);
    groups.len()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: usize = std::env::args().nth(1).map_or(Ok(6), |argument| argument.parse())?;
    let rows = millions * 1_000_000;
    println!("{:44} {:>9} {:>8} {:>8} {:>8} {:>8}", "", "groups", "update", "merge", "merge 2", "naive");
    for case in cases() {
        let inputs = inputs(&case, rows);
        let each = |nanoseconds: u128| nanoseconds as f64 / rows as f64;
        let update = |threads: usize| -> saki_vector::Result<Vec<Aggregator>> {
            let mut aggregators: Vec<Aggregator> = (0..threads).map(|_| Aggregator::new(&case.aggregation)).collect();
            for (batch, input) in inputs.iter().enumerate() {
                // A thread takes a segment at a time.
                let thread = batch / 16 % threads;
                aggregators[thread].update(&input.keys, &input.arguments, input.rows)?;
            }
            Ok(aggregators)
        };
        let finish = |aggregators: Vec<Aggregator>, parts: usize| -> saki_vector::Result<usize> {
            let mut groups = 0;
            for part in merge(aggregators, parts)? {
                groups += part.finish()?.iter().map(|batch| batch.rows).sum::<usize>();
            }
            Ok(groups)
        };
        let [mut updated, mut merged, mut merged_two] = [u128::MAX; 3];
        let mut groups = 0;
        for _ in 0..3 {
            let start = cpu_time();
            let aggregators = update(1)?;
            updated = updated.min(cpu_time() - start);
            let start = cpu_time();
            groups = finish(aggregators, 1)?;
            merged = merged.min(cpu_time() - start);
            let aggregators = update(2)?;
            let start = cpu_time();
            finish(aggregators, 2)?;
            merged_two = merged_two.min(cpu_time() - start);
        }
        let start = cpu_time();
        let found = naive(&case.aggregation, &inputs);
        let naive = cpu_time() - start;
        assert!(found == groups || case.aggregation.keys.is_empty());
        println!(
            "{:44} {groups:>9} {:>8.2} {:>8.2} {:>8.2} {:>8.2}",
            case.name,
            each(updated),
            each(merged),
            each(merged_two),
            each(naive)
        );
    }
    Ok(())
}
