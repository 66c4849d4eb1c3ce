//! GRANT and REVOKE on objects, their owners, and default privileges.

use datafusion::sql::sqlparser::ast::ObjectName;
use saki_base::TableId;

use super::roles::{Actor, refused, role_of};
use saki_catalog::{
    Access, Acl, Catalog, DefaultAcl, Demand, Demanded, Dependents, ObjectId, ObjectKind, Privilege, Privileges,
    Result, Role, RoleId, SqlError, denied, undefined, undefined_column,
};
use saki_postgres::RelationName;
use saki_postgres::statement::{Grant, Granted, Objects, RoleSpec, name_of, object_name};

/// An object that is named.
#[derive(Clone, Debug)]
pub struct Named {
    pub id: ObjectId,
    pub kind: ObjectKind,
    /// As the catalog has it.
    pub name: String,
}

fn schema_named(catalog: &Catalog, name: &str) -> Result<Named> {
    let id = catalog.schema_object(name);
    let id = id.ok_or_else(|| SqlError::invalid(format!("schema {name:?} does not exist")).code("3F000"))?;
    Ok(Named { id, kind: ObjectKind::Schema, name: name.to_owned() })
}

/// 42704.
pub fn undefined_type(name: &ObjectName) -> SqlError {
    let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    SqlError::invalid(format!("type \"{}\" does not exist", parts.join("."))).code("42704")
}

/// The object of a name; `Table` stands for any relation.
pub fn named(catalog: &Catalog, kind: ObjectKind, name: &ObjectName) -> Result<Named> {
    let last = || name.0.last().and_then(|part| part.as_ident()).map(name_of).unwrap_or_default();
    match kind {
        ObjectKind::Schema => schema_named(catalog, &last()),
        // There is one, whatever clients call it.
        ObjectKind::Database => Ok(Named { id: ObjectId::DATABASE, kind, name: last() }),
        ObjectKind::Type => {
            let of = catalog.enum_type(&RelationName::read(name)?.name).ok_or_else(|| undefined_type(name))?;
            Ok(Named { id: of.id.into(), kind, name: of.name.clone() })
        }
        _ => {
            let (name, position) = object_name(name)?;
            let (id, found) = catalog.relation_object(&name).ok_or_else(|| undefined(&name).at(position))?;
            let is_meant = kind == found || kind == ObjectKind::Table;
            if !is_meant {
                let message = format!("{name:?} is not a {}", kind.name());
                return Err(SqlError::invalid(message).code("42809").at(position));
            }
            Ok(Named { id, kind: found, name })
        }
    }
}

fn objects(catalog: &Catalog, objects: &Objects) -> Result<Vec<Named>> {
    match objects {
        Objects::Named(kind, names) => names.iter().map(|name| named(catalog, *kind, name)).collect(),
        Objects::AllIn(wanted, schemas) => {
            let mut found = Vec::new();
            for schema in schemas {
                schema_named(catalog, schema)?;
                for (id, kind, of, name) in catalog.objects() {
                    let is_meant = match wanted {
                        Some(ObjectKind::Table) => matches!(kind, ObjectKind::Table | ObjectKind::View),
                        Some(wanted) => *wanted == kind,
                        None => false,
                    };
                    if is_meant && of == schema {
                        found.push(Named { id, kind, name: saki_catalog::qualified(of, name) });
                    }
                }
            }
            Ok(found)
        }
        Objects::Other(kind) => Err(without_privileges(&format!("privileges on {kind}"))),
    }
}

/// What is built in is everybody's, and stays so: to say otherwise of it is refused, not passed over.
fn without_privileges(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} are not supported"))
        .hint("every role may use functions and types; grant on tables, columns, sequences, …")
}

