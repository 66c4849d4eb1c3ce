//! What ALTER TABLE takes out of a table: columns and constraints, with all that cannot be without them.

use std::sync::Arc;

use saki_base::TableId;

use crate::dependents::{Subject, change, columns_drawing, depended_on, keys_lost, views_of, views_using};
use crate::rename;
use saki_catalog::{Access, Catalog, Result, Sequence, SqlError, Table, nextval};
use saki_postgres::ColumnName;
use saki_postgres::statement::columns_named;
use saki_postgres::statement::parse_expression;

/// Drops a column with its indexes, constraints and sequence.
pub fn drop_column(catalog: &mut Catalog, table: &mut Table, position: usize, cascade: bool) -> Result<()> {
    let (id, name) = (table.details[position].id, table.columns[position].name.clone());
    if table.width() == 1 {
        return Err(SqlError::unsupported(format!("column {name:?} is the last of table {}", table.name))
            .hint("DROP TABLE drops the table"));
    }
    let what = format!("column {name} of table {}", table.name);
    let views = views_using(catalog, table.id, id).map(|view| Subject::View(view.name.clone())).collect();
    let mut checks = Vec::new();
    for check in &table.checks {
        if !columns_named(table, &parse_expression(&check.expression)?).contains(&position) {
            checks.push(check.clone());
        }
    }
    table.checks = checks;
    table.foreign_keys.retain(|key| !key.columns.contains(&position));
    let made_of = indexes_made_of(table, position)?;
    table.indexes.retain(|index| {
        !index.is_over(position) && !index.include.contains(&position) && !made_of.contains(&index.name)
    });
    if table.primary_key.contains(&position) {
        drop_primary_key(table);
    }
    remove_column(table, position);
    revoke(catalog, table.id, id);
    let lost = keys_lost(catalog, table.id, table);
    drop_dependents(catalog, table, &what, views, cascade)?;
    drop_dependents(catalog, table, &what, lost, cascade)?;
    drop_owned(catalog, table, id, &what, cascade)
}

/// Takes back what was granted on a column that has gone.
fn revoke(catalog: &mut Catalog, table: TableId, column: u32) {
    let granted = catalog.stored_access(table.into()).filter(|access| access.columns.contains_key(&column));
    if let Some(granted) = granted {
        let mut access = Access::clone(granted);
        access.columns.remove(&column);
        catalog.put_access(access);
    }
}

/// Drops the sequences of a column that has gone.
fn drop_owned(catalog: &mut Catalog, table: &mut Table, column: u32, what: &str, cascade: bool) -> Result<()> {
    let is_owned = |sequence: &&Arc<Sequence>| sequence.owner.is_some_and(|owner| owner.column == column);
    let owned: Vec<_> = catalog.owned_sequences(table.id).filter(is_owned).map(Arc::clone).collect();
    for sequence in owned {
        let text = nextval(&sequence.name);
        let own = (0..table.details.len()).filter(|at| table.details[*at].default.as_ref() == Some(&text));
        let others = columns_drawing(catalog, &sequence).filter(|(other, _)| other.id != table.id);
        let drawing = own.map(|column| Subject::Default { table: table.name.clone(), column });
        let drawing =
            drawing.chain(others.map(|(other, column)| Subject::Default { table: other.name.clone(), column }));
        let drawing = drawing.collect();
        drop_dependents(catalog, table, what, drawing, cascade)?;
        catalog.remove_sequence(&sequence.name);
    }
    Ok(())
}

/// Names of indexes that have a column in an expression or in their condition.
pub fn indexes_made_of(table: &Table, position: usize) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (column, hidden) in table.filled() {
        if columns_named(table, &parse_expression(&hidden.expression())?).contains(&position) {
            let over = table.indexes.iter().filter(|index| index.is_over(column));
            found.extend(over.map(|index| index.name.clone()));
        }
    }
    Ok(found)
}

/// Takes a column that nothing refers to any more out of a table.
pub fn remove_column(table: &mut Table, position: usize) {
    table.columns.remove(position);
    table.details.remove(position);
    close_gap(table, position);
}

/// Positions behind a dropped column are one less.
fn close_gap(table: &mut Table, dropped: usize) {
    let close = |position: &mut usize| *position -= usize::from(*position > dropped);
    table.primary_key.iter_mut().for_each(close);
    table.bloom.retain(|position| *position != dropped);
    table.bloom.iter_mut().for_each(close);
    table.foreign_keys.iter_mut().flat_map(|key| &mut key.columns).for_each(close);
    for index in &mut table.indexes {
        index.columns.iter_mut().for_each(|column| close(&mut column.column));
        index.include.iter_mut().for_each(close);
    }
}

fn drop_primary_key(table: &mut Table) {
    table.primary_key.clear();
    table.primary_key_constraint = None;
    table.primary_key_comment = None;
}

/// Drops a constraint with the foreign keys that refer to it.
pub fn drop_constraint(
    catalog: &mut Catalog,
    table: &mut Table,
    name: &ColumnName,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let ColumnName { name, position } = name;
    if !table.has_constraint(name) {
        return match if_exists {
            true => Ok(()),
            false => Err(rename::undefined_constraint(table, name).at(*position)),
        };
    }
    if !table.primary_key.is_empty() && table.primary_key_name() == *name {
        drop_primary_key(table);
    }
    table.checks.retain(|check| check.name != *name);
    table.foreign_keys.retain(|key| key.name != *name);
    table.indexes.retain(|index| !(index.constraint && index.bare_name() == name));
    let lost = keys_lost(catalog, table.id, table);
    drop_dependents(catalog, table, &format!("constraint {name} on table {}", table.name), lost, cascade)
}

/// Views, foreign keys and defaults that cannot stay: they go too, or the statement is refused.
fn drop_dependents(
    catalog: &mut Catalog,
    table: &mut Table,
    what: &str,
    dependents: Vec<Subject>,
    cascade: bool,
) -> Result<()> {
    // Keys of the table itself may have gone already.
    let present = |subject: &Subject| match subject {
        Subject::ForeignKey { table: of, name } if *of == table.name => {
            table.foreign_keys.iter().any(|key| key.name == *name)
        }
        _ => true,
    };
    let dependents: Vec<Subject> = dependents.into_iter().filter(present).collect();
    if !cascade && !dependents.is_empty() {
        let texts: Vec<String> = dependents.iter().map(|s| format!("{} depends on {what}", s.shown())).collect();
        return Err(depended_on(format!("cannot drop {what} because other objects depend on it"), &texts));
    }
    let mut pending = dependents;
    while let Some(subject) = pending.pop() {
        match subject {
            Subject::ForeignKey { table: of, name } if of == table.name => {
                table.foreign_keys.retain(|key| key.name != name);
            }
            Subject::ForeignKey { table: of, name } => {
                change(catalog, &of, |table| table.foreign_keys.retain(|key| key.name != name));
            }
            Subject::View(name) => {
                pending.extend(views_of(catalog, &name).map(|v| Subject::View(v.name.clone())));
                catalog.remove_view(&name);
            }
            Subject::Default { table: of, column } if of == table.name => table.details[column].default = None,
            Subject::Default { table: of, column } => {
                change(catalog, &of, |table| table.details[column].default = None);
            }
            Subject::Table(_)
            | Subject::Sequence(_)
            | Subject::Index(_)
            | Subject::Column { .. }
            | Subject::Type(_) => {}
        }
    }
    Ok(())
}
