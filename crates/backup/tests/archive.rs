//! Archives: a database as it was at any moment, beside checkpoints, definitions and restarts.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use saki_backup::{ArchiveOptions, Wanted, archive, archives, backup, check, clone, prune, refuse_archive, restore};
use saki_base::wall_micros;
use saki_catalog::{Result, SqlError};
use saki_store::{Pace, Stop};
use support::{Sample, comment_of, next_value_of, rows_of};

/// Longer than what tells two moments apart.
const APART: Duration = Duration::from_millis(120);

struct Target(tempfile::TempDir);

impl Target {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn name(&self) -> String {
        self.0.path().join("archive").display().to_string()
    }

    fn restored(&self, until: i64) -> Result<PathBuf> {
        let path = self.0.path().join(format!("restored-{}", wall_micros()));
        restore(&self.name(), Wanted::Until(until), &path, &Stop::default(), &|_| {})?;
        Ok(path)
    }

    fn cloned(&self, until: i64) -> PathBuf {
        let path = self.0.path().join(format!("cloned-{}", wall_micros()));
        clone(&self.name(), Wanted::Until(until), &path, &Stop::default(), &|_| {}).expect("cloned");
        path
    }

    /// Rows of the database as it was then, restored and cloned.
    fn rows(&self, until: i64) -> u64 {
        let rows = rows_of(&self.restored(until).expect("restored"));
        assert_eq!(rows_of(&self.cloned(until)), rows, "a clone has what a restored database has");
        rows
    }

    fn faults(&self) -> Vec<String> {
        check(&self.name(), None, &Stop::default(), &|_| {}).expect("checked").faults
    }

    /// A moment that is apart from what was before and what comes. An archiver has noted what was before, however busy
    /// the machine is: it has a while for it. Where it noted that at once, or where none is there, a while goes by.
    fn moment(&self) -> i64 {
        let (before, until) = (wall_micros(), Instant::now() + Duration::from_secs(2));
        std::thread::sleep(APART);
        let noted = || archives(&self.name()).ok().and_then(|runs| runs.last()?.until_micros);
        while noted().is_none_or(|noted| noted < before) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let micros = wall_micros();
        std::thread::sleep(APART);
        micros
    }

