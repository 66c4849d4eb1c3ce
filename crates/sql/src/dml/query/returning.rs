//! RETURNING: what a change says of its rows, and of the rows beside them that FROM or USING found.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use datafusion::common::Column;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::find::{Target, named, relation, select, stand_in};
use saki_catalog::{Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::planner::logical_plan;
use saki_context::transaction::ChangeEnv;
use saki_plan::StandIns;
use saki_postgres::dialect::{called, refuse_sets};
use saki_postgres::statement::name_of;
use saki_postgres::statement::walk::{walk_expressions, walk_expressions_mut};

/// The name of the table that stands in for the changed rows: no other has it, so that subqueries see the table itself.
const CHANGED: &str = "changed rows";

/// The items of RETURNING, with columns of other relations replaced by columns that the change's query brings along.
pub struct Returning {
    items: Vec<SelectItem>,
    others: Vec<Expr>,
}

impl Returning {
    /// Of a change that finds its rows beside those of FROM or USING.
    ///
    /// # Errors
    /// 42P01 for the columns of a relation that there is not; what the planner says of the others.
    pub async fn beside(
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        items: &[SelectItem],
        (target, table): (&Target, &Table),
        beside: &[TableWithJoins],
    ) -> Result<Self> {
        if beside.is_empty() || !items.iter().any(|item| asks_for_others(item, table)) {
            return Self::new(items, beside);
        }
        // The columns of all relations, the target's first, each by its relation's name.
        let others = columns_of(cx, env, beside).await?;
        let own = table.visible().iter().map(|column| target.column(&column.name));
        let columns: Vec<Expr> = own.chain(others.iter().cloned()).collect();
        let of_relation = |name: &str, column: &Expr| match column {
            Expr::CompoundIdentifier(parts) => parts.first().is_some_and(|relation| name_of(relation) == name),
            _ => false,
        };
        let mut named = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard(_) => named.extend(columns.iter().cloned().map(SelectItem::UnnamedExpr)),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(relation), _) => {
                    let name = relation.0.last().and_then(|part| part.as_ident()).map(name_of).unwrap_or_default();
                    let before = named.len();
                    let of_it = columns.iter().filter(|column| of_relation(&name, column)).cloned();
                    named.extend(of_it.map(SelectItem::UnnamedExpr));
                    if named.len() == before {
                        let message = format!("missing FROM-clause entry for table {name:?}");
                        return Err(SqlError::invalid(message).code("42P01"));
                    }
                }
                other => named.push(other.clone()),
            }
        }
        for item in &mut named {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                qualify(expr, table, &others);
            }
        }
        Self::new(&named, beside)
    }

    /// `beside` are the relations of FROM or USING.
    ///
    /// # Errors
    /// `Unsupported` for what stands for columns that are not known here.
    pub fn new(items: &[SelectItem], beside: &[TableWithJoins]) -> Result<Self> {
        let names: Vec<String> = beside.iter().flat_map(names).collect();
        let mut returning = Self { items: Vec::with_capacity(items.len()), others: Vec::new() };
        for item in items {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                refuse_sets(expr, "RETURNING")?;
            }
            let item = match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) if !names.is_empty() => {
                    return Err(SqlError::unsupported(format!(
                        "RETURNING {item} beside FROM or USING is not supported"
                    ))
                    .hint("name the columns"));
                }
                SelectItem::UnnamedExpr(expr) if !names.is_empty() => {
                    let name = called(expr).unwrap_or_else(|| "?column?".to_owned());
                    named(returning.without_others(expr.clone(), &names), name)
                }
                SelectItem::ExprWithAlias { expr, alias } if !names.is_empty() => SelectItem::ExprWithAlias {
                    expr: returning.without_others(expr.clone(), &names),
                    alias: alias.clone(),
                },
                other => other.clone(),
            };
            returning.items.push(item);
        }
        Ok(returning)
    }

    fn without_others(&mut self, mut expr: Expr, names: &[String]) -> Expr {
        let _ = walk_expressions_mut(&mut expr, |expr| {
            if let Expr::CompoundIdentifier(parts) = expr
                && let [relation, _] = &parts[..]
                && names.contains(&name_of(relation))
            {
                let place = self.others.iter().position(|other| *other == *expr).unwrap_or_else(|| {
                    self.others.push(expr.clone());
                    self.others.len() - 1
                });
                *expr = Expr::Identifier(Ident::with_quote('"', other(place)));
            }
            ControlFlow::<()>::Continue(())
        });
        expr
    }

    /// What the change's query has to bring along, as its last columns.
    pub fn brought(&self) -> impl Iterator<Item = SelectItem> + '_ {
        self.others.iter().enumerate().map(|(place, expr)| named(expr.clone(), other(place)))
    }

    /// The rows that RETURNING is about: those of the table as they are to be shown, with what `found` brought along.
    fn about(&self, rows: &RecordBatch, found: &RecordBatch) -> Result<RecordBatch> {
        let first = found.num_columns() - self.others.len();
        let mut fields: Vec<Arc<Field>> = rows.schema().fields().iter().cloned().collect();
        let mut arrays = rows.columns().to_vec();
        for place in first..found.num_columns() {
            fields.push(Arc::new(found.schema().field(place).clone()));
            arrays.push(Arc::clone(found.column(place)));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

/// Whether an item may be about columns of other relations than the target that it does not name.
fn asks_for_others(item: &SelectItem, table: &Table) -> bool {
    match item {
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            let is_other = |expr: &Expr| match expr {
                Expr::Identifier(name) if table.column(&name_of(name)).is_none() => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            walk_expressions(expr, is_other).is_break()
        }
        _ => false,
    }
}

/// Puts the relation before columns that are of one of `others` and not the target's.
fn qualify(expr: &mut Expr, table: &Table, others: &[Expr]) {
    let _ = walk_expressions_mut(expr, |expr| {
        if let Expr::Identifier(name) = expr
            && table.column(&name_of(name)).is_none()
        {
            let called = name_of(name);
            let is_it = |other: &&Expr| match other {
                Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|column| name_of(column) == called),
                _ => false,
            };
            // Of two the planner says that it is ambiguous, of none that there is none.
            let mut found = others.iter().filter(is_it);
            if let (Some(other), None) = (found.next(), found.next()) {
                *expr = other.clone();
            }
        }
        ControlFlow::<()>::Continue(())
    });
}

/// All columns of relations, each by its relation's name.
async fn columns_of(cx: &StatementContext<'_>, env: &ChangeEnv<'_>, relations: &[TableWithJoins]) -> Result<Vec<Expr>> {
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let query = select(vec![all], relations.to_vec(), None)?;
    let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
    let plan = cx.planner.analyze_in(env, async |state| logical_plan(state, statement).await).await?;
    let column = |column: Column| match &column.relation {
        Some(relation) => {
            let [relation, name] = [relation.table(), &column.name].map(|name| Ident::with_quote('"', name));
            Ok(Expr::CompoundIdentifier(vec![relation, name]))
        }
        None => Err(SqlError::unsupported(format!("RETURNING * beside a column {:?} of no relation", column.name))
            .hint("name the columns")),
    };
    plan.schema().columns().into_iter().map(column).collect()
}

fn other(place: usize) -> String {
    format!("other {place}")
}

/// What the columns of a relation are called by.
fn names(relation: &TableWithJoins) -> Vec<String> {
    let factors = std::iter::once(&relation.relation).chain(relation.joins.iter().map(|join| &join.relation));
    let name = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(name_of(&alias.name)),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().map(name_of),
        _ => None,
    };
    factors.filter_map(name).collect()
}

impl Returning {
    /// What RETURNING says of rows of the target, which `found` found.
    pub async fn of_found(
        &self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        target: &Target,
        rows: &RecordBatch,
        found: &RecordBatch,
    ) -> Result<RecordBatch> {
        self.of_rows(cx, env, &target.alias_name(), self.about(rows, found)?).await
    }

    /// What RETURNING says of rows of a table, which has this name in it.
    pub async fn of_rows(
        &self,
        cx: &StatementContext<'_>,
        env: &ChangeEnv<'_>,
        name: &str,
        rows: RecordBatch,
    ) -> Result<RecordBatch> {
        let stand_ins = StandIns::from([(CHANGED.to_owned(), stand_in(rows)?)]);
        let query = select(self.items.clone(), vec![relation(CHANGED, Some(&Ident::with_quote('"', name)))?], None)?;
        cx.rows_of(&env.with_stand_ins(stand_ins), query).await
    }
}
