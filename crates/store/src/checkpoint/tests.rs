use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use saki_base::Random;
use saki_catalog::Table;
use saki_io::Device;

use crate::fixture::{Bench, Rows, Shape, decoded, entry, make_table, open_on, options, simulated, table};
use crate::locks::{LockMode, LockOwner, Stop};
use crate::writer::Writer;
use crate::{CreateOptions, Database, OpenOptions, Pace, TableReader};

#[test]
fn a_checkpoint_reports_the_tables_that_had_changes() {
    let bench = Bench::new(Shape::default());
    assert!(bench.db().checkpoint(&Pace::full()).expect("merged").tables.is_empty());
    bench.commit(&[(1, Some(1)), (2, Some(2))]);
    let report = bench.db().checkpoint(&Pace::full()).expect("merged");
    let [(name, merged)] = &report.tables[..] else { panic!("{report:?}") };
    assert_eq!((name.as_str(), merged.inserted), ("t", 2));
    assert_eq!(bench.table().merged_through, report.through);
    assert!(bench.db().checkpoint(&Pace::full()).expect("merged").through >= report.through);
}

#[test]
fn merged_through_never_goes_back() {
    let bench = Bench::new(Shape::default());
    let mut last = 0;
    for id in 0..6 {
        bench.commit(&[(id, Some(id))]);
        if id % 2 == 0 {
            drop(bench.db().alone(&["t".to_owned()]).expect("alone"));
        } else {
            bench.merge();
        }
        let merged_through = bench.table().merged_through;
        assert!(merged_through >= last);
        last = merged_through;
    }
    assert_eq!(bench.moment().range(), (0..6).map(|id| (id, id)).collect::<Rows>());
}

#[test]
fn whoever_is_alone_finds_all_rows_in_the_base_and_an_empty_delta() {
    let bench = Bench::new(Shape::default());
    let untouched = bench.table().delta;
    drop(bench.db().alone(&["t".to_owned()]).expect("alone"));
    assert_eq!(bench.table().delta, untouched, "there was nothing in it");
    bench.commit(&[(1, Some(1)), (2, Some(2))]);
    let _alone = bench.db().alone(&["t".to_owned()]).expect("alone");
    let table = bench.table();
    assert_eq!(table.root.entries, 2);
    assert_ne!(table.delta, untouched);
    let moment = bench.moment();
    assert_eq!(moment.snapshot.generation.delta(&table).expect("a delta").rows(), 0);
    assert_eq!(moment.range(), Rows::from([(1, 1), (2, 2)]));
    let owner = LockOwner::new(bench.db().locks());
    assert!(!owner.try_weak(table.id, LockMode::AccessShare), "nobody uses it meanwhile");
}

#[test]
fn rows_stay_in_memory_while_an_older_snapshot_is_held() {
    let bench = Bench::new(Shape::default());
    let held = bench.db().generation();
    bench.commit(&[(1, Some(1)), (2, Some(2))]);
    bench.merge();
    let in_memory = || bench.db().generation().delta(&bench.table()).expect("a delta").rows();
    bench.db().release_merged().expect("nothing");
    assert_eq!(in_memory(), 2);
    drop(held);
    bench.db().release_merged().expect("released");
    assert_eq!(in_memory(), 0);
    assert_eq!(bench.moment().range(), Rows::from([(1, 1), (2, 2)]));
}

#[test]
fn what_was_not_merged_comes_back_from_the_logs() {
    let mut bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1)), (2, Some(2))]);
    bench.merge();
    bench.commit(&[(2, None), (3, Some(3))]);
    bench.reopen();
    assert_eq!(bench.moment().range(), Rows::from([(1, 1), (3, 3)]));
    assert_eq!(bench.table().root.entries, 2, "it is in the delta");
}

#[test]
fn a_database_that_was_closed_is_one_file() {
    let mut bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1))]);
    assert!(bench.path().with_extension("log").is_dir());
    bench.db().close().expect("closed");
    assert!(!bench.path().with_extension("log").exists());
    bench.reopen();
    assert!(bench.db().recovery().is_none());
    bench.db().start_engine().expect("started anew");
    bench.commit(&[(2, Some(2))]);
    assert_eq!(bench.moment().range(), Rows::from([(1, 1), (2, 2)]));
}

