//! The functions as statements call them: of constants where types are resolved, of columns row by row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, Decimal128Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::functions::{divide, exp, ln, log, power, sqrt};
use super::number::Number;
use super::scales::TRIM;
use crate::arithmetic::{NUMERIC, NUMERIC_DIV, QUOTIENT_SCALE, scale_of};
use saki_base::types::DECIMAL_PRECISION_MAX as PRECISION_MAX;
use saki_catalog::SqlError;

/// Digits that count, which are not given up for those that there is no room for.
const SIGNIFICANT: i64 = 16;
/// Digits behind the point of a root of a column's values, at least; all else has a quotient's.
const ROOT_SCALE: i8 = 15;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Divide,
    Exp,
    Ln,
    Log,
    Power,
    Sqrt,
    Trim,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            NUMERIC_DIV => Self::Divide,
            "exp" => Self::Exp,
            "ln" => Self::Ln,
            "log" | "log10" => Self::Log,
            "power" => Self::Power,
            "sqrt" => Self::Sqrt,
            TRIM => Self::Trim,
            _ => return None,
        })
    }

    fn compute(self, numbers: &[Number]) -> std::result::Result<Number, SqlError> {
        match (self, numbers) {
            (Self::Divide, [dividend, divisor]) => divide(dividend, divisor),
            (Self::Exp, [number]) => exp(number),
            (Self::Ln, [number]) => ln(number),
            (Self::Log, [number]) => log(&Number::whole(10), number),
            (Self::Log, [base, number]) => log(base, number),
            (Self::Power, [base, exponent]) => power(base, exponent),
            (Self::Sqrt, [number]) => sqrt(number),
            (Self::Trim, [number]) => Ok(number.trimmed()),
            _ => Err(SqlError::internal("a function of numbers with other arguments")),
        }
    }

    /// Whether PostgreSQL takes the function of numerics for arguments of these types, not the one of doubles.
    fn is_numeric(self, arguments: &[DataType]) -> bool {
        let is_decimal = |of: &DataType| matches!(of, DataType::Decimal128(..));
        // There is no logarithm of doubles to a base.
        let is_any = arguments.iter().any(is_decimal) || self == Self::Log && arguments.len() == 2;
        is_any && arguments.iter().all(|of| is_decimal(of) || of.is_signed_integer())
    }

    /// The scale of what is computed of columns; `None` where values may be so small that it would leave no digits.
    fn column_scale(self, arguments: &[DataType]) -> Option<i8> {
        let least = match (self, arguments) {
            (Self::Exp, _) => return None,
            (Self::Power, [_, DataType::Decimal128(_, 1..)]) => return None,
            (Self::Sqrt, _) => ROOT_SCALE,
            _ => QUOTIENT_SCALE,
        };
        // An exponent that is whole adds none.
        Some(arguments.iter().map(scale_of).fold(least, i8::max))
    }
}

/// A call whose arguments are constants as the number that PostgreSQL makes of them; any other expression as it is, and
/// so a quotient, root or logarithm that it refuses, which is refused when it is evaluated.
///
/// # Errors
/// 22003 for a number with more digits than a numeric has here, and what is said of powers that there are not.
pub fn folded(expr: Expr) -> Result<Expr> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(expr) };
    let Some(kind) = Kind::of(call.name()) else { return Ok(expr) };
    let Some(constants) = call.args.iter().map(constant).collect::<Option<Vec<_>>>() else { return Ok(expr) };
    let (numbers, types): (Vec<_>, Vec<_>) = constants.into_iter().unzip();
    if !kind.is_numeric(&types) {
        return Ok(expr);
    }
    let number = match kind.compute(&numbers) {
        Ok(number) => number,
        // The functions of floats would give something.
        Err(error) if matches!(kind, Kind::Exp | Kind::Power) => return Err(error.into()),
        Err(_) => return Ok(expr),
    };
    literal(number)
}

/// The product of two numbers that have together more digits behind the point than one has here; `None` for any others.
///
/// # Errors
/// 22003.
pub fn long_product(left: &Expr, right: &Expr) -> Result<Option<Expr>> {
    let (Expr::Literal(..), Expr::Literal(..)) = (left, right) else { return Ok(None) };
    let (Some((left, _)), Some((right, _))) = (constant(left), constant(right)) else { return Ok(None) };
    let product = Number { unscaled: left.unscaled * right.unscaled, scale: left.scale + right.scale };
    (product.scale > u32::from(PRECISION_MAX)).then(|| literal(product)).transpose()
}

fn literal(number: Number) -> Result<Expr> {
    let number = fitted(number).ok_or_else(|| {
        let message = format!("value overflows numeric format: it has more than {PRECISION_MAX} digits");
        SqlError::data(message).code("22003").hint("cast the arguments to double precision")
    })?;
    let unscaled = i128::try_from(number.unscaled).ok();
    Ok(Expr::Literal(ScalarValue::Decimal128(unscaled, PRECISION_MAX, number.scale as i8), None))
}

