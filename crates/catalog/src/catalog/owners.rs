//! Whom the objects of a catalog belong to, and what was granted on them.

use std::collections::HashSet;
use std::sync::Arc;

use saki_base::TableId;

use super::privileges::{Access, Acl, ObjectId, ObjectKind, RoleId};
use super::{Catalog, PUBLIC};

impl Catalog {
    /// Who owns an object, and what was granted on it.
    pub fn access(&self, object: ObjectId) -> Access {
        self.stored_access(object).map_or_else(|| Access::new(object, self.owner(object)), |found| Access::clone(found))
    }

    pub fn stored_access(&self, object: ObjectId) -> Option<&Arc<Access>> {
        self.access.get(&object)
    }

    /// What is said of all objects of which something is.
    pub fn accesses(&self) -> impl Iterator<Item = &Arc<Access>> {
        self.access.values()
    }

    pub fn put_access(&mut self, access: Access) {
        self.access.insert(access.object, Arc::new(access));
    }

    pub fn remove_access(&mut self, object: ObjectId) -> Option<Arc<Access>> {
        self.access.remove(&object)
    }

    /// Whom an object belongs to.
    pub fn owner(&self, object: ObjectId) -> RoleId {
        match self.access.get(&object) {
            Some(access) => access.owner,
            None if object == ObjectId::PUBLIC_SCHEMA => RoleId::DATABASE_OWNER,
            None => RoleId::OWNER,
        }
    }

    pub fn database_owner(&self) -> RoleId {
        self.owner(ObjectId::DATABASE)
    }

    /// A schema's number among objects.
    pub fn schema_object(&self, name: &str) -> Option<ObjectId> {
        if name == PUBLIC {
            return Some(ObjectId::PUBLIC_SCHEMA);
        }
        self.schemas().find(|schema| schema.name == name).map(|schema| schema.id.into())
    }

    /// A table's, view's or sequence's number among objects, and what it is.
    pub fn relation_object(&self, name: &str) -> Option<(ObjectId, ObjectKind)> {
        let table = || self.get(name).map(|table| (table.id.into(), ObjectKind::Table));
        let view = || self.view(name).map(|view| (view.id.into(), ObjectKind::View));
        let sequence = || self.sequence(name).map(|sequence| (sequence.id.into(), ObjectKind::Sequence));
        table().or_else(view).or_else(sequence)
    }

    /// All objects that have owners: what they are, their schema and their name.
    pub fn objects(&self) -> Vec<(ObjectId, ObjectKind, &str, &str)> {
        let tables = self.tables().map(|t| (t.id.into(), ObjectKind::Table, &*t.schema, t.bare_name()));
        let views = self.views().map(|v| (v.id.into(), ObjectKind::View, &*v.schema, v.bare_name()));
        let sequences = self.sequences().map(|s| (s.id.into(), ObjectKind::Sequence, &*s.schema, s.bare_name()));
        let schemas = self.schemas().map(|s| (s.id.into(), ObjectKind::Schema, "", &*s.name));
        tables.chain(views).chain(sequences).chain(schemas).collect()
    }

    /// What is new since `before` belongs to `role`, with what its default privileges grant; of what is gone, nothing
    /// is said any more.
    pub fn own_new(&mut self, before: &Self, role: RoleId) {
        let is_custom = role != RoleId::OWNER || self.role(role).is_some_and(|role| !role.defaults.is_empty());
        if !is_custom && self.access.is_empty() {
            return;
        }
        let ids = |catalog: &Self| catalog.objects().iter().map(|(id, ..)| *id).collect::<HashSet<_>>();
        let (old, all, now) = (ids(before), ids(self), self.objects());
        let mut made = Vec::new();
        for (id, kind, schema, _) in now.iter().filter(|(id, ..)| is_custom && !old.contains(id)) {
            made.push(Access { acl: self.default_acl(role, *kind, schema), ..Access::new(*id, role) });
        }
        let fixed = [ObjectId::PUBLIC_SCHEMA, ObjectId::DATABASE];
        let gone = |id: &ObjectId| !fixed.contains(id) && !all.contains(id);
        let gone: Vec<ObjectId> = self.access.keys().copied().filter(gone).collect();
        gone.iter().for_each(|id| drop(self.remove_access(*id)));
        made.into_iter().for_each(|access| self.put_access(access));
    }

    fn default_acl(&self, role: RoleId, kind: ObjectKind, schema: &str) -> Option<Acl> {
        let kind = if kind == ObjectKind::View { ObjectKind::Table } else { kind };
        let schema = self.schema_object(schema).map(|id| TableId(id.0));
        let of_role = self.role(role)?;
        let of = |wanted: Option<TableId>| {
            let found = of_role.defaults.iter().find(move |d| d.kind == kind && d.schema == wanted);
            found.map(|found| &found.acl)
        };
        let (global, local) = (of(None), schema.and_then(|schema| of(Some(schema))));
        if global.is_none() && local.is_none() {
            return None;
        }
        let mut acl = global.cloned().unwrap_or_else(|| Acl::of_new(kind, role));
        for item in local.into_iter().flat_map(|acl| &acl.0) {
            acl.grant(item.grantor, item.grantee, item.privileges & !item.grantable, false);
            acl.grant(item.grantor, item.grantee, item.grantable, true);
        }
        Some(acl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Privilege;

    #[test]
    fn everybody_may_use_public_and_connect() {
        let catalog = Catalog::default();
        let of = |id, kind| catalog.access(id).acl(kind).held_by(&[]);
        assert_eq!(of(ObjectId::PUBLIC_SCHEMA, ObjectKind::Schema), Privilege::Usage.into());
        assert!(of(ObjectId::DATABASE, ObjectKind::Database).contains(Privilege::Connect));
        assert!(of(ObjectId(7), ObjectKind::Table).is_empty());
    }
}