#[test]
fn a_table_that_was_merged_alone_meanwhile_is_passed_by() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1))]);
    let moved_on = bench.db().write(|writer| {
        // As if a statement alone had merged it later than any moment of now.
        let table = Table::clone(writer.catalog.table("t")?);
        writer.catalog.put(Table { merged_through: u64::MAX, ..table });
        Ok(())
    });
    moved_on.expect("published");
    bench.db().checkpoint(&Pace::full()).expect("passed by");
    assert_eq!(bench.table().merged_through, u64::MAX);
}

/// Adds one to the rows of these ids in one transaction; whether it was acknowledged.
fn adds_one(bench: &Bench, ids: [i64; 2]) -> bool {
    let added = bench.transact(|table, delta, transaction| {
        for id in ids {
            let (key, _) = entry(table, id, 0);
            let mut base = bench.db().base_reader();
            let row = TableReader::new(table, delta, &*transaction).get(&mut base, &key)?.expect("a row");
            let (_, v) = decoded(table, &key, &row);
            let (_, row) = entry(table, id, v + 1);
            delta.write(transaction, &key, Some(&row))?;
        }
        Ok(())
    });
    added.is_ok()
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_beside_checkpoints_and_over_reopenings() {
    const IDS: i64 = 40;
    let mut bench = Bench::new(Shape::default());
    bench.commit(&(0..IDS).map(|id| (id, Some(0))).collect::<Vec<_>>());
    let acknowledged: Vec<AtomicI64> = (0..IDS).map(|_| AtomicI64::new(0)).collect();
    for round in 0..4 {
        let began = Instant::now();
        let goes_on = || began.elapsed() < Duration::from_millis(500);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (bench, acknowledged) = (&bench, &acknowledged);
                scope.spawn(move || {
                    let mut random = Random::new(round * 10 + writer);
                    while goes_on() {
                        let first = random.below(IDS as u64) as i64;
                        let ids = [first, (first + 1 + random.below(IDS as u64 - 1) as i64) % IDS];
                        if adds_one(bench, ids) {
                            ids.iter().for_each(|id| _ = acknowledged[*id as usize].fetch_add(1, Ordering::Relaxed));
                        }
                    }
                });
            }
            scope.spawn(|| {
                while goes_on() {
                    bench.merge();
                    bench.db().release_merged().expect("released");
                }
            });
        });
        let expected: Rows = (0..).zip(acknowledged.iter().map(|count| count.load(Ordering::Relaxed))).collect();
        assert_eq!(bench.moment().range(), expected, "round {round}");
        bench.reopen();
        assert_eq!(bench.moment().range(), expected, "round {round}, opened again");
        assert_eq!(bench.moment().columns(), expected, "round {round}, opened again");
    }
    assert!(acknowledged.iter().map(|count| count.load(Ordering::Relaxed)).sum::<i64>() > 100);
    bench.merge();
    bench.check();
}

#[test]
fn a_checkpoint_that_fails_leaves_deltas_and_logs_as_they_were() {
    let device = simulated();
    let mut bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    let rows: Rows = (0..500).map(|id| (id, id)).collect();
    bench.commit(&rows.iter().map(|(id, v)| (*id, Some(*v))).collect::<Vec<_>>());
    device.faults().set_full(true);
    assert_eq!(bench.db().checkpoint(&Pace::full()).expect_err("no room").sqlstate(), "53100");
    assert_eq!(bench.moment().range(), rows);
    bench.commit(&[(500, Some(500))]);
    bench.reopen();
    device.faults().heal();
    let rows: Rows = (0..501).map(|id| (id, id)).collect();
    assert_eq!(bench.moment().range(), rows, "all of it was in the logs");
    bench.merge();
    assert_eq!(bench.table().root.entries, 501);
    bench.check();
}

