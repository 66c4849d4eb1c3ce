//! Whether backups can be restored: every object is read and compared with its name.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use saki_catalog::{ErrorKind, Result};
use saki_store::Stop;

use crate::Progress;
use crate::manifest::Piece;
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

/// Checks the backup of that `name`, or all.
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
    Ok(CheckReport { backups: names.len() as u64, objects: needed.len() as u64, bytes: watch.bytes(), faults })
}
