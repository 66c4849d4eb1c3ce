use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use saki_catalog::Result;
use saki_mvcc::{Direction, Isolation, KeyRange};

use super::{BaseReader, IndexEntries, Missed, Missing, Point, TableReader};
use crate::database::Database;
use crate::fixture::{Bench, Moment, Rows, Shape, entry};

/// Every path sees these rows and no others.
fn sees(moment: &Moment, rows: &Rows) {
    assert_eq!(&moment.range(), rows, "a range");
    assert_eq!(&moment.pipeline(), rows, "a pipeline");
    assert_eq!(&moment.columns(), rows, "columns");
    let mut values = BTreeMap::new();
    rows.values().for_each(|v| *values.entry(*v).or_insert(0) += 1);
    assert_eq!(moment.values(), values, "an index");
    // All pages have been read by now.
    for by_index in [false, true] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let short = moment.short(by_index, direction).expect("in memory");
            assert_eq!(&short, rows, "a short range {direction:?}, by index: {by_index}");
        }
    }
    for v in values.keys().chain([&-1]) {
        let with_value: Rows = rows.iter().filter(|(_, other)| *other == v).map(|(id, v)| (*id, *v)).collect();
        assert_eq!(moment.with_value(*v), with_value, "rows of {v}");
    }
    for id in rows.keys().map(|id| id + 1).chain(rows.keys().copied()).chain([-1]) {
        assert_eq!(moment.point(id), rows.get(&id).copied(), "row {id}");
    }
}

fn rows(of: impl IntoIterator<Item = (i64, i64)>) -> Rows {
    of.into_iter().collect()
}

#[test]
fn what_is_newer_hides_what_is_merged_on_every_path() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(10)), (2, Some(20)), (3, Some(30))]);
    bench.merge();
    bench.commit(&[(2, Some(21)), (3, None), (4, Some(40))]);
    sees(&bench.moment(), &rows([(1, 10), (2, 21), (4, 40)]));
}

#[test]
fn a_release_between_two_looks_changes_nothing() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(10)), (2, Some(20)), (3, Some(30))]);
    bench.merge();
    bench.commit(&[(1, Some(11)), (2, None)]);
    bench.merge();
    let all = rows([(1, 11), (3, 30)]);
    let before = bench.moment();
    let mut runner = bench.db().engine().expect("started").runner().expect("not too many");
    let transaction = runner.begin(Isolation::Snapshot);
    bench.db().release_merged().expect("released");
    assert!(before.snapshot.generation.delta(before.table()).expect("a delta").rows() < 3, "rows have left");
    sees(&before, &all);
    let delta = before.snapshot.generation.delta(before.table()).expect("a delta");
    let (key, _) = entry(before.table(), 1, 0);
    let base = bench.db().base_reader();
    let reader = TableReader::new(before.table(), delta, &transaction);
    assert!(matches!(reader.get_cached(&base, &key, <[u8]>::len), Ok(Point::Row(_))));
}

#[test]
fn an_old_snapshot_keeps_what_it_sees_over_merges_and_releases() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(10)), (2, Some(20))]);
    bench.merge();
    bench.commit(&[(1, Some(11)), (3, Some(30))]);
    let old = bench.moment();
    bench.commit(&[(1, None), (2, Some(22))]);
    for _ in 0..2 {
        bench.merge();
        bench.db().release_merged().expect("released");
    }
    sees(&old, &rows([(1, 11), (2, 20), (3, 30)]));
    drop(old);
    bench.db().release_merged().expect("released");
    sees(&bench.moment(), &rows([(2, 22), (3, 30)]));
}

#[test]
fn rows_that_were_released_come_again() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(10)), (2, Some(20))]);
    bench.merge();
    bench.db().release_merged().expect("released");
    bench.commit(&[(1, Some(11)), (2, None)]);
    sees(&bench.moment(), &rows([(1, 11)]));
    bench.merge();
    bench.commit(&[(2, Some(22))]);
    sees(&bench.moment(), &rows([(1, 11), (2, 22)]));
}

