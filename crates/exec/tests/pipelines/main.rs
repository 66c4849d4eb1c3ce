//! Pipelines against a model: the same joins over vectors, under every way of running.

mod store;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType as ArrowType, Field, Schema};
use saki_base::value::Value;
use saki_base::{DataType, KeyColumn, KeyLayout, PageRef, RowColumn, RowLayout, TreeId, ValueRef};
use saki_exec::{
    AccessColumn, BatchFilter, CompareOp, ExecError, Execution, Executor, ExecutorOptions, JoinKind, KeyRange,
    KeySource, Pipeline, Place, Predicate, RunOptions, Source, Stage, TreeAccess,
};
use saki_page::PageCache;
use store::{MemoryStore, PAGE, Pages};

/// Parents `id -> (score, note)`, children `(parent, number) -> (amount, text)`, an index of parents by score.
struct Model {
    parents: Vec<(i64, Option<i32>, String)>,
    children: Vec<(i64, i32, i64, String)>,
}

fn model(seed: u64, parents: i64) -> Model {
    let mut random = seed;
    let mut draw = move |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut model = Model { parents: Vec::new(), children: Vec::new() };
    for id in 0..parents {
        let score = (draw(10) > 0).then(|| draw(100) as i32);
        // Now and then a note that needs overflow pages, one or two levels of them.
        let note_bytes = match draw(40) {
            0 => 5_000,
            1 if id % 7 == 0 => 1_100_000,
            _ => draw(60) as usize,
        };
        model.parents.push((id * 3, score, "n".repeat(note_bytes)));
        for number in 0..if draw(50) == 0 { 300 } else { draw(6) as i32 } {
            let text = format!("{id}/{number}");
            model.children.push((id * 3, number, draw(1000) as i64 - 500, text));
        }
    }
    // Children of a parent that does not exist.
    model.children.push((1, 0, 5, "orphan".into()));
    model.children.sort_by_key(|child| (child.0, child.1));
    model
}

fn column(name: &str, data_type: DataType, nullable: bool, place: Place) -> AccessColumn {
    AccessColumn { name: name.into(), data_type, nullable, place }
}

fn key_layout(columns: &[(DataType, bool)]) -> KeyLayout {
    KeyLayout::new(columns.iter().map(|&(data_type, nullable)| KeyColumn { data_type, nullable, descending: false }))
}

fn row_layout(columns: &[(DataType, bool)]) -> RowLayout {
    RowLayout::new(columns.iter().map(|&(data_type, nullable)| RowColumn { data_type, nullable }))
}

struct Database {
    parents: Arc<TreeAccess>,
    by_score: Arc<TreeAccess>,
    children: Arc<TreeAccess>,
    pages: Arc<Vec<Vec<u8>>>,
}

