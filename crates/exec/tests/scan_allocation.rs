//! A scan from memory allocates for slices and batches, never for rows: a counting allocator watches one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::DataType as ArrowType;
use saki_base::value::Value;
use saki_exec::{ColumnScan, ExecutionOptions};
use saki_vector::Expr;
use saki_vector::expr::CompareOp;

#[path = "columns/table.rs"]
#[allow(dead_code, reason = "the scans' own tests use all of it")]
mod table;
use table::{DAY, Fixture, ID, QUANTITY};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
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

/// Allocations and bytes of a scan of everything in memory, and its rows.
fn scanned(reader: &Arc<saki_exec::SegmentReader>, fixture: &Fixture, filter: Vec<Expr>) -> (u64, u64, usize) {
    let scan = ColumnScan {
        table: Arc::clone(&fixture.table),
        output: vec![ID, DAY],
        filter,
        keys: Vec::new(),
        limit: None,
        snapshot: fixture.volume.hold(),
        overlay: None,
        overlay_apart: false,
    };
    let before = (ALLOCATIONS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    let mut stream = reader.run(scan, &ExecutionOptions { partitions: 1, ..ExecutionOptions::default() }).open(0);
    let mut rows = 0;
    while let Some(batch) = stream.next_blocking() {
        rows += batch.unwrap().rows;
    }
    (ALLOCATIONS.load(Ordering::Relaxed) - before.0, BYTES.load(Ordering::Relaxed) - before.1, rows)
}

#[test]
fn nothing_is_allocated_for_a_row() {
    let rows = table::rows(1, 100_000);
    let fixture = Fixture::new(1, &rows, 50_000);
    let reader = fixture.reader(1 << 30);
    let above = |least: i64| {
        let money = ArrowType::Decimal128(15, 2);
        let left = Box::new(Expr::Column { index: QUANTITY, data_type: money.clone() });
        let right = Box::new(Expr::Literal { value: Value::Decimal(least.into()), data_type: money });
        vec![Expr::Compare { op: CompareOp::Greater, left, right }]
    };
    // Once to read and decode, once more for what was tested while it was encoded.
    for _ in 0..2 {
        scanned(&reader, &fixture, above(2500));
    }
    let (allocations, bytes, all) = scanned(&reader, &fixture, Vec::new());
    assert_eq!(all, rows.len());
    assert!(allocations < 400 && bytes < 100_000, "{allocations} allocations, {bytes} bytes: whole columns are shared");
    let (allocations, bytes, half) = scanned(&reader, &fixture, above(2500));
    assert!((45_000..55_000).contains(&half));
    assert!(allocations < 1500, "{allocations} allocations in 13 slices");
    // The values that pass, their positions, and bits.
    assert!(bytes < 40 * half as u64, "{bytes} bytes for {half} rows of 12");
}