#[test]
fn the_first_to_commit_wins_over_a_merge_and_a_release() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(10))]);
    bench.merge();
    bench.db().release_merged().expect("released");
    let generation = bench.db().generation();
    let table = generation.catalog.table("t").expect("made");
    let delta = generation.delta(table).expect("a delta");
    let (key, row) = entry(table, 1, 12);
    let mut runner = bench.db().engine().expect("started").runner().expect("not too many");
    let mut late = runner.begin(Isolation::Snapshot);
    bench.commit(&[(1, Some(11))]);
    bench.merge();
    bench.db().release_merged().expect("nothing, since the snapshot is held");
    assert!(matches!(delta.write(&mut late, &key, Some(&row)), Err(saki_mvcc::Error::Conflict { .. })));
    drop(late);
    let mut next = runner.begin(Isolation::Snapshot);
    delta.write(&mut next, &key, Some(&row)).expect("the version it meets is one that it sees");
    let pending = TableReader::new(table, delta, &next);
    let base = bench.db().base_reader();
    assert!(matches!(pending.get_cached(&base, &key, <[u8]>::to_vec), Ok(Point::Row(seen)) if seen == row));
    next.commit().expect("committed");
    assert_eq!(bench.moment().point(1), Some(12));
}

#[test]
fn a_resident_table_is_read_in_memory_after_a_merge() {
    let bench = Bench::new(Shape { resident: true, ..Shape::default() });
    bench.commit(&[(1, Some(10)), (2, Some(20))]);
    bench.merge();
    bench.db().release_merged().expect("released");
    bench.commit(&[(2, None), (3, Some(30))]);
    let moment = bench.moment();
    sees(&moment, &rows([(1, 10), (3, 30)]));
    bench.db().drop_caches();
    let (key, _) = entry(moment.table(), 1, 0);
    let cached = moment.read(|reader, base| reader.get_cached(base, &key, <[u8]>::len).expect("readable"));
    assert!(matches!(cached, Point::Row(_)), "no page is needed");
}

#[test]
fn a_view_of_a_merged_table_has_no_delta_although_its_rows_are_in_memory() {
    let bench = Bench::new(Shape::default());
    let held = bench.moment();
    bench.commit(&(0..1000).map(|id| (id, Some(1))).collect::<Vec<_>>());
    bench.merge();
    bench.db().release_merged().expect("nothing, since a snapshot is held");
    let merged = bench.moment();
    assert!(merged.snapshot.generation.delta(merged.table()).expect("a delta").rows() >= 1000);
    assert!(merged.snapshot.delta(merged.table()).is_none());
    bench.commit(&[(5000, Some(1))]);
    let changed = bench.moment();
    assert!(changed.snapshot.delta(changed.table()).is_some());
    assert!(held.snapshot.delta(held.table()).is_none());
}

#[test]
#[should_panic(expected = "up to which its generation has everything")]
fn a_moment_before_the_generation_is_refused() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(10))]);
    let early = bench.moment();
    bench.commit(&[(1, Some(11))]);
    bench.merge();
    let generation = bench.db().generation();
    let table = generation.catalog.table("t").expect("made");
    let eyes = early.snapshot.reader().expect("not too many");
    let _ = TableReader::new(table, generation.delta(table).expect("a delta"), &eyes);
}

/// Rows of the table below: some leaves, some segments.
const MANY: i64 = 10_000;

/// All rows of the table have one value, whichever.
fn is_whole(moment: &Moment, path: usize) -> bool {
    let is_one = |rows: &Rows| {
        let first = rows.values().next().copied();
        rows.len() == MANY as usize && rows.values().all(|v| Some(*v) == first)
    };
    match path {
        0 => is_one(&moment.range()),
        1 => is_one(&moment.pipeline()),
        2 => is_one(&moment.columns()),
        3 => moment.values().values().eq([&(MANY as usize)]),
        4 => moment.short(false, Direction::Reverse).is_none_or(|rows| is_one(&rows)),
        5 => moment.short(true, Direction::Forward).is_none_or(|rows| is_one(&rows)),
        _ => {
            let found: Vec<Option<i64>> = (0..MANY).step_by(97).map(|id| moment.point(id)).collect();
            found[0].is_some() && found.iter().all(|v| *v == found[0])
        }
    }
}

