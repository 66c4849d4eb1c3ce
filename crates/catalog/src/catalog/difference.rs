//! What one catalog has otherwise than another: what a publication writes, and what a transaction has changed.
//!
//! Definitions are shared between the versions of a catalog, so those that are the same are told by their addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Access, Catalog, Role, SchemaEntry, Sequence, Staged, Table, View, no_delta};

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
            schemas: differing(&older.schemas, &self.schemas),
            roles: differing(&older.roles, &self.roles),
            access: differing(&older.access, &self.access),
            staged: differing(&older.staged, &self.staged),
        }
    }

    /// Gives every table whose rows are laid out otherwise than in `before`, or that is new, a delta of its own.
    pub fn renew_deltas(&mut self, before: &Self) {
        let is_kept = |table: &Arc<Table>| {
            if let Some(old) = before.tables.get(&table.name)
                && (Arc::ptr_eq(old, table) || old.delta == table.delta && same_layout(old, table))
            {
                return table.delta != no_delta();
            }
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

    /// Makes the same changes here, to what has been published since the older catalog of the difference. Where the
    /// base of a table has moved on meanwhile, and the change is not about that, it stays as it is here.
    pub fn change_by(&mut self, difference: &Difference) {
        let now: Vec<Option<Arc<Table>>> =
            difference.tables.iter().map(|table| self.rebased(difference, table)).collect();
        let Difference { tables, views, sequences, schemas, roles, access, staged: _ } = difference;
        let here: Vec<_> = sequences.iter().map(|sequence| self.moved_on(sequence, sequences)).collect();
        remove_old(&mut self.tables, tables, |table| &table.name);
        remove_old(&mut self.views, views, |view| &view.name);
        remove_old(&mut self.sequences, sequences, |sequence| &sequence.name);
        remove_old(&mut self.schemas, schemas, |schema| &schema.name);
        remove_old(&mut self.roles, roles, |role| &role.id);
        remove_old(&mut self.access, access, |access| &access.object);
        for table in now.into_iter().flatten() {
            self.tables.insert(table.name.clone(), table);
        }
        add_new(&mut self.views, views, |view| &view.name);
        add_new(&mut self.schemas, schemas, |schema| &schema.name);
        add_new(&mut self.roles, roles, |role| &role.id);
        add_new(&mut self.access, access, |access| &access.object);
        for sequence in here.into_iter().flatten() {
            self.sequences.insert(sequence.name.clone(), sequence);
        }
        // Of what one transaction has dropped, another may have said something meanwhile.
        self.forget_gone();
    }

    /// What becomes of a sequence here: values that have been given out stay so.
    fn moved_on(&self, changed: &Changed<Sequence>, all: &[Changed<Sequence>]) -> Option<Arc<Sequence>> {
        let after = changed.after.as_ref()?;
        let before = all.iter().filter_map(|other| other.before.as_ref()).find(|old| old.id == after.id);
        let here = before.and_then(|before| self.sequences.get(&before.name));
        match here.filter(|here| here.id == after.id && here.version == after.version) {
            Some(here) => Some(Arc::new(Sequence { position: here.position, ..Sequence::clone(after) })),
            None => Some(Arc::clone(after)),
        }
    }

    /// What becomes of a table here.
    fn rebased(&self, difference: &Difference, changed: &Changed<Table>) -> Option<Arc<Table>> {
        let after = changed.after.as_ref()?;
        let before = difference.tables.iter().filter_map(|other| other.before.as_ref()).find(|old| old.id == after.id);
        let Some(before) = before else { return Some(Arc::clone(after)) };
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

impl Difference {
    /// A table of which these changes would undo what others have changed since: locks keep that from happening.
    pub fn undoes(&self, newest: &Catalog) -> Option<&Table> {
        let before = self.tables.iter().filter_map(|changed| changed.before.as_deref());
        let mut here = before.filter_map(|before| Some((before, newest.table_of(before.id)?)));
        here.find(|(before, here)| !same_indexes(before, here)).map(|(before, _)| before)
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
            && self.views.is_empty()
            && self.sequences.is_empty()
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

/// Walks two maps side by side.
fn differing<K: Ord, T>(older: &BTreeMap<K, Arc<T>>, newer: &BTreeMap<K, Arc<T>>) -> Vec<Changed<T>> {
    let mut found = Vec::new();
    let (mut left, mut right) = (older.iter().peekable(), newer.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return found,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let before = if order.is_le() { left.next().map(|(_, value)| value) } else { None };
        let after = if order.is_ge() { right.next().map(|(_, value)| value) } else { None };
        if let (Some(before), Some(after)) = (before, after)
            && Arc::ptr_eq(before, after)
        {
            continue;
        }
        found.push(Changed { before: before.map(Arc::clone), after: after.map(Arc::clone) });
    }
}

fn remove_old<K: Ord, T>(map: &mut BTreeMap<K, Arc<T>>, changes: &[Changed<T>], key: impl Fn(&T) -> &K) {
    for before in changes.iter().filter_map(|changed| changed.before.as_ref()) {
        map.remove(key(before));
    }
}

fn add_new<K: Ord + Clone, T>(map: &mut BTreeMap<K, Arc<T>>, changes: &[Changed<T>], key: impl Fn(&T) -> &K) {
    for after in changes.iter().filter_map(|changed| changed.after.as_ref()) {
        map.insert(key(after).clone(), Arc::clone(after));
    }
}
