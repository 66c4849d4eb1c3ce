//! Operators of `json` and `jsonb`, which the planner has none of (PostgreSQL, section 9.16).

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, Operator, cast};
use saki_functions::json::{self, JSON, JSONB, is_json};

use super::common::no_operator;
use super::known::known_type;
use super::unknown::{text_of, typed};

/// What an operator is.
pub enum Called {
    /// A function.
    Whole(Expr),
    /// One between other types than these.
    Other(Expr, Expr),
}

/// An operator as the function that it is here, if its operands make it one.
///
/// # Errors
/// 42883 if there is none for the operands, and what is said of text that is no JSON.
pub fn json_operator(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Result<Called> {
    let (left_type, right_type) = (known_type(&left, schema), known_type(&right, schema));
    let is = |of: &Option<Arrow>, wanted: &Arrow| of.as_ref() == Some(wanted);
    let is_any = |of: &Option<Arrow>| of.as_ref().is_some_and(is_json);
    let either = is(&left_type, &JSONB) || is(&right_type, &JSONB);
    let refused = || {
        let of = |known: &Option<Arrow>| known.clone().unwrap_or(Arrow::Null);
        Err(no_operator(&of(&left_type), op, &of(&right_type)).into())
    };
    let call = |operator: json::Operator, left, right| Ok(Called::Whole(operator.call(left, right)));
    match op {
        Operator::Arrow | Operator::LongArrow => {
            let operator = if op == Operator::Arrow { json::Operator::Get } else { json::Operator::GetText };
            if left_type.is_some() && !is_any(&left_type) {
                return refused();
            }
            call(operator, left, key(right)?)
        }
        Operator::HashArrow => call(json::Operator::At, left, path(right)?),
        Operator::HashLongArrow => call(json::Operator::AtText, left, path(right)?),
        Operator::AtArrow | Operator::ArrowAt if is(&left_type, &JSON) || is(&right_type, &JSON) => refused(),
        Operator::AtArrow if either => call(json::Operator::Contains, typed(left, &JSONB)?, typed(right, &JSONB)?),
        Operator::ArrowAt if either => call(json::Operator::Contained, typed(left, &JSONB)?, typed(right, &JSONB)?),
        Operator::Question => call(json::Operator::Exists, left, typed(right, &Arrow::Utf8)?),
        Operator::QuestionPipe => call(json::Operator::ExistsAny, left, path(right)?),
        Operator::QuestionAnd => call(json::Operator::ExistsAll, left, path(right)?),
        Operator::HashMinus => call(json::Operator::DeletePath, left, path(right)?),
        Operator::StringConcat
            if either && [&left_type, &right_type].iter().all(|of| of.is_none() || is(of, &JSONB)) =>
        {
            call(json::Operator::Concat, typed(left, &JSONB)?, typed(right, &JSONB)?)
        }
        // Beside a text it is one.
        Operator::StringConcat if is_any(&left_type) || is_any(&right_type) => {
            let text = |expr, of| if is_any(of) { cast(expr, Arrow::Utf8) } else { expr };
            Ok(Called::Other(text(left, &left_type), text(right, &right_type)))
        }
        Operator::Minus if is(&left_type, &JSONB) => match &right_type {
            Some(Arrow::List(_)) => call(json::Operator::DeleteKeys, left, right),
            Some(of) if of.is_integer() => call(json::Operator::DeleteElement, left, right),
            _ => call(json::Operator::DeleteKey, left, typed(right, &Arrow::Utf8)?),
        },
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
            if is_any(&left_type) || is_any(&right_type) =>
        {
            refused()
        }
        _ => Ok(Called::Other(left, right)),
    }
}

/// What `->` takes: a text, unless it is an integer.
fn key(expr: Expr) -> Result<Expr> {
    typed(expr, &Arrow::Utf8)
}

/// An array of texts; one that is written down is read by the function.
fn path(expr: Expr) -> Result<Expr> {
    match text_of(&expr) {
        Some(_) => Ok(expr),
        None => typed(expr, &Arrow::List(Arc::new(Field::new_list_field(Arrow::Utf8, true)))),
    }
}

/// Both sides of a comparison of `jsonb`, as what its values are ordered by; others as they are.
///
/// # Errors
/// 42883 for `json`, which has no comparisons.
pub fn json_compared(left: Expr, operator: Operator, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let (left_type, right_type) = (known_type(&left, schema), known_type(&right, schema));
    if left_type.as_ref() == Some(&JSON) || right_type.as_ref() == Some(&JSON) {
        let of = |known: Option<Arrow>| known.unwrap_or(Arrow::Null);
        return Err(no_operator(&of(left_type), operator, &of(right_type)).into());
    }
    match left_type.as_ref() == Some(&JSONB) && right_type.as_ref() == Some(&JSONB) {
        true => Ok((json::key(left), json::key(right))),
        false => Ok((left, right)),
    }
}
