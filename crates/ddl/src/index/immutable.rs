//! What an index may be over: expressions that say the same of a row at any time, and to anybody.
//!
//! Which functions do is in PostgreSQL's own catalogue of them. Beyond that it is a matter of types: times with a zone
//! are read and shown by the session's zone, and texts become times, and times texts, by the session's styles. Texts
//! that are written as times have to be spelled so that they mean the same to everybody.

use std::ops::ControlFlow;

use arrow_schema::DataType as Arrow;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};
use saki_catalog::{Result, SqlError, enumeration};
use saki_postgres::dialect::{called_rows, refuse_sets};
use saki_postgres::statement::walk::walk_expressions;
use saki_postgres::statement::{has_subquery, name_of};

/// Where in an index an expression stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Key,
    Predicate,
}

impl Place {
    fn one(self) -> &'static str {
        match self {
            Self::Key => "index expression",
            Self::Predicate => "index predicate",
        }
    }
}

/// Functions that PostgreSQL's grammar has, and its catalogue does not.
const OF_GRAMMAR: [&str; 4] = ["coalesce", "nullif", "greatest", "least"];

/// Refuses what is no function of one row's values.
///
/// # Errors
/// 0A000 for subqueries and functions that give sets, 42803 for aggregates, 42P20 for windows.
pub fn check_form(expression: &Expr, place: Place) -> Result<()> {
    let one = place.one();
    if has_subquery(expression) {
        return Err(SqlError::unsupported(format!("cannot use subquery in {one}")));
    }
    refuse_sets(expression, &format!("{one}s"))
}

/// Refuses what may say another thing at another time or to another session. `type_of` gives the type of a part.
///
/// # Errors
/// 42P17.
pub fn check_immutable(expression: &Expr, place: Place, type_of: &dyn Fn(&Expr) -> Option<Arrow>) -> Result<()> {
    let checked = walk_expressions(expression, |node| match is_immutable(node, type_of) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(
            SqlError::invalid(format!("functions in {} must be marked IMMUTABLE", place.one()))
                .code("42P17")
                .detail(format!("{node} may change with time, or with the settings of a session.")),
        ),
    });
    outcome(checked)
}

fn outcome(checked: ControlFlow<SqlError>) -> Result<()> {
    match checked {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether a node is immutable if its parts are.
fn is_immutable(node: &Expr, type_of: &dyn Fn(&Expr) -> Option<Arrow>) -> bool {
    let is_zoned = |part: &Expr| type_of(part).is_some_and(|found| has_zone(&found));
    match node {
        Expr::Function(function) => is_immutable_call(function, type_of),
        Expr::Cast { expr, .. } => is_immutable_cast(expr, type_of(expr), type_of(node)),
        Expr::TypedString(typed) => {
            let is_time = type_of(node).is_some_and(|found| is_time(&found));
            !is_zoned(node) && (!is_time || text_of(&typed.value.value).is_none_or(is_plain_time))
        }
        Expr::Extract { expr, .. } => !is_zoned(expr),
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
            ![left, right].iter().any(|part| type_of(part).is_some_and(|found| is_label(&found)))
                && agree(&[left, right], false, type_of)
        }
        Expr::BinaryOp { left, op, right } => {
            let is_compared = matches!(
                op,
                BinaryOperator::Eq
                    | BinaryOperator::NotEq
                    | BinaryOperator::Lt
                    | BinaryOperator::LtEq
                    | BinaryOperator::Gt
                    | BinaryOperator::GtEq
            );
            agree(&[left, right], is_compared, type_of)
        }
        Expr::Between { expr, low, high, .. } => agree(&[expr, low, high], true, type_of),
        Expr::InList { expr, list, .. } => {
            let operands: Vec<&Expr> = std::iter::once(&**expr).chain(list).collect();
            agree(&operands, true, type_of)
        }
        _ => true,
    }
}

/// Whether operands are no times, or mean the same times to everybody.
fn agree(operands: &[&Expr], is_compared: bool, type_of: &dyn Fn(&Expr) -> Option<Arrow>) -> bool {
    let texts: Vec<&str> = operands.iter().filter_map(|operand| literal(operand)).collect();
    let types: Vec<Arrow> =
        operands.iter().filter(|operand| literal(operand).is_none()).filter_map(|operand| type_of(operand)).collect();
    if types.iter().any(has_zone) {
        return is_compared && texts.is_empty() && types.iter().filter(|found| is_time(found)).all(has_zone);
    }
    !types.iter().any(is_time) || texts.into_iter().all(is_plain_time)
}

fn is_immutable_call(function: &Function, type_of: &dyn Fn(&Expr) -> Option<Arrow>) -> bool {
    let arguments = arguments(function);
    let rows = called_rows(function);
    if rows.is_empty() {
        let is_known = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
        return is_known.is_some_and(|name| OF_GRAMMAR.contains(&name.as_str())) && agree(&arguments, true, type_of);
    }
    let is_always = rows.iter().all(|row| row.volatility == "i");
    let is_ever = rows.iter().any(|row| row.volatility == "i");
    let is_zoned = || arguments.iter().any(|part| type_of(part).is_some_and(|found| has_zone(&found)));
    // Functions over times have forms with a zone, and others without.
    is_always || (is_ever && !is_zoned())
}

fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let arguments = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    arguments.collect()
}

