//! What an archive is called at the target.
//!
//! ```text
//!   archive/20261128T003100Z-0006a1…/bases/<unlogged>-<backup>
//!   archive/20261128T003100Z-0006a1…/log/<first>-<last>-<when the last sample was taken, micros>
//! ```
//!
//! Numbers are hexadecimal, of 16 digits: names are in the order of time.

use saki_catalog::{Result, SqlError};

use super::segment::Segment;
use crate::repository::{Repository, moment};

const ARCHIVE: &str = "archive";

/// A segment, as far as its name says.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SegmentName {
    pub first: u64,
    pub last: u64,
    /// When its last sample was taken.
    pub micros: i64,
    pub bytes: u64,
}

impl SegmentName {
    fn parse(name: &str, bytes: u64) -> Option<Self> {
        let mut numbers = name.split('-').map(|number| u64::from_str_radix(number, 16));
        let mut number = || numbers.next()?.ok();
        let (first, last, micros) = (number()?, number()?, number()? as i64);
        (numbers.next().is_none() && first > 0).then_some(Self { first, last, micros, bytes })
    }
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}-{:016x}-{:016x}", self.first, self.last, self.micros)
    }
}

/// A backup that a run goes on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseName {
    pub unlogged: u64,
    pub backup: String,
}

impl BaseName {
    fn parse(name: &str) -> Option<Self> {
        let (unlogged, backup) = name.split_once('-')?;
        Some(Self { unlogged: u64::from_str_radix(unlogged, 16).ok()?, backup: backup.to_owned() })
    }
}

impl std::fmt::Display for BaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}-{}", self.unlogged, self.backup)
    }
}

/// A run, as `list` tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Archived {
    pub run: String,
    /// Backups that it goes on from, in their order.
    pub bases: Vec<String>,
    pub segments: u64,
    pub bytes: u64,
    /// Up to when it can be restored; `None`: nothing has been archived yet.
    pub until_micros: Option<i64>,
}

/// The runs at a target, in their order.
///
/// # Errors
/// Of the target.
pub fn archives(target: &str) -> Result<Vec<Archived>> {
    let repository = Repository::open(target, false)?;
    let archived = |run: String| {
        let segments = repository.segments(&run)?;
        Ok(Archived {
            bases: repository.bases(&run)?.into_iter().map(|base| base.backup).collect(),
            segments: segments.len() as u64,
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            until_micros: segments.last().map(|segment| segment.micros),
            run,
        })
    };
    repository.runs()?.into_iter().map(archived).collect()
}

/// The name of a run that begins now.
pub fn run_name(micros: i64) -> String {
    format!("{}-{micros:016x}", moment(micros))
}

/// When a run began, by its name.
fn began(run: &str) -> Option<i64> {
    i64::from_str_radix(run.rsplit('-').next()?, 16).ok()
}

fn bases_of(run: &str) -> String {
    format!("{ARCHIVE}/{run}/bases")
}

fn log_of(run: &str) -> String {
    format!("{ARCHIVE}/{run}/log")
}

impl Repository {
    /// The runs, in their order.
    pub fn runs(&self) -> Result<Vec<String>> {
        let listed = self.list(ARCHIVE)?;
        let of = |(name, _): &(String, u64)| Some(name.split_once('/')?.0.to_owned());
        let mut runs: Vec<String> = listed.iter().filter_map(of).collect();
        runs.dedup();
        Ok(runs)
    }

    /// The backups that a run goes on from, in their order.
    pub fn bases(&self, run: &str) -> Result<Vec<BaseName>> {
        Ok(self.list(&bases_of(run))?.iter().filter_map(|(name, _)| BaseName::parse(name)).collect())
    }

    pub fn put_base(&self, run: &str, base: &BaseName) -> Result<()> {
        self.put_object(&format!("{}/{base}", bases_of(run)), base.backup.clone().into_bytes())
    }

    /// The segments of a run, in their order.
    pub fn segments(&self, run: &str) -> Result<Vec<SegmentName>> {
        let listed = self.list(&log_of(run))?;
        Ok(listed.iter().filter_map(|(name, bytes)| SegmentName::parse(name, *bytes)).collect())
    }

    pub fn put_segment(&self, run: &str, name: &SegmentName, bytes: Vec<u8>) -> Result<()> {
        self.put_object(&format!("{}/{name}", log_of(run)), bytes)
    }

