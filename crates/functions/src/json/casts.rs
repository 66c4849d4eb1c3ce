//! Texts as `json` and `jsonb`, these as each other and as numbers, and the order of `jsonb`.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::json::{Kind, kind, sort_key};
use saki_catalog::SqlError;
use saki_catalog::convert::to_whole;

use super::definition::failed;
use super::kinds::{JSON, JSONB};
use super::parse::{parsed, type_name};

/// What the functions are called that read texts.
pub const AS_JSON: &str = "as_json";
pub const AS_JSONB: &str = "as_jsonb";

pub fn functions() -> [ScalarUDF; 2] {
    [function(Kinds::Json, AS_JSON), function(Kinds::Jsonb, AS_JSONB)]
}

/// A text as a value of one of the types; `None` for other types.
pub fn spelled(text: Expr, target: &DataType) -> Option<Expr> {
    match *target {
        JSON => Some(function(Kinds::Json, AS_JSON).call(vec![text])),
        JSONB => Some(function(Kinds::Jsonb, AS_JSONB).call(vec![text])),
        _ => None,
    }
}

/// What values of `jsonb` are compared and sorted by.
pub fn key(value: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| function(Kinds::Key, "jsonb_key"));
    FUNCTION.call(vec![value])
}

/// A value of `jsonb` as a number or a truth; `None` for other types.
pub fn read(value: Expr, target: &DataType) -> Option<Expr> {
    let name = match target {
        DataType::Boolean => "jsonb_bool",
        DataType::Int16 => "jsonb_int2",
        DataType::Int32 => "jsonb_int4",
        DataType::Int64 => "jsonb_int8",
        DataType::Float32 => "jsonb_float4",
        DataType::Float64 => "jsonb_float8",
        DataType::Decimal128(..) => "jsonb_numeric",
        _ => return None,
    };
    Some(function(Kinds::Scalar(target.clone()), name).call(vec![value]))
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kinds {
    Json,
    Jsonb,
    Key,
    Scalar(DataType),
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Conversion {
    kind: Kinds,
    name: &'static str,
    signature: Signature,
}

fn function(kind: Kinds, name: &'static str) -> ScalarUDF {
    ScalarUDF::from(Conversion { kind, name, signature: Signature::any(1, Volatility::Immutable) })
}

impl ScalarUDFImpl for Conversion {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match &self.kind {
            Kinds::Json => JSON,
            Kinds::Jsonb => JSONB,
            Kinds::Key => DataType::Binary,
            Kinds::Scalar(target) => target.clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let convert = |arrays: &[ArrayRef]| {
            let values = &arrays[0];
            match &self.kind {
                Kinds::Json | Kinds::Jsonb => parsed(values, if self.kind == Kinds::Json { &JSON } else { &JSONB }),
                Kinds::Key => keys(values),
                Kinds::Scalar(target) => scalars(values, target),
            }
        };
        make_scalar_function(convert, Vec::new())(&args.args)
    }
}

fn keys(values: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(values, &JSONB)?;
    let mut out = BinaryBuilder::new();
    for text in texts.as_string::<i64>() {
        out.append_option(text.map(sort_key).transpose().map_err(failed)?);
    }
    Ok(Arc::new(out.finish()))
}

/// # Errors
/// 22023 for what is no number or truth.
fn scalars(values: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let wanted = if *target == DataType::Boolean { Kind::Boolean } else { Kind::Number };
    let values = values.as_string::<i64>();
    for value in values.iter().flatten() {
        let found = kind(value);
        if found != wanted {
            let what = if found.is_scalar() { found.name().to_owned() } else { "array or object".to_owned() };
            let message = format!("cannot cast jsonb {what} to type {}", type_name(target));
            return Err(SqlError::data(message).code("22023").into());
        }
    }
    if wanted == Kind::Boolean {
        let truths: BooleanArray = values.iter().map(|value| value.map(|value| value == "true")).collect();
        return Ok(Arc::new(truths));
    }
    let texts: ArrayRef = Arc::new(values.iter().collect::<StringArray>());
    let options = CastOptions { safe: false, ..CastOptions::default() };
    if target.is_integer() {
        // Rounded, as a numeric is.
        let decimals = cast_with_options(&texts, &DataType::Decimal128(38, 16), &options)?;
        return Ok(cast_with_options(&to_whole(&decimals)?, target, &options)?);
    }
    Ok(cast_with_options(&texts, target, &options)?)
}
