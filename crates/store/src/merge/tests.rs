use std::collections::BTreeMap;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use proptest::prelude::*;
use saki_base::Random;
use saki_catalog::SqlError;

use super::*;
use crate::Stop;
use crate::fixture::{Bench, Rows, Shape, entry};

/// Changes in memory.
struct Listed(std::vec::IntoIter<(Vec<u8>, Option<Vec<u8>>)>, Option<(Vec<u8>, Option<Vec<u8>>)>);

impl Listed {
    fn new(table: &Table, changes: &BTreeMap<i64, Option<i64>>) -> Self {
        let change = |(id, v): (&i64, &Option<i64>)| {
            let (key, row) = entry(table, *id, v.unwrap_or_default());
            (key, v.map(|_| row))
        };
        Self(changes.iter().map(change).collect::<Vec<_>>().into_iter(), None)
    }
}

impl ChangeSource for Listed {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        self.1 = self.0.next();
        Ok(self.1.as_ref().map(|(key, row)| (key.as_slice(), row.as_deref())))
    }
}

fn merged(bench: &Bench, changes: &BTreeMap<i64, Option<i64>>) -> MergeReport {
    bench.db().merge("t", &mut Listed::new(&bench.table(), changes), &Pace::full()).expect("merged")
}

#[test]
fn a_report_counts_what_has_become_of_rows() {
    let bench = Bench::new(Shape::default());
    let first = merged(&bench, &BTreeMap::from([(1, Some(1)), (2, Some(2)), (3, Some(3)), (9, None)]));
    assert_eq!((first.rows, first.inserted, first.updated, first.deleted), (4, 3, 0, 0));
    let second = merged(&bench, &BTreeMap::from([(1, Some(1)), (2, Some(7)), (3, None), (4, Some(4))]));
    assert_eq!((second.inserted, second.updated, second.deleted), (1, 1, 1));
    assert_eq!(bench.moment().range(), Rows::from([(1, 1), (2, 7), (4, 4)]));
    bench.check();
}

/// Whether of few changes or of many, and whoever of the threads notices: nothing of it counts.
#[test]
fn a_merge_that_is_told_to_stop_publishes_nothing() {
    struct Tells(Listed, usize, Stop);
    impl ChangeSource for Tells {
        fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
            match self.1.checked_sub(1) {
                Some(left) => self.1 = left,
                None => self.2.tell(),
            }
            self.0.next()
        }
    }
    let bench = Bench::new(Shape::default());
    merged(&bench, &(0..3_000).map(|id| (id, Some(id))).collect());
    let before = (bench.db().generation().number(), bench.moment().range());
    for (count, told_after) in [(100, 50), (20_000, 0), (20_000, 19_000)] {
        let (changes, stop) = ((0..count).map(|id| (id, Some(7))).collect(), Stop::default());
        let mut changes = Tells(Listed::new(&bench.table(), &changes), told_after, stop.clone());
        let stopped = bench.db().write_unless(&stop, |writer| {
            let stopped = merge(writer, "t", &mut changes, &Pace::full());
            assert_eq!(stopped.expect_err("told to stop").sqlstate(), "57014");
            writer.stop.check()
        });
        assert_eq!(stopped.expect_err("told to stop").sqlstate(), "57014");
        assert_eq!((bench.db().generation().number(), bench.moment().range()), before);
    }
    bench.check();
}

#[test]
fn trees_indexes_and_segments_are_spliced_alike() {
    let bench = Bench::new(Shape::default());
    let (mut random, mut rows) = (Random::new(5), Rows::new());
    // Few changes take one thread, many take several; segments are kept, spliced, emptied and cut anew.
    for (count, span) in [(5_000, 20_000), (300, 20_000), (1, 20_000), (4_000, 4_000), (2_500, 60_000)] {
        let change =
            |random: &mut Random| (random.below(span) as i64, random.chance(0.6).then(|| random.below(50) as i64));
        let changes: BTreeMap<i64, Option<i64>> = (0..count).map(|_| change(&mut random)).collect();
        merged(&bench, &changes);
        for (id, v) in changes {
            match v {
                Some(v) => rows.insert(id, v),
                None => rows.remove(&id),
            };
        }
        let moment = bench.moment();
        assert_eq!(moment.range(), rows);
        assert_eq!(moment.columns(), rows);
        assert_eq!(moment.values().values().sum::<usize>(), rows.len());
        bench.check();
    }
    let all: BTreeMap<i64, Option<i64>> = rows.keys().map(|id| (*id, None)).collect();
    merged(&bench, &all);
    assert!(bench.moment().columns().is_empty());
    bench.check();
}

