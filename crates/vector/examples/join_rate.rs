//! What joins cost for each row: building, probing and filtering, beside a hash map of the standard kind.
//!
//! `cargo run --release -p saki-vector --example join_rate [name]`: nanoseconds of one thread's CPU time, the best of
//! several runs.

use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, StringViewArray, UInt32Array};
use arrow_schema::DataType;
use hashbrown::HashMap;
use saki_vector::join::{JoinBuild, JoinTable, Matches};
use saki_vector::{BATCH_ROWS, Batch, Column, KeyFilter};

const PROBES: usize = 6_000_000;
const RUNS: usize = 3;

/// Work is repeated until it has run this long in nanoseconds: the system counts in steps of some milliseconds.
const LEAST: f64 = 1e8;

/// Nanoseconds this thread has run; wall time where the system does not say.
fn cpu_nanoseconds(start: Instant) -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ran| ran.parse().ok()).unwrap_or(start.elapsed().as_nanos() as f64)
}

/// The least time that `work` takes, in nanoseconds for each of `rows`, and what it gave.
fn time<T>(rows: usize, mut work: impl FnMut() -> T) -> (f64, T) {
    let start = Instant::now();
    let (mut best, mut result) = (f64::MAX, None);
    for _ in 0..RUNS {
        let (before, mut times, mut ran) = (cpu_nanoseconds(start), 0, 0.0);
        while times == 0 || ran < LEAST {
            drop(result.take());
            result = Some(black_box(work()));
            times += 1;
            ran = cpu_nanoseconds(start) - before;
        }
        best = best.min(ran / f64::from(times));
    }
    (best / rows as f64, result.expect("at least one run"))
}

