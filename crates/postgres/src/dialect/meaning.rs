//! Expressions that keep their type and mean what they mean to PostgreSQL: integers that overflow are refused, and
//! what is cast to a whole number is rounded, not cut.

use std::sync::Arc;

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::math;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, binary_expr, cast, lit};

use super::types::{text_of, typed};
use saki_functions::arithmetic;
use saki_functions::casts::{narrow, text};
use saki_functions::json;
use saki_parameters::{SessionTime, Unit};
use saki_times::session_time;

/// The rewrite; expressions are visited from their leaves.
#[derive(Debug)]
pub struct Meaning;

impl FunctionRewrite for Meaning {
    fn name(&self) -> &str {
        "meaning"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, options: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(binary) => operator(binary, schema),
            // Read as columns read it: the planner takes 1e400 for infinite.
            Expr::Cast(cast) if cast.field.data_type().is_floating() && text_of(&cast.expr).is_some() => {
                Transformed::yes(typed(*cast.expr, cast.field.data_type())?)
            }
            Expr::Cast(cast) => match moment(cast, schema, session_time(options))? {
                Expr::Cast(cast) => conversion(cast, schema),
                other => Transformed::yes(other),
            },
            Expr::ScalarFunction(call) => call_of(call, schema),
            Expr::IsUnknown(truth) if is_truth(&truth, schema) => Transformed::yes(Expr::IsNull(truth)),
            Expr::IsNotUnknown(truth) if is_truth(&truth, schema) => Transformed::yes(Expr::IsNotNull(truth)),
            other => Transformed::no(other),
        })
    }
}

fn is_truth(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Boolean))
}

/// Floats are rounded to the even and written as PostgreSQL does; digits to round to become the integer literal that
/// the functions look for.
fn call_of(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    if let ("round", [value]) = (call.name(), &call.args[..])
        && value.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
    {
        return Transformed::yes(arithmetic::rounded(call.args.swap_remove(0)));
    }
    if let Some(other) = cut(&call, schema).or_else(|| hexadecimal(&mut call, schema)) {
        return Transformed::yes(other);
    }
    if matches!(call.name(), "concat" | "concat_ws") {
        let is_other = |expr: &Expr| {
            let data_type = expr.get_type(schema);
            // A truth is `t` or `f` here, though not as text.
            data_type.is_ok_and(|data_type| text::differs(&data_type) || data_type == DataType::Boolean)
        };
        if !call.args.iter().any(is_other) {
            return Transformed::no(Expr::ScalarFunction(call));
        }
        let written = |expr: Expr| if is_other(&expr) { text::text_of(expr) } else { expr };
        call.args = call.args.into_iter().map(written).collect();
        return Transformed::yes(Expr::ScalarFunction(call));
    }
    let digits = match &call.args[..] {
        [_, Expr::Literal(ScalarValue::Int64(Some(digits)), _)] if matches!(call.name(), "round" | "trunc") => {
            i32::try_from(*digits).ok()
        }
        _ => None,
    };
    match digits {
        Some(digits) => {
            call.args[1] = lit(digits);
            Transformed::yes(Expr::ScalarFunction(call))
        }
        None => Transformed::no(Expr::ScalarFunction(call)),
    }
}

/// An integer below zero has eight digits, not those of the bigint.
fn hexadecimal(call: &mut ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let is_integer = |number: &Expr| matches!(number.get_type(schema), Ok(DataType::Int16 | DataType::Int32));
    if call.name() != "to_hex" || !call.args.first().is_some_and(is_integer) {
        return None;
    }
    let wide = cast(call.args.swap_remove(0), DataType::Int64);
    let low = binary_expr(wide, Operator::BitwiseAnd, lit(i64::from(u32::MAX)));
    Some(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args: vec![low] }))
}

/// A decimal without digits that were cut off: `trunc(x)` has none behind the point, `trunc(x, n)` has n.
fn cut(call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    if call.name() != "trunc" {
        return None;
    }
    let Ok(DataType::Decimal128(precision, scale)) = call.args.first()?.get_type(schema) else { return None };
    match &call.args[..] {
        [value] => Some(arithmetic::cut(value.clone())),
        [_, Expr::Literal(ScalarValue::Int64(Some(digits)), _)] if (0..i64::from(scale)).contains(digits) => {
            let digits = i32::try_from(*digits).ok()?;
            let args = vec![call.args[0].clone(), lit(digits)];
            let whole = Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args });
            Some(cast(whole, DataType::Decimal128(precision, digits as i8)))
        }
        _ => None,
    }
}

fn operator(binary: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let types = (binary.left.get_type(schema), binary.right.get_type(schema));
    let (Ok(left), Ok(right)) = types else { return Transformed::no(Expr::BinaryExpr(binary)) };
    let are_bytes = left == DataType::Binary && right == DataType::Binary;
    if binary.op == Operator::StringConcat && !are_bytes && (text::differs(&left) || text::differs(&right)) {
        let written = |expr: Expr, data_type| if text::differs(data_type) { text::text_of(expr) } else { expr };
        return Transformed::yes(binary_expr(written(*binary.left, &left), binary.op, written(*binary.right, &right)));
    }
    if let Some(data_type) = float_type(&left, &right) {
        let operand = |expr: &Expr, own: &DataType| match *own == data_type {
            true => expr.clone(),
            false => cast(expr.clone(), data_type.clone()),
        };
        let (left, right) = (operand(&binary.left, &left), operand(&binary.right, &right));
        return match arithmetic::of_floats(binary.op, left, right) {
            Some(call) => Transformed::yes(call),
            None => Transformed::no(Expr::BinaryExpr(binary)),
        };
    }
    if !left.is_signed_integer() || !right.is_signed_integer() {
        return Transformed::no(Expr::BinaryExpr(binary));
    }
    let wider = if right.primitive_width() > left.primitive_width() { right } else { left };
    match arithmetic::checked(binary.op, &wider, *binary.left.clone(), *binary.right.clone()) {
        Some(call) => Transformed::yes(call),
        None => Transformed::no(Expr::BinaryExpr(binary)),
    }
}

