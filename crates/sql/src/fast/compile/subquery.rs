//! Recognises subqueries that are look-ups: `EXISTS`, `IN (SELECT …)`, and values of one row.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, SelectItem, SetExpr, UnaryOperator};

use super::super::plan::Kind;
use super::compiler::{Compiler, named_table};
use super::condition::operands;
use super::join::{Clause, Joins, RELATIONS_MAX};
use super::select::{is_plain, is_plain_select, is_ungrouped};
use saki_catalog::Catalog;
use saki_context::values::condition::{Condition, Test, Values};
use saki_context::values::expr::{Expr, scale_of};

impl<'t> Compiler<'t> {
    /// Takes from a condition what it says of subqueries, which become tables of their own; what is left of it.
    pub fn subqueries<'a>(
        &mut self,
        catalog: &'t Catalog,
        selection: &'a ast::Expr,
        joins: &mut Joins<'a>,
    ) -> Option<Option<&'a ast::Expr>> {
        let all = operands(selection, &BinaryOperator::And);
        if !all.iter().any(|operand| subquery(operand).is_some()) {
            return Some(Some(selection));
        }
        for operand in all {
            let Some((kind, query, needle)) = subquery(operand) else {
                joins.conditions.push(operand);
                continue;
            };
            let needle = match needle {
                // NULLs make it neither true nor false.
                Some(needle) => {
                    Some(self.column(needle).filter(|column| kind == Kind::Semi || self.is_filled(*column))?)
                }
                None => None,
            };
            let (number, mut clauses, select) = self.add_subquery(catalog, query)?;
            self.scope = Some(number);
            let is_known = match needle {
                Some(needle) => {
                    let [SelectItem::UnnamedExpr(shown) | SelectItem::ExprWithAlias { expr: shown, .. }] =
                        &select.projection[..]
                    else {
                        return None;
                    };
                    let shown = self.column(shown).filter(|column| self.relation_of(*column) == number)?;
                    if kind == Kind::Anti && !self.is_filled(shown) {
                        return None;
                    }
                    clauses.push(self.equal(shown, needle, number)?);
                    true
                }
                None => select.projection.iter().all(|item| self.is_there(item)),
            };
            self.scope = None;
            if !is_known {
                return None;
            }
            joins.inner.insert(number, (kind, clauses));
        }
        Some(None)
    }

    /// The subqueries of an answer's columns, which become tables of their own.
    pub fn looked_up(&mut self, catalog: &'t Catalog, projection: &[SelectItem], joins: &mut Joins<'_>) -> Option<()> {
        for item in projection {
            let (SelectItem::UnnamedExpr(ast::Expr::Subquery(query))
            | SelectItem::ExprWithAlias { expr: ast::Expr::Subquery(query), .. }) = item
            else {
                continue;
            };
            let (number, clauses, select) = self.add_subquery(catalog, query)?;
            let [SelectItem::UnnamedExpr(shown)] = &select.projection[..] else { return None };
            self.scope = Some(number);
            let column = self.column(shown).filter(|column| self.relation_of(*column) == number)?;
            self.scope = None;
            joins.inner.insert(number, (Kind::Outer, clauses));
            self.scalars.push(column);
        }
        Some(())
    }

    /// Adds the table of a subquery: its number, and what its rows meet.
    fn add_subquery<'a>(
        &mut self,
        catalog: &'t Catalog,
        query: &'a ast::Query,
    ) -> Option<(usize, Vec<Clause>, &'a ast::Select)> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let is_plain = is_plain(query)
            && query.locks.is_empty()
            && query.limit_clause.is_none()
            && query.order_by.is_none()
            && is_plain_select(select)
            && is_ungrouped(&select.group_by)
            && select.distinct.is_none();
        let [from] = &select.from[..] else { return None };
        if !is_plain || !from.joins.is_empty() || self.relations.len() == RELATIONS_MAX {
            return None;
        }
        let (name, alias) = named_table(&from.relation)?;
        self.add(catalog, name, alias)?;
        let number = self.relations.len() - 1;
        self.relations[number].is_inner = true;
        self.scope = Some(number);
        let clauses = match &select.selection {
            Some(selection) => self.clauses(selection, Some(number))?,
            None => Vec::new(),
        };
        self.scope = None;
        Some((number, clauses, select))
    }

    /// That a column of a subquery's table equals another.
    fn equal(&self, column: usize, other: usize, number: usize) -> Option<Clause> {
        if !self.are_alike(column, other) {
            return None;
        }
        let value = Expr::Column(other, scale_of(self.type_of(other)));
        let test = Test::OneOf(Values::List([value].into()));
        Some(self.clause(Condition { column, data_type: self.type_of(column), test }, Some(number)))
    }

    /// Whether a column has a value in every row.
    fn is_filled(&self, column: usize) -> bool {
        let relation = &self.relations[self.relation_of(column)];
        // A join may leave all columns of a table without one.
        !relation.table.columns[column - relation.first].nullable && self.visible().count() == 1
    }

    /// Whether what `EXISTS` selects is there, and counts nothing.
    fn is_there(&self, item: &SelectItem) -> bool {
        match item {
            SelectItem::Wildcard(options) => options.to_string().is_empty(),
            SelectItem::UnnamedExpr(ast::Expr::Value(value)) => {
                matches!(value.value, ast::Value::Number(..) | ast::Value::Null | ast::Value::SingleQuotedString(_))
            }
            SelectItem::UnnamedExpr(expr) => self.column(expr).is_some(),
            _ => false,
        }
    }
}

/// What kind of look-up an operand of a condition is, its subquery, and what is looked for among its values.
fn subquery(operand: &ast::Expr) -> Option<(Kind, &ast::Query, Option<&ast::Expr>)> {
    let kind = |negated: bool| if negated { Kind::Anti } else { Kind::Semi };
    match operand {
        ast::Expr::Nested(inner) => subquery(inner),
        ast::Expr::Exists { subquery, negated } => Some((kind(*negated), subquery, None)),
        ast::Expr::UnaryOp { op: UnaryOperator::Not, expr } => match expr.as_ref() {
            ast::Expr::Exists { subquery, negated: false } => Some((Kind::Anti, subquery, None)),
            _ => None,
        },
        ast::Expr::InSubquery { expr, subquery, negated } => Some((kind(*negated), subquery, Some(expr))),
        _ => None,
    }
}
