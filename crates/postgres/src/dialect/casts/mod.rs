//! Casts to types that the planner knows less of: text of a length, and numbers without one.

mod calls;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CharacterLength, DataType, ExactNumberInfo, Expr, TypedString, Value, VisitorMut,
};

pub use self::calls::Calls;
use super::literals::written_out;
use crate::rewrite::is_type;
use crate::statement::{call, take};
use saki_catalog::SqlError;
use saki_functions::arithmetic::NUMERIC;
use saki_functions::blanks::BPCHAR;
use saki_functions::bytes::{BYTEA, UUID};
use saki_functions::json::{AS_JSON, AS_JSONB};

pub struct Casts;

impl VisitorMut for Casts {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) if !exists(data_type) => {
                ControlFlow::Break(unknown(data_type))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::TypedString(TypedString { data_type, value, .. }) = expr
            && let Some(function) = reader(data_type)
        {
            *expr = call(function, vec![Expr::Value(value.clone())]);
            return ControlFlow::Continue(());
        }
        let Expr::Cast { expr: inner, data_type, array: false, .. } = expr else { return ControlFlow::Continue(()) };
        if let Some(length) = length(data_type) {
            let cut = if matches!(data_type, DataType::Char(_) | DataType::Character(_)) { BPCHAR } else { "left" };
            *data_type = DataType::Text;
            let whole = take(expr);
            *expr = call(cut, vec![whole, Expr::value(Value::Number(length.to_string(), false))]);
        } else if let Some(function) = reader(data_type) {
            let is_typed = is_placeholder(inner);
            let inner = take(inner);
            *expr = if is_typed { inner } else { call(function, vec![inner]) };
        } else if is_bare_numeric(data_type) && !is_placeholder(inner) {
            let inner = take(inner);
            *expr = match digits(&inner) {
                Some(number) => number,
                None => call(NUMERIC, vec![inner]),
            };
        }
        ControlFlow::Continue(())
    }
}

/// 42704.
fn unknown(data_type: &DataType) -> SqlError {
    let name = match data_type {
        DataType::Custom(name, _) => name.to_string(),
        other => other.to_string().to_lowercase(),
    };
    SqlError::invalid(format!("type \"{name}\" does not exist")).code("42704")
}

/// Whether PostgreSQL has a type: the parser knows those of others as well.
fn exists(data_type: &DataType) -> bool {
    use DataType as Sql;
    match data_type {
        Sql::Array(ast::ArrayElemTypeDef::SquareBracket(of, _)) => exists(of),
        Sql::Custom(name, _) => is_type(name),
        Sql::Character(_) | Sql::Char(_) | Sql::CharacterVarying(_) | Sql::CharVarying(_) | Sql::Varchar(_) => true,
        Sql::Text | Sql::Bytea | Sql::Uuid | Sql::Bool | Sql::Boolean | Sql::JSON | Sql::JSONB | Sql::Regclass => true,
        Sql::SmallInt(_) | Sql::Int(_) | Sql::Integer(_) | Sql::BigInt(_) => true,
        Sql::Int2(_) | Sql::Int4(_) | Sql::Int8(_) | Sql::Float4 | Sql::Float8 => true,
        Sql::Numeric(_) | Sql::Decimal(_) | Sql::Dec(_) | Sql::Float(_) | Sql::Real | Sql::DoublePrecision => true,
        Sql::Date | Sql::Time(..) | Sql::Timestamp(..) | Sql::Interval { .. } => true,
        Sql::Bit(_) | Sql::BitVarying(_) | Sql::VarBit(_) => true,
        Sql::GeometricType(_) | Sql::TsVector | Sql::TsQuery => true,
        _ => false,
    }
}

/// What reads text as a value of a type, where the planner does not.
fn reader(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Uuid => Some(UUID),
        DataType::Bytea => Some(BYTEA),
        DataType::JSON => Some(AS_JSON),
        DataType::JSONB => Some(AS_JSONB),
        _ => None,
    }
}

/// The characters that a type has room for, if it says.
fn length(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Char(None) | DataType::Character(None) => Some(1),
        DataType::Varchar(Some(length))
        | DataType::CharacterVarying(Some(length))
        | DataType::CharVarying(Some(length))
        | DataType::Char(Some(length))
        | DataType::Character(Some(length)) => match length {
            CharacterLength::IntegerLength { length, .. } => Some(*length),
            CharacterLength::Max => None,
        },
        _ => None,
    }
}

fn is_bare_numeric(data_type: &DataType) -> bool {
    use DataType::{Dec, Decimal, Numeric};
    matches!(data_type, Numeric(ExactNumberInfo::None) | Decimal(ExactNumberInfo::None) | Dec(ExactNumberInfo::None))
}