fn build(model: &Model) -> Database {
    let mut pages = Pages::default();
    let int8 = (DataType::Int8, false);
    let int4 = (DataType::Int4, false);
    let score = (DataType::Int4, true);
    let text = (DataType::Text, false);
    let access = |pages: &mut Pages, id, name: &str, key, row, columns, entries: Vec<(Vec<u8>, Vec<u8>)>| {
        let (root, height, leaf_pages): (Option<PageRef>, u16, u64) = pages.tree(TreeId(id), &entries);
        Arc::new(TreeAccess {
            tree: TreeId(id),
            name: name.into(),
            root,
            height,
            leaf_pages,
            key,
            row,
            columns,
            overlay: None,
        })
    };
    let encode = |key: &KeyLayout, row: &RowLayout, keys: &[ValueRef<'_>], values: &[ValueRef<'_>]| {
        let (mut k, mut r) = (Vec::new(), Vec::new());
        key.encode(keys, &mut k).unwrap();
        row.encode(values, &mut r).unwrap();
        (k, r)
    };
    let nullable = |score: Option<i32>| score.map_or(ValueRef::Null, ValueRef::Int4);

    let (key, row) = (key_layout(&[int8]), row_layout(&[score, text]));
    let entries = model.parents.iter();
    let entries = entries
        .map(|(id, s, note)| encode(&key, &row, &[ValueRef::Int8(*id)], &[nullable(*s), ValueRef::Text(note)]))
        .collect();
    let columns = vec![
        column("id", DataType::Int8, false, Place::Key(0)),
        column("score", DataType::Int4, true, Place::Row(0)),
        column("note", DataType::Text, false, Place::Row(1)),
    ];
    let parents = access(&mut pages, 1, "parents", key, row, columns, entries);

    let (key, row) = (key_layout(&[score, int8]), row_layout(&[]));
    let mut entries: Vec<_> =
        model.parents.iter().map(|(id, s, _)| encode(&key, &row, &[nullable(*s), ValueRef::Int8(*id)], &[])).collect();
    entries.sort();
    let columns =
        vec![column("score", DataType::Int4, true, Place::Key(0)), column("id", DataType::Int8, false, Place::Key(1))];
    let by_score = access(&mut pages, 2, "parents_score", key, row, columns, entries);

    let (key, row) = (key_layout(&[int8, int4]), row_layout(&[int8, text]));
    let entries = model
        .children
        .iter()
        .map(|(parent, number, amount, text)| {
            let keys = [ValueRef::Int8(*parent), ValueRef::Int4(*number)];
            encode(&key, &row, &keys, &[ValueRef::Int8(*amount), ValueRef::Text(text)])
        })
        .collect();
    let columns = vec![
        column("parent", DataType::Int8, false, Place::Key(0)),
        column("number", DataType::Int4, false, Place::Key(1)),
        column("amount", DataType::Int8, false, Place::Row(0)),
        column("text", DataType::Text, false, Place::Row(1)),
    ];
    let children = access(&mut pages, 3, "children", key, row, columns, entries);
    Database { parents, by_score, children, pages: Arc::new(pages.0) }
}

impl Database {
    fn executor(&self, frames: u32, allowance: usize, seed: u64) -> Arc<Executor> {
        self.failing_executor(frames, allowance, seed, 0)
    }

    fn failing_executor(&self, frames: u32, allowance: usize, seed: u64, failing: u64) -> Arc<Executor> {
        let store = Arc::new(MemoryStore { pages: Arc::clone(&self.pages), seed, allowance, failing });
        let cache = PageCache::new(PAGE, frames).unwrap();
        Executor::start(cache, store, ExecutorOptions { reactors: 2, pin: false }).unwrap()
    }
}

/// Rows as text, sorted: what must be equal however a pipeline is run.
fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |array: &dyn Array| match array.data_type() {
                _ if array.is_null(row) => "NULL".into(),
                ArrowType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
                ArrowType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
                ArrowType::Utf8 => {
                    let text = array.as_string::<i32>().value(row);
                    if text.len() > 100 { format!("{} bytes", text.len()) } else { text.to_owned() }
                }
                other => panic!("no column has type {other}"),
            };
            rows.push(batch.columns().iter().map(|array| cell(array)).collect::<Vec<_>>().join(","));
        }
    }
    rows.sort();
    rows
}

fn ways() -> Vec<(&'static str, u32, usize, RunOptions)> {
    let default = RunOptions { partitions: 2, ..RunOptions::default() };
    let in_order = RunOptions { execution: Execution::InOrder, ..default.clone() };
    vec![
        ("out of order", 4096, 256, default.clone()),
        ("in order", 4096, 256, in_order.clone()),
        ("a cache of 32 frames", 32, 256, default.clone()),
        ("in order, 32 frames", 32, 256, in_order),
        ("one request in flight", 4096, 256, RunOptions { max_in_flight: 1, ..default.clone() }),
        ("a governor that allows one", 4096, 1, default.clone()),
        ("no memory, tiny batches", 256, 64, RunOptions { memory_bytes: 0, batch_rows: 7, ..default.clone() }),
        ("three partitions on two reactors", 512, 64, RunOptions { partitions: 3, ..default }),
    ]
}

