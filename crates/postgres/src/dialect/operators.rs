//! What operands are taken to be while a statement is planned: text beside a uuid, bytea or boolean is such a value,
//! a whole number beside integers is one of these, and dates and decimals have the operators they have in PostgreSQL.

use arrow_schema::{DataType as Arrow, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, binary_expr, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use saki_base::{DataType, Value};

use super::functions::arithmetic::quotient;
use super::functions::intervals;
use saki_catalog::SqlError;

const TIMESTAMP: Arrow = Arrow::Timestamp(TimeUnit::Microsecond, None);

/// Plans operators whose operands PostgreSQL sees otherwise.
#[derive(Debug)]
pub struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
        match expr.op {
            Eq | NotEq | Lt | LtEq | Gt | GtEq => {
                if let Some(typed) = typed(&expr.right, &expr.left, schema)? {
                    expr.right = typed;
                } else if let Some(typed) = typed(&expr.left, &expr.right, schema)? {
                    expr.left = typed;
                }
                (expr.left, expr.right) = as_floats(expr.left, expr.right, schema);
                expr.right = compared_with_date(expr.right, &expr.left, schema);
                expr.left = compared_with_date(expr.left, &expr.right, schema);
                Ok(PlannerResult::Original(expr))
            }
            Plus | Minus | Multiply | Divide | Modulo => arithmetic(expr, schema),
            _ => Ok(PlannerResult::Original(expr)),
        }
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let is_second = |part: &Expr| match part {
            Expr::Literal(ScalarValue::Utf8(Some(part)), _) => part.eq_ignore_ascii_case("second"),
            _ => false,
        };
        match &args[..] {
            // With its fraction: the planner's is whole.
            [part, time] if is_second(part) => {
                let micros = date_part().call(vec![lit("microsecond"), time.clone()]);
                let micros = cast(micros, Arrow::Decimal128(8, 0));
                let scale = Expr::Literal(ScalarValue::Decimal128(Some(1_000_000), 7, 0), None);
                Ok(PlannerResult::Planned(cast(quotient(micros, scale), Arrow::Decimal128(8, 6))))
            }
            _ => Ok(PlannerResult::Original(args)),
        }
    }
}

fn typed(literal: &Expr, other: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = literal else { return Ok(None) };
    let Ok(other) = other.get_type(schema) else { return Ok(None) };
    let parse = |data_type| Value::parse(data_type, text).map_err(SqlError::from);
    let value = match other {
        Arrow::FixedSizeBinary(16) => match parse(DataType::Uuid)? {
            Value::Uuid(bytes) => ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
            _ => return Ok(None),
        },
        Arrow::Binary => match parse(DataType::Bytea)? {
            Value::Bytea(bytes) => ScalarValue::Binary(Some(bytes)),
            _ => return Ok(None),
        },
        Arrow::Boolean => match parse(DataType::Bool)? {
            Value::Bool(truth) => ScalarValue::Boolean(Some(truth)),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(Expr::Literal(value, None)))
}

fn arithmetic(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, left, right } = expr;
    let (left, right) = (as_integer(left), as_integer(right));
    let original = |left, right| PlannerResult::Original(RawBinaryExpr { op: op.clone(), left, right });
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(original(left, right));
    };
    let days = |date: Expr| cast(date, Arrow::Int32);
    let planned = match (&op, &left_type, &right_type) {
        (BinaryOperator::Divide, Arrow::Decimal128(..), divisor) if is_exact(divisor) => quotient(left, right),
        (BinaryOperator::Divide, dividend, Arrow::Decimal128(..)) if is_exact(dividend) => quotient(left, right),
        (BinaryOperator::Minus, Arrow::Date32, Arrow::Date32) => binary_expr(days(left), Operator::Minus, days(right)),
        (BinaryOperator::Plus, Arrow::Date32, count) if count.is_signed_integer() => {
            cast(binary_expr(days(left), Operator::Plus, days(right)), Arrow::Date32)
        }
        (BinaryOperator::Plus, count, Arrow::Date32) if count.is_signed_integer() => {
            cast(binary_expr(days(left), Operator::Plus, days(right)), Arrow::Date32)
        }
        (BinaryOperator::Minus, Arrow::Date32, count) if count.is_signed_integer() => {
            cast(binary_expr(days(left), Operator::Minus, days(right)), Arrow::Date32)
        }
        (BinaryOperator::Plus, Arrow::Date32, Arrow::Interval(_)) => {
            binary_expr(cast(left, TIMESTAMP), Operator::Plus, right)
        }
        (BinaryOperator::Minus, Arrow::Date32, Arrow::Interval(_)) => {
            binary_expr(cast(left, TIMESTAMP), Operator::Minus, right)
        }
        (BinaryOperator::Plus, Arrow::Interval(_), Arrow::Date32) => {
            binary_expr(cast(right, TIMESTAMP), Operator::Plus, left)
        }
        (BinaryOperator::Multiply, Arrow::Interval(_), factor) if is_number(factor) => intervals::times(left, right),
        (BinaryOperator::Multiply, factor, Arrow::Interval(_)) if is_number(factor) => intervals::times(right, left),
        (BinaryOperator::Divide, Arrow::Interval(_), divisor) if is_number(divisor) => intervals::over(left, right),
        _ => return Ok(original(left, right)),
    };
    Ok(PlannerResult::Planned(planned))
}

fn is_number(data_type: &Arrow) -> bool {
    is_exact(data_type) || data_type.is_floating()
}

fn is_exact(data_type: &Arrow) -> bool {
    data_type.is_signed_integer() || matches!(data_type, Arrow::Decimal128(..))
}

