//! Casts whose values may not fit: a text that has to be read, and a number that has to become a shorter float. The
//! planner's take what is too large for infinite, and what is too small for zero.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float32Array};
use arrow_schema::DataType as Arrow;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{DataType, Value};
use saki_catalog::SqlError;
use saki_catalog::convert::array_of;
use saki_times::names;

/// Types of numbers and truths that a text may spell.
const READ: [(DataType, Arrow, &str); 6] = [
    (DataType::Bool, Arrow::Boolean, "bool"),
    (DataType::Int2, Arrow::Int16, "int2"),
    (DataType::Int4, Arrow::Int32, "int4"),
    (DataType::Int8, Arrow::Int64, "int8"),
    (DataType::Float4, Arrow::Float32, "float4"),
    (DataType::Float8, Arrow::Float64, "float8"),
];

/// The value of a type that a text spells; `None`: other casts read it.
pub fn read(text: Expr, target: &Arrow) -> Option<Expr> {
    static FUNCTIONS: LazyLock<[ScalarUDF; 6]> =
        LazyLock::new(|| READ.map(|(of, arrow, name)| function(Kind::Read(of), arrow, name)));
    let index = READ.iter().position(|(_, arrow, _)| arrow == target)?;
    Some(FUNCTIONS[index].call(vec![text]))
}

/// A number as the `real` that is next to it.
pub fn real(number: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| function(Kind::Real, Arrow::Float32, "float4"));
    FUNCTION.call(vec![number])
}

#[derive(PartialEq, Eq, Hash, Debug)]
enum Kind {
    Read(DataType),
    Real,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Conversion {
    kind: Kind,
    returns: Arrow,
    name: &'static str,
    signature: Signature,
}

fn function(kind: Kind, returns: Arrow, name: &'static str) -> ScalarUDF {
    ScalarUDF::from(Conversion { kind, returns, name, signature: Signature::any(1, Volatility::Immutable) })
}

impl ScalarUDFImpl for Conversion {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        names::call(self.name, args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let convert = |arrays: &[ArrayRef]| match self.kind {
            Kind::Read(data_type) => values(&arrays[0], data_type),
            Kind::Real => shorter(&arrays[0]),
        };
        make_scalar_function(convert, Vec::new())(&args.args)
    }
}

/// # Errors
/// 22P02 and 22003.
fn values(texts: &ArrayRef, data_type: DataType) -> Result<ArrayRef> {
    let texts = cast(texts, &Arrow::Utf8)?;
    let value = |text: Option<&str>| text.map_or(Ok(Value::Null), |text| Value::parse(data_type, text));
    let values: std::result::Result<Vec<_>, _> = texts.as_string::<i32>().iter().map(value).collect();
    Ok(array_of(data_type, &values.map_err(SqlError::from)?))
}

/// # Errors
/// 22003.
fn shorter(numbers: &ArrayRef) -> Result<ArrayRef> {
    let floats = cast(numbers, &Arrow::Float64)?;
    let shorter = |float: f64| {
        let short = float as f32;
        match (short.is_infinite() && float.is_finite(), short == 0.0 && float != 0.0) {
            (true, _) => Err(SqlError::data("value out of range: overflow").code("22003")),
            (_, true) => Err(SqlError::data("value out of range: underflow").code("22003")),
            _ => Ok(short),
        }
    };
    let floats = floats.as_primitive::<Float64Type>().iter();
    let shorter: std::result::Result<Float32Array, _> = floats.map(|float| float.map(shorter).transpose()).collect();
    Ok(Arc::new(shorter?))
}