#[test]
fn a_power_loss_after_a_checkpoint_finds_it_and_what_came_later_in_the_logs() {
    let device = simulated();
    let bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.commit(&[(1, Some(1)), (2, Some(2))]);
    bench.merge();
    bench.commit(&[(2, None), (3, Some(3))]);
    let found = device.crash(5) as Arc<dyn Device>;
    let path = bench.path();
    let directory = bench.close();
    let db = open_on(&found, &path, options()).expect("opened");
    assert_eq!(db.generation().catalog.table("t").expect("made").root.entries, 2);
    db.checkpoint(&Pace::full()).expect("merged");
    let generation = db.generation();
    let table = generation.catalog.table("t").expect("made");
    let mut base = db.base_reader();
    for (id, there) in [(1, true), (2, false), (3, true)] {
        let (key, _) = entry(table, id, 0);
        assert_eq!(base.get(&table.root, &key).expect("readable").is_some(), there, "row {id}");
    }
    drop(directory);
}

/// A database whose deltas may take so much, on a device; where its logs lie.
fn limited(shape: Shape, delta_limit_bytes: u64) -> (Bench, Arc<dyn Device>, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("database");
    let device = simulated() as Arc<dyn Device>;
    let volume = saki_volume::VolumeOptions::new(CreateOptions::default().page_size);
    drop(saki_volume::Volume::create(Arc::clone(&device), volume).expect("created"));
    let db = open_on(&device, &path, OpenOptions { delta_limit_bytes, ..options() }).expect("opened");
    make_table(&db, shape);
    (Bench::around(db), device, directory)
}

