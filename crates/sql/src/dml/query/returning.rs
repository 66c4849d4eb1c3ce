//! RETURNING: what a change says of its rows, and of the rows beside them that FROM or USING found.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, TableFactor, TableWithJoins};

use super::find::{Target, named, relation, select, stand_in};
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::transaction::ChangeEnv;
use saki_plan::StandIns;
use saki_postgres::dialect::called;
use saki_postgres::statement::name_of;
use saki_postgres::statement::walk::walk_expressions_mut;

/// The name of the table that stands in for the changed rows: no other has it, so that subqueries see the table itself.
const CHANGED: &str = "changed rows";

/// The items of RETURNING, with columns of other relations replaced by columns that the change's query brings along.
pub struct Returning {
    items: Vec<SelectItem>,
    others: Vec<Expr>,
}

impl Returning {
    /// `beside` are the relations of FROM or USING.
    ///
    /// # Errors
    /// `Unsupported` for `*` beside other relations.
    pub fn new(items: &[SelectItem], beside: &[TableWithJoins]) -> Result<Self> {
        let names: Vec<String> = beside.iter().flat_map(names).collect();
        let mut returning = Self { items: Vec::with_capacity(items.len()), others: Vec::new() };
        for item in items {
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
