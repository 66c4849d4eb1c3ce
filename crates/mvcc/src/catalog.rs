//! The catalog: which tables there are, and whose logs these are. A small file, replaced as a whole, before a change counts.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use saki_base::TableId;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::table::{Table, TableDefinition};

const FILE_NAME: &str = "catalog.json";
const FORMAT: u32 = 1;

/// The tables' definitions, by number, and where they are kept.
#[derive(Debug)]
pub struct Catalog {
    /// Which of this process it is: its tables are good in the database opened with it, and no other.
    instance: u32,
    content: Content,
    /// `None`: nowhere, for databases on devices that are not files.
    path: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    format: u32,
    /// The database's identity, which its logs carry.
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
                Ok(Self { instance: next_instance(), content, path: Some(path) })
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

    /// A catalog that is kept nowhere.
    pub fn in_memory(database: u64, logs: usize) -> Self {
        let content = Content { format: FORMAT, database, logs, tables: Vec::new() };
        Self { instance: next_instance(), content, path: None }
    }

    /// The same again, as a restart would find it.
    pub fn reopened(&self) -> Self {
        Self { instance: next_instance(), content: self.content.clone(), path: self.path.clone() }
    }

    /// Adds a table, to an in-memory catalog before it is opened.
    ///
    /// # Errors
    /// As [`Database::create_table`](crate::Database::create_table).
    pub fn add(&mut self, definition: TableDefinition) -> Result<Table, Error> {
        if self.content.tables.iter().flatten().any(|table| table.name == definition.name) {
            return Err(Error::Name { message: format!("there is a table \"{}\" already", definition.name) });
        }
        let id = TableId(self.content.tables.len() as u32);
        let table = Table::new(self.instance, id, definition.clone())?;
        self.content.tables.push(Some(definition));
        if let Err(error) = self.write() {
            self.content.tables.pop();
            return Err(error);
        }
        Ok(table)
    }

    pub(crate) fn instance(&self) -> u32 {
        self.instance
    }

    pub fn database(&self) -> u64 {
        self.content.database
    }

    pub fn logs(&self) -> usize {
        self.content.logs
    }

    /// The tables, empty.
    pub(crate) fn tables(&self) -> Result<Vec<Option<Table>>, Error> {
        let make = |(id, definition): (u32, &Option<TableDefinition>)| {
            definition.clone().map(|definition| Table::new(self.instance, TableId(id), definition)).transpose()
        };
        (0..).zip(&self.content.tables).map(make).collect()
    }

    /// Writes the file anew, so that after a crash it is the old one or the new one.
    fn write(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let write = || -> std::io::Result<()> {
            let text = serde_json::to_string_pretty(&self.content).map_err(std::io::Error::other)?;
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
