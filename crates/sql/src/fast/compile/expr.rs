//! Expressions of fast statements, with the types that PostgreSQL gives them.

use arrow_schema::{DataType as Arrow, Field, IntervalUnit, TimeUnit};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, UnaryOperator};
use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::{DataType, Value};

use super::super::plan::Computed;
use super::compiler::Compiler;
use saki_context::values::condition::Values;
use saki_context::values::expr::{Expr, Operator, scale_of};

/// Parameters of a statement at most.
const PARAMETERS_MAX: usize = 1000;
/// A number with digits behind its point, however many.
const NUMERIC: DataType = DataType::Decimal { precision: DECIMAL_PRECISION_MAX, scale: 10 };

/// An expression, and its type.
type Typed = (Expr, DataType);

impl Compiler<'_> {
    /// A column of the answer that is worked out of each row: of integers alone, whose type says all of them.
    pub fn compute(&mut self, expr: &ast::Expr) -> Option<usize> {
        let is_typed = match unnested(expr) {
            ast::Expr::BinaryOp { .. } | ast::Expr::UnaryOp { .. } => true,
            ast::Expr::Value(value) => matches!(value.value, ast::Value::Number(..)),
            _ => false,
        };
        let (expr, data_type) = self.expr(unnested(expr), DataType::Int4, true).filter(|_| is_typed)?;
        if !is_integer(data_type) {
            return None;
        }
        self.computed.push((Computed::Own(expr), data_type));
        Some(self.width() + self.computed.len() - 1)
    }

    /// What is compared with a column.
    pub fn compared(&mut self, expr: &ast::Expr, column: usize) -> Option<Expr> {
        let data_type = self.type_of(column);
        let (expr, found) = self.expr(expr, data_type, true)?;
        // Blanks at the end mean something beside another column of text, and nothing beside what has no type.
        let is_column = matches!(expr, Expr::Column(..));
        let is_like = !is_column || is_padded(found) == is_padded(data_type);
        (is_comparable(found, data_type) && is_like && !is_json(data_type)).then_some(expr)
    }

    /// Whether two columns compare by what they are.
    pub fn are_alike(&self, column: usize, other: usize) -> bool {
        let (one, other) = (self.type_of(column), self.type_of(other));
        is_comparable(one, other) && is_padded(one) == is_padded(other) && !is_json(one)
    }

    /// What becomes a column's value; `columns`: it may be made of others.
    pub fn assigned(&mut self, expr: &ast::Expr, column: usize, columns: bool) -> Option<Expr> {
        let data_type = self.type_of(column);
        let (expr, found) = self.expr(expr, data_type, columns)?;
        // An integer from a decimal would have to be rounded, as that is defined.
        let is_narrowed = is_integer(data_type) && !is_integer(found);
        (is_comparable(found, data_type) && !is_narrowed).then_some(expr)
    }

    /// An expression; what has no type of its own takes that of `hint`.
    pub fn expr(&mut self, expr: &ast::Expr, hint: DataType, columns: bool) -> Option<Typed> {
        match expr {
            ast::Expr::Nested(inner) => self.expr(inner, hint, columns),
            ast::Expr::Value(value) => self.value(&value.value, hint),
            ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match inner.as_ref() {
                ast::Expr::Value(value) => match float(&value.value, hint) {
                    Some(float) => Some(double(-float)),
                    None => negated(number(&value.value)?),
                },
                _ => None,
            },
            ast::Expr::BinaryOp { left, op, right } => self.arithmetic(left, op, right, columns),
            ast::Expr::Function(function) if is_now(function) && is_moment(hint) => Some((Expr::Now(hint), hint)),
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) if columns => {
                let excluded = self.excluded(expr);
                let column = excluded.or_else(|| self.column(expr))?;
                let data_type = self.type_of(column);
                let value = if excluded.is_some() { Expr::Excluded } else { Expr::Column };
                Some((value(column, scale_of(data_type)), data_type))
            }
            _ => None,
        }
    }

    fn arithmetic(&mut self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr, columns: bool) -> Option<Typed> {
        let operator = match op {
            BinaryOperator::Plus => Operator::Add,
            BinaryOperator::Minus => Operator::Subtract,
            BinaryOperator::Multiply => Operator::Multiply,
            _ => return None,
        };
        // What has no type takes that of the other side.
        let (left, right) = match (self.is_untyped(left), self.is_untyped(right)) {
            (true, true) => return None,
            (true, false) => {
                let right = self.expr(right, NUMERIC, columns)?;
                (self.expr(left, right.1, columns)?, right)
            }
            (false, _) => {
                let left = self.expr(left, NUMERIC, columns)?;
                let right = self.expr(right, left.1, columns)?;
                (left, right)
            }
        };
        let data_type = match (width(left.1), width(right.1)) {
            (Some(one), Some(other)) => {
                if one >= other {
                    left.1
                } else {
                    right.1
                }
            }
            _ if is_number(left.1) && is_number(right.1) => NUMERIC,
            _ => return None,
        };
        Some((Expr::Arithmetic(operator, Box::new(left.0), Box::new(right.0), data_type), data_type))
    }

    fn is_untyped(&self, expr: &ast::Expr) -> bool {
        match expr {
            ast::Expr::Nested(inner) => self.is_untyped(inner),
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Placeholder(name) => place_of(name).is_none_or(|place| self.stated_at(place).is_none()),
                ast::Value::Null | ast::Value::SingleQuotedString(_) => true,
                _ => false,
            },
            _ => false,
        }
    }

    fn value(&mut self, value: &ast::Value, hint: DataType) -> Option<Typed> {
        match value {
            ast::Value::Placeholder(name) => self.parameter(name, hint),
            ast::Value::Null => Some((Expr::Literal(Value::Null, 0), hint)),
            ast::Value::Number(..) => float(value, hint).map(double).or_else(|| number(value)),
            ast::Value::SingleQuotedString(text) => self::text(text, hint),
            ast::Value::Boolean(value) => Some((Expr::Literal(Value::Bool(*value), 0), DataType::Bool)),
            _ => None,
        }
    }

    fn stated_at(&self, place: usize) -> Option<&Arrow> {
        self.stated.get(place).and_then(Option::as_ref)
    }

    fn parameter(&mut self, name: &str, hint: DataType) -> Option<Typed> {
        let place = place_of(name)?;
        let data_type = match self.stated_at(place) {
            Some(stated) => stored(stated)?,
            None => plain(hint),
        };
        if !is_comparable(data_type, hint) {
            return None;
        }
        self.note(place, saki_exec::arrow_type(data_type))?;
        Some((Expr::Parameter(place), data_type))
    }

    /// The elements of a parameter that a column is compared with.
    pub fn elements(&mut self, expr: &ast::Expr, column: usize) -> Option<Values> {
        let place = match expr {
            ast::Expr::Nested(inner) => return self.elements(inner, column),
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Placeholder(name) => place_of(name)?,
                _ => return None,
            },
            _ => return None,
        };
        let data_type = plain(self.type_of(column));
        // Elements of decimals come in digits of their own.
        if data_type == NUMERIC || is_json(data_type) {
            return None;
        }
        let elements = match self.stated_at(place) {
            Some(Arrow::List(field)) if is_comparable(stored(field.data_type())?, data_type) => {
                field.data_type().clone()
            }
            Some(_) => return None,
            None => saki_exec::arrow_type(data_type),
        };
        let list = match self.stated_at(place) {
            Some(stated) => stated.clone(),
            None => Arrow::List(Field::new_list_field(elements, true).into()),
        };
        self.note(place, list)?;
        Some(Values::Elements(place))
    }

    /// A parameter has one type wherever it stands; if it has two, the planner knows what to do.
    fn note(&mut self, place: usize, data_type: Arrow) -> Option<()> {
        let data_type = self.stated_at(place).cloned().unwrap_or(data_type);
        if self.parameters.len() <= place {
            self.parameters.resize(place + 1, None);
        }
        match &mut self.parameters[place] {
            Some(known) if *known != data_type => None,
            known => {
                *known = Some(data_type);
                Some(())
            }
        }
    }
}

