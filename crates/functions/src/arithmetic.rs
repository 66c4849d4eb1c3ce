//! Arithmetic that says when a result does not fit, and quotients with as many digits as PostgreSQL gives them.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::numeric;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{ArrayRef, Decimal128Array};
use arrow_buffer::i256;
use arrow_schema::{ArrowError, DataType};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    cast as cast_expr,
};

use crate::casts::text::text_of;
use saki_base::types::DECIMAL_PRECISION_MAX as PRECISION_MAX;
use saki_catalog::convert::round;
use saki_catalog::{InPlan, SqlError};
use saki_times::names;
use saki_vector::expr::{ArithmeticOp, compute_arrays};

/// The function behind a cast to numeric without precision and scale.
pub const NUMERIC: &str = "numeric";
/// The function behind `/` of numerics.
pub const NUMERIC_DIV: &str = "numeric_div";
/// Digits after the point of a quotient at least, and of text or a float that becomes a number.
pub(crate) const QUOTIENT_SCALE: i8 = 16;
const READ_SCALE: i8 = 10;

/// `left op right` of two integers of the type that the planner gives the result; `None`: it cannot overflow.
pub fn checked(op: Operator, data_type: &DataType, left: Expr, right: Expr) -> Option<Expr> {
    let index = WIDTHS.iter().position(|width| width == data_type)?;
    let functions: &[ScalarUDF; 3] = match op {
        Operator::Plus => &PLUS,
        Operator::Minus => &MINUS,
        Operator::Multiply => &MULTIPLY,
        _ => return None,
    };
    Some(functions[index].call(vec![left, right]))
}

/// `left / right`, at least one of which is a decimal.
pub fn quotient(left: Expr, right: Expr) -> Expr {
    static QUOTIENT: LazyLock<ScalarUDF> = LazyLock::new(|| function(Kind::Quotient));
    QUOTIENT.call(vec![left, right])
}

/// `left op right` of floats; what is too large or too small for one is refused, and so is division by zero. `None` for
/// other operators.
pub fn of_floats(op: Operator, left: Expr, right: Expr) -> Option<Expr> {
    static FUNCTIONS: LazyLock<[ScalarUDF; 4]> =
        LazyLock::new(|| FLOAT_FUNCTIONS.map(|(op, name)| function(Kind::Float { op, name })));
    let index = FLOAT_FUNCTIONS.iter().position(|(known, _)| *known == op)?;
    Some(FUNCTIONS[index].call(vec![left, right]))
}

const FLOAT_FUNCTIONS: [(Operator, &str); 4] = [
    (Operator::Plus, "float8pl"),
    (Operator::Minus, "float8mi"),
    (Operator::Multiply, "float8mul"),
    (Operator::Divide, "float8div"),
];

/// A float rounded to a whole one, halves to the even.
pub fn rounded(float: Expr) -> Expr {
    static RINT: LazyLock<ScalarUDF> = LazyLock::new(|| function(Kind::Round));
    RINT.call(vec![float])
}

/// `ceil` and `floor`, whose results have room for one digit more than the planner's.
pub fn whole_functions() -> [ScalarUDF; 2] {
    let ceil = function(Kind::Whole(Direction::Up)).with_aliases(["ceiling"]);
    [ceil, function(Kind::Whole(Direction::Down))]
}

/// A decimal without the digits behind its point.
pub fn cut(decimal: Expr) -> Expr {
    static CUT: LazyLock<ScalarUDF> = LazyLock::new(|| function(Kind::Whole(Direction::Zero)));
    CUT.call(vec![decimal])
}

/// What statements call by name.
pub fn numeric_function() -> ScalarUDF {
    function(Kind::Numeric)
}

const WIDTHS: [DataType; 3] = [DataType::Int16, DataType::Int32, DataType::Int64];
static PLUS: LazyLock<[ScalarUDF; 3]> = LazyLock::new(|| functions(Operator::Plus, ["int2pl", "int4pl", "int8pl"]));
static MINUS: LazyLock<[ScalarUDF; 3]> = LazyLock::new(|| functions(Operator::Minus, ["int2mi", "int4mi", "int8mi"]));
static MULTIPLY: LazyLock<[ScalarUDF; 3]> =
    LazyLock::new(|| functions(Operator::Multiply, ["int2mul", "int4mul", "int8mul"]));

