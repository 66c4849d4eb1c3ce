//! Pipelines against a model: the same joins over vectors, under every way of running.

mod model;
mod store;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType as ArrowType, Field, Schema};
use model::{Model, build, check, collect, model, note_text, pipeline, rows_of, scan, score_text, stage, ways};
use saki_base::ValueRef;
use saki_base::value::Value;
use saki_exec::{
    BatchFilter, CompareOp, ExecError, ExecutionOptions, JoinKind, KeyRange, KeySource, Pipeline, Predicate, Source,
    Stage,
};

#[test]
fn a_full_scan_reads_every_row_with_overflow_pages_once() {
    let model = model(7, 800);
    let database = build(&model);
    let expected =
        model.parents.iter().map(|(id, score, note)| format!("{id},{},{}", score_text(*score), note_text(note)));
    let source = scan(&database.parents, vec![KeyRange::default()], vec![], vec![0, 1, 2]);
    check(&database, pipeline(source, vec![]), expected.collect());
}

#[test]
fn ranges_and_predicates_select_what_they_say() {
    let model = model(8, 2000);
    let database = build(&model);
    let bound = |value: i64| {
        let mut key = Vec::new();
        database.children.key.encode(&[ValueRef::Int8(value)], &mut key).unwrap();
        Some(key)
    };
    let ranges = vec![
        KeyRange { low: bound(100), high: bound(400) },
        KeyRange { low: bound(5_000), high: None },
        KeyRange { low: bound(450), high: bound(450) },
    ];
    let predicates = vec![
        Predicate::Compare { column: 2, op: CompareOp::GreaterOrEqual, value: Value::Int8(-100) },
        Predicate::Compare { column: 1, op: CompareOp::NotEqual, value: Value::Int4(2) },
        Predicate::OneOf { column: 2, values: vec![Value::Int8(7), Value::Int8(8)], negated: true },
    ];
    let expected = model.children.iter().filter(|(parent, number, amount, _)| {
        ((100..400).contains(parent) || *parent >= 5_000) && *amount >= -100 && *number != 2 && ![7, 8].contains(amount)
    });
    let expected = expected.map(|(parent, number, amount, text)| format!("{text},{amount},{number},{parent}"));
    let source = scan(&database.children, ranges, predicates, vec![3, 2, 1, 0]);
    check(&database, pipeline(source, vec![]), expected.collect());
}

#[test]
fn a_chain_of_joins_of_every_kind_equals_nested_loops() {
    let model = model(9, 1500);
    let database = build(&model);
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti] {
        // Index by score -> parent row -> children.
        let range = |value: i32| {
            let mut key = Vec::new();
            database.by_score.key.encode(&[ValueRef::Int4(value)], &mut key).unwrap();
            Some(key)
        };
        let source = scan(&database.by_score, vec![KeyRange { low: range(10), high: range(60) }], vec![], vec![1]);
        let fetch_parent = Stage {
            unique: true,
            predicates: vec![Predicate::IsNotNull { column: 1 }],
            ..stage(&database.parents, JoinKind::Inner, 0, vec![0], vec![1, 2])
        };
        let fetched = if matches!(kind, JoinKind::Inner | JoinKind::Left) { vec![2, 3] } else { vec![] };
        let children = Stage {
            predicates: vec![Predicate::Compare { column: 2, op: CompareOp::Less, value: Value::Int8(0) }],
            ..stage(&database.children, kind, 0, vec![2, 0], fetched)
        };
        let mut expected = Vec::new();
        for (id, score, note) in &model.parents {
            if !score.is_some_and(|score| (10..60).contains(&score)) {
                continue;
            }
            let of_parent = || model.children.iter().filter(|child| child.0 == *id && child.2 < 0);
            let outer = format!("{},{id}", note_text(note));
            match kind {
                JoinKind::Inner => expected.extend(of_parent().map(|c| format!("{outer},{},{}", c.2, c.3))),
                JoinKind::Left if of_parent().next().is_none() => expected.push(format!("{outer},NULL,NULL")),
                JoinKind::Left => expected.extend(of_parent().map(|c| format!("{outer},{},{}", c.2, c.3))),
                JoinKind::Semi => expected.extend(of_parent().next().map(|_| outer)),
                JoinKind::Anti => expected.extend(of_parent().next().is_none().then_some(outer)),
            }
        }
        check(&database, pipeline(source, vec![fetch_parent, children]), expected);
    }
}

#[test]
fn a_probe_that_matches_many_pages_gets_them_all() {
    let mut model = model(10, 50);
    model.children.retain(|child| child.0 != 30);
    model.children.extend((0..40_000).map(|number| (30, number, i64::from(number), "many".to_owned())));
    model.children.sort_by_key(|child| (child.0, child.1));
    let database = build(&model);
    let source = scan(&database.parents, vec![KeyRange::default()], vec![], vec![0]);
    let join = stage(&database.children, JoinKind::Inner, 0, vec![0], vec![1]);
    let parents: std::collections::HashSet<i64> = model.parents.iter().map(|parent| parent.0).collect();
    let expected = model.children.iter().filter(|child| parents.contains(&child.0));
    let expected = expected.map(|child| format!("{},{}", child.0, child.1)).collect();
    check(&database, pipeline(source, vec![join]), expected);
}

