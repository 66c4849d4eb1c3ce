//! What tables and indexes there are, and where their trees are rooted.
//!
//! The catalog is a tree of its own: each entry is a table with its indexes and statistics,
//! as JSON. Its root is the volume's root payload, so one
//! publish replaces tables, indexes and catalog together. In memory it is a value: a
//! statement works on the one it began with, a writer changes a copy. Copies share what they have in common
//! ([`SharedMap`]), so that a change costs what it changes, however many relations there are; what is not found by its
//! name has a way of its own ([`lookups`]).

mod constraint;
mod difference;
mod documents;
mod integrity;
mod lookups;
mod objects;
mod owners;
mod privileges;
mod question;
mod roles;
mod staged;
pub(crate) mod statistics;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use saki_base::{TableId, TreeId};
use serde::{Deserialize, Serialize};

pub use self::constraint::{Check, ColumnDetail, Deferral, ForeignKey, Hidden, Identity, KeyId, ReferentialAction};
pub use self::difference::{Changed, Difference, same_layout};
pub use self::integrity::{VIEW_DEPTH_MAX, nextval};
use self::lookups::{Lookups, under};
pub use self::objects::{
    EnumType, Place, SchemaEntry, Sequence, SequenceOwner, SequencePosition, View, ViewColumn, bare, qualified,
};
pub use self::privileges::{
    Access, Acl, AclItem, DefaultAcl, Demand, Demanded, Dependents, Membership, ObjectId, ObjectKind, Privilege,
    Privileges, Role, RoleId, denied,
};
pub use self::table::{EntryLayout, Index, IndexColumn, ROW_ID, Table, TableTier};
use crate::PUBLIC;
use crate::error::{Result, SqlError, undefined};
use crate::map::SharedMap;

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
    tables: SharedMap<String, Arc<Table>>,
    views: SharedMap<String, Arc<View>>,
    sequences: SharedMap<String, Arc<Sequence>>,
    enum_types: SharedMap<String, Arc<EnumType>>,
    /// All but `public`.
    schemas: SharedMap<String, Arc<SchemaEntry>>,
    /// Those that differ from what every database has.
    roles: SharedMap<RoleId, Arc<Role>>,
    access: SharedMap<ObjectId, Arc<Access>>,
    staged: SharedMap<u32, Arc<Staged>>,
    lookups: Lookups,
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

    /// The table an index belongs to, and its position there.
    pub fn index(&self, name: &str) -> Option<(&Arc<Table>, usize)> {
        let place = |table: &Table| table.indexes.iter().position(|index| index.name == name);
        let mut tables = under(&self.lookups.indexes, name.to_owned()).filter_map(|table| self.tables.get(table));
        tables.find_map(|table| Some((table, place(table)?)))
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
        self.owned_sequences(table).find(|sequence| sequence.owner == Some(SequenceOwner { table, column }))
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
        self.put_table(Arc::new(table));
    }

    fn put_table(&mut self, table: Arc<Table>) {
        let table = self.bound(table);
        let before = self.tables.insert(table.name.clone(), Arc::clone(&table));
        self.lookups.table(before.as_deref(), Some(&table));
    }

    pub fn remove(&mut self, name: &str) -> Option<Arc<Table>> {
        let removed = self.tables.remove(name);
        self.lookups.table(removed.as_deref(), None);
        removed
    }

    pub fn put_view(&mut self, view: View) {
        self.put_shared_view(Arc::new(view));
    }

    fn put_shared_view(&mut self, view: Arc<View>) {
        let view = self.bound_view(view);
        let before = self.views.insert(view.name.clone(), Arc::clone(&view));
        self.lookups.view(before.as_deref(), Some(&view));
    }

    pub fn remove_view(&mut self, name: &str) -> Option<Arc<View>> {
        let removed = self.views.remove(name);
        self.lookups.view(removed.as_deref(), None);
        removed
    }

    pub fn put_sequence(&mut self, sequence: Sequence) {
        self.put_shared_sequence(Arc::new(sequence));
    }

    fn put_shared_sequence(&mut self, sequence: Arc<Sequence>) {
        let before = self.sequences.insert(sequence.name.clone(), Arc::clone(&sequence));
        self.lookups.sequence(before.as_deref(), Some(&sequence));
    }

    pub fn remove_sequence(&mut self, name: &str) -> Option<Arc<Sequence>> {
        let removed = self.sequences.remove(name);
        self.lookups.sequence(removed.as_deref(), None);
        removed
    }

    pub fn put_schema(&mut self, schema: SchemaEntry) {
        self.put_shared_schema(Arc::new(schema));
    }

    fn put_shared_schema(&mut self, schema: Arc<SchemaEntry>) {
        let before = self.schemas.insert(schema.name.clone(), Arc::clone(&schema));
        self.lookups.schema(before.as_deref(), Some(&schema));
    }

    pub fn remove_schema(&mut self, name: &str) -> Option<SchemaEntry> {
        let removed = self.schemas.remove(name);
        self.lookups.schema(removed.as_deref(), None);
        removed.map(Arc::unwrap_or_clone)
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

/// What is not found by its name.
impl Catalog {
    pub fn table_of(&self, id: TableId) -> Option<&Arc<Table>> {
        under(&self.lookups.tables, id).find_map(|name| self.tables.get(name))
    }

    pub fn view_of(&self, id: TableId) -> Option<&Arc<View>> {
        under(&self.lookups.views, id).find_map(|name| self.views.get(name))
    }

    pub fn sequence_of(&self, id: TableId) -> Option<&Arc<Sequence>> {
        under(&self.lookups.sequences, id).find_map(|name| self.sequences.get(name))
    }

    /// The tables that have a delta: one, but for tables that have had none yet.
    pub fn with_delta(&self, delta: TableId) -> impl Iterator<Item = &Arc<Table>> {
        under(&self.lookups.deltas, delta).filter_map(|name| self.tables.get(name))
    }

    /// The tables whose foreign keys refer to one.
    fn referring(&self, table: TableId) -> impl Iterator<Item = &Arc<Table>> {
        under(&self.lookups.referring, table).filter_map(|name| self.tables.get(name))
    }

    /// The tables that have a default of this text, which draws from a sequence and does nothing else.
    pub fn drawing(&self, text: &str) -> impl Iterator<Item = &Arc<Table>> {
        under(&self.lookups.drawing, text.to_owned()).filter_map(|name| self.tables.get(name))
    }

    /// The views that name a relation.
    pub fn views_naming(&self, relation: &str) -> impl Iterator<Item = &Arc<View>> {
        under(&self.lookups.over, relation.to_owned()).filter_map(|name| self.views.get(name))
    }

    /// The views that need columns of a table, directly or by way of other views.
    pub fn views_using(&self, table: TableId) -> impl Iterator<Item = &Arc<View>> {
        under(&self.lookups.using, table).filter_map(|name| self.views.get(name))
    }

    /// Sequences that belong to columns of a table.
    pub fn owned_sequences(&self, table: TableId) -> impl Iterator<Item = &Arc<Sequence>> {
        under(&self.lookups.owned, table).filter_map(|name| self.sequences.get(name))
    }

    /// Whether there is an object of this number that has an owner.
    fn has_object(&self, object: ObjectId) -> bool {
        let (id, lookups) = (TableId(object.0), &self.lookups);
        let ways = [&lookups.tables, &lookups.views, &lookups.sequences, &lookups.schemas];
        let fixed = [ObjectId::PUBLIC_SCHEMA, ObjectId::DATABASE];
        let is_found = || ways.into_iter().any(|names| under(names, id).next().is_some());
        fixed.contains(&object) || is_found() || self.enum_type_of(id).is_some()
    }
}

/// The error for a name that no column of the table has.
pub fn undefined_column(table: &Table, name: &str) -> SqlError {
    let names = table.visible().iter().take(20).map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    SqlError::invalid(format!("column {name:?} of relation {:?} does not exist", table.bare_name()))
        .code("42703")
        .hint(format!("its columns are: {names}"))
}
