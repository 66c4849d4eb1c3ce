//! Whole numbers that fit are integers, not bigints, where their type goes on to be a value's.
//!
//! The planner reads every whole number as a bigint. Beside an operator that is seen to in [`super::operators`], and
//! where numbers are only compared their width makes no difference.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, SelectItem,
    SetExpr, UnaryOperator, Value, VisitorMut,
};

use crate::statement::name_of;
use saki_catalog::SqlError;

/// Functions whose results have the type of their arguments.
const POLYMORPHIC: [&str; 27] = [
    "abs",
    "array_agg",
    "array_append",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove_all",
    "array_replace_all",
    "bit_and",
    "bit_or",
    "bit_xor",
    "coalesce",
    "gcd",
    "generate_series",
    "greatest",
    "lcm",
    "least",
    "max",
    "min",
    "mod",
    "nullif",
    "pg_array_fill",
    "pg_series",
    "pg_typeof",
    "sign",
    "sum",
    "to_hex",
];

pub struct Literals {
    /// Whether the next query is what an INSERT brings: its numbers become what their columns are.
    is_source: bool,
}

impl Literals {
    pub fn of(statement: &ast::Statement) -> Self {
        Self { is_source: matches!(statement, ast::Statement::Insert(_)) }
    }
}

impl VisitorMut for Literals {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if !std::mem::take(&mut self.is_source) {
            narrow_values(query);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Value(value) => {
                if let Value::Number(digits, _) = &value.value
                    && let Some(whole) = whole_of(digits).or_else(|| as_double(digits))
                {
                    if digits.parse::<f64>().is_ok_and(f64::is_infinite) {
                        let message = format!("\"{digits}\" is out of range for type double precision");
                        return ControlFlow::Break(SqlError::data(message).code("22003"));
                    }
                    *expr = whole;
                }
            }
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter_mut().for_each(|branch| narrow(&mut branch.result));
                if let Some(otherwise) = else_result {
                    narrow(otherwise);
                }
            }
            Expr::Array(array) => array.elem.iter_mut().for_each(narrow),
            Expr::BinaryOp { left, op, right } if keeps_type(op) => {
                narrow(left);
                narrow(right);
            }
            Expr::Function(function) if is_polymorphic(function) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    for argument in &mut list.args {
                        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument {
                            narrow(value);
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } = item {
                narrow(value);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<SqlError> {
        match factor {
            ast::TableFactor::Table { args: Some(ast::TableFunctionArgs { args, .. }), .. }
            | ast::TableFactor::Function { args, .. } => args.iter_mut().for_each(widen),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn narrow_values(query: &mut Query) {
    if let SetExpr::Values(values) = query.body.as_mut() {
        values.rows.iter_mut().flat_map(|row| row.content.iter_mut()).for_each(narrow);
    }
}

/// Whether an operator's result has the type of its operands, or of their elements.
fn keeps_type(op: &BinaryOperator) -> bool {
    use BinaryOperator::{
        BitwiseAnd, BitwiseOr, BitwiseXor, PGBitwiseShiftLeft, PGBitwiseShiftRight, PGBitwiseXor, StringConcat,
    };
    matches!(
        op,
        BitwiseAnd | BitwiseOr | BitwiseXor | PGBitwiseXor | PGBitwiseShiftLeft | PGBitwiseShiftRight | StringConcat
    )
}

fn is_polymorphic(function: &ast::Function) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
    function.over.is_none() && name.is_some_and(|name| POLYMORPHIC.contains(&name.as_str()))
}

/// A whole number becomes one of type integer, if that holds it.
pub fn narrow(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => narrow(inner),
        literal if is_integer(literal) => {
            let bare = std::mem::replace(literal, Expr::value(Value::Null));
            *literal = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(bare),
                data_type: ast::DataType::Integer(None),
                array: false,
                format: None,
            };
        }
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => narrow(expr),
        _ => {}
    }
}

/// Functions in FROM take numbers of type bigint alone.
fn widen(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Cast { data_type, .. })) = argument
        && matches!(data_type, ast::DataType::Integer(None) | ast::DataType::Int(None) | ast::DataType::SmallInt(None))
    {
        *data_type = ast::DataType::BigInt(None);
    }
}

/// `15e2` as the numeric 1500.
fn whole_of(text: &str) -> Option<Expr> {
    written_out(text).filter(|number| number.scale == 0).map(WrittenOut::into_numeric)
}

/// Digits of a numeric, at most.
const DIGITS_MAX: i64 = 38;

/// A number with more digits than a numeric has is a double.
fn as_double(text: &str) -> Option<Expr> {
    let Scientific { whole, fraction, exponent, .. } = Scientific::read(text)?;
    let behind = (fraction.len() as i64).saturating_sub(exponent);
    let before = (whole.trim_start_matches('0').len() as i64).saturating_add(exponent);
    (behind > DIGITS_MAX || before > DIGITS_MAX).then(|| cast(text.to_owned(), ast::DataType::DoublePrecision))
}

/// A number that is written with an exponent.
struct Scientific<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    exponent: i64,
}

impl<'t> Scientific<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E'])?;
        let exponent = exponent.parse().ok()?;
        let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let are_digits =
            whole.len() + fraction.len() > 0 && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        are_digits.then_some(Self { is_negative: mantissa.starts_with('-'), whole, fraction, exponent })
    }
}

/// A number without its exponent: `15e2` is 1500, `-1.5e-3` is -0.0015.
pub(super) struct WrittenOut {
    text: String,
    precision: i64,
    /// Digits behind the point.
    pub scale: i64,
}

impl WrittenOut {
    pub fn into_numeric(self) -> Expr {
        let size = ast::ExactNumberInfo::PrecisionAndScale(self.precision as u64, self.scale);
        cast(self.text, ast::DataType::Numeric(size))
    }
}

