//! HAVING of a query that neither groups nor aggregates: to PostgreSQL all of its rows are one group even so.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, VisitorMut};

use super::twins::is_aggregate;
use crate::statement::parse_expression;
use saki_catalog::SqlError;
use saki_statement::walk::walk_expressions;

pub struct Having;

impl VisitorMut for Having {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let is_grouped = match &select.group_by {
            GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
            GroupByExpr::All(_) => true,
        };
        let Some(condition) = select.having.take_if(|_| !is_grouped) else { return ControlFlow::Continue(()) };
        let of_items = select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        });
        if of_items.chain([&condition]).any(aggregates) {
            select.having = Some(condition);
            return ControlFlow::Continue(());
        }
        // Unknown is not true: said so, it is false, which the planner knows to be of the group and not of its rows.
        match parse_expression(&format!("({condition}) IS TRUE AND count(*) >= 0")) {
            Ok(condition) => {
                select.having = Some(condition);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn aggregates(expr: &Expr) -> bool {
    let found = |expr: &Expr| if is_aggregate(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    walk_expressions(expr, found).is_break()
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn rows_without_groups_are_one_group() {
        check(
            &[
                ("SELECT 1 FROM (VALUES (1), (2)) AS t(a) HAVING true", "1"),
                ("SELECT 1 FROM (VALUES (1), (2)) AS t(a) HAVING false", ""),
                ("SELECT 1 FROM (VALUES (1)) AS t(a) WHERE false HAVING 1 = 1", "1"),
                ("SELECT 1 HAVING true", "1"),
                ("SELECT 1 HAVING NULL", ""),
                ("SELECT 1 HAVING NULL AND true", ""),
                ("SELECT count(*) FROM (VALUES (1), (2)) AS t(a) HAVING true", "2"),
                ("SELECT a FROM (VALUES (1), (2)) AS t(a) HAVING true", "42803"),
            ],
            shown,
        );
    }
}
