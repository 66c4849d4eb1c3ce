use saki_page::IoShare;

use super::splice::key_of;
use super::*;
use crate::fixture::{Bench, Shape};

#[test]
fn floats_stay_if_their_bits_do() {
    let same = |old: ValueRef<'_>, new: ValueRef<'_>| is_same(&old, &new);
    assert!(same(ValueRef::Float4(f32::NAN), ValueRef::Float4(f32::NAN)));
    assert!(!same(ValueRef::Float4(0.0), ValueRef::Float4(-0.0)));
    assert!(!same(ValueRef::Float4(1.0), ValueRef::Float4(2.0)));
    assert!(same(ValueRef::Float8(f64::NAN), ValueRef::Float8(f64::NAN)));
    assert!(!same(ValueRef::Float8(0.0), ValueRef::Float8(-0.0)));
    assert!(!same(ValueRef::Float8(1.0), ValueRef::Float8(2.0)));
    assert!(same(ValueRef::Int8(1), ValueRef::Int8(1)) && !same(ValueRef::Int8(1), ValueRef::Int8(2)));
}

/// What is on its way for a segment that is not read after all is not taken for what is.
#[test]
fn runs_that_were_asked_for_ahead_are_of_their_own_segment() {
    let bench = Bench::new(Shape::default());
    bench.load((0..2_800).map(|id| (id, id * 3))).expect("loaded");
    let (table, generation) = (bench.table(), bench.db().generation());
    let segments = &generation.segments(&table).expect("readable").expect("columns are on").segments;
    assert_eq!(segments.len(), 4);
    let share = IoShare::new(64);
    let mut runs = RunReader::new(bench.db(), &table.name, table.column_types(), &share, 1);
    let is_of = |columns: &[Column], segment: usize| {
        let rows = Batch::new(columns.to_vec(), 700);
        let key = key_of(&table, &rows, 0).expect("a key");
        assert_eq!(key, segments[segment].first_key, "segment {segment}");
    };
    for _ in 0..50 {
        is_of(&runs.read(&segments[0], &[0, 1], Some(&segments[1])).expect("read"), 0);
        is_of(&runs.read(&segments[1], &[0, 1], Some(&segments[2])).expect("ahead"), 1);
        is_of(&runs.read(&segments[3], &[0, 1], None).expect("another"), 3);
    }
}