#[test]
fn a_source_that_fails_changes_nothing() {
    struct Fails(u32);
    impl ChangeSource for Fails {
        fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
            self.0 += 1;
            if self.0 > 3 { Err(SqlError::storage("out of order")) } else { Ok(Some((b"no key", None))) }
        }
    }
    let bench = Bench::new(Shape::default());
    merged(&bench, &BTreeMap::from([(1, Some(1))]));
    let generation = bench.db().generation().number();
    assert!(bench.db().merge("t", &mut Fails(0), &Pace::full()).is_err());
    assert_eq!(bench.db().generation().number(), generation);
    assert_eq!(bench.moment().range(), Rows::from([(1, 1)]));
    bench.check();
}

/// What each kind of change makes of rows 0 to `rows`, which all have 0; and how many rows it adds, changes, deletes.
fn changes_of(rows: i64, count: i64) -> (BTreeMap<i64, Option<i64>>, [u64; 3]) {
    let (mut changes, mut counts) = (BTreeMap::new(), [0; 3]);
    for number in 0..count {
        match number % 4 {
            0 => changes.insert(rows + number, Some(1)),
            1 => changes.insert(number, Some(1)),
            2 => changes.insert(number, None),
            // One that stays as it was, and one that was not there.
            _ if number % 8 == 3 => changes.insert(number, Some(0)),
            _ => changes.insert(rows * 2 + number, None),
        };
        if number % 4 < 3 {
            counts[(number % 4) as usize] += 1;
        }
    }
    (changes, counts)
}

#[test]
fn few_changes_on_one_thread_and_many_on_several_come_to_the_same() {
    const ROWS: i64 = 6_000;
    for count in [1, 1_999, 2_000, 2_001, 5_000] {
        let bench = Bench::new(Shape::default());
        bench.load((0..ROWS).map(|id| (id, 0))).expect("loaded");
        let (changes, counts) = changes_of(ROWS, count);
        let report = merged(&bench, &changes);
        assert_eq!(report.rows, count as u64);
        assert_eq!([report.inserted, report.updated, report.deleted], counts, "{count} changes");
        assert!(report.pages_written > 0 && report.bytes_written == report.pages_written * 8192, "{report:?}");
        let mut rows: Rows = (0..ROWS).map(|id| (id, 0)).collect();
        for (id, v) in changes {
            match v {
                Some(v) => rows.insert(id, v),
                None => rows.remove(&id),
            };
        }
        let moment = bench.moment();
        assert_eq!(moment.range(), rows, "{count} changes");
        assert_eq!(moment.columns(), rows, "{count} changes");
        assert_eq!(moment.values().values().sum::<usize>(), rows.len());
        assert_eq!(bench.table().root.entries, rows.len() as u64, "the count in the root is exact");
        bench.check();
    }
}

#[test]
fn a_source_that_fails_late_changes_nothing_on_any_thread() {
    struct Fails(Listed, u32);
    impl ChangeSource for Fails {
        fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
            self.1 += 1;
            if self.1 > 4_000 { Err(SqlError::storage("the source is away")) } else { self.0.next() }
        }
    }
    let bench = Bench::new(Shape::default());
    bench.load((0..3_000).map(|id| (id, 0))).expect("loaded");
    let changes = (0..6_000).map(|id| (id, Some(1))).collect();
    let mut source = Fails(Listed::new(&bench.table(), &changes), 0);
    let error = bench.db().merge("t", &mut source, &Pace::full()).expect_err("it fails");
    assert!(error.message.contains("the source is away"), "{}", error.message);
    assert!(bench.moment().range().values().all(|v| *v == 0));
    bench.check();
    merged(&bench, &changes);
    assert_eq!(bench.moment().range().len(), 6_000);
}

