//! ALTER TYPE: an enumeration gets another label, or is called otherwise, and so are its labels. No row is touched.
//!
//! Conditions, defaults, keys of indexes and views are kept as texts, with labels in them: a default that is a label
//! goes on with it, and any other text that has the label stands against another name of it.

use datafusion::sql::sqlparser::ast::{AlterTypeAddValuePosition, AlterTypeOperation, ObjectName};

use crate::create::{label, lock_type, refuse_full, refuse_taken};
use crate::dependents::{change, columns_of_type, views_of_type};
use saki_catalog::{Catalog, EnumType, Place, Result, SqlError, Table, qualified};
use saki_context::StatementContext;
use saki_context::access::undefined_type;
use saki_context::statement::StatementResult;
use saki_postgres::RelationName;
use saki_postgres::statement::name_of;
use saki_store::locks::{LockMode, Policy};

pub async fn alter_type(
    cx: &StatementContext<'_>,
    name: &ObjectName,
    operation: &AlterTypeOperation,
) -> Result<StatementResult> {
    let change = Change::read(operation)?;
    refuse_full()?;
    let known = RelationName::read(name)?.name;
    let _alone = lock_type(cx, &known).await?;
    let generation = cx.generation()?;
    let of = generation.catalog.enum_type(&known).ok_or_else(|| undefined_type(name))?;
    let tables = columns_of_type(&generation.catalog, of.id);
    let tables: Vec<_> = tables.map(|(table, _)| (table.name.clone(), LockMode::ShareRowExclusive)).collect();
    let _locked = cx.transactions.lock_tables(&tables, Policy::Wait).await?;
    let missing = undefined_type(name);
    cx.change_catalog(move |db| {
        db.write(|writer| {
            let of = writer.catalog.enum_type(&known).ok_or(missing)?;
            let of = EnumType::clone(of);
            change.make(&mut writer.catalog, of)
        })
    })
    .await?;
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
                refuse_taken(catalog, &of.schema, &name)?;
                if let Some(view) = views_of_type(catalog, &of).next() {
                    let message =
                        format!("cannot rename type {} because view {} names it", of.state().name(), view.name);
                    return Err(SqlError::unsupported(message).hint("drop the view, and make it again"));
                }
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
                rename_in_texts(catalog, &of, &from, &to)?;
            }
        }
        catalog.put_enum_type(of);
        Ok(())
    }
}

fn literal(label: &str) -> String {
    format!("'{}'", label.replace('\'', "''"))
}

/// Defaults that are a label stay that label.
///
/// # Errors
/// 0A000 if another text has it.
fn rename_in_texts(catalog: &mut Catalog, of: &EnumType, from: &str, to: &str) -> Result<()> {
    let (from, to) = (literal(from), literal(to));
    if let Some(place) = place_of(catalog, of, &from) {
        let message = format!("cannot rename label {from} of type {} because {place} has it", of.state().name());
        return Err(SqlError::unsupported(message).hint("drop that, and make it again with the label's new name"));
    }
    let columns: Vec<(String, u32)> =
        columns_of_type(catalog, of.id).map(|(table, at)| (table.name.clone(), table.details[at].id)).collect();
    for (name, column) in columns {
        change(catalog, &name, |table| {
            let details = table.details.iter_mut().filter(|detail| detail.id == column);
            let defaults = details.filter_map(|detail| detail.default.as_mut());
            defaults.filter(|default| **default == from).for_each(|default| default.clone_from(&to));
        });
    }
    Ok(())
}

/// Where a label is in a text that cannot go on with it, of what has to do with its type.
fn place_of(catalog: &Catalog, of: &EnumType, literal: &str) -> Option<String> {
    let tables: Vec<&Table> = columns_of_type(catalog, of.id).map(|(table, _)| &**table).collect();
    for table in &tables {
        if let Some(check) = table.checks.iter().find(|check| check.expression.contains(literal)) {
            return Some(format!("constraint {} on table {}", check.name, table.name));
        }
        if table.filled().any(|(_, hidden)| hidden.expression().contains(literal)) {
            return Some(format!("an index on table {}", table.name));
        }
        let is_within = |default: &String| default != literal && default.contains(literal);
        if table.details.iter().filter_map(|detail| detail.default.as_ref()).any(is_within) {
            return Some(format!("a default of table {}", table.name));
        }
    }
    let using = tables.iter().flat_map(|table| catalog.views_using(table.id));
    let mut views = using.chain(views_of_type(catalog, of));
    let found = views.find(|view| view.sql.contains(literal));
    found.map(|view| format!("view {}", view.name))
}
