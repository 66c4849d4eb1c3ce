//! COMMENT ON: words about a relation, a column, a constraint or a schema.

use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName};

use super::names::hold_definition;
use super::schema;
use saki_catalog::{Catalog, Result, SchemaEntry, Sequence, SqlError, Table, View};
use saki_catalog::{undefined, undefined_column};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::statement::{CONSTRAINT, name_of, object_name};

pub async fn comment(
    cx: &StatementContext<'_>,
    kind: CommentObject,
    name: ObjectName,
    comment: Option<String>,
) -> Result<StatementResult> {
    // An empty comment is none, as in PostgreSQL.
    let comment = comment.filter(|text| !text.is_empty());
    let table = table_of(&cx.generation()?.catalog, kind, &name)?;
    let _locked = hold_definition(cx, table).await?;
    cx.change_catalog(move |db| publish(db, kind, &name, comment)).await?;
    Ok(StatementResult::done("COMMENT", 0))
}

/// The table whose definition the words are kept with.
fn table_of(catalog: &Catalog, kind: CommentObject, name: &ObjectName) -> Result<Option<String>> {
    let mut relation = name.clone();
    match kind {
        CommentObject::Table => {}
        CommentObject::Column | CONSTRAINT => drop(relation.0.pop()),
        CommentObject::Index => {
            return Ok(catalog.index(&object_name(name)?.0).map(|(table, _)| table.name.clone()));
        }
        _ => return Ok(None),
    }
    if relation.0.is_empty() { Ok(None) } else { Ok(Some(object_name(&relation)?.0)) }
}

fn publish(db: &Stoppable<'_>, kind: CommentObject, name: &ObjectName, comment: Option<String>) -> Result<()> {
    db.write(|writer| {
        let catalog = &mut writer.catalog;
        match kind {
            CommentObject::Column => comment_on_column(catalog, name, comment),
            CommentObject::Schema => comment_on_schema(catalog, name, comment),
            CONSTRAINT => comment_on_constraint(catalog, name, comment),
            CommentObject::Table | CommentObject::View | CommentObject::Sequence | CommentObject::Index => {
                comment_on_relation(catalog, kind, name, comment)
            }
            // Said of the database as a whole or of what everybody has, it is heard and not kept.
            CommentObject::Database | CommentObject::Extension | CommentObject::Role => Ok(()),
            other => Err(SqlError::unsupported(format!("COMMENT ON {other} is not supported"))),
        }
    })
}

fn comment_on_relation(
    catalog: &mut Catalog,
    kind: CommentObject,
    name: &ObjectName,
    comment: Option<String>,
) -> Result<()> {
    let (name, position) = object_name(name)?;
    let absent = || undefined(&name).at(position);
    match kind {
        CommentObject::Table => {
            let table = Table::clone(catalog.table(&name).map_err(|error| error.at(position))?);
            catalog.put(Table { comment, ..table });
        }
        CommentObject::View => {
            let view = View::clone(catalog.view(&name).ok_or_else(absent)?);
            catalog.put_view(View { comment, ..view });
        }
        CommentObject::Sequence => {
            let sequence = Sequence::clone(catalog.sequence(&name).ok_or_else(absent)?);
            catalog.put_sequence(Sequence { comment, ..sequence });
        }
        _ => {
            let (table, index) = catalog.index(&name).ok_or_else(absent)?;
            let mut table = Table::clone(table);
            table.indexes[index].comment = comment;
            catalog.put(table);
        }
    }
    Ok(())
}

fn comment_on_column(catalog: &mut Catalog, name: &ObjectName, comment: Option<String>) -> Result<()> {
    let mut relation = name.clone();
    let column = relation.0.pop().and_then(|part| part.as_ident().map(name_of));
    let (Some(column), false) = (column, relation.0.is_empty()) else {
        return Err(SqlError::invalid("column name must be qualified").code("42601"));
    };
    let (relation, position) = object_name(&relation)?;
    let mut table = Table::clone(catalog.table(&relation).map_err(|error| error.at(position))?);
    let found = table.column(&column).ok_or_else(|| undefined_column(&table, &column).at(position))?;
    table.details[found].comment = comment;
    catalog.put(table);
    Ok(())
}

fn comment_on_constraint(catalog: &mut Catalog, name: &ObjectName, comment: Option<String>) -> Result<()> {
    let mut relation = name.clone();
    let constraint = relation.0.pop().and_then(|part| part.as_ident().map(name_of)).unwrap_or_default();
    let (relation, position) = object_name(&relation)?;
    let mut table = Table::clone(catalog.table(&relation).map_err(|error| error.at(position))?);
    let place = if let Some(check) = table.checks.iter_mut().find(|check| check.name == constraint) {
        &mut check.comment
    } else if let Some(key) = table.foreign_keys.iter_mut().find(|key| key.name == constraint) {
        &mut key.comment
    } else if let Some(index) =
        table.indexes.iter_mut().find(|index| index.constraint && index.bare_name() == constraint)
    {
        &mut index.constraint_comment
    } else if !table.primary_key.is_empty() && table.primary_key_name() == constraint {
        &mut table.primary_key_comment
    } else {
        let message = format!("constraint {constraint:?} for table {:?} does not exist", table.name);
        return Err(SqlError::invalid(message).code("42704").at(position));
    };
    *place = comment;
    catalog.put(table);
    Ok(())
}

fn comment_on_schema(catalog: &mut Catalog, name: &ObjectName, comment: Option<String>) -> Result<()> {
    let (name, position) = schema::schema_name(name)?;
    if !catalog.has_schema(&name) {
        return Err(schema::undefined(&name).at(position));
    }
    // `public` has no entry of its own.
    if let Some(entry) = catalog.remove_schema(&name) {
        catalog.put_schema(SchemaEntry { comment, ..entry });
    }
    Ok(())
}