fn is_placeholder(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_placeholder(inner),
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        _ => false,
    }
}

/// A text of digits as the number it is, with as many digits after the point.
fn digits(expr: &Expr) -> Option<Expr> {
    let Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = expr else { return None };
    if let Some(number) = written_out(text.trim()) {
        return Some(number.into_numeric());
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.ends_with(|last: char| last.is_ascii_digit())
        && digits.bytes().filter(|byte| *byte == b'.').count() == 1
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !plain {
        return None;
    }
    let number = Expr::value(Value::Number(digits.to_owned(), false));
    Some(if digits.len() == text.len() {
        number
    } else {
        Expr::Nested(Box::new(Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: Box::new(number) }))
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check_refused, check_values};

    #[test]
    fn casts_have_postgresqls_values() {
        check_values(&[
            ("2.5::int", "3"),
            ("'1e5'::numeric || '|' || '1.25e+1'::numeric || '|' || '-1.5E-3'::numeric", "100000|12.5|-0.0015"),
            ("'.5e1'::numeric || '|' || '12e-2'::numeric", "5|0.12"),
            ("'0e5'::numeric || '|' || '0e-3'::numeric || '|' || '00.5e1'::numeric", "0|0.000|5"),
            ("'100e-2'::numeric || '|' || ' +5e0 '::numeric || '|' || 0e9999999999", "1.00|5|0"),
            ("3.5::int", "4"),
            ("-2.5::int", "-3"),
            ("(-2.5)::int", "-3"),
            ("2.5::float8::int", "2"),
            ("3.5::float8::int", "4"),
            ("(-2.5)::float8::int", "-2"),
            ("2147483647.4::int", "2147483647"),
            ("'12'::int", "12"),
            ("' 12 '::int", "12"),
            ("'1.5'::numeric", "1.5"),
            ("'1.50'::numeric", "1.50"),
            ("'-0.5'::numeric", "-0.5"),
            ("1.5::numeric", "1.5"),
            ("15::numeric", "15"),
            ("1.567::numeric(10,2)", "1.57"),
            ("1.565::numeric(10,2)", "1.57"),
            ("-1.565::numeric(10,2)", "-1.57"),
            ("8.575::float8::numeric(10,2)", "8.58"),
            ("100::numeric(5)", "100"),
            ("1::boolean", "true"),
            ("0::boolean", "false"),
            ("'t'::boolean", "true"),
            ("'yes'::boolean", "true"),
            ("'off'::boolean", "false"),
            ("true::int", "1"),
            ("true::text", "true"),
            ("false::text", "false"),
            ("'abc'::varchar(2)", "ab"),
            ("'abc'::char(2)", "ab"),
            ("'abc'::char(5)", "abc"),
            ("'abc'::varchar", "abc"),
            ("'abc'::char", "a"),
            ("12345::varchar(3)", "123"),
            ("'é日本'::varchar(2)", "é日"),
            ("'abc'::text", "abc"),
            ("uuid 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            ("bytea '\\x61'", "\\x61"),
        ]);
    }

    #[test]
    fn casts_of_what_does_not_fit_are_refused() {
        check_refused(&[
            ("'.5e-9223372036854775808'::numeric", "22P02"),
            ("2147483647.5::int", "22003"),
            ("2147483648::int", "22003"),
            ("1e20::float8::bigint", "22003"),
            ("'NaN'::float8::int", "22003"),
            ("40000::smallint", "22003"),
            ("'40000'::smallint", "22003"),
            ("'12x'::int", "22P02"),
            ("''::int", "22P02"),
            ("'1.5'::int", "22P02"),
            ("'99999999999'::int", "22003"),
            ("'x'::numeric", "22P02"),
            ("12345.6::numeric(5,2)", "22003"),
            ("'maybe'::boolean", "22P02"),
        ]);
    }

    #[test]
    fn casts_to_types_that_there_are_not_are_refused() {
        check_refused(&[
            ("1::foo", "42704"),
            ("1::public.foo", "42704"),
            ("1::tinyint", "42704"),
            ("'1'::string", "42704"),
            ("1::double", "42704"),
            ("cast(1 as datetime)", "42704"),
            ("'{1}'::foo[]", "42704"),
            ("1::serial", "42704"),
        ]);
    }

    #[test]
    fn casts_that_lose_digits_are_not_undone() {
        check_values(&[
            ("(select count(*) from (values (0.4), (1.4)) as t(n) where n::int = 0)", "1"),
            ("(select count(*) from (values (0.44), (1.4)) as t(n) where n::numeric(3,1) = 0.4)", "1"),
            ("(select count(*) from (values (0.4::float8), (1.5)) as t(n) where n::int = 2)", "1"),
        ]);
    }
}