/// The segments of the table are cut as they should be, and say what they begin with.
fn segments_are_sound(bench: &Bench, rows: &Rows) {
    let (table, generation) = (bench.table(), bench.db().generation());
    let segments = generation.segments(&table).expect("readable").expect("columns are on");
    assert_eq!(segments.rows, rows.len() as u64);
    assert_eq!(segments.segments.iter().map(|segment| u64::from(segment.rows)).sum::<u64>(), segments.rows);
    let ids: Vec<i64> = rows.keys().copied().collect();
    let mut start = 0;
    for (position, segment) in segments.segments.iter().enumerate() {
        assert!((1..=700).contains(&segment.rows), "segment {position} has {} rows", segment.rows);
        assert_eq!(segment.first_key, entry(&table, ids[start], 0).0, "segment {position}");
        start += segment.rows as usize;
    }
}

#[derive(Clone, Debug)]
struct Stroke {
    first: i64,
    step: i64,
    count: i64,
    deletes: bool,
}

fn stroke() -> impl Strategy<Value = Stroke> {
    (0..9_000_i64, prop::sample::select(vec![1_i64, 2, 7, 90]), 1..1_500_i64, prop::bool::weighted(0.4))
        .prop_map(|(first, step, count, deletes)| Stroke { first, step, count, deletes })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn segments_that_are_spliced_are_those_that_would_be_built(
        loaded in 0..4_000_i64,
        strokes in prop::collection::vec(prop::collection::vec(stroke(), 1..4), 1..5),
    ) {
        let bench = Bench::new(Shape::default());
        let mut rows: Rows = (0..loaded).map(|id| (id * 2, 0)).collect();
        bench.load(rows.clone().into_iter()).expect("loaded");
        for (round, strokes) in (1..).zip(strokes) {
            let mut changes = BTreeMap::new();
            for Stroke { first, step, count, deletes } in strokes {
                changes.extend((0..count).map(|number| (first + number * step, (!deletes).then_some(round))));
            }
            merged(&bench, &changes);
            for (id, v) in changes {
                match v {
                    Some(v) => rows.insert(id, v),
                    None => rows.remove(&id),
                };
            }
            let moment = bench.moment();
            prop_assert_eq!(&moment.range(), &rows);
            prop_assert_eq!(&moment.columns(), &rows);
            segments_are_sound(&bench, &rows);
        }
        bench.check();
    }
}

#[test]
fn added_rows_replace_those_of_their_keys_and_may_swap_unique_values() {
    let bench = Bench::new(Shape { unique: true, ..Shape::default() });
    bench.load([(1, 10), (2, 20), (3, 30)].into_iter()).expect("loaded");
    assert_eq!(replace(&bench, &[(1, 20), (2, 10), (4, 40)]).expect("each value is there once"), 3);
    assert_eq!(bench.moment().range(), Rows::from([(1, 20), (2, 10), (3, 30), (4, 40)]));
    let twice = replace(&bench, &[(1, 30)]).expect_err("30 is there");
    assert_eq!(twice.sqlstate(), "23505");
    assert!(twice.message.contains("t_v"), "{}", twice.message);
    assert!(replace(&bench, &[(5, 50), (5, 51)]).is_err(), "a key comes twice");
    assert_eq!(bench.moment().range(), Rows::from([(1, 20), (2, 10), (3, 30), (4, 40)]));
    bench.check();
}

fn replace(bench: &Bench, rows: &[(i64, i64)]) -> Result<u64> {
    let column = |of: fn(&(i64, i64)) -> i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(of))) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", column(|row| row.0)), ("v", column(|row| row.1))]);
    let batches = [Ok(batch.expect("two columns"))].into_iter();
    bench.db().write(|writer| crate::load::append(writer, "t", batches, OnDuplicate::Replace))
}

