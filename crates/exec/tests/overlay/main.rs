//! Pipelines over trees with overlays against nested loops over the rows that both are together, under every way of
//! running.

mod fixture;
#[path = "../pipelines/store.rs"]
mod store;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fixture::{Database, HIDDEN_BY, Table, database};
use proptest::prelude::*;
use saki_base::Random;
use saki_base::value::{Value, compare};
use saki_exec::{
    CompareOp, ExecError, ExecutionOptions, Executor, JoinKind, KeyRange, KeySource, Pipeline, Predicate, Source,
    Stage, TreeAccess, VisitOrder, array_value,
};

/// Joins that make more rows than this only take time.
const ROWS_MAX: usize = 5_000;

/// A register of the rows between stages, as the maker of pipelines sees it: which values it may be looked up by.
#[derive(Clone, Copy, PartialEq)]
enum Register {
    Id,
    Score,
    Number,
    Other,
}

fn registers_of(table: usize) -> &'static [Register] {
    [
        &[Register::Id, Register::Score, Register::Other][..],
        &[Register::Score, Register::Id],
        &[Register::Id, Register::Number, Register::Other],
    ][table]
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.range(0..of.len() as u64) as usize]
}

/// Some of the columns, in any order.
fn some(random: &mut Random, columns: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..columns).filter(|_| random.chance(0.7)).collect();
    if random.chance(0.5) {
        chosen.reverse();
    }
    chosen
}

fn predicates(random: &mut Random, table: usize) -> Vec<Predicate> {
    let column = random.range(0..registers_of(table).len() as u64) as usize;
    let op = pick(random, &[CompareOp::Less, CompareOp::GreaterOrEqual, CompareOp::NotEqual]);
    let value = match (table, column) {
        (0, 1) | (1, 0) => Value::Int4(random.range(0..40) as i32),
        (0, 2) => return vec![Predicate::Compare { column, op, value: Value::Text("5".into()) }],
        (2, 1) => Value::Int4(random.range(0..4) as i32),
        (2, 2) => Value::Int8(random.range(0..500) as i64),
        _ => Value::Int8(random.range(0..300) as i64),
    };
    match random.range(0..4) {
        0 => vec![Predicate::Compare { column, op, value }],
        1 => vec![Predicate::IsNotNull { column }, Predicate::OneOf { column, values: vec![value], negated: true }],
        _ => Vec::new(),
    }
}

fn ranges(random: &mut Random, table: &Table) -> Vec<KeyRange> {
    if random.chance(0.5) || table.rows.is_empty() {
        return vec![KeyRange::default()];
    }
    // Disjoint: between cuts, some of which are keys and some just after one.
    let mut cuts: Vec<Option<Vec<u8>>> = (0..4)
        .map(|_| {
            let mut key = table.rows[random.range(0..table.rows.len() as u64) as usize].0.clone();
            if random.chance(0.3) {
                key.push(0);
            }
            Some(key)
        })
        .collect();
    cuts.sort();
    let open = random.chance(0.3);
    let last = KeyRange { low: cuts[2].clone(), high: if open { None } else { cuts[3].clone() } };
    vec![KeyRange { low: cuts[0].clone(), high: cuts[1].clone() }, last]
}

/// A stage that looks up by some register; `None` if there is none to look up by.
fn stage(random: &mut Random, database: &Database, registers: &mut Vec<Register>) -> Option<Stage> {
    let table = random.range(0..3) as usize;
    let at = |register: Register| registers.iter().position(|other| *other == register).map(KeySource::Register);
    let mut key = match table {
        0 | 2 => vec![at(Register::Id)?],
        _ => vec![at(Register::Score)?],
    };
    // More of the key: a register, or the same for all.
    if table == 2 && random.chance(0.4) {
        key.push(at(Register::Number).unwrap_or_else(|| KeySource::Encoded((1i32 ^ i32::MIN).to_be_bytes().to_vec())));
    } else if table == 1 && random.chance(0.4) {
        key.push(at(Register::Id)?);
    }
    let kind = pick(random, &[JoinKind::Inner, JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti]);
    let keep = some(random, registers.len());
    let fetches = matches!(kind, JoinKind::Inner | JoinKind::Left);
    let fetch = if fetches { some(random, registers_of(table).len()) } else { Vec::new() };
    *registers = keep
        .iter()
        .map(|&register| registers[register])
        .chain(fetch.iter().map(|&column| registers_of(table)[column]))
        .collect();
    let access = &database.tables[table].access;
    Some(Stage {
        access: Arc::clone(access),
        kind,
        unique: key.len() == access.key.columns().len(),
        key,
        predicates: predicates(random, table),
        keep,
        fetch,
        filter: None,
    })
}

