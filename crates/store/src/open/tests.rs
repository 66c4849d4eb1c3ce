use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI64, Ordering};

use saki_base::Random;
use saki_base::bytes::{u16_at, u32_at, u64_at};

use super::*;
use crate::StillLogs;
use crate::fixture::logs::damage_logs;
use crate::fixture::{Bench, Rows, Shape, open_on, options, simulated};

fn refused(opened: Result<Arc<Database>>) -> SqlError {
    opened.map(drop).expect_err("refused")
}

#[test]
fn what_is_no_database_is_not_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("database");
    refused(Database::open(&path, options()));
    std::fs::write(&path, vec![0; 1 << 20]).expect("written");
    refused(Database::open(&path, options()));
    let model = OpenOptions { model: Some("no such model".to_owned()), ..options() };
    refused(Database::create(directory.path().join("other"), CreateOptions { open: model, ..Default::default() }));
}

#[test]
fn a_database_without_its_logs_is_not_opened() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1))]);
    let path = bench.path();
    let directory = bench.close();
    LogDirectory::beside(&path).remove().expect("removed");
    let error = refused(Database::open(&path, options()));
    assert!(error.message.contains("the logs of the database are not there"), "{}", error.message);
    drop(directory);
}

#[test]
fn reading_only_needs_a_database_without_logs() {
    let bench = Bench::new(Shape::default());
    bench.load([(1, 1)].into_iter()).expect("loaded");
    bench.commit(&[(2, Some(2))]);
    let path = bench.path();
    let directory = bench.close();
    let read_only = OpenOptions { read_only: true, ..options() };
    assert_eq!(refused(Database::open(&path, read_only.clone())).sqlstate(), "25006");
    let stored = OpenOptions { base_only: true, ..read_only.clone() };
    let base = Database::open(&path, stored).expect("what is stored");
    assert_eq!(base.generation().catalog.table("t").expect("made").root.entries, 1);
    drop(base);
    Database::open(&path, options()).and_then(|db| db.close()).expect("merged");
    let db = Database::open(&path, read_only).expect("one file");
    assert_eq!(db.generation().catalog.table("t").expect("made").root.entries, 2);
    assert!(db.write(|_| Ok(())).is_err(), "it is not changed");
    drop(directory);
}

#[test]
fn dropped_caches_are_read_again() {
    let bench = Bench::new(Shape::default());
    let rows: Rows = (0..2_000).map(|id| (id, id)).collect();
    bench.load(rows.clone().into_iter()).expect("loaded");
    bench.db().drop_caches();
    assert_eq!(bench.moment().columns(), rows);
}
#[test]
fn files_of_a_database_are_their_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::create(&path, CreateOptions { open: options(), ..CreateOptions::default() }).unwrap();
    database.start_engine().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    for entry in std::fs::read_dir(path.with_extension("log")).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn what_damaged_logs_have_lost_is_lost_only_if_somebody_accepts_that() {
    let bench = Bench::new(Shape::default());
    bench.load((0..100).map(|id| (id, 0))).expect("loaded");
    (0..60).for_each(|id| bench.commit(&[(id, Some(1))]));
    let path = bench.path();
    let directory = bench.close();
    damage_logs(&path);
    let error = refused(Database::open(&path, options()));
    assert!(error.message.contains("accept the loss"), "{error}");
    refused(Database::open(&path, options()));
    let accepting = OpenOptions { accept_loss: true, ..options() };
    let db = Database::open(&path, accepting).expect("accepted");
    let found = db.recovery().expect("there are logs").records;
    assert!((1..60).contains(&found), "{found} commits before the damage");
    drop(db);
    let again = Database::open(&path, options()).expect("mended");
    assert_eq!(again.generation().catalog.table("t").expect("made").root.entries, 100);
    drop((again, directory));
}

#[test]
fn whoever_accepts_a_loss_loses_nothing_of_sound_logs() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1)), (2, Some(2))]);
    let path = bench.path();
    let directory = bench.close();
    let open = |accept_loss| Database::open(&path, OpenOptions { accept_loss, ..options() }).expect("opened");
    let bench = Bench::around(open(true));
    assert_eq!(bench.moment().range(), crate::fixture::Rows::from([(1, 1), (2, 2)]));
    drop(bench);
    std::fs::remove_dir_all(path.with_extension("log")).expect("there");
    // Nothing of them is left: the base is all there is.
    let bench = Bench::around(open(true));
    assert!(bench.moment().range().is_empty());
    bench.commit(&[(3, Some(3))]);
    drop(bench);
    let bench = Bench::around(open(false));
    assert_eq!(bench.moment().range(), crate::fixture::Rows::from([(3, 3)]));
    drop((bench, directory));
}

