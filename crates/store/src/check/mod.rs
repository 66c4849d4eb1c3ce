//! Looks at everything that is stored: every page of every tree, every row, every index entry, every column segment,
//! the volume's superblocks and books, and the logs.
//!
//! An index agrees with its table if its entries are exactly those that the table's rows make. That is compared
//! without sorting: each side is reduced to a count and a sum of entry checksums, in any order.

#[cfg(test)]
mod flips;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod tests;

use std::fmt;

use saki_page::IoShare;
use saki_tree::{Fetcher, Inspect, LivePages, TreeRoot, verify};

use crate::database::{Database, Generation, catalog_root, read_catalog};
use crate::delta::range_of;
use crate::segments::SegmentSums;
use saki_catalog::{CATALOG_TREE, Catalog, EntryDecoder, EntryEncoder, EntryLayout, Result, SqlError, Table};

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckFault {
    /// Table, `table.index`, `catalog`, `volume` or `logs`.
    pub object: String,
    pub what: String,
}

impl CheckFault {
    fn of_volume(what: String) -> Self {
        Self { object: "volume".to_owned(), what }
    }
}

impl fmt::Display for CheckFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.what)
    }
}

/// What a check has seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    pub tables: usize,
    pub indexes: usize,
    pub segments: u64,
    pub rows: u64,
    pub pages: u64,
    /// Transactions in the logs that are not merged yet.
    pub logged: u64,
    /// Empty if all is well.
    pub faults: Vec<CheckFault>,
}

/// How far a check has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckProgress {
    pub object: String,
    pub pages: u64,
    pub pages_expected: u64,
}

/// Entries of a tree, reduced so that the order does not matter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Digest {
    entries: u64,
    sum: u64,
}

impl Digest {
    fn add(&mut self, key: &[u8], row: &[u8]) {
        self.entries += 1;
        // Rotated, so that a byte cannot wander from key to row unnoticed.
        let both = saki_base::checksum(key) ^ saki_base::checksum(row).rotate_left(17);
        self.sum = self.sum.wrapping_add(both);
    }
}

impl Database {
    /// Checks what is published. What cannot be read is a fault like any other.
    pub fn check(&self, progress: &mut dyn FnMut(&CheckProgress)) -> Result<CheckReport> {
        let generation = self.generation();
        let catalog = match generation.is_published() {
            true => generation.catalog.clone(),
            false => read_catalog(&self.cache, &self.store, generation.guard.root())?,
        };
        let fetcher = Fetcher::new(&self.cache, &self.store, &IoShare::new(u32::MAX))?;
        let mut check =
            Check { fetcher, live: LivePages::new(self.page_size()), report: CheckReport::default(), progress };
        for damage in self.volume.superblock_damages() {
            check.fault("volume", format!("{damage}, and opening the database for writing mends it"));
        }
        check.logs(self, &catalog);
        check.catalog(&generation)?;
        for table in catalog.tables() {
            check.table(self, table);
        }
        for staged in catalog.staged() {
            staged.tables.iter().for_each(|table| check.staged(self, table));
        }
        if let Err(error) = self.volume.check_devices(|what| check.report.faults.push(CheckFault::of_volume(what))) {
            check.fault("volume", error.to_string());
        }
        // Only then is every page that is referred to known. A publication of another root meanwhile would make the
        // books differ.
        if self.volume.root() == generation.guard.root() {
            for difference in check.live.differences(&self.volume.live_pages()) {
                let what = format!(
                    "{}: {} pages are in use, {} are on the books",
                    difference.chunk, difference.found, difference.recorded
                );
                check.fault("volume", what);
            }
            check.parts(self);
        }
        Ok(check.report)
    }
}

struct Check<'c> {
    fetcher: Fetcher,
    live: LivePages,
    report: CheckReport,
    progress: &'c mut dyn FnMut(&CheckProgress),
}