fn is_immutable_cast(inner: &Expr, from: Option<Arrow>, to: Option<Arrow>) -> bool {
    let (Some(from), Some(to)) = (from, to) else { return true };
    if let Some(text) = literal(inner) {
        return !has_zone(&to) && (!is_time(&to) || is_plain_time(text));
    }
    match (is_time(&from), is_time(&to)) {
        (true, true) => has_zone(&from) == has_zone(&to),
        (true, false) | (false, true) => false,
        (false, false) => !is_label(&from) && !is_label(&to),
    }
}

fn is_time(found: &Arrow) -> bool {
    let is_time = matches!(
        found,
        Arrow::Date32 | Arrow::Date64 | Arrow::Timestamp(..) | Arrow::Time32(_) | Arrow::Time64(_) | Arrow::Interval(_)
    );
    is_time && !is_label(found)
}

fn has_zone(found: &Arrow) -> bool {
    matches!(found, Arrow::Timestamp(_, Some(_))) && !is_label(found)
}

/// Whether values are labels, whose texts may be changed.
fn is_label(found: &Arrow) -> bool {
    enumeration(found).is_some()
}

/// A text that is written without a type.
fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => literal(inner),
        Expr::Value(value) => text_of(&value.value),
        _ => None,
    }
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::SingleQuotedString(text) => Some(text),
        _ => None,
    }
}

/// Whether a text is a time, or a span of time, to everybody: a date begins with its year, and no word says when now
/// is.
fn is_plain_time(text: &str) -> bool {
    let text = text.trim();
    let words = ["now", "today", "tomorrow", "yesterday", "allballs"];
    let says_when = words.iter().any(|word| text.to_ascii_lowercase().contains(word));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    // 1/2/2020, 1.2.2020 and 1-2-2020 are dates by the session's style.
    let is_by_style = text.contains('/') || (1..4).contains(&digits) && text[digits..].starts_with(['.', '-']);
    !says_when && !is_by_style
}

#[cfg(test)]
mod tests {
    use saki_postgres::statement::parse_expression;

    use super::*;

    /// `t` is a time, `z` one with a zone, `n` a number; everything else a text, unless it says its type.
    fn type_of(expr: &Expr) -> Option<Arrow> {
        let (time, zoned) = (
            Arrow::Timestamp(arrow_schema::TimeUnit::Microsecond, None),
            Arrow::Timestamp(arrow_schema::TimeUnit::Microsecond, Some("UTC".into())),
        );
        let text = expr.to_string();
        Some(match text.trim_start_matches('(').trim_end_matches(')') {
            "t" | "z AT TIME ZONE 'UTC'" => time,
            "z" => zoned,
            "n" => Arrow::Int32,
            other if other.ends_with("::DATE") => Arrow::Date32,
            other if other.ends_with("::TIMESTAMPTZ") => zoned,
            _ => Arrow::Utf8,
        })
    }

    fn is_taken(text: &str) -> bool {
        check_immutable(&parse_expression(text).unwrap(), Place::Key, &type_of).is_ok()
    }

    #[test]
    fn functions_of_their_arguments_alone_are_taken() {
        for text in ["lower(a)", "upper(a) || 'x'", "n + 1", "coalesce(a, 'x')", "md5(a)", "abs(n) > 3", "a LIKE 'x%'"]
        {
            assert!(is_taken(text), "{text}");
        }
        for text in ["now()", "random()", "concat(a, 'x')", "current_date", "to_char(t, 'YYYY')", "nosuch(a)"] {
            assert!(!is_taken(text), "{text}");
        }
    }

    #[test]
    fn times_have_to_mean_the_same_to_everybody() {
        for text in [
            "date_trunc('day', t)",
            "extract(year FROM t)",
            "t::date",
            "(z AT TIME ZONE 'UTC')::date",
            "t > '2020-01-01'",
            "z IS NULL",
            "z = z",
        ] {
            assert!(is_taken(text), "{text}");
        }
        for text in [
            "date_trunc('day', z)",
            "extract(year FROM z)",
            "z::date",
            "t::text",
            "a::date",
            "a::timestamptz",
            "t > '01/02/2020'",
            "t > 'today'",
            "z > '2020-01-01'",
            "z > t",
        ] {
            assert!(!is_taken(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_function_of_a_row_is_refused() {
        let code = |text: &str| {
            let checked = check_form(&parse_expression(text).unwrap(), Place::Predicate);
            checked.err().map_or_else(String::new, |error| format!("{} {}", error.sqlstate(), error.message))
        };
        assert_eq!(code("(SELECT true)"), "0A000 cannot use subquery in index predicate");
        assert_eq!(code("max(a) > 1"), "42803 aggregate functions are not allowed in index predicates");
        assert_eq!(code("row_number() OVER () > 1"), "42P20 window functions are not allowed in index predicates");
        assert_eq!(
            code("generate_series(1, 2) > 1"),
            "0A000 set-returning functions are not allowed in index predicates"
        );
        assert_eq!(code("lower(a) = 'a'"), "");
    }
}