fn collect(
    executor: &Arc<Executor>,
    pipeline: &Arc<Pipeline>,
    options: &RunOptions,
) -> Result<Vec<RecordBatch>, ExecError> {
    let run = executor.run(Arc::clone(pipeline), options.clone());
    let streams: Vec<_> = (0..run.options().partitions).map(|partition| run.open(partition)).collect();
    let mut batches = Vec::new();
    let threads: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            std::thread::spawn(move || {
                let mut batches = Vec::new();
                while let Some(item) = stream.next_blocking() {
                    batches.push(item?.slots);
                }
                Ok::<_, ExecError>(batches)
            })
        })
        .collect();
    for thread in threads {
        batches.extend(thread.join().unwrap()?);
    }
    Ok(batches)
}

/// Runs a pipeline in every way; the rows must be `expected`.
fn check(database: &Database, pipeline: Pipeline, mut expected: Vec<String>) {
    expected.sort();
    let pipeline = Arc::new(pipeline);
    for (way, frames, allowance, options) in ways() {
        for seed in [1, 99] {
            let executor = database.executor(frames, allowance, seed);
            let rows = rows_of(&collect(&executor, &pipeline, &options).unwrap());
            assert_eq!(rows.len(), expected.len(), "{way}");
            assert!(rows == expected, "{way}: other rows");
        }
    }
}

fn scan(access: &Arc<TreeAccess>, ranges: Vec<KeyRange>, predicates: Vec<Predicate>, fetch: Vec<usize>) -> Source {
    Source::Ranges { access: Arc::clone(access), ranges, predicates, fetch, filter: None }
}

fn pipeline(source: Source, stages: Vec<Stage>) -> Pipeline {
    Pipeline { source, stages, limit: None, snapshot: Arc::new(()) }
}

fn stage(access: &Arc<TreeAccess>, kind: JoinKind, slot: usize, keep: Vec<usize>, fetch: Vec<usize>) -> Stage {
    Stage {
        access: Arc::clone(access),
        kind,
        key: vec![KeySource::Slot(slot)],
        unique: false,
        predicates: vec![],
        keep,
        fetch,
        filter: None,
    }
}

fn score_text(score: Option<i32>) -> String {
    score.map_or("NULL".into(), |score| score.to_string())
}

fn note_text(note: &str) -> String {
    if note.len() > 100 { format!("{} bytes", note.len()) } else { note.to_owned() }
}

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
        let run = executor.run(Arc::clone(&pipeline), RunOptions { partitions: 1, ..options });
        let (mut sender, mut stream) = run.open_with_input(0);
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
            let number = item.slots.column(0).as_primitive::<Int32Type>();
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
fn a_sender_that_goes_away_fails_the_run() {
    let database = build(&model(13, 50));
    let schema = Arc::new(Schema::new(vec![Field::new("parent", ArrowType::Int64, true)]));
    let mut join = stage(&database.children, JoinKind::Inner, 0, vec![], vec![1]);
    join.key = vec![KeySource::Outer(0)];
    let executor = database.executor(64, 8, 1);
    let run = executor.run(Arc::new(pipeline(Source::Rows { schema }, vec![join])), RunOptions::default());
    let (sender, mut stream) = run.open_with_input(0);
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
fn a_dropped_stream_leaves_an_executor_that_works() {
    let model = model(15, 3000);
    let database = build(&model);
    let executor = database.executor(64, 4, 3);
    let source = || scan(&database.children, vec![KeyRange::default()], vec![], vec![0, 1]);
    for _ in 0..20 {
        let options = RunOptions { batch_rows: 16, partitions: 2, ..RunOptions::default() };
        let run = executor.run(Arc::new(pipeline(source(), vec![])), options);
        let mut first = run.open(0);
        let _second = run.open(1);
        assert!(first.next_blocking().is_some());
    }
    let all = collect(&executor, &Arc::new(pipeline(source(), vec![])), &RunOptions::default()).unwrap();
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
    let failed = collect(&database.executor(512, 16, 1), &Arc::new(pipeline(source, vec![])), &RunOptions::default());
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
    let all = rows_of(&collect(&database.executor(512, 16, 1), &joined, &RunOptions::default()).unwrap());
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
    assert!(whole > 0 && failed > 0, "{whole} runs were whole and {failed} failed: the rate is off");
}
