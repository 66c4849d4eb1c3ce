//! Who may do what.

use datafusion::common::{Result, ScalarValue};

use super::super::objects::Detail;
use super::super::system::SystemCatalog;
use super::function::{Arguments, Definition, Returns, strict};
use saki_catalog::{Catalog, Demand, Demanded, ObjectId, ObjectKind, Privilege, RoleId, SqlError};

pub const FUNCTIONS: &[Definition] = &[
    strict("has_any_column_privilege", Returns::Bool, |system, args| on_relation(system, args, true)),
    strict("has_column_privilege", Returns::Bool, on_column),
    strict("has_database_privilege", Returns::Bool, |system, args| {
        on_object(system, args, ObjectKind::Database, |_| Some(ObjectId::DATABASE))
    }),
    strict("has_foreign_data_wrapper_privilege", Returns::Bool, granted),
    strict("has_function_privilege", Returns::Bool, granted),
    strict("has_language_privilege", Returns::Bool, granted),
    strict("has_parameter_privilege", Returns::Bool, granted),
    strict("has_schema_privilege", Returns::Bool, on_schema),
    strict("has_sequence_privilege", Returns::Bool, |system, args| on_relation(system, args, false)),
    strict("has_server_privilege", Returns::Bool, granted),
    strict("has_table_privilege", Returns::Bool, |system, args| on_relation(system, args, false)),
    strict("has_tablespace_privilege", Returns::Bool, granted),
    strict("has_type_privilege", Returns::Bool, granted),
    strict("pg_has_role", Returns::Bool, has_role),
    strict("row_security_active", Returns::Bool, |_, _| Ok(ScalarValue::Boolean(Some(false)))),
];

fn granted(_: &SystemCatalog, _: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Boolean(Some(true)))
}

fn answer(yes: bool) -> ScalarValue {
    ScalarValue::Boolean(Some(yes))
}

/// The role that is asked about: the first of more arguments than `count`, or the session's.
fn role(system: &SystemCatalog, args: &Arguments<'_>, count: usize) -> Result<RoleId> {
    if args.len() <= count {
        return Ok(system.roles().current);
    }
    role_of(system, args, 0)
}

fn role_of(system: &SystemCatalog, args: &Arguments<'_>, at: usize) -> Result<RoleId> {
    system.with_catalog(|catalog| match (args.text(at), args.integer(at)) {
        (Some("public"), _) => Ok(RoleId::PUBLIC),
        (Some(name), _) if catalog.role_named(name).is_some() || args.integer(at).is_none() => {
            Ok(catalog.expect_role(name)?.id)
        }
        (_, Some(oid)) => Ok(RoleId(u32::try_from(oid).unwrap_or(u32::MAX))),
        _ => Ok(system.roles().current),
    })
}

/// Rights of a list such as `SELECT, INSERT WITH GRANT OPTION`.
fn rights(text: &str) -> Result<Vec<(Privilege, bool)>> {
    let right = |word: &str| {
        let word = word.trim().to_uppercase();
        let (name, option) = match word.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name, true),
            None => (word.as_str(), false),
        };
        let unknown = || SqlError::invalid(format!("unrecognized privilege type: {text:?}")).code("22023");
        Ok((Privilege::named(name).ok_or_else(unknown)?, option))
    };
    text.split(',').map(right).collect()
}

/// Whether a role has any of these rights on an object.
fn has_any(
    catalog: &Catalog,
    role: RoleId,
    (object, kind): (ObjectId, ObjectKind),
    rights: &[(Privilege, bool)],
    of: impl Fn(Privilege) -> Demanded,
) -> bool {
    rights.iter().any(|(privilege, option)| {
        let demand = Demand { object, kind, name: String::new(), of: of(*privilege) };
        let may_grant = || {
            let access = catalog.access(object);
            catalog.is_superuser(role)
                || !catalog.grantor(role, &access, (kind, None), (*privilege).into()).1.is_empty()
        };
        catalog.allows(role, &demand) && (!option || may_grant())
    })
}