/// Keeps rows whose first column is even.
struct Even;

impl BatchFilter for Even {
    fn select(&self, batch: &RecordBatch) -> Result<BooleanArray, String> {
        let values = batch.column(0).as_primitive::<Int64Type>();
        Ok(values.iter().map(|value| value.map(|value| value % 2 == 0)).collect())
    }
    fn describe(&self) -> String {
        "even".into()
    }
}

#[test]
fn batch_filters_drop_rows_at_the_source_and_between_stages() {
    let model = model(11, 900);
    let database = build(&model);
    let source = Source::Ranges {
        access: Arc::clone(&database.parents),
        ranges: vec![KeyRange::default()],
        predicates: vec![],
        fetch: vec![0],
        filter: Some(Arc::new(Even)),
    };
    let mut join = stage(&database.children, JoinKind::Inner, 0, vec![], vec![2, 3]);
    join.filter = Some(Arc::new(Even));
    let parents: std::collections::HashSet<i64> = model.parents.iter().map(|parent| parent.0).collect();
    let even = model.children.iter().filter(|c| parents.contains(&c.0) && c.0 % 2 == 0 && c.2 % 2 == 0);
    let expected = even.map(|child| format!("{},{}", child.2, child.3)).collect();
    check(&database, pipeline(source, vec![join]), expected);
}

#[test]
fn rows_pushed_by_the_caller_come_back_with_their_matches() {
    let model = model(12, 700);
    let database = build(&model);
    let schema = Arc::new(Schema::new(vec![
        Field::new("anything", ArrowType::Int64, false),
        Field::new("parent", ArrowType::Int64, true),
    ]));
    let keys: Vec<Option<i64>> = (0..5_000).map(|i| (i % 11 != 0).then_some((i * 7) % 2_400)).collect();
    let batches: Vec<RecordBatch> = keys
        .chunks(600)
        .enumerate()
        .map(|(chunk, keys)| {
            let number = Int64Array::from_iter_values((0..keys.len()).map(|i| (chunk * 600 + i) as i64));
            let key = Int64Array::from(keys.to_vec());
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(number), Arc::new(key)]).unwrap()
        })
        .collect();
    let mut join = stage(&database.children, JoinKind::Left, 0, vec![], vec![1]);
    join.key = vec![KeySource::Outer(1)];
    let pipeline = Arc::new(pipeline(Source::Rows { schema }, vec![join]));
    let mut expected = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let mut matches = model.children.iter().filter(|child| Some(child.0) == *key).peekable();
        if matches.peek().is_none() {
            expected.push(format!("{number},NULL"));
        }
        expected.extend(matches.map(|child| format!("{number},{}", child.1)));
    }
    expected.sort();
    for (way, frames, allowance, options) in ways() {
        let executor = database.executor(frames, allowance, 5);
        let execution = executor.run(Arc::clone(&pipeline), ExecutionOptions { partitions: 1, ..options });
        let (mut sender, mut stream) = execution.open_with_input(0);
        let input = batches.clone();
        let feeder = std::thread::spawn(move || {
            for batch in input {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                while sender.poll_ready(&mut context).is_pending() {
                    std::thread::yield_now();
                }
                sender.send(batch);
            }
            sender.finish();
        });
        let mut rows = Vec::new();
        while let Some(item) = stream.next_blocking() {
            let item = item.unwrap();
            let outer = item.outer.expect("a Rows source refers to its rows");
            let number = item.registers.column(0).as_primitive::<Int32Type>();
            for (row, &(batch, index)) in outer.indices.iter().enumerate() {
                let outer = outer.batches[batch as usize].column(0).as_primitive::<Int64Type>().value(index as usize);
                let inner = if number.is_null(row) { "NULL".into() } else { number.value(row).to_string() };
                rows.push(format!("{outer},{inner}"));
            }
        }
        feeder.join().unwrap();
        rows.sort();
        assert!(rows == expected, "{way}: {} rows, expected {}", rows.len(), expected.len());
    }
}

#[test]
fn a_sender_that_goes_away_fails_the_execution() {
    let database = build(&model(13, 50));
    let schema = Arc::new(Schema::new(vec![Field::new("parent", ArrowType::Int64, true)]));
    let mut join = stage(&database.children, JoinKind::Inner, 0, vec![], vec![1]);
    join.key = vec![KeySource::Outer(0)];
    let executor = database.executor(64, 8, 1);
    let execution = executor.run(Arc::new(pipeline(Source::Rows { schema }, vec![join])), ExecutionOptions::default());
    let (sender, mut stream) = execution.open_with_input(0);
    drop(sender);
    assert!(matches!(stream.next_blocking(), Some(Err(ExecError::Input(_)))));
    assert!(stream.next_blocking().is_none());
}

