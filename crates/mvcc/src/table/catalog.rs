//! The catalog: which tables there are, and whose logs these are. A small file, replaced as a whole, before a change
//! counts.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use saki_base::TableId;
use serde::{Deserialize, Serialize};

use super::Table;
use super::definition::TableDefinition;
use crate::error::Error;

const FILE_NAME: &str = "catalog.json";
const FORMAT: u32 = 1;

/// The tables' definitions, by number, and where they are kept.
#[derive(Debug)]
pub struct Catalog {
    /// Which of this process it is: its tables are good in the database opened with it, and no other.
    instance: u32,
    /// The database's identity, which its logs carry.
    database: u64,
    logs: usize,
    tables: BTreeMap<u32, Defined>,
    /// Ids from this one on were never given out here.
    next_id: u32,
    /// `None`: nowhere, for databases on devices that are not files, and for catalogs that others keep.
    path: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Defined {
    definition: TableDefinition,
    /// Its rows through this timestamp are elsewhere.
    after: u64,
}

/// What the file holds. A table that was dropped leaves a gap: ids are not given out again.

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    format: u32,
    database: u64,
    logs: usize,
    tables: Vec<Option<TableDefinition>>,
}

impl Catalog {
    /// The catalog of a directory; a new one, for `logs` logs, if it has none.
    ///
    /// # Errors
    /// `Open`, naming the file.
    pub fn open(directory: &Path, logs: usize) -> Result<Self, Error> {
        let path = directory.join(FILE_NAME);
        match fs::read(&path) {
            Ok(bytes) => {
                let content: Content = serde_json::from_slice(&bytes).map_err(|error| fault(&path, &error))?;
                if content.format != FORMAT {
                    return Err(fault(
                        &path,
                        &format!("it has format {}, and this program knows {FORMAT}", content.format),
                    ));
                }
                let tables = (0..).zip(&content.tables).filter_map(|(id, definition)| {
                    definition.clone().map(|definition| (id, Defined { definition, after: 0 }))
                });
                Ok(Self {
                    instance: next_instance(),
                    database: content.database,
                    logs: content.logs,
                    tables: tables.collect(),
                    next_id: content.tables.len() as u32,
                    path: Some(path),
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir_all(directory).map_err(|error| fault(directory, &error))?;
                let mut catalog = Self::in_memory(random(), logs.max(1));
                catalog.path = Some(path);
                catalog.write()?;
                Ok(catalog)
            }
            Err(error) => Err(fault(&path, &error)),
        }
    }

    /// A catalog that is kept nowhere, or by the caller. Of tables that it does not have the logs may tell
    /// nevertheless: these were dropped.
    pub fn in_memory(database: u64, logs: usize) -> Self {
        Self { instance: next_instance(), database, logs, tables: BTreeMap::new(), next_id: 0, path: None }
    }

    /// The same again, as a restart would find it.
    pub fn reopened(&self) -> Self {
        let tables = self.tables.clone();
        Self { instance: next_instance(), tables, path: self.path.clone(), ..*self }
    }

    /// Adds a table, to an in-memory catalog before it is opened.
    ///
    /// # Errors
    /// As [`Database::create_table`](crate::Database::create_table).
    pub fn add(&mut self, definition: TableDefinition) -> Result<Table, Error> {
        if self.tables.values().any(|table| table.definition.name == definition.name) {
            return Err(Error::Name { message: format!("there is a table \"{}\" already", definition.name) });
        }
        self.define(TableId(self.next_id), definition, 0)
    }

    /// Adds a table that the caller keeps the definition of, and the rows through the timestamp `after`: what the logs
    /// say of these is passed by. Names need not be distinct, ids must, also from those of tables that were dropped.
    ///
    /// # Errors
    /// `Name` if there is a table of that id or the definition contradicts itself; `Open` if there is a file and it
    /// cannot be written.
    pub fn define(&mut self, id: TableId, definition: TableDefinition, after: u64) -> Result<Table, Error> {
        if self.tables.contains_key(&id.0) {
            return Err(Error::Name { message: format!("there is a table of number {} already", id.0) });
        }
        let table = Table::new(self.instance, id, definition.clone())?;
        let next_id = self.next_id;
        self.next_id = next_id.max(id.0.saturating_add(1));
        self.tables.insert(id.0, Defined { definition, after });
        if let Err(error) = self.write() {
            self.tables.remove(&id.0);
            self.next_id = next_id;
            return Err(error);
        }
        Ok(table)
    }

    /// Takes a table out.
    ///
    /// # Errors
    /// `Open` if there is a file and it cannot be written.
    pub(crate) fn remove(&mut self, id: TableId) -> Result<(), Error> {
        let Some(removed) = self.tables.remove(&id.0) else { return Ok(()) };
        self.write().inspect_err(|_| _ = self.tables.insert(id.0, removed))
    }

    pub(crate) fn instance(&self) -> u32 {
        self.instance
    }

    pub fn database(&self) -> u64 {
        self.database
    }

    pub fn logs(&self) -> usize {
        self.logs
    }

    /// The tables, empty, each with the timestamp through which its rows are elsewhere.
    pub(crate) fn tables(&self) -> Result<Vec<(Table, u64)>, Error> {
        let make = |(id, defined): (&u32, &Defined)| {
            Table::new(self.instance, TableId(*id), defined.definition.clone()).map(|table| (table, defined.after))
        };
        self.tables.iter().map(make).collect()
    }

    /// Whether a table that is not here may have been here.
    pub(crate) fn may_have_had(&self, id: u32) -> bool {
        self.path.is_none() || id < self.next_id
    }

    fn content(&self) -> Content {
        let definition = |id| self.tables.get(&id).map(|defined| defined.definition.clone());
        let tables = (0..self.next_id).map(definition).collect();
        Content { format: FORMAT, database: self.database, logs: self.logs, tables }
    }

    /// Writes the file anew, so that after a crash it is the old one or the new one.
    fn write(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let write = || -> std::io::Result<()> {
            let text = serde_json::to_string_pretty(&self.content()).map_err(std::io::Error::other)?;
            let beside = path.with_extension("new");
            let mut file = File::create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|error| fault(path, &error))
    }
}

fn next_instance() -> u32 {
    static INSTANCES: AtomicU32 = AtomicU32::new(0);
    INSTANCES.fetch_add(1, Ordering::Relaxed)
}

fn fault(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Open { message: format!("{}: {error}", path.display()) }
}

/// A number that no other database has, as far as the standard library's random keys go.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
