//! Patches that wait for the version they are against.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::error::ReplayError;
use crate::record::{Change, Patch};

/// Those of one stripe of rows, by the hash of the row.
#[derive(Default)]
pub struct Patches {
    rows: HashMap<u64, Vec<OfRow>>,
}

/// Those of one row, by the timestamp of the version that each is against.
struct OfRow {
    table: u32,
    key: Box<[u8]>,
    patches: BTreeMap<u64, Waiting>,
}

/// A patch with bytes of its own.
pub struct Waiting {
    /// Of the version that it makes.
    pub timestamp: u64,
    base: u64,
    prefix: usize,
    suffix: usize,
    middle: Box<[u8]>,
}

impl Waiting {
    pub fn patch(&self) -> Patch<'_> {
        Patch { base: self.base, prefix: self.prefix, suffix: self.suffix, middle: &self.middle }
    }
}

impl OfRow {
    fn is_of(&self, change: &Change<'_>) -> bool {
        self.table == change.table && *self.key == *change.key
    }
}

impl Patches {
    /// Keeps a patch of the change's row.
    ///
    /// # Errors
    /// `Misfit` if another one is against the same version: at least one of the two cannot be.
    pub fn keep(
        &mut self,
        change: &Change<'_>,
        hash: u64,
        timestamp: u64,
        patch: &Patch<'_>,
    ) -> Result<(), ReplayError> {
        let rows = self.rows.entry(hash).or_default();
        let row = match rows.iter().position(|row| row.is_of(change)) {
            Some(position) => &mut rows[position],
            None => rows.push_mut(OfRow { table: change.table, key: change.key.into(), patches: BTreeMap::new() }),
        };
        let Patch { base, prefix, suffix, middle } = *patch;
        let waiting = Waiting { timestamp, base, prefix, suffix, middle: middle.into() };
        match row.patches.insert(base, waiting) {
            None => Ok(()),
            Some(_) => Err(ReplayError::misfit(change, timestamp)),
        }
    }

    /// Takes out the patch that waits for the row's version of `timestamp`, and forgets those that this has overtaken.
    ///
    /// # Errors
    /// `Misfit` if one that waits for an earlier version makes a later one: there was another between.
    pub fn take(&mut self, change: &Change<'_>, hash: u64, timestamp: u64) -> Result<Option<Waiting>, ReplayError> {
        // Mostly nothing waits.
        if self.rows.is_empty() {
            return Ok(None);
        }
        let Some(rows) = self.rows.get_mut(&hash) else { return Ok(None) };
        let Some(position) = rows.iter().position(|row| row.is_of(change)) else { return Ok(None) };
        let patches = &mut rows[position].patches;
        while let Some(entry) = patches.first_entry().filter(|entry| *entry.key() < timestamp) {
            let overtaken = entry.remove().timestamp;
            if overtaken > timestamp {
                return Err(ReplayError::misfit(change, overtaken));
            }
        }
        let next = patches.remove(&timestamp);
        if patches.is_empty() {
            rows.swap_remove(position);
        }
        if rows.is_empty() {
            self.rows.remove(&hash);
        }
        Ok(next)
    }

    /// The table of a row of which a patch is left, if there is one.
    pub fn left(&self) -> Option<u32> {
        self.rows.values().flatten().map(|row| row.table).next()
    }
}
