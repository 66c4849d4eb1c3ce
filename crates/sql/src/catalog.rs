//! What tables and indexes there are, and where their trees are rooted.
//!
//! The catalog is a tree of its own: each entry is a table with its indexes and statistics,
//! as JSON. Its root is the volume's root payload, so one
//! publish replaces tables, indexes and catalog together. In memory it is a value: a
//! statement works on the one it began with, a writer changes a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use saki_base::{Column, DataType, KeyColumn, KeyLayout, RowColumn, RowLayout, TableId, TreeId};
use saki_columns::SegmentsRoot;
use saki_tree::TreeRoot;
use serde::{Deserialize, Serialize};

use crate::delta::{LogState, same_layout};
use crate::error::{Result, SqlError};
use crate::statistics::TableStatistics;

/// Name of the key column of a table without a primary key. Never visible.
pub const ROW_ID: &str = "row id";

/// A table and everything that is stored for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    pub id: TableId,
    pub name: String,
    pub columns: Vec<Column>,
    /// Positions in `columns`; empty: entries are keyed by a hidden row id.
    pub primary_key: Vec<usize>,
    /// The next hidden row id.
    pub next_row_id: i64,
    pub root: TreeRoot,
    pub indexes: Vec<Index>,
    /// The rows column by column; `None`: `columns = off`.
    #[serde(default)]
    pub segments: Option<SegmentsRoot>,
    /// Columns whose segments have Bloom filters, ascending; none where there are no segments.
    #[serde(default)]
    pub bloom: Vec<usize>,
    pub statistics: Option<TableStatistics>,
    /// Which delta is the table's: another one for each layout that its rows have had.
    #[serde(default = "no_delta")]
    pub delta: TableId,
    /// The base has every transaction on the table up to this timestamp.
    #[serde(default)]
    pub merged_through: u64,
}

/// No table has this number.
fn no_delta() -> TableId {
    TableId(0)
}

/// A secondary index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    pub name: String,
    pub columns: Vec<IndexColumn>,
    pub unique: bool,
    /// Columns carried along, for lookups that need no more.
    pub include: Vec<usize>,
    pub root: TreeRoot,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IndexColumn {
    pub column: usize,
    pub descending: bool,
}

/// How a tree's entries are made of a table's columns.
#[derive(Clone, Debug)]
pub struct EntryLayout {
    pub key: KeyLayout,
    pub row: RowLayout,
    /// Table column of each key column; `Table::row_id()` for the hidden one.
    pub key_columns: Vec<usize>,
    /// Table column of each row column.
    pub row_columns: Vec<usize>,
}

impl Table {
    /// The position that stands for the hidden row id.
    pub fn row_id(&self) -> usize {
        self.columns.len()
    }

    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Name and type of a column, the hidden one included.
    pub fn column_type(&self, column: usize) -> (&str, DataType, bool) {
        match self.columns.get(column) {
            Some(column) => (&column.name, column.data_type, column.nullable),
            None => (ROW_ID, DataType::Int8, false),
        }
    }

    /// The hidden row id as a column.
    pub fn row_id_column(&self) -> Column {
        Column { name: ROW_ID.into(), data_type: DataType::Int8, nullable: false }
    }

    /// Whether a row may be changed without a look at rules or at other tables.
    pub(crate) fn is_free_of_rules(&self) -> bool {
        true
    }

    /// Whether a column that is given no value has one.
    pub(crate) fn has_default(&self, _: usize) -> bool {
        false
    }

    /// Whether rows stay in memory when they have been merged.
    pub(crate) fn is_resident(&self) -> bool {
        false
    }

    /// Columns of the primary tree's key.
    pub fn key_columns(&self) -> Vec<usize> {
        if self.primary_key.is_empty() { vec![self.row_id()] } else { self.primary_key.clone() }
    }

    pub fn primary_layout(&self) -> EntryLayout {
        let key_columns = self.key_columns();
        let row_columns = (0..self.columns.len()).filter(|column| !key_columns.contains(column)).collect();
        let key = key_columns.iter().map(|column| (*column, false)).collect::<Vec<_>>();
        self.layout(&key, row_columns)
    }

    /// Index columns, then what remains of the primary key, then INCLUDE columns.
    pub fn index_layout(&self, index: &Index) -> EntryLayout {
        let mut key: Vec<(usize, bool)> = index.columns.iter().map(|c| (c.column, c.descending)).collect();
        for column in self.key_columns() {
            if !key.iter().any(|(present, _)| *present == column) {
                key.push((column, false));
            }
        }
        let include = index.include.iter().copied().filter(|column| !key.iter().any(|(k, _)| k == column)).collect();
        self.layout(&key, include)
    }

