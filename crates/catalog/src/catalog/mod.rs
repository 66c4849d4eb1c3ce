//! What tables and indexes there are, and where their trees are rooted.
//!
//! The catalog is a tree of its own: each entry is a table with its indexes and statistics,
//! as JSON. Its root is the volume's root payload, so one
//! publish replaces tables, indexes and catalog together. In memory it is a value: a
//! statement works on the one it began with, a writer changes a copy.

mod constraint;
mod difference;
mod documents;
mod errors;
mod integrity;
mod objects;
mod owners;
mod privileges;
mod question;
mod roles;
mod staged;
pub(crate) mod statistics;
mod tier;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_schema::{Field, Schema, SchemaRef};
use saki_base::{Column, DataType, KeyColumn, KeyLayout, RowColumn, RowLayout, TableId, TreeId};
use saki_columns::{ColumnType, SegmentsRoot};
use saki_tree::TreeRoot;
use serde::{Deserialize, Serialize};

pub use self::constraint::{Check, ColumnDetail, ForeignKey, Identity, ReferentialAction};
pub use self::difference::{Changed, Difference, same_layout};
pub use self::integrity::{VIEW_DEPTH_MAX, nextval};
pub use self::objects::{SchemaEntry, Sequence, SequenceOwner, SequencePosition, View, ViewColumn, bare, qualified};
pub use self::privileges::{
    Access, Acl, AclItem, DefaultAcl, Demand, Demanded, Dependents, Membership, ObjectId, ObjectKind, Privilege,
    Privileges, Role, RoleId, denied,
};
use self::statistics::TableStatistics;
pub use self::tier::TableTier;
use crate::PUBLIC;
use crate::error::{Result, SqlError, undefined};

/// Name of the key column of a table without a primary key. Never visible.
pub const ROW_ID: &str = "row id";

/// A table and everything that is stored for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    pub id: TableId,
    /// What statements call it: behind its schema's name, unless that is `public`.
    pub name: String,
    #[serde(default = "public")]
    pub schema: String,
    pub columns: Vec<Column>,
    /// One for each of `columns`.
    #[serde(default)]
    pub details: Vec<ColumnDetail>,
    /// The next [`ColumnDetail::id`].
    #[serde(default)]
    pub next_column_id: u32,
    /// Grows whenever keys or rows get another layout: entries encoded before are not this table's any more.
    #[serde(default)]
    pub layout_version: u32,
    /// Positions in `columns`; empty: entries are keyed by a hidden row id.
    pub primary_key: Vec<usize>,
    /// `None`: the table's name with `_pkey`.
    #[serde(default)]
    pub primary_key_constraint: Option<String>,
    /// Of the primary key's constraint.
    #[serde(default)]
    pub primary_key_comment: Option<String>,
    #[serde(default)]
    pub checks: Vec<Check>,
    #[serde(default)]
    pub foreign_keys: Vec<ForeignKey>,
    /// Whether rows stay in memory after a merge.
    #[serde(default)]
    pub resident: bool,
    #[serde(default)]
    pub tier: TableTier,
    #[serde(default)]
    pub comment: Option<String>,
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
    /// As [`Table::name`].
    pub name: String,
    /// Its table's.
    #[serde(default = "public")]
    pub schema: String,
    pub columns: Vec<IndexColumn>,
    pub unique: bool,
    /// Columns carried along, for lookups that need no more.
    pub include: Vec<usize>,
    /// Whether it is a UNIQUE constraint: it goes by DROP CONSTRAINT.
    #[serde(default)]
    pub constraint: bool,
    /// Of that constraint; the index has one of its own.
    #[serde(default)]
    pub constraint_comment: Option<String>,
    #[serde(default)]
    pub comment: Option<String>,
    pub root: TreeRoot,
}