/// A whole number that the planner took for a bigint since it is only written as digits.
fn as_integer(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => match i32::try_from(value) {
            Ok(value) => Expr::Literal(ScalarValue::Int32(Some(value)), metadata),
            Err(_) => Expr::Literal(ScalarValue::Int64(Some(value)), metadata),
        },
        other => other,
    }
}

/// A decimal beside a float is compared as a float.
fn as_floats(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    match (left.get_type(schema), right.get_type(schema)) {
        (Ok(Arrow::Decimal128(..)), Ok(other)) if other.is_floating() => (cast(left, Arrow::Float64), right),
        (Ok(other), Ok(Arrow::Decimal128(..))) if other.is_floating() => (left, cast(right, Arrow::Float64)),
        _ => (left, right),
    }
}

/// A date moved by whole days or months is midnight of a date: compared with dates it stays one, and the comparison
/// one that indexes and zones can decide.
fn compared_with_date(expr: Expr, other: &Expr, schema: &DFSchema) -> Expr {
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(Arrow::Date32));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right })
            if is_whole_days(&right) && is_date(other) =>
        {
            match *left {
                Expr::Cast(Cast { expr: date, field }) if *field.data_type() == TIMESTAMP && is_date(&date) => {
                    binary_expr(*date, op, *right)
                }
                left => binary_expr(left, op, *right),
            }
        }
        other => other,
    }
}

fn is_whole_days(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds == 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(Some(_)), _) => true,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), _) => interval.milliseconds == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check_refused, check_values};

    #[test]
    fn dates_and_times_have_postgresqls_operators() {
        check_values(&[
            ("date '2024-03-01' - date '2024-02-01'", "29"),
            ("date '2024-02-28' + 1", "2024-02-29"),
            ("1 + date '2024-02-28'", "2024-02-29"),
            ("date '2024-03-01' - 1", "2024-02-29"),
            ("date '2024-01-31' + interval '1 month'", "2024-02-29 00:00:00"),
            ("date '2024-01-31' - interval '1 day'", "2024-01-30 00:00:00"),
            ("interval '1 day' + date '2024-01-31'", "2024-02-01 00:00:00"),
            ("date '2024-01-31' + interval '1 hour'", "2024-01-31 01:00:00"),
            ("timestamp '2024-01-31 12:00:00' + interval '1 month'", "2024-02-29 12:00:00"),
            ("extract(year from date '2024-02-29')", "2024"),
            ("extract(month from date '2024-02-29')", "2"),
            ("extract(day from date '2024-02-29')", "29"),
            ("extract(dow from date '2024-02-29')", "4"),
            ("extract(doy from date '2024-02-29')", "60"),
            ("extract(isodow from date '2024-03-03')", "7"),
            ("extract(week from date '2024-12-30')", "1"),
            ("extract(isoyear from date '2024-12-30')", "2025"),
            ("extract(quarter from date '2024-05-01')", "2"),
            ("extract(hour from timestamp '2024-01-31 12:34:56.789')", "12"),
            ("extract(minute from timestamp '2024-01-31 12:34:56.789')", "34"),
            ("extract(second from timestamp '2024-01-31 12:34:56.789')", "56.789000"),
            ("extract(epoch from date '1970-01-02')", "86400"),
            ("date_part('year', date '2024-02-29')", "2024"),
            ("date_trunc('month', timestamp '2024-02-15 12:34:56')", "2024-02-01 00:00:00"),
            ("date_trunc('hour', timestamp '2024-02-15 12:34:56')", "2024-02-15 12:00:00"),
            ("date_trunc('week', timestamp '2024-02-15 12:34:56')", "2024-02-12 00:00:00"),
            ("date '2024-01-01' < timestamp '2024-01-01 00:00:01'", "true"),
            ("date '2024-01-31' = '2024-01-31'", "true"),
            ("date '2024-01-31' < '2024-02-01'", "true"),
            ("timestamp '2024-01-31' > '2024-01-30 23:59:59'", "true"),
            ("date '2024-01-31' + interval '1 month' = date '2024-02-29'", "true"),
            ("date '2024-01-31' between '2024-01-01' and '2024-12-31'", "true"),
        ]);
    }

    #[test]
    fn dates_that_are_none_are_refused() {
        check_refused(&[("date '2024-01-31' = 'x'", "22007")]);
    }

    #[test]
    fn operands_are_brought_together() {
        check_values(&[
            ("true = 't'", "true"),
            ("'f' < true", "true"),
            ("1 = '1'", "true"),
            ("1.5 = 1.5::float8", "true"),
            ("0.1 = 0.1::float8", "true"),
            ("0.1::real = 0.1", "false"),
            ("1 = 1.0", "true"),
            ("2 < 10", "true"),
            ("'2' < '10'", "false"),
            ("'a' < 'B'", "false"),
            ("'a' = 'a '", "false"),
            ("'a'::char(3) = 'a'", "true"),
            ("null = null", "NULL"),
            ("null is null", "true"),
            ("1 is distinct from null", "true"),
            ("null is not distinct from null", "true"),
            ("5 between 1 and 10", "true"),
            ("5 not between 1 and 10", "false"),
            ("1 in (1, 2)", "true"),
            ("3 not in (1, null)", "NULL"),
            ("1 in (1, null)", "true"),
            ("not true = false", "true"),
            ("(1 = 1) is true", "true"),
            ("null::boolean is unknown", "true"),
            ("1 <> 2", "true"),
            ("1 != 2", "true"),
            ("position('l' in 'hello')", "3"),
        ]);
    }

    #[test]
    fn operands_that_do_not_go_together_are_refused() {
        check_refused(&[("'x' = true", "22P02"), ("1 = 'x'", "22P02")]);
    }
}