#[test]
fn a_lost_generation_is_gone_back_from_only_if_somebody_accepts_that() {
    let device = simulated();
    let bench = Bench::on(Arc::clone(&device) as Arc<dyn Device>, Shape::default());
    bench.load((0..100).map(|id| (id, 0))).expect("loaded");
    bench.load((100..200).map(|id| (id, 0))).expect("loaded");
    let generation = bench.db().generation().number().0;
    let path = bench.path();
    let directory = bench.close();
    let places = [0, 256 << 10, 512 << 10, 896 << 10];
    let newest: Vec<u64> = places.into_iter().filter(|place| is_of(&device, *place, generation)).collect();
    assert_eq!(newest.len(), 2, "each generation lies in two places");
    newest.iter().for_each(|place| device.flip_bit(place + 100, 0));
    let device = device as Arc<dyn Device>;
    let error = refused(open_on(&device, &path, options()));
    assert!(error.message.contains("generation"), "{}", error.message);
    let accepting = OpenOptions { accept_loss: true, ..options() };
    let db = open_on(&device, &path, accepting).expect("accepted");
    assert_eq!(db.generation().catalog.table("t").expect("made").root.entries, 100);
    drop((db, directory));
}

/// Whether the superblock of a generation lies there.
fn is_of(device: &saki_io::SimDevice, place: u64, generation: u64) -> bool {
    let mut bytes = [0; 8];
    device.peek(place + 32, &mut bytes);
    u64::from_le_bytes(bytes) == generation
}

#[test]
fn a_database_is_not_made_over_another() {
    let bench = Bench::new(Shape::default());
    let path = bench.path();
    let directory = bench.close();
    let again = CreateOptions { open: options(), ..CreateOptions::default() };
    refused(Database::create(&path, again));
    assert!(Database::open(&path, options()).is_ok(), "it is as it was");
    drop(directory);
}

#[test]
fn logs_lie_where_the_options_say() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, logs) = (directory.path().join("database"), directory.path().join("elsewhere"));
    let open = OpenOptions { log_directory: Some(logs.clone()), ..options() };
    let db = Database::create(&path, CreateOptions { open: open.clone(), ..CreateOptions::default() }).expect("made");
    db.start_engine().expect("started");
    assert!(logs.is_dir() && !path.with_extension("log").exists());
    drop(db);
    let error = refused(Database::open(&path, options()));
    assert!(error.message.contains("logs"), "{}", error.message);
    assert!(Database::open(&path, open).is_ok());
}

#[test]
fn pages_may_be_of_any_size_there_is() {
    for bytes in [4 << 10, 32 << 10, 128 << 10] {
        let page_size = saki_base::PageSize::new(bytes).expect("a page size");
        let mut bench = Bench::make(None, Shape::default(), page_size);
        let rows: Rows = (0..3_000).map(|id| (id, id % 11)).collect();
        bench.load(rows.clone().into_iter()).expect("loaded");
        bench.commit(&[(7, None)]);
        bench.merge();
        bench.reopen();
        assert_eq!(bench.db().page_size(), page_size);
        let moment = bench.moment();
        assert_eq!((moment.range().len(), moment.columns().len(), moment.point(7)), (2_999, 2_999, None), "{bytes}");
        bench.check();
    }
}

#[test]
fn a_cache_of_no_bytes_has_room_for_a_few_pages() {
    let bench = Bench::new(Shape::default());
    let rows: Rows = (0..3_000).map(|id| (id, id)).collect();
    bench.load(rows.clone().into_iter()).expect("loaded");
    let path = bench.path();
    let directory = bench.close();
    let small = OpenOptions { cache_bytes: 0, column_cache_bytes: 0, ..options() };
    let db = Database::open(&path, small).expect("opened");
    assert_eq!(db.cache.frames(), saki_page::FRAMES_MIN);
    assert_eq!(db.check(&mut |_| {}).expect("checked").rows, 3_000);
    drop((db, directory));
}