fn public() -> String {
    PUBLIC.to_owned()
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
    pub fn is_free_of_rules(&self, catalog: &Catalog) -> bool {
        self.checks.is_empty() && self.foreign_keys.is_empty() && catalog.referencing(self.id).next().is_none()
    }

    /// Whether its rows refer to rows of other tables.
    pub fn is_free_of_references(&self) -> bool {
        self.foreign_keys.is_empty()
    }

    /// Whether a column that is given no value has one.
    pub fn has_default(&self, column: usize) -> bool {
        self.details.get(column).is_some_and(|detail| detail.default.is_some() || detail.identity.is_some())
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

    /// The columns that segments have: those that queries see.
    pub fn column_types(&self) -> Vec<ColumnType> {
        let column =
            |c: &saki_base::Column| ColumnType { name: c.name.clone(), data_type: c.data_type, nullable: c.nullable };
        self.columns.iter().map(column).collect()
    }

    /// Names of columns, for messages.
    pub fn names(&self, columns: &[usize]) -> String {
        columns.iter().map(|column| self.column_type(*column).0).collect::<Vec<_>>().join(", ")
    }

    /// What a message calls the constraint that the primary key is.
    pub fn primary_key_name(&self) -> String {
        self.primary_key_constraint.clone().unwrap_or_else(|| format!("{}_pkey", self.bare_name()))
    }

    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

impl Index {
    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

/// What the catalog says of the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogState {
    /// Which logs are this database's; `None`: it has none, its base is all there is.
    pub database: Option<u64>,
    pub logs: usize,
    /// The base has every transaction up to this timestamp.
    pub merged_through: u64,
    /// When this was written, the logs told of timestamps up to this one: logs that do not are older than the base.
    #[serde(default)]
    pub known_through: u64,
}

/// What one transaction has built. Whoever opens the database after a crash gives its pages back, unless the
/// transaction has been prepared and its mark is in the logs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Staged {
    /// A number that no other thing in the catalog has.
    pub id: u32,
    /// Tables with those of their trees and segments that were built; the others are empty here.
    pub tables: Vec<Table>,
    /// `None`: the transaction has not been committed.
    pub prepared: Option<Prepared>,
}

/// A commit that depends on whether the rows that were changed with the catalog are in the logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prepared {
    /// Documents as they are after the commit: name and JSON; none where one is to go.
    pub documents: Vec<(String, Option<String>)>,
}

/// All relations of one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    tables: BTreeMap<String, Arc<Table>>,
    views: BTreeMap<String, Arc<View>>,
    sequences: BTreeMap<String, Arc<Sequence>>,
    /// All but `public`.
    schemas: BTreeMap<String, Arc<SchemaEntry>>,
    /// Those that differ from what every database has.
    roles: BTreeMap<RoleId, Arc<Role>>,
    access: BTreeMap<ObjectId, Arc<Access>>,
    staged: BTreeMap<u32, Arc<Staged>>,
    ids: Arc<Ids>,
    pub logs: LogState,
}

/// The numbers given last. All versions of a catalog share them, so that no two changes of it, be they published or
/// not, give the same number to different things.
#[derive(Debug, Default)]
struct Ids {
    table: AtomicU32,
    tree: AtomicU32,
}