#[test]
fn a_limit_ends_the_run_with_just_so_many_rows() {
    let model = model(14, 3000);
    let database = build(&model);
    for limit in [0, 1, 10, 1000] {
        for (way, frames, allowance, options) in ways() {
            let source = scan(&database.parents, vec![KeyRange::default()], vec![], vec![0]);
            let limited = Arc::new(Pipeline { limit: Some(limit), ..pipeline(source, vec![]) });
            let rows = rows_of(&collect(&database.executor(frames, allowance, 3), &limited, &options).unwrap());
            assert_eq!(rows.len(), limit, "{way}");
        }
    }
}

#[test]
fn batches_of_wide_rows_are_bounded_in_bytes() {
    // Forty rows of 1.1 MB fit a batch by their number; by their bytes sixteen do. Their pages are more than the cache
    // holds, and all of them are wanted at once.
    let note = "n".repeat(1_100_000);
    let parents = (0..40).map(|id| (id, Some(1), note.clone())).collect();
    let database = build(&Model { parents, children: vec![(0, 0, 0, String::new())] });
    let source = || scan(&database.parents, vec![KeyRange::default()], vec![], vec![2]);
    let lookup = stage(&database.children, JoinKind::Anti, 0, vec![0], vec![]);
    let mut nowhere = Vec::new();
    database.children.key.encode(&[ValueRef::Int8(-1)], &mut nowhere).unwrap();
    let by_key = Stage { key: vec![KeySource::Encoded(nowhere)], ..lookup };
    for stages in [vec![], vec![by_key]] {
        let pipeline = Arc::new(pipeline(source(), stages));
        let options = ExecutionOptions { partitions: 1, ..ExecutionOptions::default() };
        let batches = collect(&database.executor(4096, 256, 1), &pipeline, &options).unwrap();
        let widest = batches.iter().map(RecordBatch::get_array_memory_size).max().unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
        assert!(widest < 40 << 20, "a batch of {widest} bytes");
    }
}

#[test]
fn a_dropped_stream_leaves_an_executor_that_works() {
    let model = model(15, 3000);
    let database = build(&model);
    let executor = database.executor(64, 4, 3);
    let source = || scan(&database.children, vec![KeyRange::default()], vec![], vec![0, 1]);
    for _ in 0..20 {
        let options = ExecutionOptions { batch_rows: 16, partitions: 2, ..ExecutionOptions::default() };
        let execution = executor.run(Arc::new(pipeline(source(), vec![])), options);
        let mut first = execution.open(0);
        let _second = execution.open(1);
        assert!(first.next_blocking().is_some());
    }
    let all = collect(&executor, &Arc::new(pipeline(source(), vec![])), &ExecutionOptions::default()).unwrap();
    assert_eq!(rows_of(&all).len(), model.children.len());
}

#[test]
fn a_page_with_other_bytes_ends_the_run_with_its_name() {
    let model = model(16, 2000);
    let mut database = build(&model);
    let mut pages = Vec::clone(&database.pages);
    let victim = database.children.root.unwrap().address.0 as usize - 3;
    pages[victim][100] ^= 4;
    database.pages = Arc::new(pages);
    let source = scan(&database.children, vec![KeyRange::default()], vec![], vec![0]);
    let failed =
        collect(&database.executor(512, 16, 1), &Arc::new(pipeline(source, vec![])), &ExecutionOptions::default());
    let Err(ExecError::Page { tree, error }) = failed else { panic!("a corrupt page must be found") };
    assert_eq!(tree, "children");
    assert!(error.to_string().contains(&format!("page {victim} on memory is corrupt")), "{error}");
}

#[test]
fn a_failing_device_gives_all_rows_or_an_error_and_never_hangs() {
    let model = model(17, 600);
    let database = build(&model);
    let source = || scan(&database.parents, vec![KeyRange::default()], vec![], vec![0]);
    let join = stage(&database.children, JoinKind::Inner, 0, vec![0], vec![1]);
    let joined = Arc::new(pipeline(source(), vec![join]));
    let all = rows_of(&collect(&database.executor(512, 16, 1), &joined, &ExecutionOptions::default()).unwrap());
    let (mut whole, mut failed) = (0, 0);
    for seed in 0..60 {
        for (way, frames, allowance, options) in ways() {
            let executor = database.failing_executor(frames, allowance, seed, 2_000);
            match collect(&executor, &joined, &options) {
                Ok(batches) => {
                    assert!(rows_of(&batches) == all, "{way}, seed {seed}: other rows");
                    whole += 1;
                }
                Err(ExecError::Page { error, .. }) => {
                    assert!(error.to_string().contains("injected failure"), "{error}");
                    failed += 1;
                }
                // The partition that did not fail itself.
                Err(other) => panic!("{way}, seed {seed}: {other}"),
            }
        }
    }
    assert!(whole > 0 && failed > 0, "{whole} executions were whole and {failed} failed: the rate is off");
}
