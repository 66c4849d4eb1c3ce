//! CREATE TYPE … AS ENUM, ALTER TYPE and DROP TYPE.
//!
//! Whoever changes a type has its tables for itself until the transaction ends: who writes rows, or changes what a table
//! is, sees its columns' labels as they were or as they are.

use datafusion::sql::sqlparser::ast::{
    self, AlterTypeAddValuePosition, AlterTypeOperation, Ident, ObjectName, UserDefinedTypeRepresentation,
};

use crate::schema::ready;
use saki_base::{DataType, TableId};
use saki_catalog::{Catalog, EnumType, Place, Result, RoleId, SqlError, qualified};
use saki_context::StatementContext;
use saki_context::statement::{StatementResult, find_type};
use saki_postgres::RelationName;
use saki_postgres::statement::name_of;
use saki_postgres::types::enumeration;
use saki_store::locks::{LockMode, Policy};

/// Bytes that a label has at most (PostgreSQL's NAMEDATALEN, less one).
const LABEL_BYTES_MAX: usize = 63;

/// `path`: the schemas that names without one are looked for in; something new is made in the first that is there.
pub async fn create_type(
    cx: &StatementContext<'_>,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
    path: &[String],
) -> Result<StatementResult> {
    let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
        return Err(SqlError::unsupported("CREATE TYPE is supported for enumerations only: AS ENUM (…)"));
    };
    let labels: Vec<String> = labels.iter().map(label).collect::<Result<_>>()?;
    if let Some(twice) = (1..labels.len()).find(|at| labels[..*at].contains(&labels[*at])) {
        let message = format!("enum label \"{}\" used more than once", labels[twice]);
        return Err(SqlError::invalid(message).code("22023"));
    }
    let catalog = &cx.generation()?.catalog;
    let mut name = RelationName::read(&placed(name, catalog, path)?)?;
    if name.schema == saki_parameters::OWN_TEMPORARY {
        return Err(SqlError::unsupported("types of temporary schemas are not supported").at(name.position.take()));
    }
    let _named = cx.transactions.lock_name(&format!("type {}", name.name)).await?;
    let owner = cx.role();
    cx.change_catalog(move |db| {
        db.write(|writer| {
            let catalog = &mut writer.catalog;
            ready(catalog, &name)?;
            if catalog.enum_type(&name.name).is_some() || catalog.kind_of(&name.name).is_some() {
                let message = format!("type \"{}\" already exists", saki_catalog::bare(&name.schema, &name.name));
                return Err(SqlError::invalid(message).code("42710").at(name.position));
            }
            let (id, labels) = (catalog.new_table_id(), EnumType::numbered(labels));
            let RelationName { name, schema, .. } = name;
            catalog.put_enum_type(EnumType { id, name, schema, owner, labels });
            Ok(())
        })
    })
    .await?;
    Ok(StatementResult::done("CREATE TYPE", 0))
}

/// A name with the schema in which something new is made.
fn placed(name: &ObjectName, catalog: &Catalog, path: &[String]) -> Result<ObjectName> {
    if name.0.len() != 1 {
        return Ok(name.clone());
    }
    let Some(schema) = path.iter().find(|schema| catalog.has_schema(schema)) else {
        return Err(SqlError::invalid("no schema has been selected to create in").code("3F000"));
    };
    let mut name = name.clone();
    name.0.insert(0, ast::ObjectNamePart::Identifier(Ident::with_quote('"', schema)));
    Ok(name)
}

