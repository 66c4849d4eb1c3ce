//! Functions that are undefined for some numbers: PostgreSQL refuses these, the planner's own functions answer with
//! infinity or NaN.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, Int64Type};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::functions::{math, unicode};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use saki_catalog::SqlError;

/// The functions, under the names that they replace.
pub fn all() -> impl Iterator<Item = ScalarUDF> {
    let logarithm: Refuse = |number| match number {
        0.0 => Some(("2201E", "cannot take logarithm of zero")),
        number if number < 0.0 => Some(("2201E", "cannot take logarithm of a negative number")),
        _ => None,
    };
    // Four bytes a character, as PostgreSQL reckons.
    let length: Refuse = |number| (number > 268_435_454.0).then_some(("54000", "requested length too large"));
    let root: Refuse = |number| (number < 0.0).then_some(("2201F", "cannot take square root of a negative number"));
    [
        (math::ln(), logarithm),
        (math::log(), logarithm),
        (math::log10(), logarithm),
        (math::log2(), logarithm),
        (math::sqrt(), root),
        (unicode::lpad(), length),
        (unicode::rpad(), length),
    ]
    .into_iter()
    .map(|(function, refuse)| ScalarUDF::from(Domain { name: function.name().to_owned(), function, refuse }))
}

/// The condition and message for a number that is outside.
type Refuse = fn(f64) -> Option<(&'static str, &'static str)>;

#[derive(Debug)]
struct Domain {
    name: String,
    function: Arc<ScalarUDF>,
    refuse: Refuse,
}

impl PartialEq for Domain {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Domain {}

impl std::hash::Hash for Domain {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Domain {
    fn check(&self, argument: &dyn Array) -> Result<()> {
        let refused = match argument.data_type() {
            DataType::Float32 => {
                argument.as_primitive::<Float32Type>().iter().flatten().find_map(|number| (self.refuse)(number.into()))
            }
            DataType::Float64 => argument.as_primitive::<Float64Type>().iter().flatten().find_map(self.refuse),
            DataType::Int64 => {
                argument.as_primitive::<Int64Type>().iter().flatten().find_map(|number| (self.refuse)(number as f64))
            }
            // Above or below zero as its digits are.
            DataType::Decimal128(..) => argument
                .as_primitive::<Decimal128Type>()
                .iter()
                .flatten()
                .find_map(|digits| (self.refuse)(digits as f64)),
            _ => None,
        };
        match refused {
            Some((code, message)) => Err(DataFusionError::from(SqlError::data(message).code(code))),
            None => Ok(()),
        }
    }
}

impl ScalarUDFImpl for Domain {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.function.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arguments)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.simplify(args, context)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.function.evaluate_bounds(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for argument in &args.args {
            match argument {
                ColumnarValue::Array(array) => self.check(array.as_ref())?,
                ColumnarValue::Scalar(scalar) => self.check(scalar.to_array()?.as_ref())?,
            }
        }
        self.function.invoke_with_args(args)
    }
}
