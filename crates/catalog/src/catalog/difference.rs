//! What one catalog has otherwise than another: what a publication writes, and what a transaction has changed.
//!
//! Definitions are shared between the versions of a catalog, so those that are the same are told by their addresses;
//! and so are the maps that they are in: what has not changed is not looked at.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use saki_base::TableId;

use super::table::no_delta;
use super::{Access, Catalog, EnumType, ObjectId, ObjectKind, Role, SchemaEntry, Sequence, Staged, Table, View};
use crate::map::SharedMap;

/// A definition under one name, in the older catalog and in the newer one; at least one of the two is there.
#[derive(Debug)]
pub struct Changed<T> {
    pub before: Option<Arc<T>>,
    pub after: Option<Arc<T>>,
}

/// All definitions that differ, by kind, each kind in the order of names.
#[derive(Debug, Default)]
pub struct Difference {
    pub tables: Vec<Changed<Table>>,
    pub views: Vec<Changed<View>>,
    pub sequences: Vec<Changed<Sequence>>,
    pub enum_types: Vec<Changed<EnumType>>,
    pub schemas: Vec<Changed<SchemaEntry>>,
    pub roles: Vec<Changed<Role>>,
    pub access: Vec<Changed<Access>>,
    pub(super) staged: Vec<Changed<Staged>>,
}

impl Catalog {
    /// What this catalog has otherwise than an older one.
    pub fn difference(&self, older: &Self) -> Difference {
        Difference {
            tables: differing(&older.tables, &self.tables),
            views: differing(&older.views, &self.views),
            sequences: differing(&older.sequences, &self.sequences),
            enum_types: differing(&older.enum_types, &self.enum_types),
            schemas: differing(&older.schemas, &self.schemas),
            roles: differing(&older.roles, &self.roles),
            access: differing(&older.access, &self.access),
            staged: differing(&older.staged, &self.staged),
        }
    }

    /// Gives every table whose rows are laid out otherwise than in `before`, or that is new, a delta of its own.
    pub fn renew_deltas(&mut self, before: &Self) {
        let is_kept = |table: &Table| before.with_delta(table.delta).any(|old| same_layout(old, table));
        let changed = differing(&before.tables, &self.tables).into_iter().filter_map(|table| table.after);
        let has_another = |table: &Arc<Table>| table.delta != no_delta() && !is_kept(table);
        // Of databases of before tables had deltas as well.
        let without = self.with_delta(no_delta()).map(Arc::clone);
        let renewed: Vec<Arc<Table>> = changed.filter(has_another).chain(without).collect();
        for table in renewed {
            let delta = self.new_table_id();
            self.put(Table { delta, ..Table::clone(&table) });
        }
    }

    /// Makes the same changes here, to what has been published since the older catalog of the difference. Where the
    /// base of a table has moved on meanwhile, and the change is not about that, it stays as it is here.
    pub fn change_by(&mut self, difference: &Difference) {
        let tables = before_by_id(&difference.tables, |table| table.id);
        let tables: Vec<_> = difference.tables.iter().map(|changed| self.rebased(&tables, changed)).collect();
        let sequences = before_by_id(&difference.sequences, |sequence| sequence.id);
        let sequences: Vec<_> = difference.sequences.iter().map(|changed| self.moved_on(&sequences, changed)).collect();
        // All that was goes before anything comes: names may have changed hands.
        before(&difference.tables).for_each(|table| drop(self.remove(&table.name)));
        before(&difference.views).for_each(|view| drop(self.remove_view(&view.name)));
        before(&difference.sequences).for_each(|sequence| drop(self.remove_sequence(&sequence.name)));
        before(&difference.enum_types).for_each(|of| drop(self.remove_enum_type(&of.name)));
        before(&difference.schemas).for_each(|schema| drop(self.remove_schema(&schema.name)));
        before(&difference.roles).for_each(|role| drop(self.roles.remove(&role.id)));
        before(&difference.access).for_each(|access| drop(self.access.remove(&access.object)));
        after(&difference.enum_types).for_each(|of| self.put_shared_enum_type(Arc::clone(of)));
        tables.into_iter().flatten().for_each(|table| self.put_table(table));
        sequences.into_iter().flatten().for_each(|sequence| self.put_shared_sequence(sequence));
        after(&difference.views).for_each(|view| self.put_shared_view(Arc::clone(view)));
        after(&difference.schemas).for_each(|schema| self.put_shared_schema(Arc::clone(schema)));
        after(&difference.roles).for_each(|role| drop(self.roles.insert(role.id, Arc::clone(role))));
        after(&difference.access).for_each(|access| drop(self.access.insert(access.object, Arc::clone(access))));
        // Of what one transaction has dropped, another may have said something meanwhile.
        self.forget_gone(difference);
    }