fn functions(op: Operator, names: [&'static str; 3]) -> [ScalarUDF; 3] {
    std::array::from_fn(|index| function(Kind::Checked { op, data_type: WIDTHS[index].clone(), name: names[index] }))
}

fn function(kind: Kind) -> ScalarUDF {
    let arguments = match kind {
        Kind::Checked { .. } | Kind::Float { .. } | Kind::Quotient => 2,
        Kind::Round | Kind::Numeric | Kind::Whole(_) => 1,
    };
    ScalarUDF::from(Arithmetic { kind, signature: Signature::any(arguments, Volatility::Immutable) })
}

/// What is computed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Checked { op: Operator, data_type: DataType, name: &'static str },
    Float { op: Operator, name: &'static str },
    Quotient,
    Round,
    Numeric,
    Whole(Direction),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Direction {
    Up,
    Down,
    Zero,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Arithmetic {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        match &self.kind {
            Kind::Checked { name, .. } | Kind::Float { name, .. } => name,
            Kind::Quotient => NUMERIC_DIV,
            Kind::Round => "rint",
            Kind::Numeric => NUMERIC,
            Kind::Whole(Direction::Up) => "ceil",
            Kind::Whole(Direction::Down) => "floor",
            Kind::Whole(Direction::Zero) => "numeric_trunc",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        names::call(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match (&self.kind, arguments) {
            (Kind::Checked { data_type, .. }, _) => data_type.clone(),
            (Kind::Quotient, [left, right]) => {
                let scale = QUOTIENT_SCALE.max(scale_of(left)).max(scale_of(right));
                DataType::Decimal128(PRECISION_MAX, scale.min(PRECISION_MAX as i8))
            }
            (Kind::Float { .. }, [DataType::Float32, DataType::Float32]) => DataType::Float32,
            (Kind::Float { .. }, _) => DataType::Float64,
            (Kind::Round, [float]) => float.clone(),
            (Kind::Whole(_), [DataType::Decimal128(precision, scale)]) => {
                let whole = i16::from(*precision) - i16::from(*scale) + 1;
                DataType::Decimal128(u8::try_from(whole).unwrap_or(1).clamp(1, PRECISION_MAX), 0)
            }
            (Kind::Whole(_), [DataType::Float32]) => DataType::Float32,
            (Kind::Whole(_), _) => DataType::Float64,
            (_, [value]) => numeric_type(value),
            _ => DataType::Null,
        })
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match (&self.kind, &args[..]) {
            (Kind::Numeric, [value]) => {
                let of = context.get_data_type(value)?;
                // By its digits, as any cast of a float to a number.
                let read = if of.is_floating() { text_of(value.clone()) } else { value.clone() };
                Ok(ExprSimplifyResult::Simplified(cast_expr(read, numeric_type(&of))))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type();
        let found = |arrays: &[ArrayRef]| match (&self.kind, arrays) {
            (Kind::Checked { op, data_type, .. }, [left, right]) => compute(*op, data_type, left, right),
            (Kind::Float { op, .. }, [left, right]) => compute_floats(*op, left, right, returns),
            (Kind::Quotient, [left, right]) => divide(left, right, returns),
            (Kind::Round, [float]) => Ok(round(float)),
            (Kind::Whole(direction), [value]) => whole(value, *direction, returns),
            (_, [value, ..]) if value.data_type().is_floating() => cast(&cast(value, &DataType::Utf8)?, returns),
            (_, [value, ..]) => cast(value, returns),
            (_, []) => Err(SqlError::internal("arithmetic without operands").into()),
        };
        make_scalar_function(found, Vec::new())(&args.args)
    }
}

/// A cast that says what does not fit.
pub(crate) fn cast(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, target, &CastOptions { safe: false, ..CastOptions::default() })?)
}

fn compute(op: Operator, data_type: &DataType, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let (left, right) = (cast(left, data_type)?, cast(right, data_type)?);
    let found = match op {
        Operator::Plus => numeric::add(&left, &right),
        Operator::Minus => numeric::sub(&left, &right),
        _ => numeric::mul(&left, &right),
    };
    found.map_err(|error| match error {
        ArrowError::ArithmeticOverflow(_) => out_of_range(data_type).into(),
        other => other.into(),
    })
}

/// By the operators' own arithmetic, so that a float means the same wherever it is computed.
fn compute_floats(op: Operator, left: &ArrayRef, right: &ArrayRef, returns: &DataType) -> Result<ArrayRef> {
    let op = match op {
        Operator::Plus => ArithmeticOp::Add,
        Operator::Minus => ArithmeticOp::Subtract,
        Operator::Multiply => ArithmeticOp::Multiply,
        _ => ArithmeticOp::Divide,
    };
    compute_arrays(op, &cast(left, returns)?, &cast(right, returns)?).in_plan()
}

/// The error for a number that its type does not have.
pub(crate) fn out_of_range(data_type: &DataType) -> SqlError {
    let name = match data_type {
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        _ => "numeric",
    };
    SqlError::data(format!("{name} out of range")).code("22003")
}

/// The error for a function that does not take arguments of some types.
pub(crate) fn undefined_function(name: &str, takes: &str) -> SqlError {
    SqlError::invalid(format!("function {name} does not exist for these types")).code("42883").hint(takes)
}

fn whole(value: &ArrayRef, direction: Direction, returns: &DataType) -> Result<ArrayRef> {
    if let DataType::Decimal128(_, scale) = value.data_type() {
        let unit = 10i128.pow(u32::try_from(*scale).unwrap_or(0));
        let whole = value.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|unscaled| {
            let down = unscaled.div_euclid(unit);
            match direction {
                Direction::Up => down + i128::from(unscaled.rem_euclid(unit) != 0),
                Direction::Down => down,
                Direction::Zero => unscaled / unit,
            }
        });
        return Ok(Arc::new(whole.with_data_type(returns.clone())));
    }
    let value = cast(value, returns)?;
    // Zero without a sign: kernels compare it by its bits.
    Ok(match (returns, direction) {
        (DataType::Float32, Direction::Up) => {
            Arc::new(value.as_primitive::<Float32Type>().unary::<_, Float32Type>(|float| float.ceil() + 0.0))
        }
        (DataType::Float32, Direction::Down | Direction::Zero) => {
            Arc::new(value.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::floor))
        }
        (_, Direction::Up) => {
            Arc::new(value.as_primitive::<Float64Type>().unary::<_, Float64Type>(|float| float.ceil() + 0.0))
        }
        (_, Direction::Down | Direction::Zero) => {
            Arc::new(value.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::floor))
        }
    })
}

