//! What statements say of times, in words that the planner knows: intervals as their three parts, `AT TIME ZONE` and
//! fields as calls.

mod relative;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CastKind, DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    IntervalFields, TypedString, Value, VisitorMut,
};
use saki_base::civil::MICROS_PER_SECOND;
use saki_catalog::{Result, SqlError};
use saki_parameters::{Interval, TimeStyle, Unit};

pub use self::relative::is_relative;
use crate::statement::{call, name_of, take};
use saki_times::{INTERVAL_PARTS, PART, ROUND, rounded};

/// The pass; `style` is how the session's intervals are read.
pub struct Times<'s> {
    pub style: &'s TimeStyle,
}

impl VisitorMut for Times<'_> {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match self.respelled(expr) {
            Ok(Some(other)) => *expr = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl Times<'_> {
    fn respelled(&self, expr: &mut Expr) -> Result<Option<Expr>> {
        Ok(match expr {
            Expr::AtTimeZone { timestamp, time_zone } => Some(call("timezone", vec![take(time_zone), take(timestamp)])),
            Expr::Interval(interval) => match text(&interval.value) {
                Some(text) => Some(self.interval(text, Range::of(interval))?),
                None => None,
            },
            Expr::TypedString(TypedString { data_type: DataType::Interval { fields, precision }, value, .. }) => {
                match &value.value {
                    Value::SingleQuotedString(text) => {
                        Some(self.interval(text, Range::of_type(fields.as_ref(), *precision))?)
                    }
                    _ => None,
                }
            }
            Expr::Cast { expr: inner, data_type: DataType::Interval { fields, precision }, array: false, .. } => {
                let range = Range::of_type(fields.as_ref(), *precision);
                match text(inner) {
                    Some(text) => Some(self.interval(text, range)?),
                    None => range.cut_value(take(inner)),
                }
            }
            // The planner would put the sign before the first part alone.
            Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: inner } if matches!(**inner, Expr::Interval(_)) => {
                **inner = Expr::Nested(Box::new(take(inner)));
                None
            }
            Expr::Cast { expr: inner, data_type, array: false, .. } if has_digits(data_type) => {
                let (digits, bare) = without_digits(data_type);
                Some(call(ROUND, vec![cast(take(inner), bare), number(digits)]))
            }
            Expr::TypedString(TypedString { data_type, value, .. }) if has_digits(data_type) => {
                let (digits, bare) = without_digits(data_type);
                Some(call(ROUND, vec![cast(Expr::Value(value.clone()), bare), number(digits)]))
            }
            Expr::Function(function) => function_of(function)?,
            _ => None,
        })
    }

    /// An interval by its months, days and microseconds.
    fn interval(&self, text: &str, range: Range) -> Result<Expr> {
        let interval = range.cut(self.style.read_interval(text, range.last_unit())?)?;
        let Interval { months, days, micros } = interval;
        if micros.checked_mul(1_000).is_none() {
            return Err(SqlError::data("interval out of range").code("22008"));
        }
        let text = format!("{months} months {days} days {micros} microseconds");
        Ok(Expr::Interval(ast::Interval {
            value: Box::new(Expr::value(Value::SingleQuotedString(text))),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        }))
    }
}

/// Whether a type says how many digits its seconds have.
fn has_digits(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(Some(_), _) | DataType::Time(Some(_), _))
}

fn number(value: u64) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

