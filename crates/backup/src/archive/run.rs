//! Writing an archive: beside a database that is open, until it is told to stop.

use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use saki_base::panics::{self, Place};
use saki_base::wall_micros;
use saki_catalog::{Result, SqlError};
use saki_store::{Database, Follower, Moment, Pace, Stop};

use super::names::{BaseName, SegmentName, run_name};
use super::segment::{Sample, Segment};
use crate::repository::Repository;
use crate::run::{Made, backup_of, refuse_other};

/// How far apart moments are that can be told from one another.
const SAMPLE: Duration = Duration::from_millis(50);
/// How often a moment is taken anew that took its time.
const TRIES: u32 = 5;
/// Bytes of records in one segment, about: what has gathered is written then, however little time has passed.
const SEGMENT_BYTES: usize = 8 << 20;
/// After an error, before the next try.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How an archive is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArchiveOptions {
    /// After so long what has gathered is written: as much may be lost with the machine.
    pub interval: Duration,
    /// Bytes of logs that are kept for a target that refuses them; then the run is given up for another.
    pub held_bytes_max: u64,
    /// After so many bytes of records there is another backup: whoever restores has to have what lies behind it in
    /// memory.
    pub base_bytes: u64,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(10), held_bytes_max: 8 << 30, base_bytes: 1 << 30 }
    }
}

/// Whether a database can be archived to a target: for saying so before it is served.
///
/// # Errors
/// If the target has backups of another database, is none, or does not answer; if the database is only read.
pub fn refuse_archive(db: &Database, target: &str) -> Result<()> {
    db.writable()?;
    refuse_other(&Repository::open(target, true)?, db)
}

/// Archives a database until it is told to stop: what is durable then is in the archive. Waits; belongs on a thread of
/// its own. What goes wrong is logged, and tried again.
///
/// # Errors
/// If the target has backups of another database, or is none: that does not pass. After it was told to stop: if what
/// was left could not be written.
pub fn archive(db: &Arc<Database>, target: &str, options: ArchiveOptions, stop: &Stop) -> Result<()> {
    let repository = Repository::open(target, true)?;
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let run = refuse_other(&repository, db).and_then(|()| Run::begin(db, &repository, target, options));
        let Err(error) = run.and_then(|run| run.go_on(stop)) else { return Ok(()) };
        if stop.check().is_err() || error.sqlstate() == "55000" {
            return Err(error);
        }
        tracing::error!("archiving to {target} has failed, and begins anew with a backup: {error}");
        pause = if began.elapsed() > PAUSE_MAX { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
        wait(pause, stop);
        if stop.check().is_err() {
            return Err(error);
        }
    }
}

/// Sleeps, unless told to stop.
fn wait(pause: Duration, stop: &Stop) {
    let until = Instant::now() + pause;
    while stop.check().is_ok() && Instant::now() < until {
        std::thread::sleep(SAMPLE.min(pause));
    }
}

/// A run that goes on.
struct Run<'a> {
    repository: &'a Repository,
    target: &'a str,
    options: ArchiveOptions,
    follower: Follower,
    name: String,
    /// `unlogged` of the newest base.
    base: Option<u64>,
    /// When the last one was begun, whatever became of it.
    base_begun: Option<Instant>,
    /// Bytes of records that have been written since.
    written_since_base: u64,
    /// It was said that no base could be made.
    failure_said: bool,
    /// What has gathered since the last segment.
    segment: Segment,
    segment_bytes: usize,
    last_sample: Option<Sample>,
    /// No sample is of an earlier time: a clock that is set back stands still.
    not_before: i64,
    written: Instant,
}

/// A base that is being made.
type Making<'scope> = ScopedJoinHandle<'scope, Result<Made>>;

impl<'a> Run<'a> {
    fn begin(db: &Arc<Database>, repository: &'a Repository, target: &'a str, options: ArchiveOptions) -> Result<Self> {
        db.start_engine()?;
        // From what this has merged on the logs are followed: it is of this opening.
        db.checkpoint(&Pace::beside_queries())?;
        let follower = db.follow()?;
        let segment = Segment { first: follower.next(), ..Segment::default() };
        let not_before = repository.newest_time()?.map_or(i64::MIN, |newest| newest + 1).max(wall_micros());
        Ok(Self {
            repository,
            target,
            options,
            follower,
            name: run_name(not_before),
            base: None,
            base_begun: None,
            written_since_base: 0,
            failure_said: false,
            segment,
            segment_bytes: 0,
            last_sample: None,
            not_before,
            written: Instant::now(),
        })
    }

    fn go_on(mut self, stop: &Stop) -> Result<()> {
        let (db, repository, name) = (Arc::clone(self.follower.database()), self.repository, self.name.clone());
        // Records are written while a base is made: the logs would grow meanwhile.
        let base_stop = Stop::default();
        std::thread::scope(|scope| {
            let _ends_with_this = base_stop.clone().on_drop();
            let mut making: Option<Making<'_>> = None;
            loop {
                let is_last = stop.check().is_err();
                let moment = self.sample(stop)?;
                self.gather(&moment, stop)?;
                panics::pass(Place::Archiver);
                if is_last || self.written.elapsed() >= self.options.interval {
                    self.write(stop)?;
                }
                if is_last {
                    return Ok(());
                }
                if let Some(made) = making.take_if(|making| making.is_finished()) {
                    self.take_base(made);
                }
                if making.is_none() && self.needs_base(&moment) {
                    let merges_first = self.base.is_none_or(|unlogged| unlogged == moment.unlogged);
                    (self.base_begun, self.written_since_base) = (Some(Instant::now()), 0);
                    let (db, name, base_stop) = (&db, &name, &base_stop);
                    making = Some(scope.spawn(move || {
                        backup_of(db, repository, merges_first, base_stop, &|_| {}, |made| {
                            let base = BaseName { unlogged: made.unlogged, backup: made.report.name.clone() };
                            repository.put_base(name, &base)
                        })
                    }));
                }
                std::thread::sleep(SAMPLE);
            }
        })
    }

