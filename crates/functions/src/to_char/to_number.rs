//! `to_number`: the opposite of `to_char` of numbers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Decimal128Array};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast as cast_to,
};
use num_bigint::BigInt;
use saki_base::types::DECIMAL_PRECISION_MAX as PRECISION_MAX;

use super::read::{self, Written};
use super::template::Template;
use saki_catalog::SqlError;

const NAME: &str = "to_number";
/// Digits behind the point where the template is not known before it is read.
const SCALE: i8 = 10;
/// Those that dividing by a power of ten adds, for `V`.
const QUOTIENT_SCALE: usize = 16;

/// The function.
pub fn to_number() -> ScalarUDF {
    ScalarUDF::from(ToNumber { signature: Signature::string(2, Volatility::Immutable) })
}

/// A call with the digits behind the point that PostgreSQL gives the number of a constant, and with its template's if
/// that is one.
///
/// # Errors
/// What is said of a constant that is no number.
pub fn settled(expr: Expr) -> Result<Expr> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(expr) };
    if call.name() != NAME {
        return Ok(expr);
    }
    let text = |at: usize| match call.args.get(at) {
        Some(Expr::Literal(value, _)) => value.try_as_str().flatten(),
        _ => None,
    };
    match (text(0), text(1)) {
        (_, Some("")) => Ok(Expr::Literal(ScalarValue::Decimal128(None, PRECISION_MAX, 0), None)),
        (Some(text), Some(template)) => {
            let template = Template::read(template)?;
            let written = read::number(text, &template)?;
            let scale = if template.shift > 0 { written.scale + QUOTIENT_SCALE } else { written.scale };
            let scale = scale.min(PRECISION_MAX.into()) as i8;
            let value = Some(unscaled(&written, &template, scale)?);
            Ok(Expr::Literal(ScalarValue::Decimal128(value, PRECISION_MAX, scale), None))
        }
        (None, Some(template)) => {
            let Template { behind, shift, .. } = Template::read(template)?;
            let scale = (behind + shift).min(SCALE as usize) as i8;
            Ok(cast_to(expr, DataType::Decimal128(PRECISION_MAX, scale)))
        }
        _ => Ok(expr),
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct ToNumber {
    signature: Signature,
}

impl ScalarUDFImpl for ToNumber {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(PRECISION_MAX, SCALE))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(numbers, Vec::new())(&args.args)
    }
}

fn numbers(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts, templates] = arrays else { return Err(SqlError::internal("to_number takes two arguments").into()) };
    let (texts, templates) = (cast(texts, &DataType::Utf8)?, cast(templates, &DataType::Utf8)?);
    let mut last: Option<(String, Template)> = None;
    let pairs = texts.as_string::<i32>().iter().zip(templates.as_string::<i32>());
    let read = pairs.map(|pair| -> Result<Option<i128>> {
        let (Some(text), Some(spelled)) = pair else { return Ok(None) };
        if spelled.is_empty() {
            return Ok(None);
        }
        let known = match last.take().filter(|(known, _)| known == spelled) {
            Some(known) => known,
            None => (spelled.to_owned(), Template::read(spelled)?),
        };
        let (_, template) = last.insert(known);
        Ok(Some(unscaled(&read::number(text, template)?, template, SCALE)?))
    });
    let numbers = read.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(numbers.with_precision_and_scale(PRECISION_MAX, SCALE)?))
}

/// A number in units of its last digit.
///
/// # Errors
/// 22003 for one that has more digits than its template, or than a numeric has here.
fn unscaled(written: &Written, template: &Template, scale: i8) -> Result<i128, SqlError> {
    let digits: String = written.text.chars().filter(|letter| *letter != '.').collect();
    let overflow = || SqlError::data("numeric field overflow").code("22003");
    let number: BigInt = digits.trim_start_matches('+').parse().map_err(|_| overflow())?;
    let before = number.magnitude().to_string().len().saturating_sub(written.scale);
    if before > template.before.max(1) {
        return Err(overflow());
    }
    let power = i64::from(scale) - written.scale as i64 - template.shift as i64;
    let ten = |exponent: i64| BigInt::from(10).pow(u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX));
    let unscaled = if power < 0 { number / ten(power) } else { number * ten(power) };
    let fits = unscaled.magnitude().to_string().len() <= usize::from(PRECISION_MAX);
    i128::try_from(unscaled).ok().filter(|_| fits).ok_or_else(overflow)
}