/// Rows that take each other's unique values, wherever chunks end among the index's entries.
#[test]
fn unique_values_that_move_up_by_one_are_there_once_in_any_chunk() {
    for first in [0, 1] {
        let bench = Bench::new(Shape { unique: true, ..Shape::default() });
        bench.load((0..3_000).map(|id| (id, id))).expect("loaded");
        let moved: Vec<(i64, i64)> = (first..3_000).map(|id| (id, id + 1)).collect();
        if first == 1 {
            replace(&bench, &[(0, 9_000)]).expect("nobody has it");
        }
        replace(&bench, &moved).expect("each value is there once");
        let moment = bench.moment();
        assert!(moment.values().values().all(|count| *count == 1));
        assert_eq!(moment.range().into_iter().skip(first as usize).collect::<Vec<_>>(), moved);
        bench.check();
    }
}

/// An index whose entries keep their keys, while what they include changes.
#[test]
fn entries_that_stay_include_what_rows_are_now() {
    let bench = Bench::new(Shape::default());
    let made = bench.db().write(|writer| {
        let mut table = Table::clone(writer.catalog.table("t")?);
        table.indexes[0].columns[0].column = 0;
        table.indexes[0].include = vec![1];
        table.layout_version += 1;
        writer.catalog.put(table);
        Ok(())
    });
    made.expect("an empty table has another index");
    bench.load((0..100).map(|id| (id, 0))).expect("loaded");
    merged(&bench, &(20..60).map(|id| (id, (id < 40).then_some(7))).collect());
    bench.check();
    let (table, mut base) = (bench.table(), bench.db().base_reader());
    let mut decoder = saki_catalog::EntryDecoder::new(table.index_layout(&table.indexes[0]));
    let mut entries =
        base.range(&table.indexes[0].root, std::ops::Bound::Unbounded, std::ops::Bound::Unbounded).expect("readable");
    let mut values = Vec::new();
    while let Some((key, row)) = entries.next().expect("readable") {
        decoder.decode(&table, key, row, |row| values.push(row[1] == saki_base::ValueRef::Int8(7))).expect("an entry");
    }
    assert_eq!(
        values,
        (0..100).filter(|id| !(40..60).contains(id)).map(|id| (20..40).contains(&id)).collect::<Vec<_>>()
    );
}

/// Row ids with what becomes of their rows; what is added says its id.
struct Keyless(Vec<(Vec<u8>, Option<Vec<u8>>)>, usize);

impl ChangeSource for Keyless {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        self.1 += 1;
        Ok(self.0.get(self.1 - 1).map(|(key, row)| (key.as_slice(), row.as_deref())))
    }
}

#[test]
fn segments_of_a_table_without_a_key_are_built_anew_where_rows_change() {
    // Few changes and many; in the middle, at both ends, of several neighbours; rows that come between others.
    let strokes: [&[(std::ops::Range<i64>, i64)]; 7] = [
        &[(800..801, 1)],
        &[(0..10, 2), (4_900..5_100, 3)],
        &[(1_500..1_600, -1), (3_000..3_900, 4)],
        &[(1_400..4_000, -1)],
        &[(1_500..4_500, 5)],
        &[(0..1_300, -1), (6_000..8_500, 6)],
        &[(10..30, 7), (8_400..8_500, -1)],
    ];
    let bench = Bench::new(Shape { keyed: false, ..Shape::default() });
    let mut rows: Rows = (0..5_000).map(|id| (id, 0)).collect();
    bench.load(rows.clone().into_iter()).expect("loaded");
    for stroke in strokes {
        let mut changes = Vec::new();
        for (ids, v) in stroke {
            for id in ids.clone() {
                let (key, row) = crate::fixture::keyless_entry(&bench.table(), id, id, *v);
                changes.push((key, (*v >= 0).then_some(row)));
                if *v >= 0 {
                    rows.insert(id, *v)
                } else {
                    rows.remove(&id)
                };
            }
        }
        bench.db().merge("t", &mut Keyless(changes, 0), &Pace::full()).expect("merged");
        let moment = bench.moment();
        assert_eq!(moment.range(), rows);
        assert_eq!(moment.columns(), rows);
        let generation = bench.db().generation();
        let segments = generation.segments(&bench.table()).expect("readable").expect("columns are on");
        assert!(segments.segments.iter().all(|segment| (1..=700).contains(&segment.rows)));
        bench.check();
    }
}
