//! Expressions as text, close to SQL: what EXPLAIN shows.

use std::fmt::{self, Display, Formatter};

use saki_base::interval::write_clock;
use saki_base::value::Value;

use super::tree::{ArithmeticOp, DatePart, Expr};

/// Columns by their index: `#3`.
impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write(self, f)
    }
}

fn write(expr: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match expr {
        Expr::Column { index, .. } => write!(f, "#{index}"),
        Expr::Literal { value, data_type } => write_value(value, scale(data_type), f),
        Expr::Arithmetic { op, left, right, .. } => write_binary(left, op, right, f),
        Expr::Compare { op, left, right } => write_binary(left, op, right, f),
        Expr::Negate(expr) => {
            f.write_str("-")?;
            write_operand(expr, f)
        }
        Expr::And(parts) => write_list(parts, " AND ", f, write_operand),
        Expr::Or(parts) => write_list(parts, " OR ", f, write_operand),
        Expr::Not(expr) => {
            f.write_str("NOT ")?;
            write_operand(expr, f)
        }
        Expr::IsNull(expr) => {
            write_operand(expr, f)?;
            f.write_str(" IS NULL")
        }
        Expr::IsNotNull(expr) => {
            write_operand(expr, f)?;
            f.write_str(" IS NOT NULL")
        }
        Expr::Like { expr, pattern, negated } => {
            write_operand(expr, f)?;
            let like = if pattern.case_insensitive() { "ILIKE" } else { "LIKE" };
            write!(f, " {}{like} '{}'", not(*negated), pattern.pattern().replace('\'', "''"))
        }
        Expr::InList { expr, values, negated } => {
            write_operand(expr, f)?;
            write!(f, " {}IN (", not(*negated))?;
            let scale = scale(&expr.data_type());
            write_list(values.values(), ", ", f, |value, f| write_value(value, scale, f))?;
            f.write_str(")")
        }
        Expr::Case { branches, otherwise, .. } => {
            f.write_str("CASE")?;
            for (when, then) in branches {
                f.write_str(" WHEN ")?;
                write(when, f)?;
                f.write_str(" THEN ")?;
                write(then, f)?;
            }
            if let Some(otherwise) = otherwise {
                f.write_str(" ELSE ")?;
                write(otherwise, f)?;
            }
            f.write_str(" END")
        }
        Expr::Cast { expr, data_type } => {
            f.write_str("CAST(")?;
            write(expr, f)?;
            write!(f, " AS {data_type})")
        }
        Expr::DatePart { part, expr } => {
            write!(f, "EXTRACT({part} FROM ")?;
            write(expr, f)?;
            f.write_str(")")
        }
        Expr::Substring { expr, start, length } => {
            f.write_str("SUBSTRING(")?;
            write(expr, f)?;
            write!(f, " FROM {start}")?;
            match length {
                Some(length) => write!(f, " FOR {length})"),
                None => f.write_str(")"),
            }
        }
        Expr::Foreign { call, arguments, .. } => {
            write!(f, "{call:?}(")?;
            write_list(arguments, ", ", f, write)?;
            f.write_str(")")
        }
    }
}

/// In parentheses, where it is made of operands itself.
fn write_operand(expr: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
    match expr {
        Expr::Column { .. }
        | Expr::Literal { .. }
        | Expr::Case { .. }
        | Expr::Cast { .. }
        | Expr::DatePart { .. }
        | Expr::Substring { .. }
        | Expr::Foreign { .. } => write(expr, f),
        _ => {
            f.write_str("(")?;
            write(expr, f)?;
            f.write_str(")")
        }
    }
}

fn write_binary(left: &Expr, op: &dyn Display, right: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
    write_operand(left, f)?;
    write!(f, " {op} ")?;
    write_operand(right, f)
}

fn write_list<T>(
    items: &[T],
    separator: &str,
    f: &mut Formatter<'_>,
    write: impl Fn(&T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write(item, f)?;
    }
    Ok(())
}

fn scale(data_type: &arrow_schema::DataType) -> i8 {
    if let arrow_schema::DataType::Decimal128(_, scale) = data_type { *scale } else { 0 }
}

fn write_value(value: &Value, scale: i8, f: &mut Formatter<'_>) -> fmt::Result {
    use arrow_array::types::{Decimal128Type, DecimalType};
    match value {
        Value::Null => f.write_str("NULL"),
        Value::Bool(value) => write!(f, "{value}"),
        Value::Int2(value) => write!(f, "{value}"),
        Value::Int4(value) => write!(f, "{value}"),
        Value::Int8(value) => write!(f, "{value}"),
        Value::Float4(value) => write!(f, "{value}"),
        Value::Float8(value) => write!(f, "{value}"),
        Value::Decimal(value) => f.write_str(&Decimal128Type::format_decimal(*value, 38, scale)),
        Value::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
        Value::Bytea(bytes) => {
            f.write_str("'\\x")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("'")
        }
        Value::Date(days) => write!(f, "'{}'", Day(i64::from(*days))),
        Value::Timestamp(micros) | Value::Timestamptz(micros) => write_timestamp(*micros, f),
        Value::Time(micros) => {
            f.write_str("'")?;
            write_clock(micros.unsigned_abs(), f)?;
            f.write_str("'")
        }
        Value::Interval(interval) => write!(f, "'{interval}'"),
        Value::Uuid(bytes) => {
            f.write_str("'")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("'")
        }
    }
}

/// Days since 1970-01-01 as a date.
struct Day(i64);

impl Display for Day {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let date = saki_base::civil::civil_from_days(self.0);
        write!(f, "{:04}-{:02}-{:02}", date.year, date.month, date.day)
    }
}

fn write_timestamp(micros: i64, f: &mut Formatter<'_>) -> fmt::Result {
    use saki_base::civil::{MICROS_PER_DAY, MICROS_PER_SECOND};
    let (day, time) = (Day(micros.div_euclid(MICROS_PER_DAY)), micros.rem_euclid(MICROS_PER_DAY));
    let (seconds, fraction) = (time / MICROS_PER_SECOND, time % MICROS_PER_SECOND);
    write!(f, "'{day} {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if fraction > 0 {
        write!(f, ".{fraction:06}")?;
    }
    f.write_str("'")
}

impl Display for ArithmeticOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        })
    }
}

impl Display for DatePart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "YEAR",
            Self::Month => "MONTH",
            Self::Day => "DAY",
        })
    }
}