fn place_of(name: &str) -> Option<usize> {
    let number: usize = name.strip_prefix('$')?.parse().ok()?;
    number.checked_sub(1).filter(|place| *place < PARAMETERS_MAX)
}

/// A written number beside a column of double precision, which it becomes one of.
fn float(value: &ast::Value, hint: DataType) -> Option<f64> {
    let ast::Value::Number(digits, false) = value else { return None };
    let float: f64 = digits.parse().ok().filter(|_| hint == DataType::Float8)?;
    // What is too large or too small for it is refused elsewhere.
    let is_zero = || digits.bytes().take_while(|byte| !b"eE".contains(byte)).all(|byte| b"0.".contains(&byte));
    (float.is_normal() || is_zero()).then_some(float)
}

fn double(value: f64) -> Typed {
    (Expr::Literal(Value::Float8(value), 0), DataType::Float8)
}

/// The stored type whose values a parameter of an Arrow type has.
fn stored(data_type: &Arrow) -> Option<DataType> {
    Some(match data_type {
        Arrow::Boolean => DataType::Bool,
        Arrow::Int16 => DataType::Int2,
        Arrow::Int32 => DataType::Int4,
        Arrow::Int64 => DataType::Int8,
        Arrow::Float32 => DataType::Float4,
        Arrow::Float64 => DataType::Float8,
        Arrow::Decimal128(..) => NUMERIC,
        Arrow::Utf8 => DataType::Text,
        Arrow::Binary => DataType::Bytea,
        Arrow::Date32 => DataType::Date,
        Arrow::Timestamp(TimeUnit::Microsecond, None) => DataType::Timestamp,
        Arrow::Timestamp(TimeUnit::Microsecond, Some(_)) => DataType::Timestamptz,
        Arrow::Time64(TimeUnit::Microsecond) => DataType::Time,
        Arrow::Interval(IntervalUnit::MonthDayNano) => DataType::Interval,
        Arrow::FixedSizeBinary(16) => DataType::Uuid,
        Arrow::LargeBinary => DataType::Json,
        Arrow::LargeUtf8 => DataType::Jsonb,
        other => DataType::Enum(saki_exec::enumeration(other)?),
    })
}