fn pipeline(random: &mut Random, database: &Database) -> Pipeline {
    let table = random.range(0..3) as usize;
    let fetch = some(random, registers_of(table).len());
    let mut registers = fetch.iter().map(|&column| registers_of(table)[column]).collect();
    let source = Source::Ranges {
        access: Arc::clone(&database.tables[table].access),
        ranges: ranges(random, &database.tables[table]),
        predicates: predicates(random, table),
        fetch,
        filter: None,
    };
    let stages = (0..random.range(0..4)).map_while(|_| stage(random, database, &mut registers)).collect();
    Pipeline { source, stages, limit: None, snapshot: Arc::new(()) }
}

fn passes(predicates: &[Predicate], row: &[Value]) -> bool {
    predicates.iter().all(|predicate| match predicate {
        Predicate::Compare { column, op, value } => {
            !row[*column].is_null() && op.holds(compare(row[*column].as_ref(), value.as_ref()))
        }
        Predicate::OneOf { column, values, negated } => {
            !row[*column].is_null() && values.contains(&row[*column]) != *negated
        }
        Predicate::IsNull { column } => row[*column].is_null(),
        Predicate::IsNotNull { column } => !row[*column].is_null(),
    })
}

fn rows_of<'d>(database: &'d Database, access: &TreeAccess) -> &'d [(Vec<u8>, Vec<Value>)] {
    &database.tables[access.tree.0 as usize - 1].rows
}

/// The pipeline by nested loops.
fn expected(database: &Database, pipeline: &Pipeline) -> Vec<String> {
    let Source::Ranges { access, ranges, predicates, fetch, .. } = &pipeline.source else { unreachable!() };
    let within = |key: &Vec<u8>, range: &KeyRange| {
        range.low.as_ref().is_none_or(|low| key >= low) && range.high.as_ref().is_none_or(|high| key < high)
    };
    let selected =
        |(key, row): &&(Vec<u8>, Vec<Value>)| ranges.iter().any(|range| within(key, range)) && passes(predicates, row);
    let project = |row: &[Value], columns: &[usize]| columns.iter().map(|&c| row[c].clone()).collect::<Vec<_>>();
    let mut rows: Vec<Vec<Value>> =
        rows_of(database, access).iter().filter(selected).map(|(_, row)| project(row, fetch)).collect();
    for stage in &pipeline.stages {
        let mut next = Vec::new();
        for outer in rows {
            let mut prefix = Vec::new();
            let known = stage.key.iter().zip(stage.access.key.columns()).all(|(source, column)| match source {
                KeySource::Register(register) if outer[*register].is_null() => false,
                KeySource::Register(register) => {
                    saki_base::key::encode_column(*column, outer[*register].as_ref(), &mut prefix).is_ok()
                }
                KeySource::Encoded(bytes) => {
                    prefix.extend_from_slice(bytes);
                    true
                }
                KeySource::Outer(_) => false,
            });
            let inner = rows_of(database, &stage.access);
            let first = inner.partition_point(|(key, _)| *key < prefix);
            let matches: Vec<&Vec<Value>> = inner[first..]
                .iter()
                .take_while(|(key, _)| known && key.starts_with(&prefix))
                .map(|(_, row)| row)
                .filter(|row| passes(&stage.predicates, row))
                .collect();
            let kept = project(&outer, &stage.keep);
            let joined = |row: &[Value]| [kept.clone(), project(row, &stage.fetch)].concat();
            match stage.kind {
                JoinKind::Left if matches.is_empty() => {
                    next.push([kept, vec![Value::Null; stage.fetch.len()]].concat());
                }
                JoinKind::Inner | JoinKind::Left => next.extend(matches.iter().map(|row| joined(row))),
                JoinKind::Semi => next.extend((!matches.is_empty()).then_some(kept)),
                JoinKind::Anti => next.extend(matches.is_empty().then_some(kept)),
            }
        }
        rows = next;
    }
    texts(rows)
}

fn texts(rows: Vec<Vec<Value>>) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

