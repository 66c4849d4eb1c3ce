//! Columns that joins USING merge: which of both sides a name is depends on the join, and `*` has them first. The
//! planner always takes the left side's, and leaves `*` in the order of the tables.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, ExceptSelectItem, Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

use crate::statement::{call, column_name, name_of, parse_query, take};
use saki_catalog::SqlError;

pub struct Joins;

impl VisitorMut for Joins {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        // A join with a name is a query with that name.
        if let TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } = factor
            && Sources::of(std::slice::from_ref(table_with_joins.as_ref())).is_some()
        {
            match parse_query(&format!("SELECT * FROM {table_with_joins}")) {
                Ok(subquery) => {
                    *factor =
                        TableFactor::Derived { lateral: false, subquery, alias: Some(alias.clone()), sample: None };
                }
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else {
            return ControlFlow::Continue(());
        };
        let Some(sources) = Sources::of(&select.from) else { return ControlFlow::Continue(()) };
        if let OrderByKind::Expressions(keys) = &mut order.kind {
            for key in keys.iter_mut().filter(|key| !is_of_result(&key.expr, select)) {
                let _ = VisitMut::visit(&mut key.expr, &mut Merged { sources: &sources, depth: 0 });
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if let Some(sources) = Sources::of(&select.from) {
            sources.settle(select);
        }
        ControlFlow::Continue(())
    }
}

/// What the relations of a FROM bring.
#[derive(Default)]
struct Sources {
    items: Vec<Item>,
    /// Whether there is a join USING at all.
    merges: bool,
}

#[derive(Clone)]
enum Item {
    /// A relation's columns but these.
    All(Ident, Vec<Ident>),
    /// A merged column; `true`: another than the left side's.
    Merged(Ident, Box<Expr>, bool),
}

impl Sources {
    /// `None`: no join merges columns, or it cannot be told which.
    fn of(from: &[TableWithJoins]) -> Option<Self> {
        let mut all = Self::default();
        for tables in from {
            all = all.beside(Self::joined(tables)?);
        }
        all.merges.then_some(all)
    }

    fn joined(tables: &TableWithJoins) -> Option<Self> {
        let mut left = Self::factor(&tables.relation)?;
        for join in &tables.joins {
            left = left.join(Self::factor(&join.relation)?, &join.join_operator)?;
        }
        Some(left)
    }

    fn factor(factor: &TableFactor) -> Option<Self> {
        let name = match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => return Self::joined(table_with_joins),
            TableFactor::NestedJoin { alias: Some(alias), .. }
            | TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => alias.name.clone(),
            TableFactor::Table { name, args: None, .. } => name.0.last()?.as_ident()?.clone(),
            _ => return None,
        };
        Some(Self { items: vec![Item::All(name, Vec::new())], merges: false })
    }

    fn beside(mut self, right: Self) -> Self {
        self.items.extend(right.items);
        self.merges |= right.merges;
        self
    }

    fn join(self, right: Self, operator: &JoinOperator) -> Option<Self> {
        use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        let constraint = match operator {
            Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on) => on,
            _ => return Some(self.beside(right)),
        };
        let columns = match constraint {
            JoinConstraint::Using(columns) => columns,
            JoinConstraint::Natural => return None,
            _ => return Some(self.beside(right)),
        };
        let mut merged = Vec::new();
        let (mut left, mut right) = (self, right);
        for column in columns {
            let column = column.0.last()?.as_ident()?.clone();
            let ((one, is_other), (two, _)) = (left.without(&column)?, right.without(&column)?);
            let (value, is_other) = match operator {
                Right(_) | RightOuter(_) => (two, true),
                FullOuter(_) => (call("coalesce", vec![one, two]), true),
                _ => (one, is_other),
            };
            merged.push(Item::Merged(column, Box::new(value), is_other));
        }
        merged.extend(left.items);
        merged.extend(right.items);
        Some(Self { items: merged, merges: true })
    }

    /// Takes a column out of what a side brings: what it is there.
    fn without(&mut self, column: &Ident) -> Option<(Expr, bool)> {
        let name = name_of(column);
        let merged =
            self.items.iter().position(|item| matches!(item, Item::Merged(ident, ..) if name_of(ident) == name));
        if let Some(at) = merged {
            return match self.items.remove(at) {
                Item::Merged(_, value, is_other) => Some((*value, is_other)),
                Item::All(..) => None,
            };
        }
        let mut relations = self.items.iter_mut().filter_map(|item| match item {
            Item::All(relation, but) => Some((relation, but)),
            Item::Merged(..) => None,
        });
        // Of several relations it is not known here which has it.
        let (Some((relation, but)), None) = (relations.next(), relations.next()) else { return None };
        but.push(column.clone());
        Some((Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]), false))
    }

    /// What an unqualified name stands for, if the planner takes it for something else.
    fn merged(&self, name: &str) -> Option<&Expr> {
        let mut found = self.items.iter().filter_map(|item| match item {
            Item::Merged(column, value, true) if name_of(column) == name => Some(value.as_ref()),
            _ => None,
        });
        found.next()
    }

    fn settle(&self, select: &mut Select) {
        let mut names = Merged { sources: self, depth: 0 };
        let items = std::mem::take(&mut select.projection);
        for mut item in items {
            match &mut item {
                SelectItem::Wildcard(options) if is_plain(options) => {
                    select.projection.extend(self.items.iter().map(shown));
                    continue;
                }
                SelectItem::UnnamedExpr(expr) => {
                    let name = column_name(expr);
                    let _ = VisitMut::visit(expr, &mut names);
                    if let Some(name) = name.filter(|name| self.merged(name).is_some())
                        && !matches!(expr, Expr::CompoundIdentifier(_))
                    {
                        item = SelectItem::ExprWithAlias { expr: take(expr), alias: Ident::with_quote('"', name) };
                    }
                }
                SelectItem::ExprWithAlias { expr, .. } => {
                    let _ = VisitMut::visit(expr, &mut names);
                }
                _ => {}
            }
            select.projection.push(item);
        }
        let _ = VisitMut::visit(&mut select.selection, &mut names);
        let _ = VisitMut::visit(&mut select.having, &mut names);
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            let _ = VisitMut::visit(keys, &mut names);
        }
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            let _ = VisitMut::visit(keys, &mut names);
        }
    }
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    options.opt_except.is_none() && options.opt_exclude.is_none() && options.opt_replace.is_none()
}

