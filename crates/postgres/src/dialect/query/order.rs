//! What names in ORDER BY are. By itself a name is a column of the result; within an expression PostgreSQL takes it for
//! a column of what the query reads, the planner for one of the result if there is such.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitorMut,
};

use crate::column_names::marked;
use crate::statement::{column_name, name_of};
use saki_catalog::SqlError;
use saki_statement::walk::{walk_expressions, walk_expressions_mut};

/// The pass, which knows how many queries are around.
#[derive(Default)]
pub struct Order {
    depth: usize,
}

impl VisitorMut for Order {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        let Some(order) = &mut query.order_by else { return ControlFlow::Continue(()) };
        let (OrderByKind::Expressions(keys), SetExpr::Select(select)) = (&mut order.kind, query.body.as_mut()) else {
            return ControlFlow::Continue(());
        };
        resolve(keys, select, self.depth == 1);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

fn resolve(keys: &mut [OrderByExpr], select: &mut Select, is_outermost: bool) {
    let hidden = hiding(select);
    let named: HashSet<String> =
        keys.iter().filter(|key| !is_bare(&key.expr)).flat_map(|key| names(&key.expr)).collect();
    let hidden: HashSet<String> = hidden.into_iter().filter(|name| named.contains(name)).collect();
    if hidden.is_empty() {
        return;
    }
    if is_outermost {
        // Nobody refers to names of this result but the keys themselves.
        let renamed = |ident: &mut Ident| {
            let name = name_of(ident);
            if hidden.contains(&name) {
                *ident = Ident::with_quote('"', marked(&name));
            }
        };
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                renamed(alias);
            }
        }
        for key in keys.iter_mut() {
            if let Expr::Identifier(ident) = &mut key.expr {
                renamed(ident);
            }
        }
    } else if let Some(relation) = only_relation(select) {
        for key in keys.iter_mut().filter(|key| !is_bare(&key.expr)) {
            let _ = walk_expressions_mut(&mut key.expr, |expr| {
                if let Expr::Identifier(ident) = expr
                    && hidden.contains(&name_of(ident))
                {
                    *expr = Expr::CompoundIdentifier(vec![relation.clone(), ident.clone()]);
                }
                ControlFlow::<()>::Continue(())
            });
        }
    }
}

/// Names of the result that are not those of the same columns outside.
fn hiding(select: &Select) -> HashSet<String> {
    let other = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let name = name_of(alias);
            (column_name(expr).as_ref() != Some(&name)).then_some(name)
        }
        _ => None,
    };
    select.projection.iter().filter_map(other).collect()
}

fn is_bare(key: &Expr) -> bool {
    match key {
        Expr::Identifier(_) => true,
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}

fn names(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    let _ = walk_expressions(expr, |expr: &Expr| {
        if let Expr::Identifier(ident) = expr {
            names.push(name_of(ident));
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

/// What the columns of the only relation of a query can be told by.
fn only_relation(select: &Select) -> Option<Ident> {
    let [from] = &select.from[..] else { return None };
    if !from.joins.is_empty() {
        return None;
    }
    match &from.relation {
        TableFactor::Table { name, alias: None, args: None, .. } => name.0.last()?.as_ident().cloned(),
        TableFactor::Table { alias: Some(alias), args: None, .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn names_within_keys_are_those_of_what_is_read() {
        let from = "FROM (VALUES (1, 30, 'x'), (2, 20, 'y'), (3, 10, 'z')) AS t(a, b, c)";
        let two = format!("{from}, (VALUES (0)) AS u(z)");
        check(
            &[
                ("SELECT a AS b # ORDER BY b", "1 2 3"),
                ("SELECT a AS b # ORDER BY b + 0", "3 2 1"),
                ("SELECT a AS b, b AS a # ORDER BY -a", "3|10 2|20 1|30"),
                ("SELECT a AS x # ORDER BY -b", "1 2 3"),
                ("SELECT -a AS b # ORDER BY b", "-3 -2 -1"),
                ("SELECT c AS a, a AS c # ORDER BY c || ''", "x|1 y|2 z|3"),
                ("SELECT a + 1 AS x # ORDER BY x + 0", "42703"),
                ("SELECT a, b # ORDER BY b + a, a", "3|10 2|20 1|30"),
            ],
            |sql| shown(&sql.replace('#', from)),
        );
        check(&[("SELECT a AS b # ORDER BY b + 0", "3 2 1"), ("SELECT a AS b # ORDER BY b + 0, b", "3 2 1")], |sql| {
            shown(&sql.replace('#', &two))
        });
    }
}