/// Adds rows until that is refused; why it was.
fn fill(bench: &Bench) -> Option<saki_catalog::SqlError> {
    let rows = |first: i64| (first..first + 100).map(|id| (id, Some(id))).collect::<Vec<_>>();
    (100..100_000).step_by(100).find_map(|first| bench.try_commit(&rows(first)).err())
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_snapshot_that_is_held_stops_writers_at_the_limit_and_they_go_on_after_its_end() {
    let (bench, ..) = limited(Shape::default(), 1 << 20);
    let (db, go_on) = (bench.db(), Stop::default());
    bench.commit(&[(1, Some(1))]);
    let held = bench.moment();
    let session = LockOwner::new(db.locks());
    session.set_process(4711);
    session.set_seen(held.snapshot.generation.number());
    assert!(db.wait_for_room(&go_on, Duration::ZERO).expect("not told to stop"));
    let refused = fill(&bench).expect("there is a limit");
    assert_eq!(refused.sqlstate(), "53200", "{refused}");
    assert!(refused.hint.is_some());
    let used = db.engine().expect("started").database.used_bytes();
    assert!((1 << 20..(1 << 20) + (128 << 10)).contains(&used), "{used}");

    // Merges go on, and do not help.
    bench.merge();
    assert!(!db.wait_for_room(&go_on, Duration::from_millis(600)).expect("not told to stop"));
    let error = db.no_room();
    assert_eq!(error.sqlstate(), "53200");
    assert!(error.detail.as_deref().expect("known").contains("process 4711"), "{error:?}");
    assert!(error.hint.as_deref().expect("known").contains("pg_terminate_backend(4711)"), "{error:?}");
    session.release_all();
    let detail = db.no_room().detail.expect("known");
    assert!(detail.starts_with("A snapshot that is older than") && !detail.contains("process"), "{detail}");
    let stop = Stop::default();
    stop.tell();
    assert_eq!(db.wait_for_room(&stop, LONG).expect_err("told to stop").sqlstate(), "57014");
    assert_eq!(held.range(), Rows::from([(1, 1)]));

    drop(held);
    assert!(db.wait_for_room(&go_on, LONG).expect("not told to stop"), "{:?}", db.no_room());
    bench.commit(&[(2, Some(2))]);
    bench.check();
}

#[test]
fn without_old_snapshots_writers_who_wait_get_room() {
    let (bench, ..) = limited(Shape::default(), 1 << 20);
    for first in (0..100_000).step_by(100) {
        assert!(bench.db().wait_for_room(&Stop::default(), LONG).expect("not told to stop"), "{first}");
        bench.commit(&(first..first + 100).map(|id| (id, Some(id))).collect::<Vec<_>>());
    }
    bench.merge();
    assert_eq!(bench.table().root.entries, 100_000);
}

#[test]
fn resident_rows_are_not_counted() {
    let (bench, ..) = limited(Shape { resident: true, ..Shape::default() }, 64 << 10);
    for first in (0..10_000).step_by(100) {
        assert!(bench.db().has_room(), "{first}");
        bench.commit(&(first..first + 100).map(|id| (id, Some(id))).collect::<Vec<_>>());
    }
}

#[test]
fn more_than_the_limit_is_brought_back_from_the_logs_and_merged() {
    let (bench, device, directory) = limited(Shape::default(), 1 << 30);
    bench.commit(&(0..20_000).map(|id| (id, Some(id))).collect::<Vec<_>>());
    drop(bench);
    let open = OpenOptions { delta_limit_bytes: 64 << 10, ..options() };
    let db: Arc<Database> = open_on(&device, &directory.path().join("database"), open).expect("opened");
    let bench = Bench::around(db);
    assert_eq!(bench.moment().range().len(), 20_000);
    assert!(bench.db().wait_for_room(&Stop::default(), LONG).expect("not told to stop"), "{:?}", bench.db().no_room());
    bench.commit(&[(1, Some(2))]);
}

/// A table of another name.
fn named(writer: &mut Writer<'_>, name: &str) -> Table {
    let mut table = Table { name: name.to_owned(), ..table(&mut writer.catalog, Shape::default()) };
    table.indexes[0].name = format!("{name}_v");
    table
}

/// Names of the documents that a publication writes which `change` makes, among so many other tables.
fn written(others: usize, change: impl FnOnce(&Bench)) -> Vec<String> {
    let bench = Bench::new(Shape::default());
    let made = bench.db().write(|writer| {
        for other in 0..others {
            let table = named(writer, &format!("other{other}"));
            writer.catalog.put(table);
        }
        Ok(())
    });
    made.expect("made");
    bench.commit(&[(0, Some(0))]);
    bench.merge();
    let before = bench.db().generation();
    change(&bench);
    let after = bench.db().generation();
    bench.check();
    let documents = after.catalog.changed_documents(&before.catalog).expect("documents").into_iter();
    documents.map(|(name, _)| name).collect()
}

#[test]
fn what_a_change_writes_does_not_depend_on_how_many_tables_there_are() {
    let make = |bench: &Bench| {
        let made = bench.db().write(|writer| {
            let table = named(writer, "new");
            writer.catalog.put(table);
            Ok(())
        });
        made.expect("made");
    };
    let merge = |bench: &Bench| {
        bench.commit(&[(1, Some(1))]);
        bench.merge();
    };
    for others in [40, 400] {
        assert_eq!(written(others, make), ["", "logs", "table new"]);
        assert_eq!(written(others, merge), ["", "logs", "table t"]);
        assert_eq!(written(others, |bench| bench.merge()), ["", "logs"], "nobody has changed rows");
    }
}

/// What is not merged since nobody has changed it stays readable, and what comes later is not lost with the logs.
#[test]
fn a_table_that_was_passed_by_is_merged_when_it_has_changed() {
    let mut bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1))]);
    bench.merge();
    let merged_through = bench.table().merged_through;
    for _ in 0..3 {
        bench.merge();
        bench.db().release_merged().expect("released");
    }
    assert_eq!(bench.table().merged_through, merged_through, "its document is as it was");
    bench.commit(&[(1, Some(7)), (2, Some(2))]);
    bench.reopen();
    assert_eq!(bench.moment().range(), Rows::from([(1, 7), (2, 2)]));
    bench.merge();
    assert!(bench.table().merged_through > merged_through);
    bench.reopen();
    assert_eq!(bench.moment().range(), Rows::from([(1, 7), (2, 2)]));
    bench.check();
}
