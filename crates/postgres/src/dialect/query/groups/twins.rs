//! Aggregates and keys of groups that differ by casts or subqueries alone. The planner leaves these out of their names,
//! and takes them for the same column twice: all but the first are told apart by a function that gives back its
//! argument.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr as Planned, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select, SelectItem, Value, VisitorMut,
};

use crate::statement::{call, name_of, take};
use saki_catalog::SqlError;
use saki_statement::walk::{walk_expressions, walk_expressions_mut, walk_mut};

/// The function that gives back its first argument.
pub const APART: &str = "apart";
const AGGREGATES: [&str; 14] = [
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "max",
    "min",
    "stddev",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

pub struct Twins;

impl VisitorMut for Twins {
    type Break = SqlError;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let mut first: HashMap<String, String> = HashMap::new();
        let mut later: HashSet<String> = HashSet::new();
        for expr in candidates(select) {
            let (text, bare) = (expr.to_string(), planner_name(&expr));
            let known = first.entry(bare).or_insert_with(|| text.clone());
            if *known != text {
                later.insert(text);
            }
        }
        if !later.is_empty() {
            let first = first.into_values().collect();
            let mut apart = Apart { first, later, within: 0 };
            let _ = walk_mut(&mut select.projection, &mut apart);
            let _ = walk_mut(&mut select.group_by, &mut apart);
            let _ = walk_mut(&mut select.having, &mut apart);
        }
        ControlFlow::Continue(())
    }
}

/// Aggregates of a select list with arguments, and keys of its groups; none if there is no cast and no subquery among
/// them.
fn candidates(select: &Select) -> Vec<Expr> {
    let mut found = Vec::new();
    let keys = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => &keys[..],
        GroupByExpr::All(_) => &[],
    };
    let items = || select.projection.iter().filter_map(item);
    for key in keys {
        match key {
            Expr::Value(value) => {
                let position = match &value.value {
                    Value::Number(digits, _) => digits.parse::<usize>().ok(),
                    _ => None,
                };
                found.extend(position.and_then(|position| items().nth(position.checked_sub(1)?)).cloned());
            }
            key => found.push(key.clone()),
        }
    }
    for item in items() {
        let _ = walk_expressions(item, |expr: &Expr| {
            if is_aggregate(expr) {
                found.push(expr.clone());
            }
            ControlFlow::<()>::Continue(())
        });
    }
    let has_nameless = |expr: &Expr| {
        walk_expressions(expr, |expr: &Expr| match expr {
            Expr::Cast { .. } | Expr::Subquery(_) | Expr::Exists { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    if found.len() < 2 || !found.iter().any(has_nameless) { Vec::new() } else { found }
}

fn item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

pub fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
    name.is_some_and(|name| AGGREGATES.contains(&name.as_str()))
}

/// An expression with what the planner's name of it tells.
fn planner_name(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _ = walk_expressions_mut(&mut expr, |expr| {
        while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
            *expr = take(inner);
        }
        if matches!(expr, Expr::Subquery(_) | Expr::Exists { .. }) {
            *expr = Expr::value(Value::SingleQuotedString("subquery".to_owned()));
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

/// Puts the function around what the later ones are about, but not within one of them or of the first.
struct Apart {
    first: HashSet<String>,
    later: HashSet<String>,
    /// How many of these the visit is in.
    within: usize,
}

impl Apart {
    fn knows(&self, text: &str) -> bool {
        self.first.contains(text) || self.later.contains(text)
    }
}

impl VisitorMut for Apart {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.knows(&expr.to_string()) {
            self.within += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let text = expr.to_string();
        if !self.knows(&text) {
            return ControlFlow::Continue(());
        }
        self.within -= 1;
        if self.within == 0 && self.later.contains(&text) {
            let argument = match expr {
                Expr::Function(function) => match &mut function.args {
                    FunctionArguments::List(list) => list.args.first_mut().and_then(|argument| match argument {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
                        _ => None,
                    }),
                    _ => None,
                },
                key => Some(key),
            };
            if let Some(argument) = argument {
                let inner = take(argument);
                *argument = call(APART, vec![inner, Expr::value(Value::SingleQuotedString(text))]);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The function.
pub fn apart() -> ScalarUDF {
    ScalarUDF::from(Identity { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Identity {
    signature: Signature,
}

impl ScalarUDFImpl for Identity {
    fn name(&self) -> &str {
        APART
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn simplify(&self, mut args: Vec<Planned>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let argument = args.args.into_iter().next();
        argument.ok_or_else(|| SqlError::internal("a function without its argument").into())
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{answer, bare, check, sorted};

    const TABLE: &str = "(VALUES (1, '1.5'), (1, '2.5'), (2, '3')) AS t(a, b)";

    #[test]
    fn aggregates_that_differ_by_casts_are_each_computed() {
        check(
            &[
                ("SELECT sum(a), sum(a::numeric), sum(a::float8) FROM t", "4|4|4.0"),
                ("SELECT max(b), max(b::numeric(5, 1)) FROM t", "3|3.0"),
                ("SELECT min(b::numeric(5, 1)), min(b), min(b::float8::int) FROM t", "1.5|1.5|2"),
                ("SELECT count(DISTINCT b), count(DISTINCT b::numeric::int) FROM t", "3|2"),
                ("SELECT max(a)::text, max(a::text) FROM t", "2|2"),
                ("SELECT max(a), max(a) + 1, max(a::int8) FROM t", "2|3|2"),
                ("SELECT sum((SELECT 1)), sum((SELECT 2)) FROM t", "3|6"),
            ],
            |sql| sorted(&sql.replace("FROM t", &format!("FROM {TABLE}"))),
        );
    }

    #[test]
    fn groups_by_keys_that_differ_by_casts_are_told_apart() {
        check(
            &[
                ("SELECT a, a::text, count(*) FROM t GROUP BY a, a::text", "1|1|2 2|2|1"),
                ("SELECT a, a::text, count(*) FROM t GROUP BY 1, 2", "1|1|2 2|2|1"),
                ("SELECT b::numeric::int, count(*) FROM t GROUP BY b::numeric::int", "2|1 3|2"),
                ("SELECT a::text, a, count(*) FROM t GROUP BY 1, 2", "1|1|2 2|2|1"),
                ("SELECT a::int8, a, a::text, max(a::int8) FROM t GROUP BY a::int8, a, a::text", "1|1|1|1 2|2|2|2"),
                ("SELECT a::text, a, a::int8 FROM t GROUP BY 1, 2, 3", "1|1|1 2|2|2"),
                ("SELECT a, sum(b::numeric(5, 1)) FROM t GROUP BY a HAVING sum(b::numeric(5, 1)) > 3", "1|4.0"),
                (
                    "SELECT sum(b::numeric(5, 1)), sum(b::float8) FROM t HAVING sum(b::numeric(5, 1)) > 6 AND \
                     sum(b::float8) < 8",
                    "7.0|7.0",
                ),
            ],
            |sql| sorted(&sql.replace("FROM t", &format!("FROM {TABLE}"))),
        );
    }

    #[test]
    fn columns_keep_the_names_that_were_written() {
        let sql = format!("SELECT sum(a), sum(a::numeric), a::text FROM {TABLE} GROUP BY a::text");
        assert_eq!(answer(bare(), &sql).unwrap().0, ["sum", "sum", "a"]);
    }
}
