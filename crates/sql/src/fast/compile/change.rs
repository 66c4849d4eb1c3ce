//! Changes.

use datafusion::sql::sqlparser::ast::{self, AssignmentTarget, FromTable, SetExpr, TableObject};
use saki_base::Value;

use super::super::plan::{Conflict, FastPlan, Insert, Operation};
use super::compiler::{Compiler, With};
use super::expr::is_integer;
use crate::dml::OnConflict;
use saki_catalog::{Catalog, Table};
use saki_context::constraint::{Defaults, is_default};
use saki_context::values::expr::Expr;
use saki_postgres::statement::sequence::drawn_from;
use saki_postgres::statement::{name_of, object_name};

/// Rows of an INSERT at most: more are better written together.
const ROWS_MAX: usize = 100;

pub fn compile_update(update: &ast::Update, catalog: &Catalog, with: With<'_>) -> Option<FastPlan> {
    let is_plain = update.from.is_none()
        && update.or.is_none()
        && update.output.is_none()
        && update.order_by.is_empty()
        && update.limit.is_none();
    if !is_plain {
        return None;
    }
    let mut compiler = Compiler::new(catalog, &update.table, with)?;
    let mut assigned: Vec<(usize, Expr)> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
        let column = compiler.table.column(&object_name(name).ok()?.0)?;
        if assigned.iter().any(|(other, _)| *other == column) {
            return None;
        }
        assigned.push(compiler.set(column, &assignment.value)?);
    }
    let source = compiler.source(update.selection.as_ref()?)?;
    compiler.finish_change(Operation::Update { source, assigned }, update.returning.as_ref())
}

/// Whether an index that keeps values unique has an assigned column, or one that may be made of it.
pub fn has_unique_index_on(table: &Table, assigned: &[(usize, Expr)]) -> bool {
    let is_assigned =
        |column: usize| table.hidden(column).is_some() || assigned.iter().any(|(other, _)| *other == column);
    table.indexes.iter().any(|index| index.unique && index.columns.iter().any(|c| is_assigned(c.column)))
}

pub fn compile_delete(delete: &ast::Delete, catalog: &Catalog, with: With<'_>) -> Option<FastPlan> {
    let is_plain = delete.tables.is_empty()
        && delete.using.is_none()
        && delete.output.is_none()
        && delete.order_by.is_empty()
        && delete.limit.is_none();
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [from] = &from[..] else { return None };
    if !is_plain {
        return None;
    }
    let mut compiler = Compiler::new(catalog, from, with)?;
    let source = compiler.source(delete.selection.as_ref()?)?;
    compiler.finish_change(Operation::Delete(source), delete.returning.as_ref())
}

pub fn compile_insert(insert: &ast::Insert, catalog: &Catalog, with: With<'_>) -> Option<FastPlan> {
    let TableObject::TableName(name) = &insert.table else { return None };
    let query = insert.source.as_ref()?;
    let SetExpr::Values(values) = query.body.as_ref() else { return None };
    if !is_plain(insert) || query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() {
        return None;
    }
    let mut compiler = Compiler::of_table(catalog, name, None, with)?;
    if let Some(alias) = &insert.table_alias {
        compiler.relations[0].alias = name_of(&alias.alias);
    }
    let width = values.rows.first()?.len();
    if values.rows.len() > ROWS_MAX {
        return None;
    }
    let columns = named_columns(compiler.table, &insert.columns, width)?;
    let mut compiled = Insert::default();
    for row in &values.rows {
        let given = compiler.given(&columns, row)?;
        compiler.add_row(catalog, given, &mut compiled)?;
    }
    compiled.conflict = match &insert.on {
        None => None,
        Some(on) => Some(compiler.conflict(on)?),
    };
    compiler.finish_change(Operation::Insert(compiled), insert.returning.as_ref())
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
        columns = (0..table.width().min(width)).collect();
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

impl Compiler<'_> {
    fn conflict(&mut self, on: &ast::OnInsert) -> Option<Conflict> {
        let ast::OnInsert::OnConflict(ast::OnConflict { conflict_target: target, .. }) = on else { return None };
        let (arbiter, assigned) = match OnConflict::read(Some(on), self.table).ok()? {
            OnConflict::Keep(arbiter) => (arbiter, None),
            OnConflict::Update { arbiter, assigned, selection: None } => (arbiter, Some(assigned)),
            OnConflict::Update { .. } | OnConflict::Refuse => return None,
        };
        self.has_excluded = true;
        let assigned = match assigned {
            None => None,
            Some(assigned) => {
                Some(assigned.written()?.map(|(column, value)| self.set(column, value)).collect::<Option<Vec<_>>>()?)
            }
        };
        Some(Conflict { target: target.clone(), arbiter, assigned })
    }

    /// A column of a row that is there, and the value that it is to have.
    fn set(&mut self, column: usize, value: &ast::Expr) -> Option<(usize, Expr)> {
        if self.table.primary_key.contains(&column) || self.table.refuses_values(column) {
            return None;
        }
        Some((column, self.assigned(value, column, true)?))
    }
}

fn is_plain(insert: &ast::Insert) -> bool {
    insert.or.is_none()
        && insert.output.is_none()
        && !insert.overwrite
        && !insert.ignore
        && !insert.replace_into
        && insert.insert_alias.is_none()
        && insert.assignments.is_empty()
        && insert.partitioned.is_none()
}
