//! Columns that joins USING and NATURAL joins merge: which of both sides a name is depends on the join, and `*` has
//! them first. The planner always takes the left side's, and leaves `*` in the order of the tables.

mod relations;
mod whole_rows;

use std::ops::ControlFlow;

use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast::{
    Distinct, ExceptSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableAliasColumnDef, TableFactor, TableWithJoins, Visitor, VisitorMut, WildcardAdditionalOptions,
};

pub use self::relations::Relations;
use self::relations::{Item, Merged, Sources};
pub use self::whole_rows::WholeRows;
use self::whole_rows::named_whole;
use crate::statement::{column_name, name_of, parse_query, take};
use saki_catalog::SqlError;
use saki_statement::walk::{walk, walk_expressions, walk_expressions_mut, walk_mut};

/// Whether a statement has anything that is decided by which columns its tables have.
pub fn are_in(statement: &parser::Statement) -> bool {
    match statement {
        parser::Statement::Statement(statement) => walk(statement, &mut Found).is_break(),
        _ => false,
    }
}

struct Found;

impl Visitor for Found {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match select.from.iter().any(merges) || select.from.iter().any(is_outer) && counts_whole_rows(select) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if named_whole(function).is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias: Some(alias), args: None, .. } if !alias.columns.is_empty() => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether one of the joins merges columns.
fn merges(tables: &TableWithJoins) -> bool {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins),
        _ => false,
    };
    let joined = |operator: &JoinOperator| match operator {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on) => {
            matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural)
        }
        _ => false,
    };
    nested(&tables.relation) || tables.joins.iter().any(|join| joined(&join.join_operator) || nested(&join.relation))
}

/// Settles the names of merged columns.
pub struct Joins {
    /// What can be named in each of the queries around; the statement's tables first.
    scopes: Vec<Relations>,
}

impl Joins {
    pub fn new(relations: Relations) -> Self {
        Self { scopes: vec![relations] }
    }

    fn scope(&self) -> Relations {
        self.scopes.last().cloned().unwrap_or_default()
    }

    /// What the FROM of a query brings, if columns are merged there, and the FROM as the planner takes it.
    fn sources(&self, select: &Select) -> Option<(Sources, Vec<TableWithJoins>)> {
        if !select.from.iter().any(merges) {
            return None;
        }
        let mut from = select.from.clone();
        Some((Sources::of(&mut from, &self.scope())?, from))
    }
}

impl VisitorMut for Joins {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        // A join with a name is a query with that name.
        if let TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } = factor
            && merges(table_with_joins)
        {
            match parse_query(&format!("SELECT * FROM {table_with_joins}")) {
                Ok(subquery) => {
                    *factor =
                        TableFactor::Derived { lateral: false, subquery, alias: Some(alias.clone()), sample: None };
                }
                Err(error) => return ControlFlow::Break(error),
            }
        }
        self.complete(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.push(self.scope().within(query));
        let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else {
            return ControlFlow::Continue(());
        };
        let Some((sources, _)) = self.sources(select) else { return ControlFlow::Continue(()) };
        if let OrderByKind::Expressions(keys) = &mut order.kind {
            for key in keys.iter_mut().filter(|key| !is_of_result(&key.expr, select)) {
                let _ = walk_mut(&mut key.expr, &mut Merged { sources: &sources, depth: 0 });
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if select.from.iter().any(is_outer) && counts_whole_rows(select) {
            let relations = self.scope();
            count_needed(select, &relations);
            if counts_whole_rows(select) {
                let message = "count(t.*) beside an outer join is not supported of what has no column that is NOT NULL";
                return ControlFlow::Break(SqlError::unsupported(message).hint("count such a column"));
            }
        }
        if let Some((sources, from)) = self.sources(select) {
            select.from = from;
            settle(&sources, select);
        }
        ControlFlow::Continue(())
    }
}

impl Joins {
    /// Names the columns that the list of an alias leaves out, as the planner wants all of them.
    fn complete(&self, factor: &mut TableFactor) {
        let named = match factor {
            TableFactor::Table { alias: Some(alias), args: None, .. }
            | TableFactor::Derived { alias: Some(alias), .. } => alias.columns.len(),
            _ => return,
        };
        if named == 0 {
            return;
        }
        let columns = self.scope().of_factor(factor).unwrap_or_default();
        if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } = factor
        {
            let name = |name: &String| TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None };
            alias.columns.extend(columns.iter().skip(named).map(name));
        }
    }
}

/// Whether one of the joins fills up rows with NULLs.
fn is_outer(tables: &TableWithJoins) -> bool {
    use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
    let fills = |of: &JoinOperator| matches!(of, Left(_) | LeftOuter(_) | Right(_) | RightOuter(_) | FullOuter(_));
    tables.joins.iter().any(|join| fills(&join.join_operator))
}