/// Grants or revokes on what there is.
pub fn grant(catalog: &mut Catalog, who: Actor, grant: &Grant) -> Result<()> {
    let Granted::On { privileges, columns_of_all, objects: wanted } = &grant.granted else { return Ok(()) };
    let grantees = grantees(catalog, who, grant)?;
    for object in objects(catalog, wanted)? {
        // Each set of rights, on the whole or on one column.
        let mut parts: Vec<(Option<u32>, Privileges)> = Vec::new();
        let is_whole_kind = object.kind == ObjectKind::Table || object.kind == ObjectKind::View;
        let listed = match privileges {
            Some(listed) => listed.iter().map(|(right, columns)| (Privileges::from(*right), columns)).collect(),
            None if columns_of_all.is_empty() => vec![(object.kind.privileges(), columns_of_all)],
            None => vec![(ObjectKind::Column.privileges(), columns_of_all)],
        };
        for (rights, columns) in listed {
            if columns.is_empty() {
                expect_kind(rights, object.kind)?;
                parts.push((None, rights));
                continue;
            }
            expect_kind(rights, if is_whole_kind { ObjectKind::Column } else { object.kind })?;
            for column in columns {
                parts.push((Some(column_of(catalog, &object, column)?), rights));
            }
        }
        for (column, rights) in parts {
            change(catalog, who, &object, column, rights, grant, &grantees)?;
        }
    }
    Ok(())
}

fn grantees(catalog: &Catalog, who: Actor, grant: &Grant) -> Result<Vec<RoleId>> {
    let of = |spec: &RoleSpec| match spec {
        RoleSpec::Public if grant.option && !grant.revoke => {
            Err(SqlError::invalid("grant options can only be granted to roles").code("0LP01"))
        }
        RoleSpec::Public => Ok(RoleId::PUBLIC),
        spec => role_of(catalog, who, spec),
    };
    grant.grantees.iter().map(of).collect()
}

fn expect_kind(rights: Privileges, kind: ObjectKind) -> Result<()> {
    match rights.iter().find(|right| !kind.privileges().contains(*right)) {
        None => Ok(()),
        Some(right) => {
            let kind = if kind == ObjectKind::Table { "relation" } else { kind.name() };
            Err(SqlError::invalid(format!("invalid privilege type {} for {kind}", right.name())).code("0LP01"))
        }
    }
}

/// The id of a column; a view's are its positions.
fn column_of(catalog: &Catalog, object: &Named, column: &str) -> Result<u32> {
    if let Some(table) = catalog.get(&object.name) {
        let position = table.column(column).ok_or_else(|| undefined_column(table, column))?;
        return Ok(table.details[position].id);
    }
    let view = catalog.view(&object.name);
    let position = view.and_then(|view| view.columns.iter().position(|found| found.name == column));
    let absent =
        || SqlError::invalid(format!("column {column:?} of relation {:?} does not exist", object.name)).code("42703");
    position.map(|position| position as u32).ok_or_else(absent)
}

fn change(
    catalog: &mut Catalog,
    who: Actor,
    object: &Named,
    column: Option<u32>,
    rights: Privileges,
    grant: &Grant,
    grantees: &[RoleId],
) -> Result<()> {
    let mut access = catalog.access(object.id);
    let (grantor, may) = catalog.grantor(who.current, &access, (object.kind, column), rights);
    if may.is_empty() {
        return Err(denied(object.kind, bare_name(&object.name)));
    }
    let owner = access.owner;
    let mut acl = match column {
        None => access.acl(object.kind),
        Some(column) => access.columns.remove(&column).unwrap_or_default(),
    };
    apply(&mut acl, (grantor, owner), may, grant, grantees)?;
    match column {
        None => access.acl = Some(acl),
        Some(_) if acl.0.is_empty() => {}
        Some(column) => drop(access.columns.insert(column, acl)),
    }
    // Rights on the whole are revoked from columns too.
    if grant.revoke && column.is_none() {
        for acl in access.columns.values_mut() {
            apply(acl, (grantor, owner), may, grant, grantees)?;
        }
        access.columns.retain(|_, acl| !acl.0.is_empty());
    }
    catalog.put_access(access);
    Ok(())
}

