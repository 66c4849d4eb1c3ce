//! Which base and which records make a database as it was at a moment.

use saki_base::TableId;
use saki_catalog::{ErrorKind, Result, SequencePosition, SqlError};

use super::names::{BaseName, SegmentName};
use super::segment::Sample;
use crate::manifest::Manifest;
use crate::repository::Repository;

/// What is restored: a backup, and of an archive the records behind it.
pub struct Chosen {
    pub backup: String,
    pub manifest: Manifest,
    /// When what it has was durable.
    pub micros: i64,
    pub records: Option<Records>,
}

/// Records of a run, behind what a base has merged.
pub struct Records {
    pub run: String,
    /// In their order; together they have all of the records.
    pub segments: Vec<SegmentName>,
    pub through: u64,
    pub sequences: Vec<(TableId, SequencePosition)>,
}

/// The last moment that is not later than `until`, in microseconds since 1970.
///
/// # Errors
/// 58P01 if there is none; XX001 if an object is missing or damaged; of the target.
pub fn choose(repository: &Repository, until: i64) -> Result<Chosen> {
    let mut best = None;
    for run in repository.runs()?.into_iter().rev() {
        best = of_run(repository, &run, until)?;
        if best.is_some() {
            break;
        }
    }
    let after = best.as_ref().map_or(i64::MIN, |chosen| chosen.micros);
    let backup = newest_backup(repository, after, until)?;
    backup.or(best).ok_or_else(|| {
        SqlError::invalid("nothing at the target is from before that moment")
            .code("58P01")
            .hint("saki backup list says what there is")
    })
}

/// The newest backup that was made after one moment and not after another.
fn newest_backup(repository: &Repository, after: i64, until: i64) -> Result<Option<Chosen>> {
    for backup in repository.names()?.into_iter().rev() {
        let Some(manifest) = readable(repository, &backup)? else { continue };
        if manifest.made_micros <= after {
            break;
        }
        if manifest.made_micros <= until {
            return Ok(Some(Chosen { backup, micros: manifest.made_micros, manifest, records: None }));
        }
    }
    Ok(None)
}

/// A manifest that is there and whole.
fn readable(repository: &Repository, backup: &str) -> Result<Option<Manifest>> {
    match repository.read(backup) {
        Ok(manifest) => Ok(Some(manifest)),
        Err(error) if error.kind == ErrorKind::Corrupt || error.sqlstate() == "58P01" => Ok(None),
        Err(error) => Err(error),
    }
}

fn of_run(repository: &Repository, run: &str, until: i64) -> Result<Option<Chosen>> {
    let segments = repository.segments(run)?;
    let bases = repository.bases(run)?;
    // A segment's last sample may be later, and an earlier one of its not.
    let end = segments.partition_point(|segment| segment.micros <= until) + 1;
    for at in (0..end.min(segments.len())).rev() {
        let segment = repository.segment(run, &segments[at])?;
        for sample in segment.samples.iter().rev().filter(|sample| sample.micros <= until) {
            let Some((backup, manifest)) = base_of(repository, &bases, sample)? else { continue };
            let needed = needed(&segments[..=at], manifest.merged_through(), sample)?;
            let records = Records {
                run: run.to_owned(),
                segments: needed,
                through: sample.through,
                sequences: segment.sequences,
            };
            return Ok(Some(Chosen { backup, manifest, micros: sample.micros, records: Some(records) }));
        }
    }
    Ok(None)
}

/// The last of a run's bases that a sample can be made of. Manifests are large: no other is read than those that were
/// made between the same two publications.
fn base_of(repository: &Repository, bases: &[BaseName], sample: &Sample) -> Result<Option<(String, Manifest)>> {
    for base in bases.iter().rev().filter(|base| base.unlogged == sample.unlogged) {
        let Some(manifest) = readable(repository, &base.backup)? else { continue };
        if manifest.through().is_some_and(|through| through <= sample.through) {
            return Ok(Some((base.backup.clone(), manifest)));
        }
    }
    Ok(None)
}

/// The segments with the records behind a timestamp and up to a sample.
fn needed(segments: &[SegmentName], after: u64, sample: &Sample) -> Result<Vec<SegmentName>> {
    let is_needed = |segment: &&SegmentName| segment.last > after && segment.first <= sample.through;
    let needed: Vec<_> = segments.iter().filter(is_needed).filter(|it| it.last >= it.first).cloned().collect();
    let mut next = after + 1;
    for segment in &needed {
        if segment.first > next {
            break;
        }
        next = segment.last + 1;
    }
    if next <= sample.through {
        return Err(SqlError::corrupt(format!("the archive has a gap: the record of timestamp {next} is missing"))
            .hint("restore a moment before it, or one after a later backup"));
    }
    Ok(needed)
}