impl Check<'_> {
    fn fault(&mut self, object: &str, what: String) {
        self.report.faults.push(CheckFault { object: object.to_owned(), what });
    }

    /// Reads the logs, unless they are in use by this very database.
    fn logs(&mut self, db: &Database, catalog: &Catalog) {
        let state = catalog.logs;
        let Some(database) = state.database.filter(|_| db.engine.get().is_none()) else { return };
        let seen = db
            .logs
            .open_to_read(state.logs)
            .and_then(|devices| saki_mvcc::check_logs(devices, database, range_of(state)).map_err(SqlError::from));
        match seen {
            Ok(report) => self.report.logged = report.records,
            Err(error) => self.fault("logs", error.message),
        }
    }

    /// Compares what chunks are said to hold with what was found there.
    fn parts(&mut self, db: &Database) {
        let known = db.volume.published_chunks().into_iter().filter(|chunk| !chunk.parts.is_empty());
        let recorded: Vec<_> = known.map(|chunk| (chunk.chunk, chunk.parts)).collect();
        for (chunk, part) in self.live.strangers(&recorded) {
            self.fault("volume", format!("{chunk}: has {part}, of which the journal knows nothing"));
        }
    }

    fn catalog(&mut self, generation: &Generation) -> Result<()> {
        if !generation.guard.root().is_empty() {
            let root = catalog_root(generation.guard.root())?;
            debug_assert_eq!(root.id, CATALOG_TREE);
            self.walk("catalog", &root, &mut |_, _| Ok(()));
        }
        Ok(())
    }

    fn table(&mut self, db: &Database, table: &Table) {
        let mut segments = self.segments(db, table);
        let layout = table.primary_layout();
        let mut decoder = EntryDecoder::new(layout.clone());
        let mut indexes: Vec<(EntryEncoder, Digest)> = table
            .indexes
            .iter()
            .map(|index| (EntryEncoder::new(table.index_layout(index)), Digest::default()))
            .collect();
        self.walk(&table.name, &table.root, &mut |key, row| {
            well_formed(&layout, key, row)?;
            let encoded = decoder.decode(table, key, row, |values| {
                for (encoder, digest) in &mut indexes {
                    encoder.encode(&mut Vec::new(), |column| values[column])?;
                    digest.add(&encoder.key, &encoder.row);
                }
                if let Some(segments) = &mut segments {
                    segments.add_row(key, values);
                }
                Ok(())
            });
            encoded.flatten().map_err(|error: saki_catalog::SqlError| error.message)
        });
        self.report.tables += 1;
        self.report.rows += table.root.entries;
        if let Some(segments) = segments {
            segments.faults(table).into_iter().for_each(|what| self.fault(&table.name, what));
        }
        for (index, (encoder, expected)) in table.indexes.iter().zip(indexes) {
            let name = format!("{}.{}", table.name, index.name);
            let mut found = Digest::default();
            self.walk(&name, &index.root, &mut |key, row| {
                found.add(key, row);
                well_formed(&encoder.layout, key, row)
            });
            self.report.indexes += 1;
            if found.entries != expected.entries {
                self.fault(&name, format!("{} entries for {} rows of {}", found.entries, expected.entries, table.name));
            } else if found != expected {
                self.fault(&name, format!("entries differ from the rows of {}", table.name));
            }
        }
    }

    /// Trees and segments that a transaction has built, which is open or was not ended: each for itself.
    fn staged(&mut self, db: &Database, table: &Table) {
        let name = format!("{} (staged)", table.name);
        for tree in std::iter::once(&table.root).chain(table.indexes.iter().map(|index| &index.root)) {
            self.walk(&name, tree, &mut |_, _| Ok(()));
        }
        self.segments(db, table);
    }

    /// What the table's segments hold, if it has any.
    fn segments(&mut self, db: &Database, table: &Table) -> Option<SegmentSums> {
        let root = table.segments.as_ref()?;
        let object = format!("{} (columns)", table.name);
        let mut progress = |pages, pages_expected| {
            (self.progress)(&CheckProgress { object: object.clone(), pages, pages_expected });
        };
        let sums = SegmentSums::of_segments(db, &mut self.fetcher, table, root, &mut self.live, &mut progress);
        self.report.segments += sums.segments();
        self.report.pages += sums.pages();
        Some(sums)
    }

    fn walk(&mut self, object: &str, root: &TreeRoot, entry: &mut LookAt<'_>) {
        let mut inspect = Walk { object, entry, progress: self.progress };
        let seen = verify(&mut self.fetcher, root, &mut self.live, &mut inspect);
        self.report.pages += seen.pages();
        for fault in seen.faults {
            self.fault(object, fault.to_string());
        }
    }
}

/// Looks at an entry's key and row, and says what is wrong with it.
type LookAt<'l> = dyn FnMut(&[u8], &[u8]) -> Result<(), String> + 'l;

struct Walk<'w> {
    object: &'w str,
    entry: &'w mut LookAt<'w>,
    progress: &'w mut dyn FnMut(&CheckProgress),
}

impl Inspect for Walk<'_> {
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        (self.entry)(key, value)
    }

    fn progress(&mut self, pages: u64, pages_expected: u64) {
        (self.progress)(&CheckProgress { object: self.object.to_owned(), pages, pages_expected });
    }
}

fn well_formed(layout: &EntryLayout, key: &[u8], row: &[u8]) -> Result<(), String> {
    let mut scratch = Vec::new();
    for position in 0..layout.key_columns.len() {
        layout.key.decode(key, position, &mut scratch).map_err(|error| format!("key: {error}"))?;
    }
    layout.row.verify(row).map_err(|error| format!("row: {error}"))
}