/// A decimal rounded to fewer digits.
fn shortened(decimal: Expr, digits: i8) -> Expr {
    math::round().call(vec![decimal, lit(i32::from(digits))])
}

/// The type in which two numbers are computed of which one is a float.
fn float_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let are_floats = left.is_numeric() && right.is_numeric() && (left.is_floating() || right.is_floating());
    let are_single = *left == DataType::Float32 && *right == DataType::Float32;
    are_floats.then_some(if are_single { DataType::Float32 } else { DataType::Float64 })
}

/// A cast to a moment or an interval that depends on the session: of a text, read now if it is a constant, and of a
/// moment between what has a zone and what has none.
fn moment(cast: Cast, schema: &DFSchema, session: &SessionTime) -> Result<Expr> {
    let target = cast.field.data_type();
    let is_time =
        matches!(target, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::Interval(_));
    let Ok(source) = cast.expr.get_type(schema) else { return Ok(Expr::Cast(cast)) };
    let is_text = matches!(source, DataType::Utf8 | DataType::Utf8View);
    if is_text && is_time {
        return match constant(&cast.expr, target, session)? {
            Some(literal) => Ok(literal),
            None => Ok(saki_times::cast_function(*cast.expr.clone(), target).unwrap_or(Expr::Cast(cast))),
        };
    }
    let is_time = |of: &DataType| matches!(of, DataType::Time64(_));
    let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
    if is_time(&source) && is_interval(target) || is_interval(&source) && is_time(target) {
        return Ok(saki_times::cast_function(*cast.expr.clone(), target).unwrap_or(Expr::Cast(cast)));
    }
    let has_zone = |of: &DataType| matches!(of, DataType::Timestamp(_, Some(_)));
    let is_local = |of: &DataType| matches!(of, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Time64(_));
    let crosses = has_zone(&source) && is_local(target) || is_local(&source) && has_zone(target);
    if crosses && !session.style.zone.is_utc() {
        return Ok(saki_times::cast_function(*cast.expr.clone(), target).unwrap_or(Expr::Cast(cast)));
    }
    Ok(Expr::Cast(cast))
}

/// A constant text as the time that it says.
fn constant(text: &Expr, target: &DataType, session: &SessionTime) -> Result<Option<Expr>> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = text else { return Ok(None) };
    let (style, now) = (&session.style, session.now());
    let value = match target {
        DataType::Date32 => ScalarValue::Date32(Some(style.read_date(text, now)?)),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            ScalarValue::TimestampMicrosecond(Some(style.read_timestamp(text, now)?), None)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            ScalarValue::TimestampMicrosecond(Some(style.read_timestamptz(text, now)?), zone.clone())
        }
        DataType::Time64(TimeUnit::Microsecond) => ScalarValue::Time64Microsecond(Some(style.read_time(text, now)?)),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let interval = saki_times::nanoseconds(style.read_interval(text, Unit::Second)?)?;
            ScalarValue::IntervalMonthDayNano(Some(interval))
        }
        _ => return Ok(None),
    };
    Ok(Some(lit(value)))
}

fn conversion(conversion: Cast, schema: &DFSchema) -> Transformed<Expr> {
    let target = conversion.field.data_type();
    let Ok(source) = conversion.expr.get_type(schema) else { return Transformed::no(Expr::Cast(conversion)) };
    let inner = match (&source, target) {
        // A decimal loses digits rounded. By a function: of a cast beside a constant the planner thinks that it can be
        // undone, and takes `0.4::int = 0` for `0.4 = 0.0`.
        (DataType::Decimal128(_, 1..), target) if target.is_integer() => shortened(*conversion.expr, 0),
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if to < from => shortened(*conversion.expr, *to),
        (source, DataType::Utf8) if text::differs(source) => return Transformed::yes(text::text_of(*conversion.expr)),
        // By its digits: 8.575 is the float next to it to whoever reads it.
        (DataType::Float32 | DataType::Float64, DataType::Decimal128(..)) => text::text_of(*conversion.expr),
        (DataType::Float32 | DataType::Float64, target) if target.is_integer() => arithmetic::rounded(*conversion.expr),
        (DataType::Float64 | DataType::Decimal128(..), DataType::Float32) => {
            return Transformed::yes(narrow::real(*conversion.expr));
        }
        (DataType::LargeUtf8, target) => {
            return match json::read(*conversion.expr.clone(), target) {
                Some(value) => Transformed::yes(value),
                None => Transformed::no(Expr::Cast(conversion)),
            };
        }
        (DataType::Utf8 | DataType::Utf8View, target) => {
            let text = || *conversion.expr.clone();
            return match narrow::read(text(), target).or_else(|| json::spelled(text(), target)) {
                Some(value) => Transformed::yes(value),
                None => Transformed::no(Expr::Cast(conversion)),
            };
        }
        _ => return Transformed::no(Expr::Cast(conversion)),
    };
    Transformed::yes(Expr::Cast(Cast { expr: Box::new(inner), field: conversion.field }))
}
