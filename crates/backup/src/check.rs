//! Whether backups can be restored: every object is read and compared with its name.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use saki_catalog::{ErrorKind, Result};
use saki_store::Stop;
use saki_thin::Piece;

use crate::Progress;

use crate::parallel::{Watch, each};
use crate::repository::Repository;

/// What checking came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckReport {
    pub backups: u64,
    pub objects: u64,
    pub bytes: u64,
    /// What is wrong, with the object's name and the backups that need it.
    pub faults: Vec<String>,
}

/// Checks the backup of that `name`, or all, with the archives.
///
/// # Errors
/// If a target cannot be read; what is wrong with backups is told by the report.
pub fn check(
    target: &str,
    name: Option<&str>,
    stop: &Stop,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<CheckReport> {
    let repository = Repository::open(target, false)?;
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => repository.names()?,
    };
    let mut faults = Vec::new();
    let mut needed: BTreeMap<Piece, Vec<&str>> = BTreeMap::new();
    for name in &names {
        match repository.read(name) {
            Ok(manifest) => {
                for piece in manifest.pieces().filter(|piece| !piece.is_empty()) {
                    let by = needed.entry(*piece).or_default();
                    if by.last() != Some(&name.as_str()) {
                        by.push(name);
                    }
                }
            }
            Err(error) if error.kind == ErrorKind::Corrupt => faults.push(error.message),
            Err(error) => return Err(error),
        }
    }
    let needed: Vec<_> = needed.into_iter().collect();
    let watch = Watch::new(progress, needed.len() as u64);
    let damaged = Mutex::new(Vec::new());
    each(
        needed.len(),
        stop,
        || Ok(()),
        |(), at| {
            let (piece, by) = &needed[at];
            match repository.get(piece) {
                Ok(bytes) => watch.count(bytes.len() as u64),
                Err(error) if error.kind == ErrorKind::Corrupt => {
                    damaged.lock().push(format!("{} (needed by {})", error.message, by.join(", ")));
                    watch.count(0);
                }
                Err(error) => return Err(error),
            }
            Ok(())
        },
    )?;
    let mut damaged = damaged.into_inner();
    damaged.sort_unstable();
    faults.extend(damaged);
    let (mut objects, mut bytes) = (needed.len() as u64, watch.bytes());
    if name.is_none() {
        for run in repository.runs()? {
            stop.check()?;
            let (read, of_them) = check_run(&repository, &run, stop, &mut faults)?;
            (objects, bytes) = (objects + read, bytes + of_them);
        }
    }
    Ok(CheckReport { backups: names.len() as u64, objects, bytes, faults })
}

/// Reads the segments of a run, which have to follow one another.
fn check_run(repository: &Repository, run: &str, stop: &Stop, faults: &mut Vec<String>) -> Result<(u64, u64)> {
    let segments = repository.segments(run)?;
    let mut next = None;
    for segment in &segments {
        stop.check()?;
        if next.is_some_and(|next| next != segment.first) {
            faults.push(format!("archive {run}: the records before timestamp {} are missing", segment.first));
        }
        next = Some(segment.last + 1);
        match repository.segment(run, segment) {
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::Corrupt => faults.push(error.message),
            Err(error) => return Err(error),
        }
    }
    Ok((segments.len() as u64, segments.iter().map(|segment| segment.bytes).sum()))
}