fn apply(
    acl: &mut Acl,
    (grantor, owner): (RoleId, RoleId),
    rights: Privileges,
    grant: &Grant,
    grantees: &[RoleId],
) -> Result<()> {
    let dependents = if grant.cascade { Dependents::Revoke } else { Dependents::Refuse };
    grantees.iter().try_for_each(|grantee| match grant.revoke {
        true => acl.revoke((grantor, owner), *grantee, rights, grant.option, dependents),
        false => {
            acl.grant(grantor, *grantee, rights, grant.option);
            Ok(())
        }
    })
}

pub fn bare_name(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, bare)| bare)
}

/// ALTER DEFAULT PRIVILEGES.
pub fn defaults(
    catalog: &mut Catalog,
    who: Actor,
    roles: &[RoleSpec],
    schemas: &[String],
    grant: &Grant,
) -> Result<()> {
    let Granted::Future { privileges, kind } = &grant.granted else {
        return Err(SqlError::invalid("ALTER DEFAULT PRIVILEGES is about kinds of objects").code("42601"));
    };
    let Some(kind) = *kind else {
        grantees(catalog, who, grant)?;
        // What a plain GRANT gives, everybody has.
        return match grant.revoke || grant.option {
            true => Err(without_privileges("default privileges on functions and types")),
            false => Ok(()),
        };
    };
    let rights = privileges.unwrap_or_else(|| kind.privileges());
    expect_kind(rights, kind)?;
    if kind == ObjectKind::Schema && !schemas.is_empty() {
        return Err(SqlError::invalid("cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS").code("0LP01"));
    }
    let grantees = grantees(catalog, who, grant)?;
    let roles: Vec<RoleId> = match roles.is_empty() {
        true => vec![who.current],
        false => roles.iter().map(|role| role_of(catalog, who, role)).collect::<Result<_>>()?,
    };
    let schemas: Vec<Option<TableId>> = match schemas.is_empty() {
        true => vec![None],
        false => schemas
            .iter()
            .map(|name| schema_named(catalog, name).map(|schema| Some(TableId(schema.id.0))))
            .collect::<Result<_>>()?,
    };
    for id in roles {
        expect_member(catalog, who, id)?;
        let Some(role) = catalog.role(id) else { continue };
        let mut role = Role::clone(role);
        for schema in &schemas {
            let place = role.defaults.iter().position(|d| d.kind == kind && d.schema == *schema);
            let built_in = if schema.is_none() { Acl::of_new(kind, id) } else { Acl::default() };
            let mut acl = place.map_or_else(|| built_in.clone(), |place| role.defaults.remove(place).acl);
            apply(&mut acl, (id, id), rights, grant, &grantees)?;
            if acl != built_in {
                role.defaults.push(DefaultAcl { kind, schema: *schema, acl });
            }
        }
        catalog.put_role(role);
    }
    Ok(())
}

fn expect_member(catalog: &Catalog, who: Actor, role: RoleId) -> Result<()> {
    match catalog.is_member(who.current, role) {
        true => Ok(()),
        false => Err(refused(format!("must be member of role {:?}", catalog.role_name(role)))),
    }
}

/// ALTER … OWNER TO.
pub fn set_owner(
    catalog: &mut Catalog,
    who: Actor,
    (kind, name, if_exists): (ObjectKind, &ObjectName, bool),
    to: &RoleSpec,
) -> Result<()> {
    let object = match named(catalog, kind, name) {
        Err(error) if if_exists && error.sqlstate() == "42P01" => return Ok(()),
        found => found?,
    };
    let to = role_of(catalog, who, to)?;
    if catalog.owner(object.id) == to {
        return Ok(());
    }
    let name = bare_name(&object.name).to_owned();
    catalog.demand(who.current, &Demand { object: object.id, kind: object.kind, name, of: Demanded::Ownership })?;
    expect_member(catalog, who, to)?;
    if matches!(object.kind, ObjectKind::Table | ObjectKind::View | ObjectKind::Sequence | ObjectKind::Type)
        && !catalog.is_superuser(who.current)
    {
        let schema = object.name.rsplit_once('.').map_or(saki_catalog::PUBLIC, |(schema, _)| schema).to_owned();
        let Some(id) = catalog.schema_object(&schema) else { return Err(SqlError::internal("a schema is gone")) };
        let of = Demanded::Any(Privilege::Create.into());
        catalog.demand(to, &Demand { object: id, kind: ObjectKind::Schema, name: schema, of })?;
    }
    give(catalog, object.id, object.kind, to);
    // Sequences of its columns belong to whom the table does.
    let owned: Vec<ObjectId> =
        catalog.owned_sequences(TableId(object.id.0)).map(|sequence| sequence.id.into()).collect();
    owned.into_iter().for_each(|sequence| give(catalog, sequence, ObjectKind::Sequence, to));
    Ok(())
}