/// `([user,] relation, privilege)`: NULL for an oid that is no relation's, an error for a name that is none's.
fn on_relation(system: &SystemCatalog, args: &Arguments<'_>, any_column: bool) -> Result<ScalarValue> {
    let objects = system.objects();
    let at = args.len().saturating_sub(2);
    let Some(relation) = system.relation(&objects, args.get(at))? else { return Ok(ScalarValue::Boolean(None)) };
    let (role, rights) = (role(system, args, 2)?, rights(args.text(at + 1).unwrap_or_default())?);
    let Some(object) = object_of(&relation.detail) else { return Ok(answer(true)) };
    let of = |privilege| match any_column {
        true => Demanded::Columns(privilege, Vec::new()),
        false => Demanded::Any(privilege.into()),
    };
    Ok(answer(system.with_catalog(|catalog| has_any(catalog, role, object, &rights, of))))
}

fn object_of(detail: &Detail) -> Option<(ObjectId, ObjectKind)> {
    match detail {
        Detail::Table(table) => Some((table.id.into(), ObjectKind::Table)),
        Detail::View(view) => Some((view.id.into(), ObjectKind::View)),
        Detail::Sequence(owned) => Some((owned.sequence.id.into(), ObjectKind::Sequence)),
        Detail::Index(_) | Detail::System => None,
    }
}

/// `([user,] relation, column, privilege)`.
fn on_column(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let objects = system.objects();
    let at = args.len().saturating_sub(3);
    let Some(relation) = system.relation(&objects, args.get(at))? else { return Ok(ScalarValue::Boolean(None)) };
    let (role, rights) = (role(system, args, 3)?, rights(args.text(at + 2).unwrap_or_default())?);
    let Some(object) = object_of(&relation.detail) else { return Ok(answer(true)) };
    let place = match args.text(at + 1) {
        Some(name) => relation.columns.iter().position(|column| column.name == name),
        None => args.integer(at + 1).and_then(|number| usize::try_from(number - 1).ok()),
    };
    let id = match (&relation.detail, place) {
        (Detail::Table(table), Some(place)) => table.details.get(place).map(|detail| detail.id),
        (Detail::View(_), Some(place)) => u32::try_from(place).ok(),
        _ => None,
    };
    let Some(id) = id else {
        let column = args.text(at + 1).unwrap_or_default();
        let message = format!("column {column:?} of relation {:?} does not exist", relation.name);
        return Err(SqlError::invalid(message).code("42703").into());
    };
    let of = |privilege| Demanded::Columns(privilege, vec![id]);
    Ok(answer(system.with_catalog(|catalog| has_any(catalog, role, object, &rights, of))))
}

fn on_object(
    system: &SystemCatalog,
    args: &Arguments<'_>,
    kind: ObjectKind,
    find: impl Fn(&Catalog) -> Option<ObjectId>,
) -> Result<ScalarValue> {
    let (role, rights) = (role(system, args, 2)?, rights(args.text(args.len() - 1).unwrap_or_default())?);
    let of = |privilege: Privilege| Demanded::Any(privilege.into());
    Ok(system.with_catalog(|catalog| match find(catalog) {
        Some(object) => answer(has_any(catalog, role, (object, kind), &rights, of)),
        // What every database has is everybody's to use.
        None => {
            answer(rights.iter().all(|(privilege, _)| *privilege == Privilege::Usage) || catalog.is_superuser(role))
        }
    }))
}

fn on_schema(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let objects = system.objects();
    let at = args.len().saturating_sub(2);
    let found = match args.text(at) {
        Some(name) => objects.namespaces.iter().find(|namespace| namespace.name == name),
        None => objects.namespaces.iter().find(|namespace| Some(namespace.oid) == args.integer(at)),
    };
    let Some(found) = found else {
        return match args.text(at) {
            Some(name) => Err(SqlError::invalid(format!("schema {name:?} does not exist")).code("3F000").into()),
            None => Ok(ScalarValue::Boolean(None)),
        };
    };
    on_object(system, args, ObjectKind::Schema, |catalog| catalog.schema_object(&found.name))
}

/// `([user,] role, privilege)`, of which USAGE is to have what the role may do, and MEMBER to be able to become it.
fn has_role(system: &SystemCatalog, args: &Arguments<'_>) -> Result<ScalarValue> {
    let asked = role(system, args, 2)?;
    let of = role_of(system, args, args.len().saturating_sub(2))?;
    let privilege = args.text(args.len() - 1).unwrap_or_default().to_uppercase();
    Ok(answer(system.with_catalog(|catalog| match privilege.as_str() {
        "USAGE" => catalog.inherits(asked, of),
        "MEMBER" => catalog.is_member(asked, of),
        _ => catalog.is_admin(asked, of),
    })))
}