fn found(
    executor: &Arc<Executor>,
    pipeline: &Arc<Pipeline>,
    options: &ExecutionOptions,
) -> Result<Vec<String>, ExecError> {
    let execution = executor.run(Arc::clone(pipeline), options.clone());
    let streams: Vec<_> = (0..execution.options().partitions).map(|partition| execution.open(partition)).collect();
    let rows = std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .into_iter()
            .map(|mut stream| {
                scope.spawn(move || {
                    let mut rows = Vec::new();
                    while let Some(item) = stream.next_blocking() {
                        let batch = item?.registers;
                        for row in 0..batch.num_rows() {
                            let value = |array: &arrow_array::ArrayRef| {
                                let data_type = match array.data_type() {
                                    arrow_schema::DataType::Int64 => saki_base::DataType::Int8,
                                    arrow_schema::DataType::Int32 => saki_base::DataType::Int4,
                                    _ => saki_base::DataType::Text,
                                };
                                Value::from(array_value(array, data_type, row).expect("of its type"))
                            };
                            rows.push(batch.columns().iter().map(value).collect());
                        }
                    }
                    Ok(rows)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>, ExecError>>()
    })?;
    Ok(texts(rows.concat()))
}

fn ways() -> Vec<(&'static str, u32, usize, ExecutionOptions)> {
    let default = ExecutionOptions { partitions: 2, ..ExecutionOptions::default() };
    let in_order = ExecutionOptions { order: VisitOrder::InOrder, ..default.clone() };
    vec![
        ("out of order", 4096, 256, default.clone()),
        ("in order, 32 frames", 32, 256, in_order),
        ("a governor that allows one", 4096, 1, default.clone()),
        ("no memory, tiny batches", 256, 64, ExecutionOptions { memory_bytes: 0, batch_rows: 7, ..default.clone() }),
        ("three partitions on two reactors", 512, 64, ExecutionOptions { partitions: 3, ..default }),
    ]
}

/// Whether each row of `part` is one of `all`, and no more often. Both ascend.
fn is_part(part: &[String], all: &[String]) -> bool {
    let mut left = all.iter();
    part.iter().all(|row| left.any(|other| other == row))
}

/// The first row in which two ascending lists differ.
fn difference(found: &[String], expected: &[String]) -> Option<(usize, usize, Option<String>, Option<String>)> {
    let differs = |row: &usize| found.get(*row) != expected.get(*row);
    let row = (0..found.len().max(expected.len())).find(differs)?;
    Some((found.len(), expected.len(), found.get(row).cloned(), expected.get(row).cloned()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_and_its_overlay_are_read_as_one(
        seed in any::<u64>(),
        parents in prop_oneof![0..5u64, 20..400u64],
        changed in prop_oneof![Just(0.0), Just(0.02), Just(0.5), Just(1.0)],
        limit in proptest::option::of(0..200usize),
    ) {
        let database = database(seed, parents, changed);
        let random = &mut Random::new(seed ^ 1);
        for _ in 0..5 {
            let whole = Arc::new(pipeline(random, &database));
            let limited = Arc::new(Pipeline { limit, ..Pipeline::clone(&whole) });
            let all = expected(&database, &whole);
            if all.len() > ROWS_MAX {
                continue;
            }
            for (way, frames, allowance, options) in ways() {
                let executor = database.executor(frames, allowance, seed);
                prop_assert_eq!(difference(&found(&executor, &whole, &options).unwrap(), &all), None, "{}", way);
                let some = found(&executor, &limited, &options).unwrap();
                prop_assert_eq!(some.len(), limit.unwrap_or(usize::MAX).min(all.len()), "{}", way);
                prop_assert!(is_part(&some, &all), "{}", way);
            }
        }
    }
}

#[test]
fn pages_are_asked_about_as_neighbours_and_probes_one_by_one() {
    let database = database(3, 300, 0.3);
    let [parents, _, children] = &database.tables;
    let source = Source::Ranges {
        access: Arc::clone(&children.access),
        ranges: vec![KeyRange::default()],
        predicates: Vec::new(),
        fetch: vec![0],
        filter: None,
    };
    let lookup = Stage {
        access: Arc::clone(&parents.access),
        kind: JoinKind::Inner,
        key: vec![KeySource::Register(0)],
        unique: true,
        predicates: Vec::new(),
        keep: vec![0],
        fetch: vec![1],
        filter: None,
    };
    let joined = Arc::new(Pipeline { source, stages: vec![lookup], limit: None, snapshot: Arc::new(()) });
    let executor = database.executor(512, 64, 1);
    let before = HIDDEN_BY.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(found(&executor, &joined, &ExecutionOptions::default()).unwrap(), expected(&database, &joined));
    let after = HIDDEN_BY.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
}