/// The number that a constant expression is, and its type.
fn constant(expr: &Expr) -> Option<(Number, DataType)> {
    match expr {
        Expr::Literal(value, _) => {
            let number = match value {
                ScalarValue::Decimal128(Some(unscaled), _, scale) => Number::new(*unscaled, *scale)?,
                ScalarValue::Int16(Some(number)) => Number::whole((*number).into()),
                ScalarValue::Int32(Some(number)) => Number::whole((*number).into()),
                ScalarValue::Int64(Some(number)) => Number::whole(*number),
                _ => return None,
            };
            Some((number, value.data_type()))
        }
        Expr::Negative(inner) => {
            let (number, of) = constant(inner)?;
            Some((Number { unscaled: -number.unscaled, scale: number.scale }, of))
        }
        Expr::Cast(Cast { expr: inner, field }) => {
            let (number, of) = constant(inner)?;
            let target = field.data_type();
            match target {
                DataType::Decimal128(precision, scale) => {
                    let number = number.rounded(u32::try_from(*scale).ok()?);
                    (number.digits() <= u32::from(*precision)).then(|| (number, target.clone()))
                }
                _ if target.is_signed_integer() && of.is_signed_integer() => Some((number, target.clone())),
                _ => None,
            }
        }
        Expr::ScalarFunction(call) if call.name() == NUMERIC => {
            let (number, of) = constant(call.args.first()?)?;
            let target = DataType::Decimal128(PRECISION_MAX, scale_of(&of));
            Some((number, target))
        }
        _ => None,
    }
}

/// A number with as many digits as a numeric has here: of a longer one the last are rounded off, as long as enough are
/// left.
fn fitted(number: Number) -> Option<Number> {
    let most = u32::from(PRECISION_MAX);
    if number.digits() <= most && number.scale <= most {
        return Some(number);
    }
    let weight = number.weight();
    let scale = (i64::from(PRECISION_MAX) - (weight + 1).max(0)).min(i64::from(number.scale));
    let is_enough = number.is_zero() || scale + weight + 1 >= SIGNIFICANT;
    let rounded = number.rounded(u32::try_from(scale).ok()?);
    (is_enough && rounded.digits() <= most).then_some(rounded)
}

/// A function that takes floats, if it is one of those here: of numbers it gives numbers.
pub fn exact(function: ScalarUDF) -> ScalarUDF {
    match Kind::of(function.name()) {
        Some(kind) => {
            let signature = Signature::user_defined(Volatility::Immutable);
            ScalarUDF::from(Exact { kind, function: Arc::new(function), signature })
        }
        None => function,
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Exact {
    kind: Kind,
    /// The function of floats.
    function: Arc<ScalarUDF>,
    signature: Signature,
}

impl Exact {
    /// The type of what is computed of columns; `None`: the function of floats does it.
    fn numeric(&self, arguments: &[DataType]) -> Option<DataType> {
        if !self.kind.is_numeric(arguments) {
            return None;
        }
        Some(DataType::Decimal128(PRECISION_MAX, self.kind.column_scale(arguments)?))
    }
}

impl ScalarUDFImpl for Exact {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if self.numeric(arguments).is_some() {
            return Ok(arguments.to_vec());
        }
        let fields = arguments.iter().map(|of| Arc::new(Field::new("argument", of.clone(), true)));
        let fields = fields_with_udf(&fields.collect::<Vec<_>>(), self.function.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match self.numeric(arguments) {
            Some(numeric) => Ok(numeric),
            None => self.function.return_type(arguments),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match self.numeric(&types) {
            Some(numeric) => Ok(Arc::new(Field::new(self.name(), numeric, true))),
            None => self.function.return_field_from_args(args),
        }
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args.iter().map(|arg| context.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
        match self.numeric(&types) {
            Some(_) => Ok(ExprSimplifyResult::Original(args)),
            None => self.function.simplify(args, context),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.function.evaluate_bounds(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if self.numeric(&types).is_none() {
            return self.function.invoke_with_args(args);
        }
        let returns = args.return_field.data_type().clone();
        make_scalar_function(move |arrays: &[ArrayRef]| computed(self.kind, arrays, &returns), Vec::new())(&args.args)
    }
}

/// # Errors
/// What a function refuses; 22003 for more digits than the type has.
fn computed(kind: Kind, arrays: &[ArrayRef], returns: &DataType) -> Result<ArrayRef> {
    let columns = arrays.iter().map(as_decimals).collect::<Result<Vec<_>>>()?;
    let rows = columns.first().map_or(0, Array::len);
    let scale = scale_of(returns);
    let value = |row: usize| -> Result<Option<i128>> {
        let number = |column: &Decimal128Array| {
            column.is_valid(row).then(|| Number::new(column.value(row), column.scale())).flatten()
        };
        let Some(numbers) = columns.iter().map(number).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let number = kind.compute(&numbers)?.rounded(scale.unsigned_abs().into());
        if number.digits() > u32::from(PRECISION_MAX) {
            return Err(SqlError::data("numeric out of range").code("22003").into());
        }
        Ok(i128::try_from(number.unscaled).ok())
    };
    let values = (0..rows).map(value).collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(values.with_precision_and_scale(PRECISION_MAX, scale)?))
}

fn as_decimals(array: &ArrayRef) -> Result<Decimal128Array> {
    let target = match array.data_type() {
        DataType::Decimal128(..) => return Ok(array.as_primitive::<Decimal128Type>().clone()),
        _ => DataType::Decimal128(19, 0),
    };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(array, &target, &options)?.as_primitive::<Decimal128Type>().clone())
}
