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

/// Rows of an INSERT at most: more are better written together.
const ROWS_MAX: usize = 100;

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
    if !is_plain(insert) || query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() {
        return None;
    }
    let (name, _) = object_name(name).ok()?;
    let table = catalog.get(&name)?;
    let width = values.rows.first()?.len();
    if values.rows.len() > ROWS_MAX || !table.is_free_of_rules(catalog) {
        return None;
    }
    let columns = named_columns(table, &insert.columns, width)?;
    let mut compiler = Compiler { table, alias: name, stated, parameters: Vec::new() };
    let mut compiled = Insert::default();
    for row in &values.rows {
        let given = compiler.given(&columns, row)?;
        compiler.add_row(catalog, given, &mut compiled)?;
    }
    compiler.finish(Operation::Insert(compiled), Vec::new())
}

/// The columns that an INSERT fills, in the order of its values; none twice.
fn named_columns(table: &Table, names: &[ast::ObjectName], width: usize) -> Option<Vec<usize>> {
    let mut columns = Vec::with_capacity(width);
    for name in names {
        let column = table.column(&object_name(name).ok()?.0)?;
        if columns.contains(&column) {
            return None;
        }
        columns.push(column);
    }
    if columns.is_empty() {
        columns = (0..table.columns.len().min(width)).collect();
    }
    Some(columns)
}

impl Compiler<'_> {
    /// The values of a row by table column; none where it has no value, or says DEFAULT.
    fn given(&mut self, columns: &[usize], row: &[ast::Expr]) -> Option<Vec<Option<Expr>>> {
        if columns.len() != row.len() {
            return None;
        }
        let mut given = vec![None; self.table.columns.len()];
        for (column, expr) in columns.iter().zip(row) {
            let is_given = !matches!(expr, ast::Expr::Identifier(name) if is_default(name));
            if is_given && self.table.refuses_values(*column) {
                return None;
            }
            if is_given {
                given[*column] = Some(self.assigned(expr, *column, false)?);
            }
        }
        Some(given)
    }

    /// Adds a row. What is given no value is filled with its default, where that is a constant, a moment, or drawn from
    /// a sequence.
    fn add_row(&mut self, catalog: &Catalog, given: Vec<Option<Expr>>, insert: &mut Insert) -> Option<()> {
        let mut values = Vec::with_capacity(given.len());
        for (column, value) in given.into_iter().enumerate() {
            if let Some(value) = value {
                insert.given.insert(column);
                values.push(value);
                continue;
            }
            insert.defaults.insert(column, self.table.default_of(catalog, column));
            values.push(match Defaults::new(catalog, self.table).expression(column).ok()? {
                None => Expr::Literal(Value::Null, 0),
                Some(default) => match drawn_from(&default) {
                    Some(sequence) if is_integer(self.type_of(column)) => {
                        insert.draws.push(sequence.to_owned());
                        Expr::Drawn(insert.draws.len() - 1)
                    }
                    _ => self.assigned(&default, column, false)?,
                },
            });
        }
        insert.rows.push(values);
        Some(())
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