fn give(catalog: &mut Catalog, object: ObjectId, kind: ObjectKind, to: RoleId) {
    let access = catalog.access(object);
    let acl = access.acl.clone().map(|mut acl| {
        acl.change_owner(access.owner, to);
        acl
    });
    let acl = acl.filter(|acl| *acl != Acl::of_new(kind, to));
    let mut columns = access.columns;
    columns.values_mut().for_each(|acl| acl.change_owner(access.owner, to));
    catalog.put_access(Access { object, owner: to, acl, columns });
}

/// REASSIGN OWNED.
pub fn reassign(catalog: &mut Catalog, who: Actor, from: &[RoleSpec], to: &RoleSpec) -> Result<()> {
    let to = role_of(catalog, who, to)?;
    for from in from {
        let from = role_of(catalog, who, from)?;
        if !catalog.inherits(who.current, from) || !catalog.inherits(who.current, to) {
            return Err(refused("permission denied to reassign objects"));
        }
        if from == RoleId::OWNER {
            let message = "cannot reassign ownership of objects owned by role saki because they are required by the \
                           database system";
            return Err(SqlError::invalid(message).code("2BP01"));
        }
        let owned: Vec<_> = catalog.objects().iter().map(|(id, kind, ..)| (*id, *kind)).collect();
        let fixed = [(ObjectId::DATABASE, ObjectKind::Database), (ObjectId::PUBLIC_SCHEMA, ObjectKind::Schema)];
        for (id, kind) in owned.into_iter().chain(fixed) {
            if catalog.owner(id) == from {
                give(catalog, id, kind, to);
            }
        }
    }
    Ok(())
}

/// DROP OWNED, of what was granted; objects themselves are dropped or given away first.
pub fn drop_owned(catalog: &mut Catalog, who: Actor, roles: &[RoleSpec]) -> Result<()> {
    for role in roles {
        let id = role_of(catalog, who, role)?;
        if !catalog.inherits(who.current, id) {
            return Err(refused("permission denied to drop objects"));
        }
        if let Some((_, kind, _, name)) =
            catalog.objects().into_iter().find(|(object, ..)| catalog.owner(*object) == id)
        {
            let role = catalog.role_name(id);
            let what =
                format!("DROP OWNED of roles that own objects is not supported: {} {name} is {role}'s", kind.name());
            return Err(SqlError::unsupported(what).hint("DROP the objects, or REASSIGN OWNED BY … TO …, first"));
        }
        let named: Vec<Access> = catalog.accesses().filter(|a| a.names(id)).map(|a| Access::clone(a)).collect();
        for mut access in named {
            access.acl.iter_mut().chain(access.columns.values_mut()).for_each(|acl| acl.forget(id));
            catalog.put_access(access);
        }
        let roles: Vec<Role> = catalog.roles().map(|role| Role::clone(role)).collect();
        for mut role in roles {
            let before = role.clone();
            if role.id == id {
                role.defaults.clear();
            }
            role.defaults.iter_mut().for_each(|default| default.acl.forget(id));
            if role != before {
                catalog.put_role(role);
            }
        }
    }
    Ok(())
}
