//! Random tables as vectors and as trees, and every way of running a pipeline over them.

use std::sync::Arc;

use crate::store::{MemoryStore, PAGE, Pages};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType as ArrowType;
use saki_base::{DataType, KeyColumn, KeyLayout, PageRef, RowColumn, RowLayout, TreeId, ValueRef};
use saki_exec::{
    AccessColumn, ExecError, ExecutionOptions, Executor, ExecutorOptions, JoinKind, KeyRange, KeySource, Pipeline,
    Place, Predicate, Source, Stage, TreeAccess, VisitOrder,
};
use saki_page::PageCache;

/// Parents `id -> (score, note)`, children `(parent, number) -> (amount, text)`, an index of parents by score.
pub struct Model {
    pub parents: Vec<(i64, Option<i32>, String)>,
    pub children: Vec<(i64, i32, i64, String)>,
}

pub fn model(seed: u64, parents: i64) -> Model {
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

pub fn column(name: &str, data_type: DataType, nullable: bool, place: Place) -> AccessColumn {
    AccessColumn { name: name.into(), data_type, nullable, place }
}

pub fn key_layout(columns: &[(DataType, bool)]) -> KeyLayout {
    KeyLayout::new(columns.iter().map(|&(data_type, nullable)| KeyColumn { data_type, nullable, descending: false }))
}

pub fn row_layout(columns: &[(DataType, bool)]) -> RowLayout {
    RowLayout::new(columns.iter().map(|&(data_type, nullable)| RowColumn { data_type, nullable }))
}

pub struct Database {
    pub parents: Arc<TreeAccess>,
    pub by_score: Arc<TreeAccess>,
    pub children: Arc<TreeAccess>,
    pub pages: Arc<Vec<Vec<u8>>>,
}

pub fn build(model: &Model) -> Database {
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
    pub fn executor(&self, frames: u32, allowance: usize, seed: u64) -> Arc<Executor> {
        self.failing_executor(frames, allowance, seed, 0)
    }

    pub fn failing_executor(&self, frames: u32, allowance: usize, seed: u64, failing: u64) -> Arc<Executor> {
        let store = Arc::new(MemoryStore { pages: Arc::clone(&self.pages), seed, allowance, failing });
        let cache = PageCache::new(PAGE, frames).unwrap();
        Executor::start(cache, store, ExecutorOptions { reactors: 2, pin: false }).unwrap()
    }
}

/// Rows as text, sorted: what must be equal however a pipeline is run.
pub fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
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

pub fn ways() -> Vec<(&'static str, u32, usize, ExecutionOptions)> {
    let default = ExecutionOptions { partitions: 2, ..ExecutionOptions::default() };
    let in_order = ExecutionOptions { order: VisitOrder::InOrder, ..default.clone() };
    vec![
        ("out of order", 4096, 256, default.clone()),
        ("in order", 4096, 256, in_order.clone()),
        ("a cache of 32 frames", 32, 256, default.clone()),
        ("in order, 32 frames", 32, 256, in_order),
        ("one request in flight", 4096, 256, ExecutionOptions { max_in_flight: 1, ..default.clone() }),
        ("a governor that allows one", 4096, 1, default.clone()),
        ("no memory, tiny batches", 256, 64, ExecutionOptions { memory_bytes: 0, batch_rows: 7, ..default.clone() }),
        ("three partitions on two reactors", 512, 64, ExecutionOptions { partitions: 3, ..default }),
    ]
}

pub fn collect(
    executor: &Arc<Executor>,
    pipeline: &Arc<Pipeline>,
    options: &ExecutionOptions,
) -> Result<Vec<RecordBatch>, ExecError> {
    let execution = executor.run(Arc::clone(pipeline), options.clone());
    let streams: Vec<_> = (0..execution.options().partitions).map(|partition| execution.open(partition)).collect();
    let mut batches = Vec::new();
    let threads: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            std::thread::spawn(move || {
                let mut batches = Vec::new();
                while let Some(item) = stream.next_blocking() {
                    batches.push(item?.registers);
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
pub fn check(database: &Database, pipeline: Pipeline, mut expected: Vec<String>) {
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

pub fn scan(access: &Arc<TreeAccess>, ranges: Vec<KeyRange>, predicates: Vec<Predicate>, fetch: Vec<usize>) -> Source {
    Source::Ranges { access: Arc::clone(access), ranges, predicates, fetch, filter: None }
}

pub fn pipeline(source: Source, stages: Vec<Stage>) -> Pipeline {
    Pipeline { source, stages, limit: None, snapshot: Arc::new(()) }
}

pub fn stage(access: &Arc<TreeAccess>, kind: JoinKind, register: usize, keep: Vec<usize>, fetch: Vec<usize>) -> Stage {
    Stage {
        access: Arc::clone(access),
        kind,
        key: vec![KeySource::Register(register)],
        unique: false,
        predicates: vec![],
        keep,
        fetch,
        filter: None,
    }
}

pub fn score_text(score: Option<i32>) -> String {
    score.map_or("NULL".into(), |score| score.to_string())
}

pub fn note_text(note: &str) -> String {
    if note.len() > 100 { format!("{} bytes", note.len()) } else { note.to_owned() }
}