/// Numbers without a pattern (splitmix64).
fn random(number: usize) -> u64 {
    let mut bits = (number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn below(number: usize, limit: usize) -> usize {
    (random(number) % limit as u64) as usize
}

/// Key columns of batches.
type Keys = Vec<Vec<Column>>;

fn integers(rows: usize, columns: &[&dyn Fn(usize) -> i64]) -> Keys {
    let batch = |start: usize| -> Vec<Column> {
        let rows = start..(start + BATCH_ROWS).min(rows);
        let column = |of: &&dyn Fn(usize) -> i64| Int64Array::from_iter_values(rows.clone().map(of));
        columns.iter().map(|of| Column::new(Arc::new(column(of)))).collect()
    };
    (0..rows).step_by(BATCH_ROWS).map(batch).collect()
}

fn texts(rows: usize, of: impl Fn(usize) -> String) -> Keys {
    let batch = |start: usize| -> Vec<Column> {
        let values = (start..(start + BATCH_ROWS).min(rows)).map(&of);
        vec![Column::new(Arc::new(StringViewArray::from_iter_values(values)) as ArrayRef)]
    };
    (0..rows).step_by(BATCH_ROWS).map(batch).collect()
}

fn key_types(keys: &Keys) -> Vec<DataType> {
    let logical = |column: &Column| match column.array().data_type() {
        DataType::Utf8View => DataType::Utf8,
        other => other.clone(),
    };
    keys[0].iter().map(logical).collect()
}

fn measure(name: &str, build: &Keys, probe: &Keys) {
    let build_rows: usize = build.iter().map(|keys| keys[0].len()).sum();
    let probe_rows: usize = probe.iter().map(|keys| keys[0].len()).sum();
    let payload = Column::new(Arc::new(Int64Array::from_iter_values(0..BATCH_ROWS as i64)));
    let make = |threads: usize| {
        let mut part = JoinBuild::new(&key_types(build), &[DataType::Int64, DataType::Int64]);
        for keys in build {
            let column = payload.slice(0, keys[0].len());
            part.push(keys, &Batch::new(vec![column.clone(), column], keys[0].len())).expect("a batch");
        }
        JoinTable::build(vec![part], false, threads).expect("a table")
    };
    let (build_time, table) = time(build_rows, || make(1));
    let mut matches = Matches::default();
    let (probe_time, pairs) = time(probe_rows, || {
        let mut pairs = 0;
        for keys in probe {
            matches.clear();
            table.probe(keys, keys[0].len(), usize::MAX, &mut matches).expect("a probe");
            pairs += black_box(&matches).build.len();
        }
        pairs
    });
    let (semi_time, _) = time(probe_rows, || {
        for keys in probe {
            black_box(table.probe_semi(keys, keys[0].len()).expect("a probe"));
        }
    });
    // One batch's pairs over and over would stay in the cache: rows are gathered as they are found.
    let (gather_time, _) = time(probe_rows, || {
        for keys in probe {
            matches.clear();
            table.probe(keys, keys[0].len(), usize::MAX, &mut matches).expect("a probe");
            let rows = UInt32Array::from(std::mem::take(&mut matches.build));
            black_box(table.gather(&rows, &[0]).expect("rows"));
        }
    });
    let filter = table.key_filter(0).expect("a filter");
    let (filter_time, _) = time(probe_rows, || {
        for keys in probe {
            black_box(filter.select(&keys[0]).expect("a selection"));
        }
    });
    let (filter_build_time, _) =
        time(build_rows, || KeyFilter::of(&build.iter().map(|keys| &keys[0]).collect::<Vec<_>>()));
    let (map_build, map_probe) = baseline(build, probe);
    println!(
        "{name:28} {build_rows:>8} x {probe_rows:>8} = {pairs:>8} | \
         build {build_time:5.1} probe {probe_time:5.2} semi {semi_time:5.2} +gather {:5.2} | \
         filter build {filter_build_time:5.2} select {filter_time:5.2} | \
         map build {map_build:5.1} probe {map_probe:5.2} | {:.1} MiB",
        gather_time - probe_time,
        table.memory_bytes() as f64 / f64::from(1 << 20),
    );
}

/// The same with a hash map of first rows and a list of the next ones.
fn baseline(build: &Keys, probe: &Keys) -> (f64, f64) {
    let key = |keys: &[Column], row: usize| -> (i64, i64) {
        let value =
            |column: usize| keys.get(column).map_or(0, |keys| keys.array().as_primitive::<Int64Type>().value(row));
        (value(0), value(1))
    };
    let text = |keys: &[Column]| keys[0].array().as_string_view_opt().is_some();
    let rows = |keys: &Keys| -> usize { keys.iter().map(|keys| keys[0].len()).sum() };
    if text(&build[0]) {
        let (build_time, map) = time(rows(build), || {
            let mut map: HashMap<&str, u32> = HashMap::with_capacity(rows(build));
            let values = build.iter().flat_map(|keys| keys[0].array().as_string_view().iter().flatten());
            map.extend(values.zip(0..));
            map
        });
        let (probe_time, _) = time(rows(probe), || {
            let values = probe.iter().flat_map(|keys| keys[0].array().as_string_view().iter().flatten());
            values.filter_map(|value| map.get(value)).map(|row| *row as usize).sum::<usize>()
        });
        return (build_time, probe_time);
    }
    let (build_time, (map, next)) = time(rows(build), || {
        let mut map: HashMap<(i64, i64), u32> = HashMap::with_capacity(rows(build));
        let mut next = vec![u32::MAX; rows(build)];
        let mut number = 0;
        for keys in build {
            for row in 0..keys[0].len() {
                if let Some(first) = map.insert(key(keys, row), number) {
                    next[number as usize] = first;
                }
                number += 1;
            }
        }
        (map, next)
    });
    let (mut found, mut rows_of) = (Vec::new(), Vec::new());
    let (probe_time, _) = time(rows(probe), || {
        for keys in probe {
            found.clear();
            rows_of.clear();
            for row in 0..keys[0].len() {
                let mut at = map.get(&key(keys, row)).copied().unwrap_or(u32::MAX);
                while at != u32::MAX {
                    found.push(at);
                    rows_of.push(row as u32);
                    at = next[at as usize];
                }
            }
            black_box((&found, &rows_of));
        }
    });
    (build_time, probe_time)
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let order = |row: usize| (row / 8 * 32 + row % 8) as i64;
    type Case = Box<dyn Fn() -> (Keys, Keys)>;
    let cases: Vec<(&str, Case)> = vec![
        (
            "orders by lineitem",
            Box::new(move || (integers(1_500_000, &[&order]), integers(PROBES, &[&|row| order(row / 4)]))),
        ),
        (
            "every tenth order",
            Box::new(move || {
                (
                    integers(150_000, &[&|row| order(row * 10 + below(row, 10))]),
                    integers(PROBES, &[&|row| order(row / 4)]),
                )
            }),
        ),
        (
            "orders in disorder",
            Box::new(move || {
                let shuffled = |row: usize| order(row * 7_919 % 1_500_000);
                (integers(1_500_000, &[&shuffled]), integers(PROBES, &[&|row| order(row / 4)]))
            }),
        ),
        (
            "orders by chance",
            Box::new(move || {
                (integers(1_500_000, &[&order]), integers(PROBES, &[&|row| order(below(row, 1_500_000))]))
            }),
        ),
        (
            "part by lineitem",
            Box::new(|| {
                (integers(200_000, &[&|row| row as i64]), integers(PROBES, &[&|row| below(row, 200_000) as i64]))
            }),
        ),
        (
            "every hundredth part",
            Box::new(|| {
                (integers(2_000, &[&|row| row as i64 * 100]), integers(PROBES, &[&|row| below(row, 200_000) as i64]))
            }),
        ),
        (
            "supplier by lineitem",
            Box::new(|| {
                (integers(10_000, &[&|row| row as i64]), integers(PROBES, &[&|row| below(row, 10_000) as i64]))
            }),
        ),
        (
            "lineitem by orders",
            Box::new(move || (integers(PROBES, &[&|row| order(row / 4)]), integers(1_500_000, &[&order]))),
        ),
        (
            "lineitem by part",
            Box::new(|| {
                (integers(PROBES, &[&|row| below(row, 200_000) as i64]), integers(200_000, &[&|row| row as i64]))
            }),
        ),
        (
            "64 bits, 200 k",
            Box::new(|| {
                let key = |row: usize| random(row) as i64;
                (integers(200_000, &[&key]), integers(PROBES, &[&|row| key(below(row, 200_000))]))
            }),
        ),
        (
            "62 bits, 200 k",
            Box::new(|| {
                let key = |row: usize| (random(row) >> 2) as i64;
                (integers(200_000, &[&key]), integers(PROBES, &[&|row| key(below(row, 200_000))]))
            }),
        ),
        (
            "62 bits, 1.5 M, half found",
            Box::new(|| {
                let key = |row: usize| (random(row) >> 2) as i64;
                (integers(1_500_000, &[&key]), integers(PROBES, &[&|row| key(below(row, 3_000_000))]))
            }),
        ),
        (
            "partsupp by lineitem",
            Box::new(|| {
                let part = |row: usize| (row / 4) as i64;
                let supplier = |row: usize| ((row / 4 + row % 4 * 2501) % 10_000) as i64;
                (
                    integers(800_000, &[&part, &supplier]),
                    integers(PROBES, &[&|row| part(below(row, 800_000)), &|row| supplier(below(row, 800_000))]),
                )
            }),
        ),
        (
            "text, 25",
            Box::new(|| {
                let key = |row: usize| format!("NATION {row}");
                (texts(25, key), texts(PROBES, move |row| key(below(row, 25))))
            }),
        ),
        (
            "text, 150 k",
            Box::new(|| {
                let key = |row: usize| format!("Customer#{row:09}");
                (texts(150_000, key), texts(PROBES / 4, move |row| key(below(row, 150_000))))
            }),
        ),
    ];
    for (name, case) in cases {
        if name.contains(&wanted) {
            let (build, probe) = case();
            measure(name, &build, &probe);
        }
    }
}