    /// What becomes of a sequence here: values that have been given out stay so.
    fn moved_on(&self, before: &ById<'_, Sequence>, changed: &Changed<Sequence>) -> Option<Arc<Sequence>> {
        let after = changed.after.as_ref()?;
        let here = before.get(&after.id).and_then(|before| self.sequences.get(&before.name));
        match here.filter(|here| here.id == after.id && here.version == after.version) {
            Some(here) => Some(Arc::new(Sequence { position: here.position, ..Sequence::clone(after) })),
            None => Some(Arc::clone(after)),
        }
    }

    /// What becomes of a table here.
    fn rebased(&self, before: &ById<'_, Table>, changed: &Changed<Table>) -> Option<Arc<Table>> {
        let after = changed.after.as_ref()?;
        let Some(before) = before.get(&after.id) else { return Some(Arc::clone(after)) };
        let Some(here) = self.tables.get(&before.name).filter(|here| here.id == after.id) else {
            return Some(Arc::clone(after));
        };
        if Arc::ptr_eq(here, before) || !after.is_stored_as(before) {
            return Some(Arc::clone(after));
        }
        let mut table = Table::clone(after);
        table.store_as(here);
        Some(Arc::new(table))
    }
}

/// What definitions were before they changed.
type ById<'d, T> = HashMap<TableId, &'d Arc<T>>;

/// Of each id the first, in the order of names.
fn before_by_id<T>(changes: &[Changed<T>], id: impl Fn(&T) -> TableId) -> ById<'_, T> {
    let mut by_id = HashMap::new();
    for before in before(changes) {
        by_id.entry(id(before)).or_insert(before);
    }
    by_id
}

fn before<T>(changes: &[Changed<T>]) -> impl Iterator<Item = &Arc<T>> {
    changes.iter().filter_map(|changed| changed.before.as_ref())
}

fn after<T>(changes: &[Changed<T>]) -> impl Iterator<Item = &Arc<T>> {
    changes.iter().filter_map(|changed| changed.after.as_ref())
}

impl Difference {
    /// A table of which these changes would undo what others have changed since: locks keep that from happening.
    pub fn undoes(&self, newest: &Catalog) -> Option<&Table> {
        let before = self.tables.iter().filter_map(|changed| changed.before.as_deref());
        let mut here = before.filter_map(|before| Some((before, newest.table_of(before.id)?)));
        here.find(|(before, here)| !same_indexes(before, here)).map(|(before, _)| before)
    }

    /// The schemas of all that is new, or not as it was.
    pub fn schemas_after(&self) -> impl Iterator<Item = &str> {
        let tables = after(&self.tables).map(|table| table.schema.as_str());
        let views = after(&self.views).map(|view| view.schema.as_str());
        let sequences = after(&self.sequences).map(|sequence| sequence.schema.as_str());
        let enum_types = after(&self.enum_types).map(|of| of.schema.as_str());
        tables.chain(views).chain(sequences).chain(enum_types)
    }