fn label(ident: &Ident) -> Result<String> {
    if ident.quote_style != Some('\'') {
        return Err(SqlError::new(saki_catalog::ErrorKind::Syntax, format!("syntax error at or near \"{ident}\"")));
    }
    if ident.value.len() > LABEL_BYTES_MAX {
        return Err(SqlError::invalid(format!("invalid enum label \"{}\"", ident.value))
            .code("42602")
            .detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")));
    }
    Ok(ident.value.clone())
}

pub async fn alter_type(
    cx: &StatementContext<'_>,
    name: &ObjectName,
    operation: &AlterTypeOperation,
    path: &[String],
) -> Result<StatementResult> {
    let change = Change::read(operation)?;
    alter(cx, name, path, change).await?;
    Ok(StatementResult::done("ALTER TYPE", 0))
}

/// What becomes of a type.
enum Change {
    Name(String),
    Add { label: String, place: Place, if_not_exists: bool },
    Label { from: String, to: String },
}

impl Change {
    fn read(operation: &AlterTypeOperation) -> Result<Self> {
        Ok(match operation {
            AlterTypeOperation::Rename(rename) => Self::Name(name_of(&rename.new_name)),
            AlterTypeOperation::AddValue(add) => Self::Add {
                label: label(&add.value)?,
                place: match &add.position {
                    None => Place::Last,
                    Some(AlterTypeAddValuePosition::Before(other)) => Place::Before(label(other)?),
                    Some(AlterTypeAddValuePosition::After(other)) => Place::After(label(other)?),
                },
                if_not_exists: add.if_not_exists,
            },
            AlterTypeOperation::RenameValue(rename) => {
                Self::Label { from: label(&rename.from)?, to: label(&rename.to)? }
            }
        })
    }

    fn make(self, catalog: &mut Catalog, mut of: EnumType) -> Result<()> {
        match self {
            Self::Name(bare) => {
                let name = qualified(&of.schema, &bare);
                if catalog.enum_type(&name).is_some() || catalog.kind_of(&name).is_some() {
                    return Err(SqlError::invalid(format!("type \"{bare}\" already exists")).code("42710"));
                }
                refuse_named(catalog, &of)?;
                catalog.remove_enum_type(&of.name);
                of.name = name;
            }
            Self::Add { label, place, if_not_exists } => {
                if if_not_exists && of.labels.iter().any(|(known, _)| *known == label) {
                    return Ok(());
                }
                of.add(&label, &place)?;
            }
            Self::Label { from, to } => {
                of.rename(&from, &to)?;
                rename_defaults(catalog, of.id, &from, &to);
            }
        }
        catalog.put_enum_type(of);
        Ok(())
    }
}

/// A default that is a label stays that label.
fn rename_defaults(catalog: &mut Catalog, id: TableId, from: &str, to: &str) {
    let literal = |label: &str| format!("'{}'", label.replace('\'', "''"));
    let (from, to) = (literal(from), literal(to));
    let tables: Vec<_> = columns_of(catalog, id).into_iter().map(|(table, _)| table).collect();
    for name in tables {
        let Some(table) = catalog.get(&name) else { continue };
        let mut table = saki_catalog::Table::clone(table);
        for (column, detail) in table.columns.iter().zip(&mut table.details) {
            let is_of = matches!(column.data_type, DataType::Enum(of) if of.id() == id.0);
            if is_of && detail.default.as_deref() == Some(&from) {
                detail.default = Some(to.clone());
            }
        }
        catalog.put(table);
    }
}

/// Views name types in their texts.
fn refuse_named(catalog: &Catalog, of: &EnumType) -> Result<()> {
    match views_of(catalog, of).first() {
        None => Ok(()),
        Some(view) => {
            let message = format!("cannot rename type {} because view {view} names it", of.state().name());
            Err(SqlError::unsupported(message).hint("Drop the view, and make it again."))
        }
    }
}

/// Views whose texts name a type.
fn views_of(catalog: &Catalog, of: &EnumType) -> Vec<String> {
    let spelled = format!("\"{}\".\"{}\"", of.schema.replace('"', "\"\""), of.bare_name().replace('"', "\"\""));
    catalog.views().filter(|view| view.sql.contains(&spelled)).map(|view| view.name.clone()).collect()
}

/// Tables and their columns that are of a type.
fn columns_of(catalog: &Catalog, id: TableId) -> Vec<(String, String)> {
    let is_of = |data_type: DataType| matches!(data_type, DataType::Enum(of) if of.id() == id.0);
    let of_table = |table: &saki_catalog::Table| {
        let columns = table.columns.iter().filter(|column| is_of(column.data_type));
        columns.map(|column| (table.name.clone(), column.name.clone())).collect::<Vec<_>>()
    };
    catalog.tables().flat_map(|table| of_table(table)).collect()
}

/// The type that a name means.
fn found<'c>(catalog: &'c Catalog, name: &ObjectName, path: &[String]) -> Option<&'c EnumType> {
    match enumeration(name) {
        Some(known) => catalog.enum_type_of(TableId(known.id())).map(AsRef::as_ref),
        None => find_type(name, catalog, path).and_then(|name| catalog.enum_type(&name)).map(AsRef::as_ref),
    }
}

