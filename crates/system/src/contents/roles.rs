//! Who there is and who may do what: roles, owners, and what was granted.

use super::super::objects::{Detail, Relation};
use super::super::rows::{Cell, Rows};
use super::source::Source;
use saki_catalog::{Acl, AclItem, Catalog, ObjectId, ObjectKind, Privileges, Role, RoleId};

pub fn fill(source: &Source<'_>, name: &str, rows: &mut Rows) {
    let own = source.system.roles().current;
    source.system.with_catalog(|catalog| match name {
        "pg_roles" => catalog.roles().for_each(|role| self::role(role, Some("********".into()), rows)),
        "pg_authid" => {
            let sees = catalog.is_superuser(own);
            catalog.roles().for_each(|role| self::role(role, role.verifier.clone().filter(|_| sees), rows));
        }
        "pg_user" | "pg_shadow" => {
            catalog.roles().filter(|role| role.login).for_each(|role| user(role, rows));
        }
        "pg_auth_members" => catalog.roles().for_each(|role| members(role, rows)),
        _ => {}
    });
}

/// Whom a schema belongs to.
pub fn schema_owner(source: &Source<'_>, schema: &str) -> String {
    source.system.with_catalog(|catalog| {
        let object = catalog.schema_object(schema);
        catalog.role_name(object.map_or(RoleId::OWNER, |object| catalog.owner(object)))
    })
}

/// What was granted on relations, as `information_schema` lists it.
pub fn table_privileges<'r>(
    source: &Source<'_>,
    database: &str,
    relations: impl Iterator<Item = &'r Relation>,
    rows: &mut Rows,
) {
    let own = source.system.roles().current;
    for relation in relations {
        let Some((object, kind)) = object_of(source, relation) else { continue };
        for (grantor, grantee, privilege, grantable) in granted(source, own, object, kind) {
            rows.push([
                ("grantor", grantor.into()),
                ("grantee", grantee.into()),
                ("table_catalog", database.into()),
                ("table_schema", relation.schema.as_str().into()),
                ("table_name", relation.name.as_str().into()),
                ("privilege_type", privilege.into()),
                ("is_grantable", yes_or_no(grantable)),
                ("with_hierarchy", yes_or_no(privilege == "SELECT")),
            ]);
        }
    }
}

/// The word of the standard for a truth.
pub fn yes_or_no(yes: bool) -> Cell {
    if yes { "YES" } else { "NO" }.into()
}

fn oid(role: RoleId) -> Cell {
    i64::from(role.0).into()
}

fn role(role: &Role, password: Option<String>, rows: &mut Rows) {
    rows.push([
        ("oid", oid(role.id)),
        ("rolname", role.name.as_str().into()),
        ("rolsuper", role.superuser.into()),
        ("rolinherit", role.inherit.into()),
        ("rolcreaterole", role.create_role.into()),
        ("rolcreatedb", role.create_db.into()),
        ("rolcanlogin", role.login.into()),
        ("rolreplication", role.replication.into()),
        ("rolbypassrls", role.bypass_rls.into()),
        ("rolconnlimit", i64::from(role.connection_limit).into()),
        ("rolpassword", password.into()),
        ("rolvaliduntil", role.valid_until.into()),
    ]);
}

fn user(role: &Role, rows: &mut Rows) {
    rows.push([
        ("usename", role.name.as_str().into()),
        ("usesysid", oid(role.id)),
        ("usecreatedb", role.create_db.into()),
        ("usesuper", role.superuser.into()),
        ("userepl", role.replication.into()),
        ("usebypassrls", role.bypass_rls.into()),
    ]);
}

fn members(member: &Role, rows: &mut Rows) {
    for of in &member.member_of {
        rows.push([
            ("roleid", oid(of.role)),
            ("member", oid(member.id)),
            ("grantor", oid(of.grantor)),
            ("admin_option", of.admin.into()),
        ]);
    }
}

/// The number of a relation among objects; an index is its table's.
pub fn object_of(source: &Source<'_>, relation: &Relation) -> Option<(ObjectId, ObjectKind)> {
    match &relation.detail {
        Detail::Table(table) => Some((table.id.into(), ObjectKind::Table)),
        Detail::View(view) => Some((view.id.into(), ObjectKind::View)),
        Detail::Sequence(owned) => Some((owned.sequence.id.into(), ObjectKind::Sequence)),
        Detail::Index(index) => object_of(source, source.objects.relation(index.table)?),
        Detail::System => None,
    }
}

