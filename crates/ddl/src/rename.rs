//! Other names for tables, columns, constraints, indexes, views and sequences.
//!
//! Conditions, defaults and views are kept as text: those that can be are changed with the name; a view that spells the
//! name stands against it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident};

use super::dependents::{change, views_of, views_using};
use super::names::spelled_name;
use saki_catalog::qualified;
use saki_catalog::{Catalog, Result, Sequence, SqlError, Table, View, nextval};
use saki_postgres::ColumnName;
use saki_postgres::statement::walk::walk_expressions_mut;
use saki_postgres::statement::{name_of, parse_expression};

pub fn rename_column(catalog: &Catalog, table: &mut Table, position: usize, to: &str) -> Result<()> {
    let detail = &table.details[position];
    if let Some(view) = views_using(catalog, table.id, detail.id).next() {
        return Err(spelled(view, &format!("column {:?}", table.columns[position].name)));
    }
    let old = std::mem::replace(&mut table.columns[position].name, to.to_owned());
    for check in &mut table.checks {
        check.expression = with_column(&check.expression, &old, Ident::with_quote('"', to))?;
    }
    // As few quotes as can be: messages and definitions of indexes show these.
    let ident = if spelled_name(to) == to { Ident::new(to) } else { Ident::with_quote('"', to) };
    for (column, detail) in table.columns.iter_mut().zip(&mut table.details) {
        let Some(hidden) = &mut detail.hidden else { continue };
        hidden.key = with_column(&hidden.key, &old, ident.clone())?;
        if let Some(predicate) = &mut hidden.predicate {
            *predicate = with_column(predicate, &old, ident.clone())?;
        }
        column.name = match parse_expression(&hidden.key)? {
            Expr::Identifier(key) => name_of(&key),
            _ => with_column(&column.name, &old, ident.clone())?,
        };
    }
    Ok(())
}

/// An expression in which a column is called otherwise.
fn with_column(text: &str, old: &str, new: Ident) -> Result<String> {
    let mut expression = parse_expression(text)?;
    let _ = walk_expressions_mut(&mut expression, |node: &mut Expr| {
        let ident = match node {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(ident) = ident.filter(|ident| name_of(ident) == old) {
            *ident = new.clone();
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(expression.to_string())
}

/// Renames a table that is in the catalog under its old name still.
pub fn rename_table(catalog: &mut Catalog, table: &mut Table, to: &ColumnName) -> Result<()> {
    let name = qualified(&table.schema, &to.name);
    catalog.refuse_taken(&name).map_err(|error| error.at(to.position))?;
    if let Some(view) = views_of(catalog, &table.name).next() {
        return Err(spelled(view, &format!("table {:?}", table.name)));
    }
    // The key's constraint keeps its name.
    if !table.primary_key.is_empty() {
        table.primary_key_constraint = Some(table.primary_key_name());
    }
    table.name = name;
    Ok(())
}

pub fn rename_constraint(catalog: &Catalog, table: &mut Table, from: &ColumnName, to: &ColumnName) -> Result<()> {
    if !table.has_constraint(&from.name) {
        return Err(undefined_constraint(table, &from.name).at(from.position));
    }
    if table.has_constraint(&to.name) {
        return Err(SqlError::invalid(format!(
            "constraint {:?} for relation {:?} already exists",
            to.name,
            table.bare_name()
        ))
        .code("42710")
        .at(to.position));
    }
    if !table.primary_key.is_empty() && table.primary_key_name() == from.name {
        table.primary_key_constraint = Some(to.name.clone());
    }
    for check in table.checks.iter_mut().filter(|check| check.name == from.name) {
        check.name.clone_from(&to.name);
    }
    for key in table.foreign_keys.iter_mut().filter(|key| key.name == from.name) {
        key.name.clone_from(&to.name);
    }
    let name = qualified(&table.schema, &to.name);
    for index in table.indexes.iter_mut().filter(|index| index.constraint && index.bare_name() == from.name) {
        catalog.refuse_taken(&name).map_err(|error| error.at(to.position))?;
        index.name.clone_from(&name);
    }
    Ok(())
}

pub fn rename_index(catalog: &mut Catalog, from: &str, to: &ColumnName) -> Result<bool> {
    let Some((table, position)) = catalog.index(from) else { return Ok(false) };
    let mut table = Table::clone(table);
    let name = qualified(&table.schema, &to.name);
    catalog.refuse_taken(&name).map_err(|error| error.at(to.position))?;
    table.indexes[position].name = name;
    catalog.put(table);
    Ok(true)
}

pub fn rename_view(catalog: &mut Catalog, view: &View, to: &ColumnName) -> Result<()> {
    let name = qualified(&view.schema, &to.name);
    catalog.refuse_taken(&name).map_err(|error| error.at(to.position))?;
    if let Some(other) = views_of(catalog, &view.name).next() {
        return Err(spelled(other, &format!("view {:?}", view.name)));
    }
    catalog.remove_view(&view.name);
    catalog.put_view(View { name, ..view.clone() });
    Ok(())
}

/// Defaults that draw from the sequence follow.
pub fn rename_sequence(catalog: &mut Catalog, sequence: &Sequence, to: &ColumnName) -> Result<()> {
    let name = qualified(&sequence.schema, &to.name);
    catalog.refuse_taken(&name).map_err(|error| error.at(to.position))?;
    let drawing = nextval(&sequence.name);
    let tables: Vec<String> = catalog.drawing(&drawing).map(|table| table.name.clone()).collect();
    for table in tables {
        change(catalog, &table, |table| {
            let defaults = table.details.iter_mut().filter_map(|detail| detail.default.as_mut());
            defaults.for_each(|default| follow_sequence(default, &sequence.name, &name));
        });
    }
    catalog.remove_sequence(&sequence.name);
    catalog.put_sequence(Sequence { name, ..sequence.clone() });
    Ok(())
}

/// Renames the sequence literal in a default expression, if it draws from that sequence.
fn follow_sequence(default: &mut String, old: &str, new: &str) {
    if *default == nextval(old) {
        *default = nextval(new);
    }
}

pub fn undefined_constraint(table: &Table, name: &str) -> SqlError {
    SqlError::invalid(format!("constraint {name:?} of relation {:?} does not exist", table.bare_name())).code("42704")
}

fn spelled(view: &View, what: &str) -> SqlError {
    SqlError::unsupported(format!("cannot rename {what}: the query of view {:?} spells it", view.name))
        .code("2BP01")
        .hint("drop the view, rename, and create the view with the new name")
}