/// Digits behind the point of all values of a type.
pub(crate) fn scale_of(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// The decimal type that holds all values of a type, as far as there is one.
fn numeric_type(value: &DataType) -> DataType {
    match value {
        DataType::Int16 => DataType::Decimal128(5, 0),
        DataType::Int32 => DataType::Decimal128(10, 0),
        DataType::Int64 => DataType::Decimal128(19, 0),
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Decimal128(..) => value.clone(),
        _ => DataType::Decimal128(PRECISION_MAX, READ_SCALE),
    }
}

fn as_decimal(array: &ArrayRef) -> Result<Decimal128Array> {
    Ok(cast(array, &numeric_type(array.data_type()))?.as_primitive::<Decimal128Type>().clone())
}

/// Numbers in units of their last digit, of which `scale` are behind the point.
pub(crate) fn unscaled(array: &ArrayRef, scale: i8) -> Result<Decimal128Array> {
    Ok(cast(array, &DataType::Decimal128(PRECISION_MAX, scale))?.as_primitive::<Decimal128Type>().clone())
}

fn divide(left: &ArrayRef, right: &ArrayRef, returns: &DataType) -> Result<ArrayRef> {
    let (left, right) = (as_decimal(left)?, as_decimal(right)?);
    // The quotient of the unscaled values has the scale of the left less that of the right.
    let shift = scale_of(returns) - left.scale() + right.scale();
    let factor = i256::from_i128(10).checked_pow(u32::try_from(shift).unwrap_or(0));
    let factor = factor.ok_or_else(|| out_of_range(returns))?;
    let quotients = left.iter().zip(right.iter()).map(|(left, right)| match (left, right) {
        (Some(_), Some(0)) => Err(ArrowError::DivideByZero.into()),
        (Some(left), Some(right)) => match rounded_quotient(left, factor, right) {
            Some(quotient) => Ok(Some(quotient)),
            None => Err(out_of_range(returns).into()),
        },
        _ => Ok(None),
    });
    let quotients = quotients.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(quotients.with_precision_and_scale(PRECISION_MAX, scale_of(returns))?))
}

/// `left * factor / right`, halves away from zero.
fn rounded_quotient(left: i128, factor: i256, right: i128) -> Option<i128> {
    let dividend = i256::from_i128(left).checked_mul(factor)?;
    let divisor = i256::from_i128(right);
    let (whole, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    let half_or_more = rest.checked_abs()?.checked_mul(i256::from_i128(2))? >= divisor.checked_abs()?;
    let away = if (left < 0) == (right < 0) { i256::ONE } else { i256::MINUS_ONE };
    let quotient = if half_or_more { whole.checked_add(away)? } else { whole };
    quotient.to_i128().filter(|quotient| quotient.unsigned_abs() < 10u128.pow(u32::from(PRECISION_MAX)))
}