fn undefined(name: &ObjectName) -> SqlError {
    let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    SqlError::invalid(format!("type \"{}\" does not exist", parts.join("."))).code("42704")
}

fn refuse_others(catalog: &Catalog, role: RoleId, of: &EnumType) -> Result<()> {
    match catalog.is_superuser(role) || catalog.inherits(role, of.owner) {
        true => Ok(()),
        false => {
            let message = format!("must be owner of type {}", of.bare_name());
            Err(SqlError::invalid(message).code("42501"))
        }
    }
}

/// Locks the tables that have columns of a type, and then changes it, if it is the one that was found.
async fn alter(cx: &StatementContext<'_>, name: &ObjectName, path: &[String], change: Change) -> Result<()> {
    let generation = cx.generation()?;
    let of = found(&generation.catalog, name, path).ok_or_else(|| undefined(name))?;
    let (id, role) = (of.id, cx.role());
    refuse_others(&generation.catalog, role, of)?;
    let tables = columns_of(&generation.catalog, id).into_iter().map(|(table, _)| (table, LockMode::AccessExclusive));
    let _locked = cx.transactions.lock_tables(&tables.collect::<Vec<_>>(), Policy::Wait).await?;
    let missing = undefined(name);
    cx.change_catalog(move |db| {
        db.write(|writer| {
            let of = writer.catalog.enum_type_of(id).ok_or(missing)?;
            let of = EnumType::clone(of);
            change.make(&mut writer.catalog, of)
        })
    })
    .await
}

pub async fn drop_types(
    cx: &StatementContext<'_>,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
    path: &[String],
) -> Result<StatementResult> {
    let generation = cx.generation()?;
    let mut ids = Vec::new();
    for name in names {
        match found(&generation.catalog, name, path) {
            Some(of) => {
                refuse_others(&generation.catalog, cx.role(), of)?;
                ids.push(of.id);
            }
            None if if_exists => {}
            None => return Err(undefined(name)),
        }
    }
    cx.change_catalog(move |db| {
        db.write(|writer| ids.into_iter().try_for_each(|id| drop_type(&mut writer.catalog, id, cascade)))
    })
    .await?;
    Ok(StatementResult::done("DROP TYPE", 0))
}

fn drop_type(catalog: &mut Catalog, id: TableId, cascade: bool) -> Result<()> {
    let Some(of) = catalog.enum_type_of(id).cloned() else { return Ok(()) };
    let name = of.state().name();
    let columns = columns_of(catalog, id);
    let columns =
        columns.iter().map(|(table, column)| format!("column {column} of table {table} depends on type {name}"));
    let views = views_of(catalog, &of).into_iter().map(|view| format!("view {view} depends on type {name}"));
    let dependents: Vec<String> = columns.chain(views).collect();
    if !dependents.is_empty() {
        let message = format!("cannot drop type {name} because other objects depend on it");
        if cascade {
            let refused = SqlError::unsupported(format!("{message}: CASCADE is not supported here"));
            return Err(refused.detail(dependents.join("\n")).hint("Drop these columns and views first."));
        }
        return Err(crate::drop::depended_on(message, &dependents));
    }
    catalog.remove_enum_type(&of.name);
    Ok(())
}