fn without_digits(data_type: &DataType) -> (u64, DataType) {
    match data_type {
        DataType::Timestamp(Some(digits), zone) => ((*digits).min(6), DataType::Timestamp(None, *zone)),
        DataType::Time(Some(digits), zone) => ((*digits).min(6), DataType::Time(None, *zone)),
        other => (6, other.clone()),
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Which fields an interval has: `DAY TO MINUTE`. What is smaller than the last is cut off.
#[derive(Clone, Copy)]
struct Range {
    last: Option<Unit>,
    /// Of its seconds.
    digits: Option<u64>,
}

impl Range {
    fn of(interval: &ast::Interval) -> Self {
        let last = interval.last_field.as_ref().or(interval.leading_field.as_ref()).and_then(unit);
        Self { last, digits: interval.fractional_seconds_precision.or(interval.leading_precision) }
    }

    fn of_type(fields: Option<&IntervalFields>, digits: Option<u64>) -> Self {
        use IntervalFields as F;
        let last = fields.map(|fields| match fields {
            F::Year => Unit::Year,
            F::Month | F::YearToMonth => Unit::Month,
            F::Day => Unit::Day,
            F::Hour | F::DayToHour => Unit::Hour,
            F::Minute | F::DayToMinute | F::HourToMinute => Unit::Minute,
            F::Second | F::DayToSecond | F::HourToSecond | F::MinuteToSecond => Unit::Second,
        });
        Self { last, digits }
    }

    fn last_unit(self) -> Unit {
        self.last.unwrap_or(Unit::Second)
    }

    /// A value that is not written here, cast and cut.
    fn cut_value(self, value: Expr) -> Option<Expr> {
        let value = cast(value, DataType::Interval { fields: None, precision: None });
        let unit = match self.last {
            Some(Unit::Year) => "year",
            Some(Unit::Month) => "month",
            Some(Unit::Day) => "day",
            Some(Unit::Hour) => "hour",
            Some(Unit::Minute) => "minute",
            _ => return Some(self.digits.map_or(value.clone(), |digits| call(ROUND, vec![value, number(digits)]))),
        };
        Some(call("date_trunc", vec![Expr::value(Value::SingleQuotedString(unit.to_owned())), value]))
    }

    fn cut(self, interval: Interval) -> Result<Interval> {
        let Interval { months, days, micros } = interval;
        let cut = |micros: i64, seconds: i64| micros / (seconds * MICROS_PER_SECOND) * (seconds * MICROS_PER_SECOND);
        Ok(match self.last {
            Some(Unit::Year) => Interval { months: months / 12 * 12, days: 0, micros: 0 },
            Some(Unit::Month) => Interval { months, days: 0, micros: 0 },
            Some(Unit::Day) => Interval { months, days, micros: 0 },
            Some(Unit::Hour) => Interval { months, days, micros: cut(micros, 3_600) },
            Some(Unit::Minute) => Interval { months, days, micros: cut(micros, 60) },
            _ => {
                let digits = self.digits.map_or(6, |digits| digits as i64);
                Interval { months, days, micros: rounded(micros, digits)? }
            }
        })
    }
}

fn unit(field: &DateTimeField) -> Option<Unit> {
    Some(match field {
        DateTimeField::Year | DateTimeField::Years => Unit::Year,
        DateTimeField::Month | DateTimeField::Months => Unit::Month,
        DateTimeField::Day | DateTimeField::Days => Unit::Day,
        DateTimeField::Hour | DateTimeField::Hours => Unit::Hour,
        DateTimeField::Minute | DateTimeField::Minutes => Unit::Minute,
        DateTimeField::Second | DateTimeField::Seconds => Unit::Second,
        _ => return None,
    })
}

fn function_of(function: &mut Function) -> Result<Option<Expr>> {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
    let FunctionArguments::List(list) = &mut function.args else { return Ok(None) };
    match name.as_deref() {
        // A double, where EXTRACT is a number.
        Some("date_part") if list.args.len() == 2 => {
            function.name = ast::ObjectName::from(vec![ast::Ident::new(PART)]);
            Ok(None)
        }
        Some("make_interval") => {
            let positions = list.args.iter().map(part_of).collect::<Result<Vec<_>>>()?;
            let Some(most) = positions.iter().enumerate().map(|(at, named)| named.unwrap_or(at)).max() else {
                return Ok(None);
            };
            let mut parts = vec![number(0); most + 1];
            for (position, arg) in std::mem::take(&mut list.args).into_iter().enumerate() {
                let (FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
                | FunctionArg::Named { arg: FunctionArgExpr::Expr(value), .. }
                | FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(value), .. }) = arg
                else {
                    continue;
                };
                parts[positions[position].unwrap_or(position)] = value;
            }
            Ok(Some(call("make_interval", parts)))
        }
        _ => Ok(None),
    }
}

/// The position of an argument that is named.
fn part_of(arg: &FunctionArg) -> Result<Option<usize>> {
    let name = match arg {
        FunctionArg::Named { name, .. } => name_of(name),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), .. } => name_of(name),
        _ => return Ok(None),
    };
    let position = INTERVAL_PARTS.iter().position(|part| *part == name);
    position
        .map(Some)
        .ok_or_else(|| SqlError::invalid(format!("function make_interval has no argument {name:?}")).code("42883"))
}