    fn layout(&self, key: &[(usize, bool)], row_columns: Vec<usize>) -> EntryLayout {
        EntryLayout {
            key: KeyLayout::new(key.iter().map(|(column, descending)| {
                let (_, data_type, nullable) = self.column_type(*column);
                KeyColumn { data_type, nullable, descending: *descending }
            })),
            row: RowLayout::new(row_columns.iter().map(|column| {
                let (_, data_type, nullable) = self.column_type(*column);
                RowColumn { data_type, nullable }
            })),
            key_columns: key.iter().map(|(column, _)| *column).collect(),
            row_columns,
        }
    }

    /// The table as queries see it.
    pub fn schema(&self) -> SchemaRef {
        let field = |c: &Column| Field::new(&c.name, saki_exec::arrow_type(c.data_type), c.nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// Names of columns, for messages.
    pub fn names(&self, columns: &[usize]) -> String {
        columns.iter().map(|column| self.column_type(*column).0).collect::<Vec<_>>().join(", ")
    }

    /// What a message calls the constraint that the primary key is.
    pub fn primary_key_name(&self) -> String {
        format!("{}_pkey", self.name)
    }
}

/// All tables of one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    tables: BTreeMap<String, Arc<Table>>,
    next_table: u32,
    next_tree: u32,
    pub logs: LogState,
}

/// The document about the logs.
const LOGS: &str = "logs";

/// The catalog's own tree.
pub const CATALOG_TREE: TreeId = TreeId(0);

impl Catalog {
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    /// The table, or an error that names those there are.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        self.get(name).ok_or_else(|| {
            let names = self.tables.keys().take(20).cloned().collect::<Vec<_>>().join(", ");
            let error = SqlError::invalid(format!("there is no table {name:?}"));
            if names.is_empty() {
                error.hint("the database has no tables yet")
            } else {
                error.hint(format!("tables are: {names}"))
            }
        })
    }

    /// The table an index belongs to, and its position there.
    pub fn index(&self, name: &str) -> Option<(&Arc<Table>, usize)> {
        self.tables.values().find_map(|t| t.indexes.iter().position(|i| i.name == name).map(|position| (t, position)))
    }

    /// Gives every table whose rows are laid out otherwise than in `before`, or that is new, a delta of its own.
    pub(crate) fn renew_deltas(&mut self, before: &Self) {
        let is_kept = |table: &Table| {
            table.delta != no_delta()
                && before.tables.values().any(|old| old.delta == table.delta && same_layout(old, table))
        };
        let changed: Vec<Table> =
            self.tables.values().filter(|table| !is_kept(table)).map(|table| Table::clone(table)).collect();
        for mut table in changed {
            table.delta = self.new_table_id();
            self.put(table);
        }
    }

    pub fn new_table_id(&mut self) -> TableId {
        self.next_table += 1;
        TableId(self.next_table)
    }

    pub fn new_tree_id(&mut self) -> TreeId {
        self.next_tree += 1;
        TreeId(self.next_tree)
    }

    pub fn put(&mut self, table: Table) {
        self.tables.insert(table.name.clone(), Arc::new(table));
    }

    pub fn remove(&mut self, name: &str) -> Option<Arc<Table>> {
        self.tables.remove(name)
    }

    /// Key and row layouts of the catalog tree: a document's name, and its JSON.
    pub fn entry_layout() -> (KeyLayout, RowLayout) {
        let key = KeyColumn { data_type: DataType::Text, nullable: false, descending: false };
        let row = RowColumn { data_type: DataType::Bytea, nullable: false };
        (KeyLayout::new([key]), RowLayout::new([row]))
    }

    /// Named documents to store: one for the counters, one for each table.
    pub fn documents(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let encode = |error: serde_json::Error| SqlError::internal(format!("catalog: {error}"));
        let counters = serde_json::to_vec(&(self.next_table, self.next_tree)).map_err(encode)?;
        let logs = serde_json::to_vec(&self.logs).map_err(encode)?;
        let mut documents = vec![(String::new(), counters), (LOGS.to_owned(), logs)];
        for (name, table) in &self.tables {
            documents.push((format!("table {name}"), serde_json::to_vec(table.as_ref()).map_err(encode)?));
        }
        documents.sort();
        Ok(documents)
    }

    /// The inverse of [`Self::documents`].
    pub fn from_documents(documents: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Self> {
        let mut catalog = Self::default();
        for (name, bytes) in documents {
            let corrupt = |error: serde_json::Error| SqlError::corrupt(format!("catalog entry {name:?}: {error}"));
            if name == LOGS {
                catalog.logs = serde_json::from_slice(&bytes).map_err(corrupt)?;
            } else if name.is_empty() {
                (catalog.next_table, catalog.next_tree) = serde_json::from_slice(&bytes).map_err(corrupt)?;
            } else {
                catalog.put(serde_json::from_slice(&bytes).map_err(corrupt)?);
            }
        }
        Ok(catalog)
    }
}
