//! Writing an archive: beside a database that is open, until it is told to stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::wall_micros;
use saki_catalog::{Result, SqlError};
use saki_store::{Database, Follower, Moment, Pace, Stop};

use super::names::{BaseName, SegmentName, run_name};
use super::segment::{Sample, Segment};
use crate::repository::Repository;
use crate::run::{Made, backup_of};

/// How far apart moments are that can be told from one another.
const SAMPLE: Duration = Duration::from_millis(50);
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
    /// Bytes of logs that are kept for a target that does not take them; then the run is given up for another.
    pub held_bytes_max: u64,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(10), held_bytes_max: 8 << 30 }
    }
}

/// Whether a database can be archived to a target: for saying so before it is served.
///
/// # Errors
/// If the target has backups of another database, is none, or does not answer.
pub fn refuse_archive(db: &Database, target: &str) -> Result<()> {
    crate::run::refuse_other(&Repository::open(target, true)?, db)
}

/// Archives a database until it is told to stop: what is durable then is in the archive. Waits; belongs on a thread of
/// its own. What goes wrong is logged, and tried again.
///
/// # Errors
/// If the target has backups of another database, or is none: that does not pass. After it was told to stop: if what
/// was left could not be written.
pub fn archive(db: &Arc<Database>, target: &str, options: ArchiveOptions, stop: &Stop) -> Result<()> {
    let repository = Repository::open(target, true)?;
    crate::run::refuse_other(&repository, db)?;
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let Err(error) = Run::begin(db, &repository, target, options).and_then(|run| run.go_on(stop)) else {
            return Ok(());
        };
        if stop.check().is_err() {
            return Err(error);
        }
        tracing::error!("archiving to {target} has failed, and begins anew with a backup: {error}");
        pause = if began.elapsed() > PAUSE_MAX { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
        wait(pause, stop);
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
    /// `unlogged` of the newest base, and when it was begun.
    base: Option<(u64, Instant)>,
    /// What has gathered since the last segment.
    segment: Segment,
    segment_bytes: usize,
    last_sample: Option<Sample>,
    written: Instant,
}

impl<'a> Run<'a> {
    fn begin(db: &Arc<Database>, repository: &'a Repository, target: &'a str, options: ArchiveOptions) -> Result<Self> {
        db.start_engine()?;
        // From what this has merged on the logs are followed: it is of this opening.
        db.checkpoint(&Pace::beside_queries())?;
        let follower = db.follow()?;
        let segment = Segment { first: follower.next(), ..Segment::default() };
        Ok(Self {
            repository,
            target,
            options,
            follower,
            name: run_name(wall_micros()),
            base: None,
            segment,
            segment_bytes: 0,
            last_sample: None,
            written: Instant::now(),
        })
    }

    fn go_on(mut self, stop: &Stop) -> Result<()> {
        loop {
            let is_last = stop.check().is_err();
            let moment = self.sample()?;
            self.gather(&moment)?;
            if is_last || self.written.elapsed() >= self.options.interval {
                self.write(stop)?;
            }
            if is_last {
                return Ok(());
            }
            if self.needs_base(&moment) {
                self.make_base(stop)?;
            }
            std::thread::sleep(SAMPLE);
        }
    }

    /// Notes what is durable now.
    fn sample(&mut self) -> Result<Moment> {
        // The time first: all that was acknowledged before it is in the moment.
        let micros = wall_micros();
        let moment = self.follower.moment()?;
        let sample = Sample { micros, through: moment.through, unlogged: moment.unlogged };
        let is_news =
            self.last_sample.is_none_or(|last| (last.through, last.unlogged) != (sample.through, sample.unlogged));
        if is_news {
            self.segment.samples.push(sample);
            self.last_sample = Some(sample);
        }
        self.segment.sequences.clone_from(&moment.sequences);
        Ok(moment)
    }

    /// Takes the records up to a moment; writes segments when they are large.
    fn gather(&mut self, moment: &Moment) -> Result<()> {
        while self.follower.next() <= moment.through {
            let left = SEGMENT_BYTES.saturating_sub(self.segment_bytes).max(1);
            let records = self.follower.records(moment.through, left)?;
            self.segment_bytes += records.iter().map(|it| it.payload.as_ref().map_or(0, Vec::len)).sum::<usize>();
            self.segment.records.extend(records);
            if self.segment_bytes >= SEGMENT_BYTES {
                self.write(&Stop::default())?;
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
        let later = later.map(|at| self.segment.samples.split_off(at)).unwrap_or_default();
        let segment =
            std::mem::replace(&mut self.segment, Segment { first: last + 1, samples: later, ..Segment::default() });
        self.segment_bytes = 0;
        self.segment.sequences.clone_from(&segment.sequences);
        let newest = segment.samples.last().copied();
        if segment.records.is_empty() && newest.is_none() {
            return Ok(());
        }
        let micros = newest.or(self.last_sample).map_or(0, |sample| sample.micros);
        let bytes = segment.encode();
        let name = SegmentName { first: segment.first, last, micros, bytes: bytes.len() as u64 };
        let mut has_failed = false;
        while let Err(error) = self.repository.put_segment(&self.name, &name, bytes.clone()) {
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
            wait(PAUSE, stop);
        }
        if has_failed {
            tracing::info!("{}: archiving goes on", self.target);
        }
        self.follower.kept(last);
        Ok(())
    }

    /// Whether something has been published that is neither in the logs nor in a base; not too often.
    fn needs_base(&self, moment: &Moment) -> bool {
        match self.base {
            None => true,
            Some((unlogged, began)) => unlogged != moment.unlogged && began.elapsed() >= self.options.interval,
        }
    }

    fn make_base(&mut self, stop: &Stop) -> Result<()> {
        let began = Instant::now();
        match backup_of(self.follower.database(), self.repository, false, stop, &|_| {}) {
            Ok(Made { report, unlogged }) => {
                self.repository.put_base(&self.name, &BaseName { unlogged, backup: report.name })?;
                self.base = Some((unlogged, began));
                Ok(())
            }
            // Another backup is being made, or old ones are pruned: soon, then.
            Err(error) if error.sqlstate() == "55006" => Ok(()),
            Err(_) if stop.check().is_err() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