    /// A backup by somebody himself, as soon as the archiver is not making one.
    fn back_up(&self, sample: &Sample) {
        let until = Instant::now() + Duration::from_secs(60);
        while let Err(error) = backup(sample.db(), &self.name(), &Stop::default(), &|_| {}) {
            assert!(error.sqlstate() == "55006" && Instant::now() < until, "{error:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until there are so many backups that the newest run goes on from.
    fn await_bases(&self, bases: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        let there = || archives(&self.name()).ok().and_then(|runs| Some(runs.last()?.bases.len()));
        while there().unwrap_or(0) < bases {
            assert!(Instant::now() < until, "{:?}", archives(&self.name()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn options() -> ArchiveOptions {
    ArchiveOptions { interval: APART, ..ArchiveOptions::default() }
}

/// An archiver that goes on until it is dropped.
struct Archiver {
    stop: Stop,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Archiver {
    fn start(sample: &Sample, target: &Target) -> Self {
        Self::with(sample, target, options())
    }

    fn with(sample: &Sample, target: &Target, options: ArchiveOptions) -> Self {
        let (db, stop, target) = (Arc::clone(sample.db()), Stop::default(), target.name());
        let told = stop.clone();
        let thread = std::thread::spawn(move || archive(&db, &target, options, &told));
        Self { stop, thread: Some(thread) }
    }

    fn end(mut self) -> Result<()> {
        self.stop.tell();
        self.thread.take().expect("once").join().expect("no panic")
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.stop.tell();
    }
}

#[test]
fn any_moment_is_restored_beside_merges() {
    let (target, sample) = (Target::new(), Sample::new(5_000));
    let archiver = Archiver::start(&sample, &target);
    target.await_bases(1);
    let mut moments = vec![(target.moment(), 5_000)];
    for round in 0..6 {
        let from = 5_000 + round * 700;
        sample.add(from..from + 700);
        moments.push((target.moment(), from as u64 + 700));
        if round % 2 == 1 {
            // The logs are let go, and the archive goes on.
            sample.db().checkpoint(&Pace::full()).expect("merged");
            sample.db().release_merged().expect("released");
        }
    }
    archiver.end().expect("all is archived");
    assert_eq!(target.faults(), Vec::<String>::new());
    let runs = archives(&target.name()).expect("listed");
    assert_eq!((runs.len(), runs[0].bases.len()), (1, 1), "one backup is enough: {runs:?}");
    for (until, rows) in &moments {
        assert_eq!(target.rows(*until), *rows);
    }
    assert_eq!(target.rows(i64::MAX), 9_200);
    // What is restored goes on.
    let path = target.restored(moments[2].0).expect("restored");
    assert_eq!((rows_of(&path), rows_of(&path)), (moments[2].1, moments[2].1));
}

#[test]
fn moments_beside_definitions_have_the_definitions_of_then() {
    let (target, sample) = (Target::new(), Sample::new(300));
    let archiver = Archiver::start(&sample, &target);
    target.await_bases(1);
    let mut moments = Vec::new();
    for round in 0..4_usize {
        let from = 300 + round as i64 * 20;
        sample.add(from..from + 10);
        moments.push((target.moment(), from as u64 + 10, ".".repeat(round)));
        sample.define();
        target.await_bases(round + 2);
        sample.add(from + 10..from + 20);
        moments.push((target.moment(), from as u64 + 20, ".".repeat(round + 1)));
    }
    archiver.end().expect("all is archived");
    for (until, rows, comment) in moments {
        let path = target.restored(until).expect("restored");
        assert_eq!((rows_of(&path), comment_of(&path).unwrap_or_default()), (rows, comment));
    }
}

/// The logs say nothing of sequences.
#[test]
fn sequences_go_on_behind_what_was_given_out_then() {
    let (target, sample) = (Target::new(), Sample::new(10));
    let archiver = Archiver::start(&sample, &target);
    target.await_bases(1);
    let mut moments = Vec::new();
    let mut given = 0;
    for round in 0..4_i64 {
        for _ in 0..100 * round + 1 {
            given = sample.next_value();
        }
        sample.add(10 + round..11 + round);
        moments.push((target.moment(), given));
    }
    let runs = archives(&target.name()).expect("listed");
    assert_eq!(runs[0].bases.len(), 1, "no value makes a backup");
    // Nobody's moment before that is set back.
    sample.restart_sequence();
    archiver.end().expect("all is archived");
    for (until, given) in moments {
        let next = next_value_of(&target.restored(until).expect("restored"));
        assert_eq!(next_value_of(&target.cloned(until)), next, "and a clone's sequence goes on where that one does");
        assert!(next > given && next <= given + 10_000, "{next} after {given}");
    }
}

#[test]
fn a_restart_begins_a_run_of_its_own_and_the_one_before_stays() {
    let (target, mut sample) = (Target::new(), Sample::new(100));
    let mut moments = Vec::new();
    for round in 0..3 {
        let archiver = Archiver::start(&sample, &target);
        target.await_bases(1);
        // Before its first backup nothing of a run can be restored.
        while archives(&target.name()).expect("listed").iter().filter(|run| !run.bases.is_empty()).count() <= round {
            std::thread::sleep(APART);
        }
        let from = 100 + round as i64 * 10;
        sample.add(from..from + 10);
        moments.push((target.moment(), from as u64 + 10));
        archiver.end().expect("all is archived");
        sample.reopen();
    }
    for (until, rows) in moments {
        assert_eq!(target.rows(until), rows);
    }
    let refused: SqlError = target.restored(0).expect_err("nothing is as old");
    assert_eq!(refused.sqlstate(), "58P01");
}

#[test]
fn logs_are_kept_for_as_long_as_they_are_followed() {
    let (target, sample) = (Target::new(), Sample::new(100));
    let follower = sample.db().follow().expect("followed");
    // A megabyte is an extent of these logs.
    (0..80).for_each(|round| sample.add(100 + round * 2_000..2_100 + round * 2_000));
    sample.db().checkpoint(&Pace::full()).expect("merged");
    let held = follower.log_bytes();
    assert!(held > 2 << 20, "{held} bytes");
    drop(follower);
    sample.add(200_000..200_001);
    sample.db().checkpoint(&Pace::full()).expect("merged");
    let other = sample.db().follow().expect("followed");
    sample.add(200_001..200_002);
    let until = Instant::now() + Duration::from_secs(20);
    while other.log_bytes() >= held {
        assert!(Instant::now() < until, "{} bytes of {held} are kept", other.log_bytes());
        sample.add(200_002..200_002);
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(target);
}

/// Backups that somebody makes by himself are no bases, and pruning counts them.
#[test]
fn pruning_keeps_what_a_run_goes_on_from() {
    let (target, sample) = (Target::new(), Sample::new(100));
    let archiver = Archiver::start(&sample, &target);
    target.await_bases(1);
    let mut moments = Vec::new();
    for round in 0..3 {
        sample.add(100 + round * 10..110 + round * 10);
        target.back_up(&sample);
        moments.push((target.moment(), 110 + round as u64 * 10));
    }
    let report = prune(&target.name(), 2, &Stop::default()).expect("pruned");
    assert_eq!((report.kept.len(), report.removed.len()), (3, 1), "the base and two: {report:?}");
    sample.add(130..140);
    moments.push((target.moment(), 140));
    archiver.end().expect("all is archived");
    moments.remove(0);
    for (until, rows) in moments {
        assert_eq!(target.rows(until), rows);
    }
    assert_eq!(target.faults(), Vec::<String>::new());
}

/// Whoever restores has what lies behind a base in memory.
#[test]
fn there_is_another_base_when_much_has_been_written() {
    let (target, sample) = (Target::new(), Sample::new(100));
    let archiver = Archiver::with(&sample, &target, ArchiveOptions { base_bytes: 20 << 10, ..options() });
    target.await_bases(1);
    let mut moments = Vec::new();
    for round in 0..6 {
        let from = 100 + round * 600;
        sample.add(from..from + 600);
        moments.push((target.moment(), from as u64 + 600));
        if round == 2 || round == 4 {
            // However slow the archiver's thread is: enough has been written.
            target.await_bases(round as usize / 2 + 1);
        }
    }
    archiver.end().expect("all is archived");
    let runs = archives(&target.name()).expect("listed");
    assert!(runs.len() == 1 && runs[0].bases.len() > 2, "{runs:?}");
    for (until, rows) in moments {
        assert_eq!(target.rows(until), rows);
    }
}

#[test]
fn a_target_of_another_database_is_refused() {
    let (target, sample, other) = (Target::new(), Sample::new(10), Sample::new(10));
    let archiver = Archiver::start(&sample, &target);
    target.await_bases(1);
    archiver.end().expect("archived");
    assert!(refuse_archive(sample.db(), &target.name()).is_ok());
    assert_eq!(refuse_archive(other.db(), &target.name()).expect_err("another's").sqlstate(), "55000");
    assert_eq!(Archiver::start(&other, &target).end().expect_err("another's").sqlstate(), "55000");
}

#[test]
fn damage_is_found_and_named_and_pruning_keeps_what_is_needed() {
    let (target, sample) = (Target::new(), Sample::new(100));
    let archiver = Archiver::start(&sample, &target);
    target.await_bases(1);
    let mut moments = Vec::new();
    for round in 0..3_usize {
        sample.add(100 + round as i64 * 10..110 + round as i64 * 10);
        moments.push((target.moment(), 110 + round as u64 * 10));
        sample.db().checkpoint(&Pace::full()).expect("merged");
        sample.define();
        target.await_bases(round + 2);
    }
    sample.add(900..910);
    moments.push((target.moment(), 140));
    archiver.end().expect("all is archived");
    let report = prune(&target.name(), 1, &Stop::default()).expect("pruned");
    assert_eq!((report.kept.len(), report.removed.len()), (1, 3), "{report:?}");
    let (last, rows) = moments.pop().expect("four");
    assert_eq!((target.rows(last), target.faults()), (rows, Vec::new()));
    assert_eq!(target.restored(moments[0].0).expect_err("pruned").sqlstate(), "58P01");

    let run = target.0.path().join("archive/archive");
    let run = std::fs::read_dir(run).expect("readable").flatten().next().expect("a run").path();
    let mut segments: Vec<_> = std::fs::read_dir(run.join("log")).expect("readable").flatten().collect();
    segments.sort_by_key(std::fs::DirEntry::path);
    let segment = segments.last().expect("a segment").path();
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    let whole = std::fs::read(&segment).expect("readable");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    std::fs::write(&segment, flipped).expect("written");
    let error = target.restored(last).expect_err("damaged");
    assert!(error.sqlstate() == "XX001" && error.message.contains(&name), "{error:?}");
    assert!(target.faults().iter().any(|fault| fault.contains(&name)), "{:?}", target.faults());
}
