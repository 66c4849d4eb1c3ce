//! Operators, functions and clauses that PostgreSQL has, in words that the planner knows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, Query, UnaryOperator,
    Value, VisitorMut,
};

use super::query::rows::is_comparison;
use crate::pg_catalog::array_literal;
use crate::statement::{call, name_of, parse_expression, take};
use saki_catalog::SqlError;

pub struct Spellings;

impl VisitorMut for Spellings {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        fetch(query);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match respelled(expr) {
            Ok(Some(other)) => *expr = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// `FETCH FIRST n ROWS ONLY` is LIMIT.
fn fetch(query: &mut Query) {
    let is_plain = query.fetch.as_ref().is_some_and(|fetch| !fetch.with_ties && !fetch.percent);
    let Some(fetch) = query.fetch.take_if(|_| is_plain) else { return };
    let rows = fetch.quantity.unwrap_or_else(|| number("1"));
    let (offset, limit_by) = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset, limit_by, .. }) => (offset, limit_by),
        other => {
            query.limit_clause = other;
            (None, Vec::new())
        }
    };
    query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(rows), offset, limit_by });
}

fn respelled(expr: &mut Expr) -> Result<Option<Expr>, SqlError> {
    Ok(match expr {
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => {
            let all = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number("1")) };
            Some(Expr::Nested(Box::new(binary(take(expr), BinaryOperator::PGBitwiseXor, all))))
        }
        // NOT binds weaker than a comparison, whatever it stands before.
        Expr::BinaryOp { left, op, right } if is_comparison(op) => match left.as_mut() {
            Expr::Exists { negated: negated @ true, .. } => {
                *negated = false;
                let compared = binary(take(left), op.clone(), take(right));
                Some(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(compared)) })
            }
            _ => None,
        },
        Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner) => match inner.as_mut() {
            Expr::Exists { negated: negated @ true, .. } => {
                *negated = false;
                Some(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(take(expr))) })
            }
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::PGAbs, expr } => Some(call("abs", vec![take(expr)])),
        Expr::UnaryOp { op: UnaryOperator::PGSquareRoot, expr } => Some(call("sqrt", vec![take(expr)])),
        Expr::UnaryOp { op: UnaryOperator::PGCubeRoot, expr } => Some(call("cbrt", vec![take(expr)])),
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            if let Some(array) = array_literal(right) {
                **right = array;
            }
            None
        }
        Expr::Substring { expr: text, substring_from: Some(pattern), substring_for: None, .. } if is_text(pattern) => {
            Some(parse_expression(&format!("(regexp_match({text}, {pattern}))[1]"))?)
        }
        Expr::Function(function) => function_of(function),
        _ => None,
    })
}

fn function_of(function: &mut Function) -> Option<Expr> {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of)?;
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(left)), FunctionArg::Unnamed(FunctionArgExpr::Expr(right))] =
        &mut list.args[..]
    else {
        return None;
    };
    let mut combined = |op| Expr::Nested(Box::new(binary(nested(take(left)), op, nested(take(right)))));
    match name.as_str() {
        "mod" => Some(combined(BinaryOperator::Modulo)),
        "div" => Some(call("trunc", vec![combined(BinaryOperator::Divide)])),
        _ => None,
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_owned(), false))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check_refused, check_values};

    #[test]
    fn spellings_of_postgresql_mean_what_they_mean_there() {
        check_values(&[
            ("mod(7, 3)", "1"),
            ("mod(-7, 3)", "-1"),
            ("mod(5.5, 2)", "1.5"),
            ("div(7, 2)", "3"),
            ("div(-7, 2)", "-3"),
            ("div(7.5, 2)", "3"),
            ("~5", "-6"),
            ("substring('hello' from 2 for 3)", "ell"),
            ("substring('hello' from 2)", "ello"),
            ("substring('hello', 2, 2)", "el"),
            ("substring('hello' from 'l+')", "ll"),
            ("substring('hello' from 'x')", "NULL"),
            ("overlay('hello' placing 'XX' from 2 for 3)", "hXXo"),
            ("trim('  a  ')", "a"),
            ("trim(both 'x' from 'xxaxx')", "a"),
            ("trim(leading 'x' from 'xxaxx')", "axx"),
            ("ltrim('xxa', 'x')", "a"),
            ("'hello' like 'h%'", "true"),
            ("'hello' ilike 'H_LLO'", "true"),
            ("'hello' not like '%x%'", "true"),
            ("'a%b' like 'a\\%b'", "true"),
            ("'hello' ~ 'l+'", "true"),
            ("'hello' ~* 'L+'", "true"),
            ("'hello' !~ 'x'", "true"),
            ("1 = any(array[1, 2])", "true"),
            ("3 = any('{1,2}')", "false"),
            ("1 = all(array[1, 1])", "true"),
            ("1 < any('{0,2}')", "true"),
            ("'a' = any('{a,b}')", "true"),
            ("'c' <> all('{a,b}')", "true"),
            ("1 = any(array[]::int[])", "false"),
            ("cardinality(array[1, 2, 3])", "3"),
            ("array_length(array[1, 2], 1)", "2"),
            ("array_to_string(array['a', 'b'], '-')", "a-b"),
            ("array_position(array['a', 'b'], 'b')", "2"),
            ("(select 1)", "1"),
            ("(select count(*) from (values (1), (2)) as t(a))", "2"),
        ]);
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        check_refused(&[("mod(1, 0)", "22012")]);
    }
}
