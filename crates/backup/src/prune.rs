//! Old backups go, and what only they had.

use std::collections::HashSet;

use saki_catalog::{Result, SqlError};
use saki_store::Stop;
use saki_thin::Piece;

use crate::repository::Repository;

/// Objects that are removed by one request, or between two looks whether to stop.
const BATCH: usize = 500;

/// What pruning came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PruneReport {
    /// Backups that are gone, and those that are left.
    pub removed: Vec<String>,
    pub kept: Vec<String>,
    pub objects: u64,
    pub bytes: u64,
}

/// Keeps the newest `keep` backups, and what was archived behind them, with the backups that this needs; removes the
/// others, and every object that none of those that are kept names: also those of backups that were interrupted.
/// Interrupted, it may be run again.
///
/// # Errors
/// 22023 if none would be kept; 55006 while a backup is made; XX001 if the manifest of one that is kept is damaged:
/// then nothing is removed, for nobody knows what it names; of the target.
pub fn prune(target: &str, keep: usize, stop: &Stop) -> Result<PruneReport> {
    if keep == 0 {
        return Err(SqlError::invalid("one backup is kept at least")
            .code("22023")
            .hint("remove the target to keep none"));
    }
    let repository = Repository::open(target, false)?;
    repository.begin_prune()?;
    // The sign stays if it fails: the next backup must not rely on what is half removed.
    let report = run(&repository, keep, stop)?;
    repository.end_prune()?;
    Ok(report)
}

fn run(repository: &Repository, keep: usize, stop: &Stop) -> Result<PruneReport> {
    let mut removed = repository.names()?;
    let mut kept = removed.split_off(removed.len().saturating_sub(keep));
    let bases = repository.needed_bases(&kept).inspect_err(|_| _ = repository.end_prune())?;
    removed.retain(|name| !bases.contains(name));
    kept.splice(0..0, bases);
    kept.sort_unstable();
    kept.dedup();
    let needed = match needed(repository, &kept) {
        Ok(needed) => needed,
        Err(error) => {
            repository.end_prune()?;
            return Err(error);
        }
    };
    let (mut objects, mut bytes) = repository.prune_archives(&kept)?;
    repository.forget(&removed)?;
    let there = repository.objects()?;
    let unneeded: Vec<_> = there.into_iter().filter(|(name, _)| !needed.contains(name)).collect();
    for batch in unneeded.chunks(BATCH) {
        stop.check()?;
        repository.remove_objects(batch.iter().map(|(name, _)| name.clone()).collect())?;
        objects += batch.len() as u64;
        bytes += batch.iter().map(|(_, bytes)| bytes).sum::<u64>();
    }
    Ok(PruneReport { removed, kept, objects, bytes })
}

/// Names of the objects that some backups have.
fn needed(repository: &Repository, names: &[String]) -> Result<HashSet<String>> {
    let mut needed = HashSet::new();
    for name in names {
        let manifest = repository.read(name)?;
        needed.extend(manifest.pieces().filter(|piece: &&Piece| !piece.is_empty()).map(Piece::name));
    }
    Ok(needed)
}