/// Whether a query counts rows of a relation that are not NULL, of which the planner counts all.
fn counts_whole_rows(select: &Select) -> bool {
    let of = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)));
    let found = walk_expressions(&select.projection, |expr| match expr {
        Expr::Function(Function { args: FunctionArguments::List(list), .. }) if list.args.iter().any(of) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Counts columns that are NOT NULL where whole rows are counted, which are NULL where an outer join has filled them
/// up.
fn count_needed(select: &mut Select, relations: &Relations) {
    let Select { projection, from, .. } = select;
    let factors = || {
        from.iter()
            .flat_map(|tables| std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation)))
    };
    let called = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. } => Some(name_of(&alias.name)),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).map(name_of),
        _ => None,
    };
    let _ = walk_expressions_mut(projection, |expr| {
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr
            && list.duplicate_treatment.is_none()
            && let [FunctionArg::Unnamed(argument @ FunctionArgExpr::QualifiedWildcard(_))] = &mut list.args[..]
            && let FunctionArgExpr::QualifiedWildcard(name) = &*argument
            && let Some(relation) = name.0.last().and_then(|part| part.as_ident()).map(name_of)
            && let Some(factor) = factors().find(|factor| called(factor).as_ref() == Some(&relation))
            && let Some(needed) = relations.needed(factor)
        {
            let parts = name.0.iter().filter_map(|part| part.as_ident().cloned());
            let column = parts.chain([Ident::with_quote('"', needed)]).collect();
            *argument = FunctionArgExpr::Expr(Expr::CompoundIdentifier(column));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Puts what merged columns are in the place of their names.
fn settle(sources: &Sources, select: &mut Select) {
    let mut names = Merged { sources, depth: 0 };
    let items = std::mem::take(&mut select.projection);
    for mut item in items {
        match &mut item {
            SelectItem::Wildcard(options) if is_plain(options) => {
                select.projection.extend(sources.items.iter().flat_map(shown));
                continue;
            }
            SelectItem::UnnamedExpr(expr) => {
                let name = column_name(expr).filter(|_| !matches!(expr, Expr::CompoundIdentifier(_)));
                let _ = walk_mut(expr, &mut names);
                // A column's has it already; any other has to be found by it in ORDER BY.
                if let Some(name) = name.filter(|name| sources.merges_otherwise(name))
                    && !matches!(expr, Expr::CompoundIdentifier(_))
                {
                    item = SelectItem::ExprWithAlias { expr: take(expr), alias: Ident::with_quote('"', name) };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => {
                let _ = walk_mut(expr, &mut names);
            }
            _ => {}
        }
        select.projection.push(item);
    }
    let _ = walk_mut(&mut select.selection, &mut names);
    let _ = walk_mut(&mut select.having, &mut names);
    let _ = walk_mut(&mut select.named_window, &mut names);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let _ = walk_mut(keys, &mut names);
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        let _ = walk_mut(keys, &mut names);
    }
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    options.opt_except.is_none() && options.opt_exclude.is_none() && options.opt_replace.is_none()
}

/// What `*` shows of a relation, or a merged column.
fn shown(item: &Item) -> Vec<SelectItem> {
    let relation = match item {
        Item::Merged(merger) => {
            return vec![match merger.is_planners {
                true => SelectItem::UnnamedExpr(merger.value.clone()),
                false => SelectItem::ExprWithAlias { expr: merger.value.clone(), alias: merger.column.clone() },
            }];
        }
        Item::Relation(relation) => relation,
    };
    let is_empty = relation.left().is_some_and(|left| left.is_empty());
    if is_empty && !relation.merged.is_empty() {
        return Vec::new();
    }
    let options = WildcardAdditionalOptions {
        opt_except: relation.merged.split_first().map(|(first, others)| ExceptSelectItem {
            first_element: first.clone(),
            additional_elements: others.to_vec(),
        }),
        ..WildcardAdditionalOptions::default()
    };
    let name = ObjectName::from(vec![relation.name.clone()]);
    vec![SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)]
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
                ("SELECT a, c FROM # LEFT JOIN @ USING (a) WHERE a = 2", "2|x"),
                ("SELECT * FROM # NATURAL JOIN @ WHERE a + 0 = 2", "2|20|x"),
                ("SELECT * FROM @ NATURAL RIGHT JOIN # ORDER BY a", "1|NULL|10 2|x|20"),
                ("SELECT * FROM # NATURAL FULL JOIN @ ORDER BY a", "1|10|NULL 2|20|x 3|NULL|y"),
                ("SELECT * FROM (VALUES (1)) AS s(z) NATURAL JOIN (VALUES (2)) AS r(q)", "1|2"),
                ("SELECT * FROM (VALUES (1)) AS s(a) FULL JOIN (VALUES (2)) AS r(a) USING (a) ORDER BY a", "1 2"),
                (
                    "SELECT * FROM # FULL JOIN @ USING (a) FULL JOIN (VALUES (3, 'z')) v(a, d) USING (a) ORDER BY a",
                    "1|10|NULL|NULL 2|20|x|NULL 3|NULL|y|z",
                ),
                ("SELECT a, d FROM # RIGHT JOIN @ USING (a) JOIN (VALUES (3, 'z')) AS v(e, d) ON a = e", "3|z"),
                (
                    "WITH w AS (SELECT * FROM #) SELECT * FROM w NATURAL FULL JOIN (SELECT a, c FROM @) n ORDER BY a",
                    "1|10|NULL 2|20|x 3|NULL|y",
                ),
                ("SELECT p, c FROM (VALUES (1, 2, 3)) AS v(p, q) JOIN (VALUES (3, 4)) AS u(d, c) ON true", "1|4"),
            ],
            |sql| shown(&sql.replace('#', t).replace('@', u)),
        );
        let names = answer(bare(), &format!("SELECT * FROM {t} FULL JOIN (VALUES (1, 2)) AS u(c, b) USING (b)"));
        assert_eq!(names.unwrap().0, ["b", "a", "c"]);
    }
}