/// A type without its length or digits.
fn plain(data_type: DataType) -> DataType {
    match data_type {
        DataType::Decimal { .. } => NUMERIC,
        DataType::Varchar(_) | DataType::Char(_) => DataType::Text,
        other => other,
    }
}

fn is_padded(data_type: DataType) -> bool {
    matches!(data_type, DataType::Char(_))
}

/// Whether values of a type have no order, or one that is not that of their texts.
fn is_json(data_type: DataType) -> bool {
    matches!(data_type, DataType::Json | DataType::Jsonb)
}

/// Whether values of two types compare by what they are.
fn is_comparable(one: DataType, other: DataType) -> bool {
    plain(one) == plain(other) || is_number(one) && is_number(other)
}

pub fn is_number(data_type: DataType) -> bool {
    is_integer(data_type) || matches!(data_type, DataType::Decimal { .. })
}

/// Without the parentheses around it.
fn unnested(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

pub fn is_integer(data_type: DataType) -> bool {
    width(data_type).is_some()
}

fn width(data_type: DataType) -> Option<u8> {
    match data_type {
        DataType::Int2 => Some(2),
        DataType::Int4 => Some(4),
        DataType::Int8 => Some(8),
        _ => None,
    }
}

fn is_moment(data_type: DataType) -> bool {
    matches!(data_type, DataType::Timestamp | DataType::Timestamptz)
}

fn is_now(function: &ast::Function) -> bool {
    let name = function.name.to_string().to_lowercase();
    let no_arguments = match &function.args {
        ast::FunctionArguments::None => true,
        ast::FunctionArguments::List(list) => list.args.is_empty(),
        ast::FunctionArguments::Subquery(_) => false,
    };
    no_arguments
        && matches!(&*name, "now" | "current_timestamp" | "transaction_timestamp" | "localtimestamp")
        && function.over.is_none()
}

/// A number as it is written: the narrowest integer from `integer` on, or `numeric`.
fn number(value: &ast::Value) -> Option<Typed> {
    let ast::Value::Number(text, false) = value else { return None };
    let (unscaled, scale) = digits(text)?;
    let (value, data_type) = match (i32::try_from(unscaled), i64::try_from(unscaled)) {
        (Ok(value), _) if scale == 0 && !text.contains('.') => (Value::Int4(value), DataType::Int4),
        (_, Ok(value)) if scale == 0 && !text.contains('.') => (Value::Int8(value), DataType::Int8),
        _ => (Value::Decimal(unscaled), NUMERIC),
    };
    Some((Expr::Literal(value, scale), data_type))
}

/// `12.50` as 1250 and 2.
fn digits(text: &str) -> Option<(i128, u8)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all = format!("{whole}{fraction}");
    let is_plain = !all.is_empty()
        && all.len() <= usize::from(DECIMAL_PRECISION_MAX)
        && all.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| Some((all.parse().ok()?, fraction.len() as u8)))?
}

fn negated((expr, data_type): Typed) -> Option<Typed> {
    let value = match expr {
        Expr::Literal(Value::Int4(value), 0) => Expr::Literal(Value::Int4(value.checked_neg()?), 0),
        Expr::Literal(Value::Int8(value), 0) => Expr::Literal(Value::Int8(value.checked_neg()?), 0),
        Expr::Literal(Value::Decimal(value), scale) => Expr::Literal(Value::Decimal(-value), scale),
        _ => return None,
    };
    Some((value, data_type))
}

/// A text that stands for a value of the type beside it.
fn text(text: &str, hint: DataType) -> Option<Typed> {
    match hint {
        DataType::Decimal { .. } => {
            let trimmed = text.trim();
            let (unscaled, scale) = digits(trimmed.strip_prefix('-').unwrap_or(trimmed))?;
            let unscaled = if trimmed.starts_with('-') { -unscaled } else { unscaled };
            Some((Expr::Literal(Value::Decimal(unscaled), scale), NUMERIC))
        }
        // What it says depends on the session: its time zone, its style of intervals.
        DataType::Timestamptz | DataType::Interval => None,
        DataType::Array(element) if matches!(element.data_type(), DataType::Timestamptz | DataType::Interval) => None,
        _ => Some((Expr::Literal(Value::parse(plain(hint), text).ok()?, 0), plain(hint))),
    }
}
