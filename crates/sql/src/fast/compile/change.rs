//! Changes.

use arrow_schema::DataType as Arrow;
use datafusion::sql::sqlparser::ast::{self, AssignmentTarget, FromTable, SetExpr, TableObject};
use saki_base::Value;

use super::super::expr::Expr;
use super::super::plan::{FastPlan, Insert, Operation};
use super::compiler::Compiler;
use super::expr::is_integer;
use saki_catalog::{Catalog, Table};
use saki_context::constraint::{Defaults, is_default};
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
    if columns.len() != row.len() {
        return None;
    }
    let mut given: Vec<Option<Expr>> = vec![None; table.columns.len()];
    let mut is_named = vec![false; table.columns.len()];
    for (column, expr) in columns.iter().zip(row.iter()) {
        if std::mem::replace(&mut is_named[*column], true) {
            return None;
        }
        if matches!(expr, ast::Expr::Identifier(name) if is_default(name)) {
            continue;
        }
        if table.refuses_values(*column) {
            return None;
        }
        given[*column] = Some(compiler.assigned(expr, *column, false)?);
    }
    let insert = compiler.with_defaults(catalog, given)?;
    compiler.finish(Operation::Insert(insert), Vec::new())
}

impl Compiler<'_> {
    /// Columns that are given no value are filled with their defaults, where these are constants, moments, or drawn
    /// from sequences.
    fn with_defaults(&mut self, catalog: &Catalog, given: Vec<Option<Expr>>) -> Option<Insert> {
        let (mut draws, mut defaults) = (Vec::new(), Vec::new());
        let mut values = Vec::with_capacity(given.len());
        for (column, value) in given.into_iter().enumerate() {
            if let Some(value) = value {
                values.push(value);
                continue;
            }
            values.push(match Defaults::new(catalog, self.table).expression(column).ok()? {
                None => Expr::Literal(Value::Null, 0),
                Some(default) => match drawn_from(&default) {
                    Some(sequence) if is_integer(self.type_of(column)) => {
                        draws.push(sequence.to_owned());
                        Expr::Drawn(draws.len() - 1)
                    }
                    _ => self.assigned(&default, column, false)?,
                },
            });
            defaults.push((column, self.table.default_of(catalog, column)));
        }
        Some(Insert { values, draws, defaults })
    }
}

/// What `nextval` is told, if an expression is that.
fn drawn_from(expr: &ast::Expr) -> Option<&str> {
    let ast::Expr::Function(function) = expr else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(text)))] = &list.args[..] else {
        return None;
    };
    let ast::Value::SingleQuotedString(text) = &text.value else { return None };
    (object_name(&function.name).ok()?.0 == "nextval").then_some(text)
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
