//! Operators, functions and clauses that PostgreSQL has, in words that the planner knows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, LimitClause, ObjectName, Query, UnaryOperator, Value, VisitorMut,
};

use super::query::rows::is_comparison;
use crate::rewrite::{array_elements, array_literal};
use crate::statement::{call, name_of, parse_expression, take};
use saki_catalog::SqlError;
use saki_functions::arithmetic::NUMERIC;
use saki_functions::patterns::SIMILAR;

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
        // There are no such operators of numerics.
        Expr::UnaryOp { op: UnaryOperator::PGSquareRoot, expr } => {
            Some(call("sqrt", vec![cast(nested(take(expr)), DataType::DoublePrecision)]))
        }
        Expr::UnaryOp { op: UnaryOperator::PGCubeRoot, expr } => Some(call("cbrt", vec![take(expr)])),
        Expr::AnyOp { .. } | Expr::AllOp { .. } | Expr::Cast { data_type: DataType::Array(_), .. } => arrays(expr),
        Expr::Substring { expr: text, substring_from: Some(pattern), substring_for: None, .. } if is_text(pattern) => {
            Some(parse_expression(&format!("(regexp_match({text}, {pattern}))[1]"))?)
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            let escape = escape_char.take().map(Expr::Value);
            let pattern = call(SIMILAR, std::iter::once(take(pattern)).chain(escape).collect());
            Some(nested(binary(nested(take(expr)), op, pattern)))
        }
        Expr::Function(function) => function_of(function)?,
        _ => None,
    })
}

/// Literals of arrays, `'{a,b}'`, beside ANY and ALL and in casts.
fn arrays(expr: &mut Expr) -> Option<Expr> {
    match expr {
        // An array without a type is one of values of the other side's.
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if array_elements(right).is_some() => {
            Some(within(take(left), array_elements(right).unwrap_or_default(), false))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } if array_elements(right).is_some() => {
            Some(within(take(left), array_elements(right).unwrap_or_default(), true))
        }
        Expr::AnyOp { left, compare_op, right, .. } => any(left, compare_op, right),
        Expr::AllOp { right, .. } => {
            if let Some(array) = array_literal(right) {
                **right = array;
            }
            None
        }
        Expr::Cast { expr: inner, data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(of, _)), .. } => {
            if let Some(elem) = array_elements(inner) {
                **inner = Expr::Array(Array { elem, named: true });
            }
            // Of its own the planner casts no text to a uuid.
            if let Expr::Array(array) = inner.as_mut() {
                array.elem.iter_mut().filter(|item| !matches!(item, Expr::Array(_))).for_each(|item| {
                    *item = cast(take(item), of.as_ref().clone());
                });
                let is_empty = array.elem.is_empty();
                return (!is_empty).then(|| take(inner));
            }
            None
        }
        _ => None,
    }
}

/// `expr op ANY (ARRAY[…])`: what one of the elements says, or NULL if it says nothing.
fn any(left: &mut Expr, op: &BinaryOperator, right: &mut Box<Expr>) -> Option<Expr> {
    /// Comparisons that are written out.
    const LONG: usize = 32;
    if let Some(array) = array_literal(right) {
        **right = array;
    }
    let Expr::Array(array) = right.as_mut() else { return None };
    let is_flat = !array.elem.iter().any(|item| matches!(item, Expr::Array(_)));
    if !is_flat || array.elem.is_empty() {
        return None;
    }
    if *op == BinaryOperator::Eq {
        return Some(within(take(left), std::mem::take(&mut array.elem), false));
    }
    if array.elem.len() > LONG || !is_comparison(op) {
        return None;
    }
    let compared = |item| nested(binary(nested(left.clone()), op.clone(), nested(item)));
    let each = std::mem::take(&mut array.elem).into_iter().map(compared);
    each.reduce(|before, next| binary(before, BinaryOperator::Or, next)).map(nested)
}

/// `expr [NOT] IN (list)`, which is decided for an empty list.
fn within(expr: Expr, list: Vec<Expr>, negated: bool) -> Expr {
    if list.is_empty() {
        return Expr::value(Value::Boolean(negated));
    }
    nested(Expr::InList { expr: Box::new(nested(expr)), list, negated })
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn function_of(function: &mut Function) -> Result<Option<Expr>, SqlError> {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
    // The planner's functions of these names stop at the first.
    let every = match name.as_deref() {
        Some("array_remove") => Some("array_remove_all"),
        Some("array_replace") => Some("array_replace_all"),
        _ => None,
    };
    if let Some(every) = every {
        function.name = ObjectName::from(vec![Ident::new(every)]);
    }
    let FunctionArguments::List(list) = &mut function.args else { return Ok(None) };
    let counted = match name.as_deref() {
        Some("num_nulls") => Some("IS NULL"),
        Some("num_nonnulls") => Some("IS NOT NULL"),
        _ => None,
    };
    if let Some(counted) = counted.filter(|_| !list.args.is_empty()) {
        let terms: Vec<String> = list.args.iter().map(|arg| format!("(({arg}) {counted})::int")).collect();
        return parse_expression(&format!("({})", terms.join(" + "))).map(Some);
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(left)), FunctionArg::Unnamed(FunctionArgExpr::Expr(right))] =
        &mut list.args[..]
    else {
        return Ok(None);
    };
    Ok(match name.as_deref() {
        Some("mod") => Some(nested(binary(nested(take(left)), BinaryOperator::Modulo, nested(take(right))))),
        // Without the rest, so that the quotient is whole however many digits it has.
        Some("div") => {
            Some(parse_expression(&format!("trunc({NUMERIC}(({left}) - ({left}) % ({right})) / ({right}))"))?)
        }
        _ => None,
    })
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
            ("div(7, 2) / 2", "1.5000000000000000"),
            ("div(9999999999999999999, 10000000000000000000)", "0"),
            ("num_nulls(1, null, 'a', null) || '|' || num_nonnulls(1, null, 'a')", "2|2"),
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
            ("'{a,b}'::text[]", "{a,b}"),
            ("('{a,b}'::text[])[2]", "b"),
            ("2 = any('{1,2}'::int[])", "true"),
            ("'2' = any('{1,2}'::text[])", "true"),
            ("cardinality('{}'::int[])", "0"),
            ("date '2024-01-31' = any('{2024-01-31,2024-02-01}')", "true"),
            ("1 <> all('{2,3}')", "true"),
            ("1 = any('{}')", "false"),
            ("2 = any(array[1, null])", "NULL"),
            ("2 <> all('{1,null}'::int[])", "NULL"),
            ("2 = any('{1,Null}'::int[])", "NULL"),
            ("2 < any(array[1, null])", "NULL"),
            ("2 < any(array[3, null])", "true"),
            ("array_to_string(array_remove(array[1, 2, 1], 1), ',')", "2"),
            ("array_to_string(array_replace(array[1, 2, 1], 1, 3), ',')", "3,2,3"),
            ("('{a,\"NULL\", b }'::text[])[2]", "NULL"),
            ("('{a,\"NULL\", b }'::text[])[2] is null", "false"),
            ("('{a,NULL, b }'::text[])[3]", "b"),
            ("'01' = any('{1}'::text[])", "false"),
            ("('{01,2}'::text[])[1]", "01"),
            ("cardinality(array['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']::uuid[])", "1"),
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