    /// Numbers of objects as they were in the older catalog.
    pub(super) fn objects_before(&self) -> impl Iterator<Item = ObjectId> {
        let tables = before(&self.tables).map(|table| table.id);
        let views = before(&self.views).map(|view| view.id);
        let sequences = before(&self.sequences).map(|sequence| sequence.id);
        let types = before(&self.enum_types).map(|of| of.id);
        let schemas = before(&self.schemas).map(|schema| schema.id);
        tables.chain(views).chain(sequences).chain(types).chain(schemas).map(ObjectId::from)
    }

    /// Objects that the older catalog did not have: what they are, and their schema.
    pub(super) fn new_objects(&self) -> Vec<(ObjectId, ObjectKind, &str)> {
        let tables = after(&self.tables).map(|table| (table.id.into(), ObjectKind::Table, &*table.schema));
        let views = after(&self.views).map(|view| (view.id.into(), ObjectKind::View, &*view.schema));
        let sequences = after(&self.sequences).map(|it| (it.id.into(), ObjectKind::Sequence, &*it.schema));
        let types = after(&self.enum_types).map(|of| (of.id.into(), ObjectKind::Type, &*of.schema));
        let schemas = after(&self.schemas).map(|schema| (schema.id.into(), ObjectKind::Schema, ""));
        let known: HashSet<ObjectId> = self.objects_before().collect();
        let all = tables.chain(views).chain(sequences).chain(types).chain(schemas);
        all.filter(|(id, ..)| !known.contains(id)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
            && self.views.is_empty()
            && self.sequences.is_empty()
            && self.enum_types.is_empty()
            && self.schemas.is_empty()
            && self.roles.is_empty()
            && self.access.is_empty()
    }
}

impl Table {
    /// Whether rows lie in the same trees, segments and delta.
    pub fn is_stored_as(&self, other: &Self) -> bool {
        let trees = |table: &Self| table.indexes.iter().map(|index| index.root).collect::<Vec<_>>();
        self.root == other.root
            && self.delta == other.delta
            && self.layout_version == other.layout_version
            && self.segments == other.segments
            && trees(self) == trees(other)
    }

    /// Takes over where rows lie from a later definition of a table that was stored alike.
    fn store_as(&mut self, later: &Self) {
        self.root = later.root;
        self.delta = later.delta;
        self.segments = later.segments;
        self.merged_through = later.merged_through;
        self.next_row_id = self.next_row_id.max(later.next_row_id);
        for (index, later) in self.indexes.iter_mut().zip(&later.indexes) {
            index.root = later.root;
        }
        if let (Some(mine), Some(theirs)) = (&mut self.statistics, &later.statistics) {
            mine.rows = theirs.rows;
        }
    }
}

/// Whether rows of one are laid out as those of the other, in the delta's table and in its indexes.
pub fn same_layout(left: &Table, right: &Table) -> bool {
    let types = |table: &Table| -> Vec<_> { table.columns.iter().map(|c| (c.data_type, c.nullable)).collect() };
    let indexes = |table: &Table| -> Vec<_> { table.indexes.iter().map(|i| (i.columns.clone(), i.unique)).collect() };
    left.layout_version == right.layout_version
        && types(left) == types(right)
        && left.primary_key == right.primary_key
        && indexes(left) == indexes(right)
}

fn same_indexes(left: &Table, right: &Table) -> bool {
    left.indexes.len() == right.indexes.len()
        && left.indexes.iter().zip(&right.indexes).all(|(left, right)| left.name == right.name)
}

fn differing<K: Ord, T>(older: &SharedMap<K, Arc<T>>, newer: &SharedMap<K, Arc<T>>) -> Vec<Changed<T>> {
    let changed = newer.differing(older, Arc::ptr_eq).into_iter();
    changed.map(|(before, after)| Changed { before: before.map(Arc::clone), after: after.map(Arc::clone) }).collect()
}