#[test]
fn plans_are_priced_by_the_model_where_there_is_one() {
    let speed = |model: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let open = OpenOptions { model: Some(model.to_owned()), ..options() };
        let created = Database::create(directory.path().join("database"), CreateOptions { open, ..Default::default() });
        created.map(|db| db.speed())
    };
    assert_eq!(speed("modeled:no such device").map(drop).expect_err("refused").sqlstate(), "42000");
    let cloud = speed("modeled:cloud-volume").expect("a model");
    assert!(cloud.latency > 1e-5 && cloud.latency < 1.0 && cloud.reads_per_second > 1.0, "{cloud:?}");
    let assumed = Bench::new(Shape::default()).db().speed();
    assert!(assumed.latency > 0.0 && assumed.bytes_per_second > assumed.reads_per_second, "{assumed:?}");
}

/// A database of 500 rows that a program wrote which knew format 3 only, in pages of 4 KiB: each block of it that is
/// not zero with its number and length.
const FORMAT_3: &[u8] = include_bytes!("golden/format-3.bin");

/// Writes out what a file was.
fn unpack(mut packed: &[u8], path: &Path) {
    let file = std::fs::File::create(path).expect("created");
    file.set_len(65 << 20).expect("made longer");
    while let Some((head, rest)) = packed.split_first_chunk::<6>() {
        let block = u64::from(u32_at(head, 0).expect("six bytes"));
        let (bytes, rest) = rest.split_at(usize::from(u16_at(head, 4).expect("six bytes")));
        file.write_all_at(bytes, block << 12).expect("written");
        packed = rest;
    }
}

/// The format of what was published last: two superblocks take turns.
fn version(path: &Path) -> u32 {
    let bytes = std::fs::read(path).expect("readable");
    let published = [0, 512 << 10].map(|at| (u64_at(&bytes, at + 32), u32_at(&bytes, at + 8)));
    published.into_iter().max().and_then(|(_, version)| version).expect("a superblock")
}

#[test]
fn a_database_of_format_3_is_read_and_goes_on_as_one_of_today() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("database");
    unpack(FORMAT_3, &path);
    let db = Database::open(&path, options()).expect("opened");
    let report = db.check(&mut |_| {}).expect("checked");
    assert_eq!((report.rows, report.faults.len(), version(&path)), (500, 0, 3));
    let is_known = |db: &Database| {
        let known = db.volume.published_chunks().into_iter().map(|chunk| !chunk.parts.is_empty());
        known.collect::<Vec<_>>()
    };
    assert!(!is_known(&db).contains(&true), "what its chunks are of it does not say");
    drop(db);
    let mut rows: Rows = (1..=500).map(|id| (id, id % 7)).collect();
    for round in 0..4 {
        let db = Database::open(&path, options()).expect("opened");
        db.start_engine().expect("started");
        let bench = Bench::around(db);
        let seen = |rows: &Rows| {
            bench.db().drop_caches();
            assert_eq!((&bench.moment().range(), &bench.moment().columns()), (rows, rows));
            bench.check();
        };
        seen(&rows);
        bench.commit(&[(round, Some(9)), (600 + round, Some(1))]);
        rows.extend([(round, 9), (600 + round, 1)]);
        bench.merge();
        seen(&rows);
        assert_eq!(version(&path), 6);
        assert!(is_known(bench.db()).contains(&true), "of what is new it does");
    }
}

/// Makes the database at `path` from what `db` is just now.
fn copy(db: &Database, path: &Path) {
    let still = db.still().expect("held");
    let restore = Restore::begin(path, still.image().image().clone(), still.logs().map(StillLogs::range), None);
    let restore = restore.expect("begun");
    let mut slots = HashMap::new();
    for (logs, extent) in still.logs().iter().flat_map(|logs| logs.extents().iter().map(move |extent| (logs, extent))) {
        let slot = slots.entry(extent.log).or_insert(0);
        for offset in (0..extent.bytes).step_by(1 << 20) {
            let length = (extent.bytes - offset).min(1 << 20) as usize;
            let Some(bytes) = logs.read(extent, offset, length).expect("read") else { continue };
            restore.write_extent(extent.log, *slot, (extent.extent_bytes, offset), &bytes).expect("written");
        }
        *slot += 1;
    }
    // Checkpoints go on from here.
    let image = still.into_image();
    let (mut reader, mut writer) = (image.reader().expect("a reader"), restore.writer().expect("a writer"));
    for chunk in &image.image().chunks {
        writer.write(chunk.chunk, &reader.read(chunk).expect("read")).expect("written");
    }
    drop((reader, writer));
    restore.finish().expect("finished");
}

