//! Whom the objects of a catalog belong to, and what was granted on them.

use std::sync::Arc;

use saki_base::TableId;

use super::privileges::{Access, Acl, ObjectId, ObjectKind, Role, RoleId};
use super::{Catalog, Difference, PUBLIC};
use crate::error::{Result, SqlError};

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
        self.schemas.get(name).map(|schema| schema.id.into())
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
        let types = self.enum_types().map(|of| (of.id.into(), ObjectKind::Type, &*of.schema, of.bare_name()));
        let schemas = self.schemas().map(|s| (s.id.into(), ObjectKind::Schema, "", &*s.name));
        tables.chain(views).chain(sequences).chain(types).chain(schemas).collect()
    }

    /// What is new since `before` belongs to `role`, with what its default privileges grant; of what is gone, nothing
    /// is said any more.
    ///
    /// # Errors
    /// 42704 if there is something new and the role has been dropped.
    pub fn own_new(&mut self, before: &Self, role: RoleId) -> Result<()> {
        let is_custom = role != RoleId::OWNER || self.role(role).is_some_and(|role| !role.defaults.is_empty());
        let difference = self.difference(before);
        if is_custom {
            let mut made = Vec::new();
            for (id, kind, schema) in difference.new_objects() {
                made.push(Access { acl: self.default_acl(role, kind, schema), ..Access::new(id, role) });
            }
            if !made.is_empty() && self.role(role).is_none() {
                return Err(dropped(role));
            }
            made.into_iter().for_each(|access| self.put_access(access));
        }
        self.forget_gone(&difference);
        Ok(())
    }

    /// Forgets who may use what is not there any more by a change, or was not when the change said it.
    pub(super) fn forget_gone(&mut self, difference: &Difference) {
        let said = difference.access.iter().filter_map(|access| Some(access.after.as_ref()?.object));
        let all = difference.objects_before().chain(said);
        let gone: Vec<ObjectId> = all.filter(|object| !self.has_object(*object)).collect();
        for object in gone {
            self.access.remove(&object);
        }
    }

    /// Refuses a change of `older` that leaves a catalog which speaks of roles that are not there; `difference` is what
    /// it has changed.
    ///
    /// # Errors
    /// 42704, since another transaction has dropped the role; 2BP01 if `older` has it.
    pub fn refuse_missing_roles(&self, older: &Self, difference: &Difference) -> Result<()> {
        let of_acl = |acl: &Acl| acl.0.iter().flat_map(|item| [item.grantee, item.grantor]).collect::<Vec<_>>();
        let of_access = |access: &Access| {
            let acls = access.acl.iter().chain(access.columns.values());
            acls.flat_map(of_acl).chain([access.owner]).collect::<Vec<_>>()
        };
        let of_role = |role: &Role| {
            let defaults = role.defaults.iter().flat_map(|default| of_acl(&default.acl));
            role.member_of.iter().map(|member| member.role).chain(defaults).collect::<Vec<_>>()
        };
        // Of a role that goes anybody may have said something; else only what is said now can name a missing one.
        let goes = difference.roles.iter().any(|role| role.after.is_none());
        let (access, roles): (Vec<&Access>, Vec<&Role>) = match goes {
            true => (self.access.values().map(Arc::as_ref).collect(), self.roles.values().map(Arc::as_ref).collect()),
            false => (
                difference.access.iter().filter_map(|access| access.after.as_deref()).collect(),
                difference.roles.iter().filter_map(|role| role.after.as_deref()).collect(),
            ),
        };
        let mut named = access.into_iter().flat_map(of_access).chain(roles.into_iter().flat_map(of_role));
        match named.find(|id| *id != RoleId::PUBLIC && self.role(*id).is_none()) {
            None => Ok(()),
            Some(id) if older.role(id).is_some() => {
                let message =
                    format!("role {:?} cannot be dropped because some objects depend on it", older.role_name(id));
                Err(SqlError::invalid(message).code("2BP01").detail("Another transaction has given them to it."))
            }
            Some(id) => Err(dropped(id)),
        }
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

fn dropped(role: RoleId) -> SqlError {
    let message = format!("role with number {} does not exist", role.0);
    SqlError::invalid(message).code("42704").detail("Another transaction has dropped it.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Membership, Privilege, SchemaEntry};

    #[test]
    fn a_role_that_is_gone_owns_nothing_new() {
        let (before, role) = (Catalog::default(), RoleId(99_999));
        let mut catalog = before.clone();
        let id = catalog.new_table_id();
        catalog.put_schema(SchemaEntry { id, name: "s".to_owned(), comment: None });
        assert_eq!(catalog.clone().own_new(&before, role).unwrap_err().sqlstate(), "42704");
        catalog.put_role(Role::new(role, "ada"));
        catalog.own_new(&before, role).unwrap();
        assert_eq!(catalog.owner(id.into()), role);
        let missing = |catalog: &Catalog, older: &Catalog| {
            let refused = catalog.refuse_missing_roles(older, &catalog.difference(older)).err();
            refused.map(|error| error.sqlstate().to_owned())
        };
        assert_eq!(missing(&catalog, &before), None);
        let with_role = catalog.clone();
        catalog.remove_role(role);
        assert_eq!(missing(&catalog, &with_role).as_deref(), Some("2BP01"));
        assert_eq!(missing(&catalog, &before).as_deref(), Some("42704"));
        catalog.remove_schema("s");
        catalog.own_new(&with_role, RoleId::OWNER).unwrap();
        assert_eq!(catalog.accesses().count(), 0);
        assert_eq!(missing(&catalog, &before), None);
        let member_of = vec![Membership { role, grantor: RoleId::OWNER, admin: false }];
        catalog.put_role(Role { member_of, ..Role::new(RoleId(99_991), "bob") });
        assert_eq!(missing(&catalog, &before).as_deref(), Some("42704"));
    }

    /// Another transaction has granted something of what this one has dropped, or the other way round.
    #[test]
    fn nothing_is_said_of_what_is_gone() {
        let mut base = Catalog::default();
        let id = base.new_table_id();
        base.put_schema(SchemaEntry { id, name: "s".to_owned(), comment: None });
        let (mut dropped, mut granted) = (base.clone(), base.clone());
        dropped.remove_schema("s");
        granted.put_access(Access::new(id.into(), RoleId::OWNER));
        for (first, second) in [(&dropped, &granted), (&granted, &dropped)] {
            let mut both = first.clone();
            both.change_by(&second.difference(&base));
            assert!(!both.has_schema("s") && both.accesses().next().is_none());
        }
    }

    #[test]
    fn everybody_may_use_public_and_connect() {
        let catalog = Catalog::default();
        let of = |id, kind| catalog.access(id).acl(kind).held_by(&[]);
        assert_eq!(of(ObjectId::PUBLIC_SCHEMA, ObjectKind::Schema), Privilege::Usage.into());
        assert!(of(ObjectId::DATABASE, ObjectKind::Database).contains(Privilege::Connect));
        assert!(of(ObjectId(7), ObjectKind::Table).is_empty());
    }
}
