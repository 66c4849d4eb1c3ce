//! No allocation per probe: a counting allocator watches a join of many probes over a warm cache.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use saki_base::{DataType, KeyColumn, KeyLayout, RowLayout, TreeId, ValueRef};
use saki_exec::{
    AccessColumn, ExecutionOptions, Executor, ExecutorOptions, JoinKind, KeyRange, KeySource, Pipeline, Place, Source,
    Stage, TreeAccess,
};
use saki_page::PageCache;

#[path = "pipelines/store.rs"]
mod store;
use store::{MemoryStore, PAGE, Pages};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn access(pages: &mut Pages, id: u32, rows: u64, stride: u64) -> Arc<TreeAccess> {
    let key = KeyLayout::new([KeyColumn { data_type: DataType::Int8, nullable: false, descending: false }]);
    let entries: Vec<_> = (0..rows)
        .map(|row| {
            let mut bytes = Vec::new();
            key.encode(&[ValueRef::Int8((row * stride) as i64)], &mut bytes).unwrap();
            (bytes, Vec::new())
        })
        .collect();
    let (root, height, leaf_pages) = pages.tree(TreeId(id), &entries);
    let column = AccessColumn { name: "id".into(), data_type: DataType::Int8, nullable: false, place: Place::Key(0) };
    let row = RowLayout::new([]);
    Arc::new(TreeAccess {
        tree: TreeId(id),
        name: format!("t{id}"),
        root,
        height,
        leaf_pages,
        key,
        row,
        columns: vec![column],
        overlay: None,
    })
}

/// Allocations of a semi-join of `rows` outer rows that all go through the inner tree, and emits few of them.
fn allocations(executor: &Arc<Executor>, outer: &Arc<TreeAccess>, inner: &Arc<TreeAccess>) -> u64 {
    let pipeline = Arc::new(Pipeline {
        source: Source::Ranges {
            access: Arc::clone(outer),
            ranges: vec![KeyRange::default()],
            predicates: vec![],
            fetch: vec![0],
            filter: None,
        },
        stages: vec![Stage {
            access: Arc::clone(inner),
            kind: JoinKind::Semi,
            key: vec![KeySource::Register(0)],
            unique: true,
            predicates: vec![],
            keep: vec![0],
            fetch: vec![],
            filter: None,
        }],
        limit: None,
        snapshot: Arc::new(()),
    });
    let execution = executor.run(pipeline, ExecutionOptions { partitions: 1, ..ExecutionOptions::default() });
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut stream = execution.open(0);
    while let Some(item) = stream.next_blocking() {
        item.unwrap();
    }
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn probes_allocate_nothing_in_steady_state() {
    let mut pages = Pages::default();
    let few = access(&mut pages, 1, 50_000, 1);
    let many = access(&mut pages, 2, 400_000, 1);
    let inner = access(&mut pages, 3, 4_000, 100);
    let store = Arc::new(MemoryStore { pages: Arc::new(pages.0), seed: 1, allowance: 64, failing: 0 });
    let executor =
        Executor::start(PageCache::new(PAGE, 8192).unwrap(), store, ExecutorOptions { reactors: 1, pin: false })
            .unwrap();
    allocations(&executor, &many, &inner); // warms the cache
    let of_few = allocations(&executor, &few, &inner);
    let of_many = allocations(&executor, &many, &inner);
    let per_probe = of_many.saturating_sub(of_few) as f64 / 350_000.0;
    assert!(per_probe < 0.01, "{per_probe} allocations per probe ({of_few} for 50 000 probes, {of_many} for 400 000)");
}