/// Copied again and again while rows change, are merged, and a statement has the table for itself, a database has every
/// commit that was acknowledged before, and none in part.
#[test]
fn what_is_copied_beside_changes_is_whole() {
    const ROWS: i64 = 50;
    let bench = Bench::new(Shape::default());
    // Row 0 counts commits; the others always have the same sum.
    bench.load((0..ROWS).map(|id| (id, if id == 0 { 0 } else { 100 }))).expect("loaded");
    let (acknowledged, stop) = (AtomicI64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let (mut random, mut values) = (Random::new(3), vec![100; ROWS as usize]);
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let (from, to) = (1 + random.below(49) as usize, 1 + random.below(49) as usize);
                let amount = random.below(30) as i64;
                values[from] -= amount;
                values[to] += amount;
                number += 1;
                let row = |id: usize| (id as i64, Some(values[id]));
                let mut rows = vec![(0, Some(number)), row(from)];
                rows.extend((from != to).then(|| row(to)));
                bench.commit(&rows);
                acknowledged.store(number, Ordering::SeqCst);
            }
        });
        let merges = scope.spawn(|| {
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                match round % 3 {
                    0 => bench.db().write(|_| Ok(())).expect("published"),
                    _ => bench.merge(),
                }
            }
        });
        let copies = scope.spawn(|| {
            let directory = tempfile::tempdir().expect("a directory");
            for round in 0..8 {
                let path = directory.path().join(format!("copy-{round}"));
                let before = acknowledged.load(Ordering::SeqCst);
                copy(bench.db(), &path);
                let copied = Bench::around(Database::open(&path, options()).expect("opens by recovery"));
                let rows = copied.moment().range();
                assert!(rows[&0] >= before, "commit {before} was acknowledged, the copy ends with {}", rows[&0]);
                assert_eq!(rows.values().skip(1).sum::<i64>(), 49 * 100, "a transaction is there in part");
                // And it goes on as any other.
                copied.commit(&[(ROWS, Some(1))]);
                copied.merge();
                copied.check();
                assert_eq!(copied.moment().range().len() as i64, ROWS + 1);
            }
        });
        // Whatever came of it, the others end.
        let copied = copies.join();
        stop.store(true, Ordering::Relaxed);
        changes.join().expect("no change fails");
        merges.join().expect("no merge fails");
        copied.expect("copies are whole");
    });
}

#[test]
fn a_restoration_overwrites_nothing_and_leaves_nothing_unfinished() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1))]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("copy");
    let begin = || {
        let still = bench.db().still().expect("held");
        Restore::begin(&path, still.image().image().clone(), still.logs().map(StillLogs::range), None)
    };
    let names = || std::fs::read_dir(directory.path()).expect("readable").flatten().count();
    drop(begin().expect("begun"));
    assert_eq!(names(), 0, "an attempt that was given up leaves something");
    // As a process that was killed leaves it.
    std::mem::forget(begin().expect("begun"));
    assert_eq!(names(), 2);
    let unfinished = directory.path().join("copy.restoring");
    std::fs::copy(&unfinished, directory.path().join("seen")).expect("copied");
    assert!(Database::open(directory.path().join("seen"), options()).is_err());
    std::fs::remove_file(directory.path().join("seen")).expect("removed");
    // Nobody has it open any more in the place of the one that is forgotten here.
    std::fs::rename(&unfinished, directory.path().join("other")).expect("renamed");
    std::fs::copy(directory.path().join("other"), &unfinished).expect("copied");
    std::fs::remove_file(directory.path().join("other")).expect("removed");
    copy(bench.db(), &path);
    assert_eq!(names(), 2, "the database and its logs");
    let refused = |begun: saki_catalog::Result<Restore>| begun.err().expect("refused").sqlstate();
    assert_eq!(refused(begin()), "58P02");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(refused(begin()), "58P02", "logs that are somebody's are not removed");
}

#[test]
fn a_copy_that_lacks_a_piece_of_its_logs_is_refused() {
    let bench = Bench::new(Shape::default());
    bench.commit(&[(1, Some(1))]);
    bench.commit(&[(2, Some(1))]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("copy");
    let still = bench.db().still().expect("held");
    let restore = Restore::begin(&path, still.image().image().clone(), still.logs().map(StillLogs::range), None);
    let refused = restore.expect("begun").finish().expect_err("there is nothing in the logs");
    assert!(refused.message.contains("log"), "{refused:?}");
    assert!(!path.exists() && !directory.path().join("copy.log").exists());
}