#[test]
fn readers_and_updates_see_whole_commits_beside_merges_and_releases() {
    let bench = Bench::new(Shape::default());
    bench.commit(&(0..MANY).map(|id| (id, Some(0))).collect::<Vec<_>>());
    let (is_over, updates, reads) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let go_on = || began.elapsed() < Duration::from_secs(4) && !is_over.load(Ordering::Relaxed);
    // What goes wrong ends the others.
    let ends = |is_right: bool, what: &str| {
        is_over.fetch_or(!is_right, Ordering::Relaxed);
        assert!(is_right, "{what}");
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while go_on() {
                bench.merge();
                bench.db().release_merged().expect("released");
            }
        });
        scope.spawn(|| {
            while go_on() {
                let updated = bench.transact(|table, delta, transaction| {
                    let mut found = Vec::new();
                    let mut base = bench.db().base_reader();
                    TableReader::new(table, delta, &*transaction).range(
                        &mut base,
                        &saki_mvcc::KeyRange::all(),
                        |key, row| {
                            found.push((key.to_vec(), row.to_vec()));
                            Ok(std::ops::ControlFlow::Continue(()))
                        },
                    )?;
                    let next = updates.load(Ordering::Relaxed) as i64 + 1;
                    for (key, _) in &found {
                        let (_, row) = entry(table, 0, next);
                        delta.write(transaction, key, Some(&row))?;
                    }
                    Ok(found.len())
                });
                ends(updated.expect("nobody else writes") == MANY as usize, "an update meets all rows");
                updates.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            for path in (0..7).cycle() {
                if !go_on() {
                    break;
                }
                ends(is_whole(&bench.moment(), path), &format!("path {path} sees no commit's rows"));
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    assert!(updates.into_inner() > 0 && reads.into_inner() >= 7);
    bench.merge();
    bench.check();
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(i64, Option<i64>)>),
    Load(Vec<i64>),
    Merge,
    Release,
    Hold,
    Truncate,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0..40_i64, prop::option::weighted(0.7, 0..12_i64));
    prop_oneof![
        8 => prop::collection::vec(change, 1..12).prop_map(Step::Commit),
        2 => prop::collection::vec(0..40_i64, 1..20).prop_map(Step::Load),
        4 => Just(Step::Merge),
        4 => Just(Step::Release),
        3 => Just(Step::Hold),
        1 => Just(Step::Truncate),
        1 => Just(Step::Reopen),
    ]
}

fn run(steps: Vec<Step>, resident: bool) {
    let mut bench = Bench::new(Shape { resident, ..Shape::default() });
    let mut model = Rows::new();
    let mut held: Vec<(Moment, Rows)> = Vec::new();
    for step in steps {
        match step {
            Step::Commit(changes) => {
                bench.commit(&changes);
                for (id, v) in changes {
                    match v {
                        Some(v) => model.insert(id, v),
                        None => model.remove(&id),
                    };
                }
            }
            Step::Load(ids) => {
                let new: Rows = ids.into_iter().filter(|id| !model.contains_key(id)).map(|id| (id, id % 5)).collect();
                let loaded = bench.load(new.iter().map(|(id, v)| (*id, *v))).expect("no key is there");
                assert_eq!(loaded, new.len() as u64);
                model.extend(new);
            }
            Step::Merge => bench.merge(),
            Step::Release => bench.db().release_merged().expect("released"),
            Step::Hold => {
                held.truncate(2);
                held.insert(0, (bench.moment(), model.clone()));
            }
            Step::Truncate => {
                bench.truncate();
                model.clear();
            }
            Step::Reopen => {
                held.clear();
                bench.reopen();
            }
        }
        sees(&bench.moment(), &model);
        held.iter().for_each(|(moment, rows)| sees(moment, rows));
    }
    bench.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_map_whatever_is_merged_and_released(steps in prop::collection::vec(step(), 1..24), resident: bool) {
        run(steps, resident);
    }
}

/// Waits until what was missing is in memory.
fn fetch(db: &Database, missing: Missing, attempted: u32) -> Result<()> {
    let (tell, told) = channel();
    missing.fetch(db, db.generation(), attempted, move |came_of_it| tell.send(came_of_it).expect("awaited"))?;
    told.recv().expect("told")
}

#[test]
fn sessions_that_miss_pages_at_once_hear_of_their_own() {
    const ROWS: i64 = 2000;
    let mut bench = Bench::new(Shape::default());
    bench.commit(&(0..ROWS).map(|id| (id, Some(id))).collect::<Vec<_>>());
    bench.merge();
    bench.reopen();
    let (db, generation) = (bench.db(), bench.db().generation());
    let table = generation.catalog.table("t").expect("made");
    // A page of another tree in the place of the root.
    let mut rotten = table.root;
    rotten.root = table.indexes[0].root.root;
    let (tell, told) = channel();
    for id in 0..200 {
        let (key, _) = entry(table, id * ROWS / 200, 0);
        let missing = Missing::key(if id % 50 == 7 { &rotten } else { &table.root }, &key);
        let tell = tell.clone();
        let told = move |came_of_it: Result<()>| tell.send((id, came_of_it.is_ok())).expect("awaited");
        missing.fetch(db, Arc::clone(&generation), 0, told).expect("threads");
    }
    let mut said: Vec<(i64, bool)> = told.iter().take(200).collect();
    said.sort_unstable();
    assert!(said.iter().copied().eq((0..200).map(|id| (id, id % 50 != 7))), "{said:?}");
    let missed = Missed::default();
    for id in (0..200).filter(|id| id % 50 != 7) {
        let (key, row) = entry(table, id * ROWS / 200, id * ROWS / 200);
        assert_eq!(db.memory_reader(&missed).get(&table.root, &key).expect("in memory"), Some(row));
    }
}

#[test]
fn what_is_not_in_memory_is_noted_and_found_once_it_was_fetched() {
    let mut bench = Bench::new(Shape::default());
    bench.commit(&(0..50).map(|id| (id, Some(id))).collect::<Vec<_>>());
    bench.merge();
    bench.reopen();
    let (generation, missed) = (bench.db().generation(), Missed::default());
    let table = generation.catalog.table("t").expect("made");
    let (key, row) = entry(table, 7, 7);
    let all = (Bound::Unbounded, Bound::Unbounded);
    let got = bench.db().memory_reader(&missed).get(&table.root, &key);
    let missing = missed.take().expect("nothing was in memory");
    assert!(got.is_err() && missing == Missing::key(&table.root, &key), "{missing:?}");
    fetch(bench.db(), missing, 0).expect("read");
    assert_eq!(bench.db().memory_reader(&missed).get(&table.root, &key).expect("in memory"), Some(row));
    let index = &table.indexes[0].root;
    assert!(bench.db().memory_reader(&missed).range(index, all.0, all.1).is_err());
    fetch(bench.db(), missed.take().expect("the index was not in memory"), 0).expect("read");
    let mut base = bench.db().memory_reader(&missed);
    let mut range = base.range(index, all.0, all.1).expect("in memory");
    let mut entries = 0;
    while range.next().expect("in memory").is_some() {
        entries += 1;
    }
    assert_eq!((entries, missed.take()), (50, None));
}

/// Whoever may not wait does not read much either, in the base or in the delta.
#[test]
fn a_long_range_is_not_read_from_memory_alone() {
    for merged in [false, true] {
        let bench = Bench::new(Shape::default());
        bench.commit(&(0..4001).map(|id| (id, Some(id))).collect::<Vec<_>>());
        if merged {
            bench.merge();
        }
        let (moment, missed) = (bench.moment(), Missed::default());
        // What is missing once all pages are in memory.
        let missing = |read: &mut dyn FnMut(&mut BaseReader<'_>) -> bool| {
            for attempt in 0.. {
                assert!(!read(&mut bench.db().memory_reader(&missed)), "merged: {merged}");
                match missed.take() {
                    Some(pages @ Missing::Pages { .. }) => fetch(bench.db(), pages, attempt).expect("read"),
                    other => return other,
                }
            }
            unreachable!("it ends at some number of entries");
        };
        moment.read(|reader, _| {
            let all = KeyRange::all();
            let mut range =
                |base: &mut BaseReader<'_>| reader.range(base, &all, |_, _| Ok(ControlFlow::Continue(()))).is_ok();
            assert_eq!(missing(&mut range), Some(Missing::Long), "merged: {merged}");
            let entries = IndexEntries::new(moment.table(), 0);
            let mut by_index =
                |base: &mut BaseReader<'_>| reader.index_prefix(base, &entries, &[], |_, _| Ok(())).is_ok();
            assert_eq!(missing(&mut by_index), Some(Missing::Long), "merged: {merged}");
        });
    }
}

/// The second reader of columns is shown what the first has worked out, and looks at none of it itself.
#[test]
fn whoever_is_shown_what_others_worked_out_rests_on_the_same_commits() {
    let (bench, logs) = Bench::on_logs();
    bench.commit(&[(1, Some(1))]);
    let held = logs.hold();
    let receipt = bench.commit_early(5, 5);
    let (first, second) = (bench.moment(), bench.moment());
    for moment in [&first, &second] {
        assert_eq!(moment.columns()[&5], 5);
        let shown = moment.snapshot.receipt().expect("an engine has started");
        assert_eq!(shown.through, receipt.through, "it is told of what is not durable");
    }
    drop(held);
    bench.wait(receipt);
}
