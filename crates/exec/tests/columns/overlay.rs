//! Scans of segments with rows over them, and where rows of segments are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use saki_base::Random;
use saki_exec::columns::{SegmentKey, locate_blocking};
use saki_exec::{ColumnOverlay, ColumnScan, ExecError, ExecutionOptions, SegmentReader, VisitOrder};
use saki_vector::Batch;
use saki_vector::expr::ArithmeticOp;

use super::*;
use crate::table::{batch, key, key_layout};

/// New rows by id; `None`: deleted.
type Delta = BTreeMap<i64, Option<Row>>;

#[derive(Debug)]
struct MemoryOverlay {
    hidden: Vec<Option<Arc<[u32]>>>,
    parts: Vec<Vec<Row>>,
    asked: AtomicUsize,
}

impl ColumnOverlay for MemoryOverlay {
    fn hidden(&self, segment: usize) -> Result<Option<Arc<[u32]>>, ExecError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(self.hidden[segment].clone())
    }

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn rows(&self, part: usize, columns: &[usize]) -> Result<Batch, ExecError> {
        Ok(batch(&self.parts[part]).project(columns))
    }
}

fn overlay(fixture: &Fixture, reader: &SegmentReader, delta: &Delta, part_rows: usize) -> Arc<MemoryOverlay> {
    let keys: Vec<Vec<u8>> = delta.keys().map(|id| key(*id)).collect();
    let hidden = locate_blocking(reader, &fixture.table, &key_layout(), SegmentKey::Columns(&[ID]), &keys).unwrap();
    let rows: Vec<Row> = delta.values().flatten().cloned().collect();
    let parts = rows.chunks(part_rows).map(<[Row]>::to_vec).collect();
    Arc::new(MemoryOverlay { hidden, parts, asked: AtomicUsize::new(0) })
}

/// Ids in the table are multiples of three.
fn delta(seed: u64, rows: &[Row], share: f64) -> Delta {
    let mut random = Random::new(seed);
    let fresh = table::rows(seed + 1, rows.len() + 10);
    let mut delta = Delta::new();
    for mut row in fresh {
        if random.chance(share) {
            row.id += random.range(0..3) as i64;
            let row = (!random.chance(0.3)).then_some(row.clone()).ok_or(row.id);
            delta.insert(row.as_ref().map_or_else(|id| *id, |row| row.id), row.ok());
        }
    }
    delta
}

fn merged(rows: &[Row], delta: &Delta) -> Vec<Row> {
    let mut all: BTreeMap<i64, Row> = rows.iter().map(|row| (row.id, row.clone())).collect();
    for (id, row) in delta {
        match row {
            Some(row) => all.insert(*id, row.clone()),
            None => all.remove(id),
        };
    }
    all.into_values().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_scan_with_an_overlay_is_a_naive_filter_of_both(
        seed in 0..1000u64,
        count in prop_oneof![0..3usize, 0..20_000usize],
        share in prop_oneof![Just(0.0), Just(0.001), Just(0.1), Just(1.0)],
        part_rows in prop_oneof![Just(7usize), Just(3000), Just(100_000)],
        segment_rows in prop_oneof![Just(97usize), Just(1000), Just(20_000)],
        filters in proptest::collection::vec(conditions(), 1..4),
        output in proptest::sample::subsequence(vec![ID, DAY, QUANTITY, NAME, COMMENT, FLAG], 0..=6),
        partitions in 1..4usize,
        in_order in any::<bool>(),
        limit in proptest::option::of(0..5000usize),
        keys in keys(),
    ) {
        let rows = table::rows(seed, count);
        let fixture = Fixture::new(seed, &rows, segment_rows);
        let reader = fixture.reader(64 << 20);
        let delta = delta(seed, &rows, share);
        let overlay = overlay(&fixture, &reader, &delta, part_rows);
        let merged = merged(&rows, &delta);
        let order = if in_order { VisitOrder::InOrder } else { VisitOrder::OutOfOrder };
        let options = ExecutionOptions { order, ..options(partitions) };
        for filter in &filters {
            let over = || Some(Arc::clone(&overlay) as Arc<dyn ColumnOverlay>);
            let with = |limit| ColumnScan {
                overlay: over(),
                overlay_apart: partitions > 1,
                ..scan(&fixture, &output, filter, limit)
            };
            let everything = expected(&merged, &output, filter);
            prop_assert_eq!(&collect(&run(&reader, with(None), &options), &output).unwrap(), &everything);
            let found = collect(&run(&reader, with(limit), &options), &output).unwrap();
            prop_assert_eq!(found.len(), limit.unwrap_or(usize::MAX).min(everything.len()));
            prop_assert!(is_part(&found, &everything));
            if let Some(keys) = &keys {
                let keyed = ColumnScan { keys: vec![keys.filter()], ..with(None) };
                let found = collect(&run(&reader, keyed, &options), &output).unwrap();
                let passing: Vec<Row> = merged.iter().filter(|row| keys.passes(row)).cloned().collect();
                prop_assert!(is_part(&expected(&passing, &output, filter), &found));
                prop_assert!(is_part(&found, &everything));
            }
        }
    }

    #[test]
    fn rows_are_located_by_their_keys(
        seed in 0..1000u64,
        count in prop_oneof![0..3usize, 0..20_000usize],
        segment_rows in prop_oneof![Just(97usize), Just(1000), Just(20_000)],
        mut ids in proptest::collection::btree_set(-5..70_000i64, 0..300),
    ) {
        let rows = table::rows(seed, count);
        let fixture = Fixture::new(seed, &rows, segment_rows);
        let reader = fixture.reader(64 << 20);
        ids.extend(rows.first().map(|row| row.id).into_iter().chain(rows.last().map(|row| row.id)));
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| key(*id)).collect();
        let expected: Vec<Option<Arc<[u32]>>> = rows
            .chunks(segment_rows)
            .map(|rows| {
                let at = |(position, row): (usize, &Row)| ids.contains(&row.id).then_some(position as u32);
                let positions: Vec<u32> = rows.iter().enumerate().filter_map(at).collect();
                (!positions.is_empty()).then(|| positions.into())
            })
            .collect();
        let found =
            locate_blocking(&reader, &fixture.table, &key_layout(), SegmentKey::Columns(&[ID]), &keys).unwrap();
        prop_assert_eq!(&found, &expected);
        // As if the id were none of the segments' columns: they have gaps, so that it takes a list.
        let mut list = |segment: usize| {
            let start = segment * segment_rows;
            Ok(rows[start..rows.len().min(start + segment_rows)].iter().map(|row| row.id).collect())
        };
        let next = rows.last().map_or(0, |row| row.id + 1);
        let by_list = SegmentKey::RowId { next, list: &mut list };
        let found = locate_blocking(&reader, &fixture.table, &key_layout(), by_list, &keys).unwrap();
        prop_assert_eq!(&found, &expected);
    }
}

