//! Operators, functions and clauses that PostgreSQL has, in words that the planner knows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, LimitClause, NormalizationForm, ObjectName, Query, UnaryOperator, Value, VisitorMut,
};

use super::query::rows::is_comparison;
use crate::rewrite::{array_elements, array_literal};
use crate::statement::{call, name_of, parse_expression, take};
use saki_catalog::SqlError;
use saki_functions::arithmetic::NUMERIC;
use saki_functions::arrays::fill::FILL;
use saki_functions::arrays::remove::REMOVE;
use saki_functions::patterns::SIMILAR;
use saki_functions::row_wise::overloads::{POSITION, SUBSTRING};
use saki_times::OVERLAPS;

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
        Expr::Substring { .. } | Expr::Position { .. } | Expr::Overlay { .. } => as_call(expr),
        Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => overlaps(left, right),
        Expr::IsNormalized { expr, form, negated } => Some(normalized(take(expr), *form, *negated)),
        Expr::Value(value) => match &mut value.value {
            Value::UnicodeStringLiteral(text) => Some(Expr::value(Value::SingleQuotedString(std::mem::take(text)))),
            _ => None,
        },
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

/// Functions with words between their arguments, called by names that take bytes and patterns too.
fn as_call(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
            let start = substring_from.as_deref_mut().map_or_else(|| number("1"), take);
            let count = substring_for.as_deref_mut().map(take);
            let name = if *shorthand { "substr" } else { SUBSTRING };
            Some(call(name, [take(expr), start].into_iter().chain(count).collect()))
        }
        Expr::Position { expr, r#in } => Some(call(POSITION, vec![take(r#in), take(expr)])),
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let count = overlay_for.as_deref_mut().map(take);
            let arguments = [take(expr), take(overlay_what), take(overlay_from)];
            Some(call("overlay", arguments.into_iter().chain(count).collect()))
        }
        _ => None,
    }
}

/// `expr IS [NOT] [form] NORMALIZED`.
fn normalized(expr: Expr, form: Option<NormalizationForm>, negated: bool) -> Expr {
    let form = form.map(|form| Expr::value(Value::SingleQuotedString(form.to_string())));
    let normal = call("is_normalized", std::iter::once(expr).chain(form).collect());
    if negated { nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(normal) }) } else { normal }
}

/// `(start, end) OVERLAPS (start, end)`.
fn overlaps(left: &mut Expr, right: &mut Expr) -> Option<Expr> {
    match (left, right) {
        (Expr::Tuple(left), Expr::Tuple(right)) if left.len() == 2 && right.len() == 2 => {
            Some(call(OVERLAPS, std::mem::take(left).into_iter().chain(std::mem::take(right)).collect()))
        }
        _ => None,
    }
}

/// `array_fill(value, lengths, bounds)`, whose type depends on how many dimensions there are: these are written out.
///
/// # Errors
/// 0A000 for lengths that are no array of expressions, and for bounds that are not 1; 22004 for NULL.
fn filled(value: &mut Expr, lengths: &Expr, bounds: Option<&Expr>) -> Result<Expr, SqlError> {
    let null = || SqlError::data("dimension array or low bound array cannot be null").code("22004");
    let is_null = |expr: &Expr| matches!(expr, Expr::Value(value) if value.value == Value::Null);
    if is_null(lengths) || bounds.is_some_and(is_null) {
        return Err(null());
    }
    let unsupported = |what: &str| SqlError::unsupported(format!("array_fill with {what}"));
    let lengths = elements_of(lengths).ok_or_else(|| unsupported("dimensions that are no ARRAY[…]"))?;
    if let Some(bounds) = bounds {
        let bounds = elements_of(bounds).ok_or_else(|| unsupported("bounds that are no ARRAY[…]"))?;
        if bounds.len() != lengths.len() {
            let message = "wrong number of array subscripts";
            return Err(SqlError::data(message)
                .code("2202E")
                .detail("Low bound array has different size than dimensions array."));
        }
        if !bounds.iter().all(|bound| matches!(bound.to_string().trim_matches('\''), "1")) {
            return Err(unsupported("subscripts that do not begin at 1"));
        }
    }
    let number = |length| cast(length, DataType::Integer(None));
    Ok(call(FILL, std::iter::once(take(value)).chain(lengths.into_iter().map(number)).collect()))
}

/// The elements of an array that is written.
fn elements_of(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => elements_of(inner),
        Expr::Array(array) => Some(array.elem.clone()),
        other => array_elements(other),
    }
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
        Some("array_remove") => Some(REMOVE),
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
    let mut arguments: Vec<&mut Expr> = Vec::new();
    for argument in &mut list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else { return Ok(None) };
        arguments.push(argument);
    }
    if let (Some("array_fill"), [value, lengths, bounds @ ..]) = (name.as_deref(), &mut arguments[..])
        && bounds.len() < 2
    {
        return filled(value, lengths, bounds.first().map(|bounds| &**bounds)).map(Some);
    }
    let [left, right] = &mut arguments[..] else { return Ok(None) };
    Ok(match name.as_deref() {
        Some("normalize") => {
            if let Expr::Identifier(form) = &**right
                && form.quote_style.is_none()
            {
                **right = Expr::value(Value::SingleQuotedString(form.value.clone()));
            }
            None
        }
        Some("mod") => Some(nested(binary(nested(take(left)), BinaryOperator::Modulo, nested(take(right))))),
        // Without the rest, so that the quotient is whole however many digits it has.
        Some("div") => {
            Some(parse_expression(&format!("trunc({NUMERIC}(({left}) - ({left}) % ({right})) / ({right}))"))?)
        }
        _ => None,
    })
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
