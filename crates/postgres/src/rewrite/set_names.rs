//! A subquery of FROM with a set-returning function in its list, and a column that is called as one that it is made of:
//! `(SELECT unnest(c.conkey), CASE WHEN c.condeferred … END AS condeferred FROM pg_constraint c) AS con`. The planner
//! carries what the list is made of past the function, and takes both for one name. So the result's column gets another
//! name inside, and its own from the subquery's alias.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Ident, Query, SelectItem, SetExpr, TableAliasColumnDef, TableFactor,
};

use saki_statement::walk::walk_expressions;

/// Gives the columns other names inside, where that is needed.
pub fn tell_apart(factor: &mut TableFactor) {
    if let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor
        && alias.columns.is_empty()
        && let Some(names) = renamed(subquery)
    {
        alias.columns = names.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
    }
}

/// The names of a query's columns, if some of them had to be renamed.
fn renamed(query: &mut Query) -> Option<Vec<Ident>> {
    if query.order_by.is_some() {
        return None;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    if !select.projection.iter().any(|item| item_expr(item).is_some_and(unnests)) {
        return None;
    }
    let names = select.projection.iter().map(name_of_item).collect::<Option<Vec<_>>>()?;
    let mut is_changed = false;
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            && mentions(expr, &alias.value)
        {
            alias.value.push_str(" as made");
            alias.quote_style = Some('"');
            is_changed = true;
        }
    }
    is_changed.then_some(names)
}

fn item_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn name_of_item(item: &SelectItem) -> Option<Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        _ => None,
    }
}

fn unnests(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function)
    if matches!(function.args, FunctionArguments::List(_))
        && function.name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| {
            name.value.eq_ignore_ascii_case("unnest")
        }))
}

/// Whether an expression is made of a column of this name.
fn mentions(expr: &Expr, name: &str) -> bool {
    let found = walk_expressions(expr, |node: &Expr| {
        let last = match node {
            Expr::Identifier(column) => Some(column),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        match last.is_some_and(|column| column.value.eq_ignore_ascii_case(name)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use crate::fixture::library;

    #[test]
    fn a_column_may_be_called_as_what_it_is_made_of_beside_a_set() {
        library().check(&[(
            "select distinct con.condeferred, con.contype from (select unnest(c.conkey) as parent, c.contype, \
                 case when c.condeferred then 'later' else 'now' end as condeferred from pg_constraint c \
                 where c.contype = 'f') as con",
            "now|f",
        )]);
    }
}