/// A number that is written with an exponent, if it has no more digits than a numeric: the planner would keep the
/// exponent, and lose digits where the number becomes a float.
pub(super) fn written_out(text: &str) -> Option<WrittenOut> {
    let Scientific { is_negative, whole, fraction, exponent } = Scientific::read(text)?;
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let scale = (fraction.len() as i64).saturating_sub(exponent).max(0);
    // Of the digits, how many are before the point; of zero it makes no difference.
    let before = match digits {
        "" => 0,
        digits => (digits.len() as i64).saturating_sub(fraction.len() as i64).saturating_add(exponent),
    };
    let precision = before.max(0).saturating_add(scale).max(1);
    if precision > DIGITS_MAX {
        return None;
    }
    let places = usize::try_from(precision).ok()?;
    // Zeros behind the digits as far as the point, and before them from there on.
    let padded = format!("{digits:0<to_point$}", to_point = usize::try_from(before.max(0)).ok()?);
    let padded = format!("{padded:0>places$}");
    let (whole, fraction) = padded.split_at(places - usize::try_from(scale).ok()?);
    let sign = if is_negative { "-" } else { "" };
    let text = if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}0{whole}.{fraction}") };
    Some(WrittenOut { text, precision, scale })
}

fn cast(text: String, data_type: ast::DataType) -> Expr {
    let expr = Box::new(Expr::value(Value::SingleQuotedString(text)));
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => {
                matches!(&value.value, Value::Number(digits, _) if format!("-{digits}").parse::<i32>().is_ok())
            }
            inner => is_integer(inner),
        },
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => is_integer(expr),
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check_refused, check_values, library};

    #[test]
    fn numbers_that_fit_are_integers_wherever_they_stand() {
        library().check(&[
            ("select pg_typeof(x) from (values (1)) as t(x)", "integer"),
            ("with t(x) as (values (1), (2)) select pg_typeof(sum(x)) from t", "bigint"),
            ("select pg_typeof(5 & 3), pg_typeof(1 << 4), pg_typeof(~5)", "integer|integer|integer"),
            ("select pg_typeof(5::int8 | 1), pg_typeof(5::int2 # 1::int2)", "bigint|smallint"),
            ("select pg_typeof(-2147483648), pg_typeof(-2147483649)", "integer|bigint"),
            ("select pg_typeof(sum(- + 93)), pg_typeof(sum(- (- 93))), pg_typeof(sum(+ 93))", "bigint|bigint|bigint"),
            ("select sum(nullif(65, + + 88)) / 7", "9"),
            ("select pg_typeof(array[1] || 2), pg_typeof(array_append(array[1], 2))", "integer[]|integer[]"),
            ("select pg_typeof(array_length(array[1], 1)), pg_typeof(cardinality(array[1]) + 1)", "integer|integer"),
            ("select to_hex(-1), to_hex(-1::int8), to_hex(255)", "ffffffff|ffffffffffffffff|ff"),
        ]);
    }

    #[test]
    fn numbers_of_no_type_are_refused() {
        check_refused(&[("1e400", "22003"), ("-1.5e999::float8", "22003")]);
        // Exponents that are the last of their kind.
        check_refused(&[("1e9223372036854775807", "22003"), ("1e-9223372036854775808", "22003")]);
    }

    #[test]
    fn choices_have_the_values_they_choose() {
        check_values(&[
            ("true and null", "NULL"),
            ("false and null", "false"),
            ("true or null", "true"),
            ("not null", "NULL"),
            ("case when 1 = 1 then 'a' else 'b' end", "a"),
            ("case 2 when 1 then 'one' when 2 then 'two' end", "two"),
            ("case when false then 1 end", "NULL"),
            ("coalesce(null, 1, 2)", "1"),
            ("coalesce(null, 1.5, 2)", "1.5"),
            ("nullif(1, 1)", "NULL"),
            ("nullif(2, 1)", "2"),
            ("greatest(1, 3, 2)", "3"),
            ("least(1, null, 2)", "1"),
            ("greatest(1, 2.5)", "2.5"),
            ("greatest('a', 'b')", "b"),
            ("1e200::float8", "1e+200"),
            ("1.5e-200::float8", "1.5e-200"),
            ("15e2 / 7", "214.2857142857142857"),
        ]);
    }

    #[test]
    fn texts_have_postgresqls_functions() {
        check_values(&[
            ("length('abc'::char(5))", "3"),
            ("substr('hello', 2)", "ello"),
            ("substr('hello', -1, 3)", "h"),
            ("left('hello', 2)", "he"),
            ("left('hello', -2)", "hel"),
            ("right('hello', 2)", "lo"),
            ("strpos('hello', 'x')", "0"),
            ("initcap('hello world')", "Hello World"),
            ("length('日本')", "2"),
            ("char_length('日本')", "2"),
            ("octet_length('日本')", "6"),
            ("reverse('abc')", "cba"),
            ("repeat('ab', 3)", "ababab"),
            ("replace('abab', 'a', 'x')", "xbxb"),
            ("lpad('7', 3, '0')", "007"),
            ("rpad('7', 3, 'ab')", "7ab"),
            ("split_part('a,b,c', ',', 2)", "b"),
            ("split_part('a,b,c', ',', -1)", "c"),
            ("translate('abc', 'ab', 'xy')", "xyc"),
            ("ascii('a')", "97"),
            ("chr(97)", "a"),
            ("md5('a')", "0cc175b9c0f1b6a831c399e269772661"),
            ("regexp_replace('abc', 'b', 'x')", "axc"),
            ("starts_with('hello', 'he')", "true"),
        ]);
    }
}