/// Whom a relation belongs to.
pub fn owner_of(source: &Source<'_>, relation: &Relation) -> RoleId {
    let object = object_of(source, relation);
    object.map_or(RoleId::OWNER, |(object, _)| source.system.with_catalog(|catalog| catalog.owner(object)))
}

/// What was granted on a relation; NULL: what its owner has.
pub fn acl_of(source: &Source<'_>, relation: &Relation) -> Cell {
    let is_index = matches!(relation.detail, Detail::Index(_));
    let Some((object, _)) = object_of(source, relation).filter(|_| !is_index) else { return Cell::Null };
    source.system.with_catalog(|catalog| shown(catalog, catalog.stored_access(object).and_then(|a| a.acl.as_ref())))
}

/// What was granted on a column of a relation, by its position.
pub fn column_acl_of(source: &Source<'_>, relation: &Relation, column: usize) -> Cell {
    let id = match &relation.detail {
        Detail::Table(table) => table.details.get(column).map(|detail| detail.id),
        Detail::View(_) => u32::try_from(column).ok(),
        _ => None,
    };
    let (Some((object, _)), Some(id)) = (object_of(source, relation), id) else { return Cell::Null };
    source.system.with_catalog(|catalog| {
        shown(catalog, catalog.stored_access(object).and_then(|access| access.columns.get(&id)))
    })
}

/// What was granted on a schema or the database, and whom it belongs to.
pub fn of_object(source: &Source<'_>, object: ObjectId, kind: ObjectKind) -> (RoleId, Cell) {
    source.system.with_catalog(|catalog| {
        let acl = match object {
            ObjectId::PUBLIC_SCHEMA => Some(catalog.access(object).acl(kind)),
            _ => catalog.stored_access(object).and_then(|access| access.acl.clone()),
        };
        (catalog.owner(object), shown(catalog, acl.as_ref()))
    })
}

/// A list as PostgreSQL writes it: `grantee=letters/grantor`.
fn shown(catalog: &Catalog, acl: Option<&Acl>) -> Cell {
    acl.map_or(Cell::Null, |acl| acl.0.iter().map(|item| item_text(catalog, item)).collect::<Vec<_>>().into())
}

fn item_text(catalog: &Catalog, item: &AclItem) -> String {
    let name = |role: RoleId| match role {
        RoleId::PUBLIC => String::new(),
        role => super::super::describe::quote_ident(&catalog.role_name(role)),
    };
    let letters: String = letters(item.privileges, item.grantable);
    format!("{}={letters}/{}", name(item.grantee), name(item.grantor))
}

fn letters(privileges: Privileges, grantable: Privileges) -> String {
    let star = |privilege| if grantable.contains(privilege) { "*" } else { "" };
    privileges.iter().map(|privilege| format!("{}{}", privilege.letter(), star(privilege))).collect()
}

/// A right that was granted.
pub type Right = (String, String, &'static str, bool);

/// What was granted on an object that the role has given or taken: who gave it, who has it, what it is, and whether
/// that one may grant it on.
pub fn granted(source: &Source<'_>, own: RoleId, object: ObjectId, kind: ObjectKind) -> Vec<Right> {
    source.system.with_catalog(|catalog| {
        let (roles, access) = (catalog.roles_of(own, true), catalog.access(object));
        let is_shown = |role: RoleId| catalog.is_superuser(own) || roles.contains(&role);
        let name = |role| if role == RoleId::PUBLIC { "PUBLIC".to_owned() } else { catalog.role_name(role) };
        let mut found = Vec::new();
        for item in access.acl(kind).0 {
            if item.grantee != RoleId::PUBLIC && !is_shown(item.grantee) && !is_shown(item.grantor) {
                continue;
            }
            for privilege in item.privileges.iter() {
                let grantable = item.grantable.contains(privilege) || item.grantee == access.owner;
                found.push((name(item.grantor), name(item.grantee), privilege.name(), grantable));
            }
        }
        found
    })
}