#[test]
fn row_ids_without_gaps_are_located_by_arithmetic() {
    let rows: Vec<Row> = table::rows(4, 2500).into_iter().map(|row| Row { id: row.id / 3 + 7, ..row }).collect();
    let fixture = Fixture::new(4, &rows, 1000);
    let reader = fixture.reader(64 << 20);
    let keys: Vec<Vec<u8>> = [0, 7, 1006, 1007, 2506, 2507].map(key).to_vec();
    let mut list = |segment: usize| panic!("segment {segment} has no gaps");
    let ids = SegmentKey::RowId { next: 2507, list: &mut list };
    let found = locate_blocking(&reader, &fixture.table, &key_layout(), ids, &keys).unwrap();
    let positions = |positions: &[u32]| Some(positions.into());
    assert_eq!(found, [positions(&[0, 999]), positions(&[0]), positions(&[499])]);
}

#[test]
fn hidden_rows_raise_no_errors_and_segments_without_a_row_are_not_asked() {
    let rows = table::rows(6, 2000);
    let fixture = Fixture::new(6, &rows, 500);
    let reader = fixture.reader(64 << 20);
    let one = || Box::new(literal(Value::Int8(1), ArrowType::Int64));
    let ratio = Expr::Arithmetic {
        op: ArithmeticOp::Divide,
        left: one(),
        right: Box::new(column(ID)),
        data_type: ArrowType::Int64,
    };
    let divides = Expr::Compare { op: CompareOp::LessOrEqual, left: Box::new(ratio), right: one() };
    // The row with id 0, which cannot be divided by, is gone.
    let overlay = overlay(&fixture, &reader, &Delta::from([(0, None)]), 10);
    let over = Some(Arc::clone(&overlay) as Arc<dyn ColumnOverlay>);
    let scan = ColumnScan { filter: vec![divides], overlay: over.clone(), ..scan(&fixture, &[ID], &[], None) };
    assert_eq!(collect(&run(&reader, scan, &options(1)), &[ID]).unwrap().len(), 1999);
    overlay.asked.store(0, Ordering::Relaxed);
    let scan = ColumnScan { overlay: over, ..super::scan(&fixture, &[], &[Condition::IdBelow(1000)], None) };
    assert_eq!(collect(&run(&reader, scan, &options(1)), &[]).unwrap().len(), 333);
    assert_eq!(overlay.asked.load(Ordering::Relaxed), 1);
}