    /// Notes what is durable now.
    fn sample(&mut self, stop: &Stop) -> Result<Moment> {
        let (mut micros, mut moment) = self.moment()?;
        if self.last_sample.is_some_and(|last| last.unlogged != moment.unlogged) {
            // Sequences may have been set back: their positions are not those of the samples before.
            self.write(stop)?;
            (micros, moment) = self.moment()?;
        }
        self.note(micros, &moment);
        Ok(moment)
    }

    /// How things stand, and when that was: whatever had been acknowledged by then is in it, and nothing of later.
    fn moment(&self) -> Result<(i64, Moment)> {
        let mut tries = 0;
        loop {
            let (before, began) = (wall_micros(), Instant::now());
            let moment = self.follower.moment()?;
            tries += 1;
            // Unless this thread had to wait between the two; where it always has, that is as near as it comes.
            if began.elapsed() < SAMPLE / 10 || tries == TRIES {
                return Ok((before.max(self.not_before), moment));
            }
        }
    }

    fn note(&mut self, micros: i64, moment: &Moment) {
        let sample = Sample { micros, through: moment.through, unlogged: moment.unlogged };
        let is_same = |last: Sample| (last.through, last.unlogged) == (sample.through, sample.unlogged);
        if !self.last_sample.is_some_and(is_same) {
            self.segment.samples.push(sample);
            self.last_sample = Some(sample);
        }
        self.not_before = micros;
        self.segment.sequences.clone_from(&moment.sequences);
    }

    /// Takes the records up to a moment; writes segments when they are large.
    fn gather(&mut self, moment: &Moment, stop: &Stop) -> Result<()> {
        while self.follower.next() <= moment.through {
            let left = SEGMENT_BYTES.saturating_sub(self.segment_bytes).max(1);
            let records = self.follower.records(moment.through, left)?;
            self.segment_bytes += records.iter().map(|it| it.payload.as_ref().map_or(0, Vec::len)).sum::<usize>();
            self.segment.records.extend(records);
            if self.segment_bytes >= SEGMENT_BYTES {
                self.write(stop)?;
            }
        }
        Ok(())
    }

    /// Writes what has gathered. Tries until the target takes it, for as long as the logs may keep it.
    fn write(&mut self, stop: &Stop) -> Result<()> {
        self.written = Instant::now();
        let last = self.segment.last();
        // What was durable when, as far as the records go.
        let later = self.segment.samples.iter().position(|sample| sample.through > last);
        let samples = later.map(|at| self.segment.samples.split_off(at)).unwrap_or_default();
        let sequences = self.segment.sequences.clone();
        let next = Segment { first: last + 1, samples, sequences, records: Vec::new() };
        let segment = std::mem::replace(&mut self.segment, next);
        self.segment_bytes = 0;
        if segment.records.is_empty() && segment.samples.is_empty() {
            return Ok(());
        }
        // Without samples of its own it lies between those before it and those behind.
        let micros = segment.samples.last().map_or(self.not_before, |sample| sample.micros);
        let bytes = segment.encode();
        let name = SegmentName { first: segment.first, last, micros, bytes: bytes.len() as u64 };
        self.put(&name, &bytes, stop)?;
        self.written_since_base += name.bytes;
        self.follower.kept(last);
        Ok(())
    }

    fn put(&mut self, name: &SegmentName, bytes: &[u8], stop: &Stop) -> Result<()> {
        let mut has_failed = false;
        while let Err(error) = self.repository.put_segment(&self.name, name, bytes.to_vec()) {
            if !has_failed {
                tracing::error!("{}: archiving waits for its target, and the logs grow: {error}", self.target);
                has_failed = true;
            }
            let held = self.follower.log_bytes();
            if held > self.options.held_bytes_max {
                let what = format!("{held} bytes of logs wait for the target, more than are kept: they are let go");
                return Err(SqlError::storage(what).code("53100"));
            }
            if stop.check().is_err() {
                return Err(error);
            }
            // Moments pass meanwhile, whose records come later.
            let (micros, moment) = self.moment()?;
            if self.last_sample.is_some_and(|last| last.unlogged == moment.unlogged) {
                self.note(micros, &moment);
            }
            wait(PAUSE, stop);
        }
        if has_failed {
            tracing::info!("{}: archiving goes on", self.target);
        }
        Ok(())
    }

    /// Whether something has been published that is neither in the logs nor in a base, or much has been written since
    /// the last one; not too often.
    fn needs_base(&self, moment: &Moment) -> bool {
        let pause = if self.base.is_some() { self.options.interval } else { self.options.interval.min(PAUSE) };
        let is_wanted = self.base != Some(moment.unlogged) || self.written_since_base >= self.options.base_bytes;
        is_wanted && self.base_begun.is_none_or(|begun| begun.elapsed() >= pause)
    }

    fn take_base(&mut self, made: Making<'_>) {
        match made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            Ok(Made { unlogged, .. }) => {
                self.base = Some(unlogged);
                self.failure_said = false;
            }
            // The target does not answer, another backup is being made, old ones are pruned: soon, then.
            Err(error) => {
                if !std::mem::replace(&mut self.failure_said, true) {
                    tracing::warn!("{}: moments from now on wait for a backup to go on from: {error}", self.target);
                }
                self.base = None;
            }
        }
    }
}
