use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};

use super::{LoadProgress, append, load};
use crate::fixture::{Bench, Rows, Shape};

fn code(loaded: saki_catalog::Result<u64>) -> &'static str {
    loaded.expect_err("refused").sqlstate()
}

#[test]
fn rows_in_any_order_are_loaded_in_order() {
    let bench = Bench::new(Shape::default());
    let rows: Rows = (0..5_000).map(|id| (id, id % 7)).collect();
    let shuffled = (0..5_000).map(|place| place * 2_003 % 5_000).map(|id| (id, id % 7));
    assert_eq!(bench.load(shuffled).expect("loaded"), 5_000);
    let moment = bench.moment();
    assert_eq!(moment.range(), rows);
    assert_eq!(moment.columns(), rows);
    bench.check();
}

#[test]
fn a_key_that_comes_twice_ends_a_load_and_leaves_nothing() {
    let bench = Bench::new(Shape::default());
    assert_eq!(code(bench.load([(1, 1), (2, 2), (1, 3)].into_iter())), "23505");
    assert_eq!(code(bench.load([(1, 1), (1, 3)].into_iter())), "23505");
    assert!(bench.moment().range().is_empty());
    bench.load([(1, 1), (2, 2)].into_iter()).expect("loaded");
    assert_eq!(code(bench.load([(3, 3), (2, 4)].into_iter())), "23505", "it is there already");
    assert_eq!(code(bench.load([(3, 3), (3, 4)].into_iter())), "23505", "it comes twice");
    assert_eq!(bench.moment().range(), Rows::from([(1, 1), (2, 2)]));
    bench.check();
}

#[test]
fn a_unique_index_is_watched_over() {
    let bench = Bench::new(Shape { unique: true, ..Shape::default() });
    let error = bench.load([(1, 5), (2, 6), (3, 5)].into_iter()).expect_err("5 is there twice");
    assert_eq!(error.sqlstate(), "23505");
    assert!(error.message.contains("t_v"), "{}", error.message);
    bench.load([(1, 5), (2, 6)].into_iter()).expect("loaded");
    assert_eq!(code(bench.load([(3, 6)].into_iter())), "23505");
    assert_eq!(bench.moment().with_value(6), Rows::from([(2, 6)]));
    bench.check();
}

#[test]
fn a_table_without_a_key_takes_equal_rows() {
    let bench = Bench::new(Shape { keyed: false, ..Shape::default() });
    bench.load((0..2_000).map(|id| (id, 1))).expect("loaded");
    bench.load((2_000..2_100).map(|id| (id, 1))).expect("appended");
    assert_eq!(bench.moment().columns().len(), 2_100);
    bench.check();
}

/// Loads batches of so many rows each, with ids that follow each other; what is told meanwhile.
fn told(bench: &Bench, sizes: &[i64]) -> Vec<LoadProgress> {
    let mut first = 0;
    let batches: Vec<_> = sizes
        .iter()
        .map(|rows| {
            first += rows;
            Ok(batch((first - rows..first).map(|id| (id, id))))
        })
        .collect();
    let mut told = Vec::new();
    let loaded = bench.db().write(|writer| load(writer, "t", batches.into_iter(), &mut |step| told.push(step)));
    assert_eq!(loaded.expect("loaded"), first as u64);
    told
}

fn batch(rows: impl Iterator<Item = (i64, i64)>) -> RecordBatch {
    let (ids, values): (Vec<i64>, Vec<i64>) = rows.unzip();
    let columns = [("id", ids), ("v", values)].map(|(name, of)| (name, Arc::new(Int64Array::from(of)) as ArrayRef));
    RecordBatch::try_from_iter(columns).expect("two columns")
}

#[test]
fn progress_counts_rows_and_says_when_they_are_read_again() {
    let bench = Bench::new(Shape::default());
    let expected = [LoadProgress::Rows(3), LoadProgress::Rows(3), LoadProgress::Rows(20_003), LoadProgress::Finishing];
    assert_eq!(told(&bench, &[3, 0, 20_000]), expected, "a large batch is one");
    assert_eq!(bench.moment().range().len(), 20_003);
    let bench = Bench::new(Shape::default());
    let batches = [Ok(batch([(2, 2), (1, 1)].into_iter()))].into_iter();
    let mut last = None;
    bench.db().write(|writer| load(writer, "t", batches, &mut |step| last = Some(step))).expect("loaded");
    assert_eq!(last, Some(LoadProgress::Columns), "its rows did not come in order");
    assert_eq!(bench.moment().columns(), Rows::from([(1, 1), (2, 2)]));
    bench.check();
}

#[test]
fn rows_that_fall_out_of_order_late_are_merged_with_those_that_were_in_order() {
    let bench = Bench::new(Shape::default());
    let late = (0..9_000).map(|id| (id * 2, id)).chain((0..3_000).rev().map(|id| (id * 5 + 1, id)));
    let late: Vec<(i64, i64)> = late.filter(|(id, _)| id % 10 != 6).collect();
    let rows: Rows = late.iter().copied().collect();
    assert_eq!(rows.len(), late.len(), "no key comes twice");
    bench.load(late.into_iter()).expect("loaded");
    let moment = bench.moment();
    assert_eq!(moment.range(), rows);
    assert_eq!(moment.columns(), rows);
    bench.check();
}

#[test]
fn a_source_that_fails_and_rows_of_another_table_end_a_load_and_leave_nothing() {
    let bench = Bench::new(Shape::default());
    let fails = || [Ok(batch((0..100).map(|id| (id, id)))), Err(saki_catalog::SqlError::data("no number"))].into_iter();
    let loaded = bench.db().write(|writer| load(writer, "t", fails(), &mut |_| {}));
    assert_eq!(loaded.expect_err("its source fails").message, "no number");
    let other = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    let other = || [Ok(other.as_ref().expect("one column").clone())].into_iter();
    assert!(bench.db().write(|writer| load(writer, "t", other(), &mut |_| {})).is_err());
    assert!(bench.moment().range().is_empty());
    bench.load((0..50).map(|id| (id, id))).expect("loaded");
    let appended = |batches: &mut dyn Iterator<Item = saki_catalog::Result<RecordBatch>>| {
        bench.db().write(|writer| append(writer, "t", batches, crate::OnDuplicate::Refuse))
    };
    assert!(appended(&mut fails()).is_err() && appended(&mut other()).is_err());
    assert!(appended(&mut std::iter::empty()).is_ok_and(|rows| rows == 0));
    assert_eq!(bench.moment().range().len(), 50);
    bench.check();
}

#[test]
fn a_load_into_a_table_that_is_not_there_is_refused() {
    let bench = Bench::new(Shape::default());
    let loaded = bench.db().write(|writer| load(writer, "u", std::iter::empty(), &mut |_| {}));
    assert_eq!(loaded.expect_err("there is none").sqlstate(), "42P01");
}