/// The catalog's own tree.
pub const CATALOG_TREE: TreeId = TreeId(0);

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelationKind {
    Table,
    Index,
    View,
    Sequence,
}

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
            if let Some(kind) = self.kind_of(name) {
                return SqlError::invalid(format!("{name:?} is not a table")).code("42809").hint(match kind {
                    RelationKind::Index => "it is an index",
                    RelationKind::Sequence => "it is a sequence",
                    _ => "it is a view",
                });
            }
            let names = self.tables.keys().take(20).cloned().collect::<Vec<_>>().join(", ");
            let error = undefined(name);
            if names.is_empty() {
                error.hint("the database has no tables yet")
            } else {
                error.hint(format!("tables are: {names}"))
            }
        })
    }

    pub fn table_of(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.id == id)
    }

    /// The table an index belongs to, and its position there.
    pub fn index(&self, name: &str) -> Option<(&Arc<Table>, usize)> {
        self.tables.values().find_map(|t| t.indexes.iter().position(|i| i.name == name).map(|position| (t, position)))
    }

    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values()
    }

    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.get(name)
    }

    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }

    pub fn sequence(&self, name: &str) -> Option<&Arc<Sequence>> {
        self.sequences.get(name)
    }

    /// The sequence that belongs to a column: a serial's or an identity's.
    pub fn owned_sequence(&self, table: TableId, column: u32) -> Option<&Arc<Sequence>> {
        self.sequences.values().find(|sequence| sequence.owner == Some(SequenceOwner { table, column }))
    }

    /// Names of all schemas, `public` among them.
    pub fn schema_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(PUBLIC).chain(self.schemas.keys().map(String::as_str))
    }

    /// All schemas but `public`.
    pub fn schemas(&self) -> impl Iterator<Item = &SchemaEntry> {
        self.schemas.values().map(Arc::as_ref)
    }

    pub fn has_schema(&self, name: &str) -> bool {
        name == PUBLIC || self.schemas.contains_key(name)
    }

    /// Tables, indexes, views and sequences share their names.
    pub fn kind_of(&self, name: &str) -> Option<RelationKind> {
        if self.tables.contains_key(name) {
            Some(RelationKind::Table)
        } else if self.views.contains_key(name) {
            Some(RelationKind::View)
        } else if self.sequences.contains_key(name) {
            Some(RelationKind::Sequence)
        } else {
            self.index(name).map(|_| RelationKind::Index)
        }
    }

    /// The number under which a table, a view or a sequence is locked.
    pub fn id_of(&self, name: &str) -> Option<TableId> {
        let table = self.tables.get(name).map(|table| table.id);
        let view = || self.views.get(name).map(|view| view.id);
        table.or_else(view).or_else(|| self.sequences.get(name).map(|sequence| sequence.id))
    }

    /// Refuses a name that a relation has.
    pub fn refuse_taken(&self, name: &str) -> Result<()> {
        match self.kind_of(name) {
            None => Ok(()),
            Some(_) => Err(SqlError::invalid(format!("relation {name:?} already exists")).code("42P07")),
        }
    }

    pub fn new_table_id(&self) -> TableId {
        TableId(self.ids.table.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub fn new_tree_id(&self) -> TreeId {
        TreeId(self.ids.tree.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub fn put(&mut self, table: Table) {
        self.tables.insert(table.name.clone(), Arc::new(table));
    }

    pub fn remove(&mut self, name: &str) -> Option<Arc<Table>> {
        self.tables.remove(name)
    }

    pub fn put_view(&mut self, view: View) {
        self.views.insert(view.name.clone(), Arc::new(view));
    }

    pub fn remove_view(&mut self, name: &str) -> Option<Arc<View>> {
        self.views.remove(name)
    }

    pub fn put_sequence(&mut self, sequence: Sequence) {
        self.sequences.insert(sequence.name.clone(), Arc::new(sequence));
    }

    pub fn remove_sequence(&mut self, name: &str) -> Option<Arc<Sequence>> {
        self.sequences.remove(name)
    }

    pub fn put_schema(&mut self, schema: SchemaEntry) {
        self.schemas.insert(schema.name.clone(), Arc::new(schema));
    }

    pub fn remove_schema(&mut self, name: &str) -> Option<SchemaEntry> {
        self.schemas.remove(name).map(Arc::unwrap_or_clone)
    }

    /// What open transactions have written ahead of their commits.
    pub fn staged(&self) -> impl Iterator<Item = &Arc<Staged>> {
        self.staged.values()
    }

    pub fn put_staged(&mut self, staged: Staged) {
        self.staged.insert(staged.id, Arc::new(staged));
    }

    pub fn remove_staged(&mut self, id: u32) -> Option<Arc<Staged>> {
        self.staged.remove(&id)
    }
}

/// The error for a name that no column of the table has.
pub fn undefined_column(table: &Table, name: &str) -> SqlError {
    let names = table.columns.iter().take(20).map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    SqlError::invalid(format!("column {name:?} of relation {:?} does not exist", table.bare_name()))
        .code("42703")
        .hint(format!("its columns are: {names}"))
}