    /// A segment.
    ///
    /// # Errors
    /// XX001 with the object's name if it is missing, damaged or another; of the target.
    pub fn segment(&self, run: &str, name: &SegmentName) -> Result<Segment> {
        let object = format!("{}/{name}", log_of(run));
        let damaged = |what: &str| {
            Err(SqlError::corrupt(format!("{}: {what}", self.named(&object)))
                .hint("restore a moment before it, or one after a later backup"))
        };
        let Some(bytes) = self.get_object(&object)? else { return damaged("the object is missing") };
        match Segment::decode(&bytes) {
            Ok(segment) if (segment.first, segment.last()) == (name.first, name.last) => Ok(segment),
            Ok(_) => damaged("has other records than its name says"),
            Err(what) => damaged(&what),
        }
    }

    /// The latest time that any run tells of: one that begins now is not earlier, whatever the clock says.
    pub fn newest_time(&self) -> Result<Option<i64>> {
        let Some(run) = self.runs()?.pop() else { return Ok(None) };
        let last = self.segments(&run)?.last().map(|segment| segment.micros);
        Ok(last.max(began(&run)))
    }

    /// Backups that runs need for the moments behind the oldest one of those that are `kept`: of each run that has gone
    /// on since, the last one before.
    pub fn needed_bases(&self, kept: &[String]) -> Result<Vec<String>> {
        let Some(oldest) = kept.first() else { return Ok(Vec::new()) };
        let since = self.read(oldest)?.made_micros;
        let runs = self.runs()?;
        let mut needed = Vec::new();
        for run in &runs {
            let goes_on = Some(run) == runs.last() || self.segments(run)?.last().is_some_and(|it| it.micros >= since);
            // The oldest one itself may be it.
            let before = self.bases(run)?.into_iter().rfind(|base| base.backup <= *oldest);
            needed.extend(before.filter(|_| goes_on).map(|base| base.backup).filter(|backup| backup != oldest));
        }
        Ok(needed)
    }

    /// Removes what nobody can restore any more: bases whose backup is not among those that are `kept`, records that
    /// all of those have that are left, and runs without any. How many objects, and their bytes. A run that has just
    /// begun is left alone: its first base is being made.
    pub fn prune_archives(&self, kept: &[String]) -> Result<(u64, u64)> {
        let (mut objects, mut bytes) = (0, 0);
        let runs = self.runs()?;
        for run in &runs {
            let (bases, gone): (Vec<_>, Vec<_>) =
                self.bases(run)?.into_iter().partition(|base| kept.contains(&base.backup));
            if bases.is_empty() && gone.is_empty() && Some(run) == runs.last() {
                continue;
            }
            let mut needed_from = None;
            for base in &bases {
                let merged_through = self.read(&base.backup)?.merged_through();
                needed_from = Some(needed_from.map_or(merged_through, |from: u64| from.min(merged_through)));
            }
            let unneeded = |segment: &SegmentName| needed_from.is_none_or(|from| segment.last <= from);
            let segments: Vec<_> = self.segments(run)?.into_iter().filter(unneeded).collect();
            objects += (segments.len() + gone.len()) as u64;
            bytes += segments.iter().map(|segment| segment.bytes).sum::<u64>();
            // The bases first: nobody goes on from one whose records are half gone.
            for names in [
                gone.iter().map(|base| format!("{}/{base}", bases_of(run))).collect::<Vec<_>>(),
                segments.iter().map(|segment| format!("{}/{segment}", log_of(run))).collect(),
            ] {
                if !names.is_empty() {
                    self.remove_objects(names)?;
                }
            }
        }
        Ok((objects, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_in_them() {
        let segment = SegmentName { first: 7, last: 6, micros: 1_700_000_000_000_000, bytes: 3 };
        assert_eq!(SegmentName::parse(&segment.to_string(), 3), Some(segment));
        let base = BaseName { unlogged: 3, backup: "000007-20261126T182207Z".to_owned() };
        assert_eq!(BaseName::parse(&base.to_string()), Some(base));
        for name in ["", "7", "x-y-z", "0000000000000000-1-1", "1-1-1-1"] {
            assert_eq!(SegmentName::parse(name, 0), None, "{name:?}");
        }
        assert!(run_name(1_764_000_000_000_000) < run_name(1_764_000_001_000_000));
        assert_eq!(began(&run_name(1_764_000_000_000_000)), Some(1_764_000_000_000_000));
    }
}
