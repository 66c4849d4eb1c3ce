//! Changes.

use arrow_schema::DataType as Arrow;
use datafusion::sql::sqlparser::ast::{self, AssignmentTarget, FromTable, SetExpr, TableObject};
use saki_base::Value;

use super::super::expr::Expr;
use super::super::plan::{FastPlan, Operation};
use super::compiler::Compiler;
use saki_catalog::{Catalog, Table};
use saki_postgres::statement::object_name;

pub fn compile_update(update: &ast::Update, catalog: &Catalog, stated: &[Option<Arrow>]) -> Option<FastPlan> {
    let is_plain = update.from.is_none()
        && update.returning.is_none()
        && update.or.is_none()
        && update.output.is_none()
        && update.order_by.is_empty()
        && update.limit.is_none();
    if !is_plain {
        return None;
    }
    let mut compiler = Compiler::new(catalog, &update.table, stated)?;
    if !compiler.table.is_free_of_rules(catalog) {
        return None;
    }
    let mut assigned: Vec<(usize, Expr)> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
        let column = compiler.table.column(&object_name(name).ok()?.0)?;
        let is_key = compiler.table.primary_key.contains(&column);
        if is_key || assigned.iter().any(|(other, _)| *other == column) {
            return None;
        }
        assigned.push((column, compiler.assigned(&assignment.value, column, true)?));
    }
    let (source, _) = compiler.source(update.selection.as_ref()?, &[])?;
    // Rows may swap the values of unique columns: uniqueness is checked at the statement's end.
    if !source.is_single() && has_unique_index_on(compiler.table, &assigned) {
        return None;
    }
    compiler.finish(Operation::Update { source, assigned }, Vec::new())
}

/// Whether an index that keeps values unique has an assigned column.
pub fn has_unique_index_on(table: &Table, assigned: &[(usize, Expr)]) -> bool {
    let is_assigned = |column: usize| assigned.iter().any(|(other, _)| *other == column);
    table.indexes.iter().any(|index| index.unique && index.columns.iter().any(|c| is_assigned(c.column)))
}

pub fn compile_delete(delete: &ast::Delete, catalog: &Catalog, stated: &[Option<Arrow>]) -> Option<FastPlan> {
    let is_plain = delete.tables.is_empty()
        && delete.using.is_none()
        && delete.returning.is_none()
        && delete.output.is_none()
        && delete.order_by.is_empty()
        && delete.limit.is_none();
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [from] = &from[..] else { return None };
    if !is_plain {
        return None;
    }
    let mut compiler = Compiler::new(catalog, from, stated)?;
    if !compiler.table.is_free_of_rules(catalog) {
        return None;
    }
    let (source, _) = compiler.source(delete.selection.as_ref()?, &[])?;
    compiler.finish(Operation::Delete(source), Vec::new())
}

pub fn compile_insert(insert: &ast::Insert, catalog: &Catalog, stated: &[Option<Arrow>]) -> Option<FastPlan> {
    let TableObject::TableName(name) = &insert.table else { return None };
    let query = insert.source.as_ref()?;
    let SetExpr::Values(values) = query.body.as_ref() else { return None };
    let [row] = &values.rows[..] else { return None };
    if !is_plain(insert) || query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() {
        return None;
    }
    let (name, _) = object_name(name).ok()?;
    let table = catalog.get(&name)?;
    if !table.is_free_of_rules(catalog) {
        return None;
    }
    let mut compiler = Compiler { table, alias: name, stated, parameters: Vec::new() };
    let mut columns = Vec::with_capacity(row.len());
    for column in &insert.columns {
        columns.push(table.column(&object_name(column).ok()?.0)?);
    }
    if columns.is_empty() {
        columns = (0..table.columns.len().min(row.len())).collect();
    }
    let mut values = vec![Expr::Literal(Value::Null, 0); table.columns.len()];
    let mut is_given = vec![false; table.columns.len()];
    if columns.len() != row.len() {
        return None;
    }
    for (column, expr) in columns.iter().zip(row.iter()) {
        if std::mem::replace(&mut is_given[*column], true) {
            return None;
        }
        values[*column] = compiler.assigned(expr, *column, false)?;
    }
    // A column without a value has its default, which may be anything.
    if (0..table.columns.len()).any(|column| !is_given[column] && table.has_default(column)) {
        return None;
    }
    compiler.finish(Operation::Insert(values), Vec::new())
}

fn is_plain(insert: &ast::Insert) -> bool {
    insert.on.is_none()
        && insert.returning.is_none()
        && insert.or.is_none()
        && insert.output.is_none()
        && !insert.overwrite
        && !insert.ignore
        && !insert.replace_into
        && insert.insert_alias.is_none()
        && insert.assignments.is_empty()
        && insert.partitioned.is_none()
}