fn shown(item: &Item) -> SelectItem {
    match item {
        Item::All(relation, but) => {
            let options = WildcardAdditionalOptions {
                opt_except: but.split_first().map(|(first, others)| ExceptSelectItem {
                    first_element: first.clone(),
                    additional_elements: others.to_vec(),
                }),
                ..WildcardAdditionalOptions::default()
            };
            let relation = ObjectName::from(vec![relation.clone()]);
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(relation), options)
        }
        Item::Merged(_, value, false) => SelectItem::UnnamedExpr(value.as_ref().clone()),
        Item::Merged(column, value, true) => {
            SelectItem::ExprWithAlias { expr: value.as_ref().clone(), alias: column.clone() }
        }
    }
}

/// Whether a key of ORDER BY is a column of the result.
fn is_of_result(key: &Expr, select: &Select) -> bool {
    let Expr::Identifier(ident) = key else { return false };
    let name = name_of(ident);
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) => column_name(expr).as_ref() == Some(&name),
        SelectItem::ExprWithAlias { alias, .. } => name_of(alias) == name,
        SelectItem::Wildcard(_) => true,
        _ => false,
    })
}

/// Puts what merged columns are in the place of their names, not in queries within.
struct Merged<'s> {
    sources: &'s Sources,
    depth: usize,
}

impl VisitorMut for Merged<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && self.depth == 0
            && let Some(value) = self.sources.merged(&name_of(ident))
        {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{answer, bare, check, shown};

    #[test]
    fn merged_columns_are_what_the_join_makes_of_both() {
        let (t, u) = ("(VALUES (1, 10), (2, 20)) AS t(a, b)", "(VALUES (2, 'x'), (3, 'y')) AS u(a, c)");
        check(
            &[
                ("SELECT * FROM # JOIN @ USING (a)", "2|20|x"),
                ("SELECT * FROM # LEFT JOIN @ USING (a) ORDER BY 1", "1|10|NULL 2|20|x"),
                ("SELECT * FROM # RIGHT JOIN @ USING (a) ORDER BY a", "2|20|x 3|NULL|y"),
                ("SELECT * FROM # FULL JOIN @ USING (a) ORDER BY a", "1|10|NULL 2|20|x 3|NULL|y"),
                ("SELECT a FROM # FULL JOIN @ USING (a) ORDER BY a DESC", "3 2 1"),
                ("SELECT a FROM # FULL JOIN @ USING (a) WHERE a = 3", "3"),
                ("SELECT b FROM # FULL JOIN @ USING (a) ORDER BY a", "10 20 NULL"),
                ("SELECT a + 1 AS s FROM # RIGHT JOIN @ USING (a) ORDER BY a + 0", "3 4"),
                ("SELECT a, count(*) FROM # FULL JOIN @ USING (a) GROUP BY a ORDER BY a", "1|1 2|1 3|1"),
                ("SELECT t.a, u.a FROM # FULL JOIN @ USING (a) ORDER BY coalesce(t.a, u.a)", "1|NULL 2|2 NULL|3"),
                ("SELECT j.a FROM (# FULL JOIN @ USING (a)) AS j ORDER BY 1", "1 2 3"),
            ],
            |sql| shown(&sql.replace('#', t).replace('@', u)),
        );
        let names = answer(bare(), &format!("SELECT * FROM {t} FULL JOIN (VALUES (1, 2)) AS u(c, b) USING (b)"));
        assert_eq!(names.unwrap().0, ["b", "a", "c"]);
    }
}
