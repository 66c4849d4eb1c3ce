//! Aggregates that gather different values: PostgreSQL finds these by sorting, and gathers them in that order.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, OrderByExpr,
    OrderByOptions, VisitorMut,
};

use crate::statement::name_of;
use saki_catalog::SqlError;

const GATHERING: [&str; 2] = ["array_agg", "string_agg"];

pub struct Gathered;

impl VisitorMut for Gathered {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
        if !name.is_some_and(|name| GATHERING.contains(&name.as_str())) {
            return ControlFlow::Continue(());
        }
        let FunctionArguments::List(list) = &mut function.args else { return ControlFlow::Continue(()) };
        let is_ordered = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
        if let (Some(DuplicateTreatment::Distinct), false) = (list.duplicate_treatment, is_ordered)
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = list.args.first()
        {
            let key = OrderByExpr {
                expr: value.clone(),
                options: OrderByOptions { asc: None, nulls_first: None },
                with_fill: None,
            };
            list.clauses.push(FunctionArgumentClause::OrderBy(vec![key]));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn different_values_are_gathered_in_order() {
        let from = "FROM (VALUES (3, 'c'), (1, 'a'), (3, 'c'), (2, NULL), (1, 'b')) AS t(a, b)";
        check(
            &[
                ("SELECT array_agg(DISTINCT a) #", "[1, 2, 3]"),
                ("SELECT array_agg(DISTINCT a ORDER BY a DESC) #", "[3, 2, 1]"),
                ("SELECT array_to_string(array_agg(DISTINCT b), ',', '-') #", "a,b,c,-"),
                ("SELECT string_agg(DISTINCT b, ',') #", "a,b,c"),
                ("SELECT a, string_agg(DISTINCT b, ',') # GROUP BY a ORDER BY a", "1|a,b 2|NULL 3|c"),
            ],
            |sql| shown(&sql.replace('#', from)),
        );
    }
}
