//! Values as text where the planner writes them otherwise than PostgreSQL: times with a `T`, floats with `.0`.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, TimestampMicrosecondType};
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType as Arrow, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{DataType, ValueRef, display};

/// Whether the planner writes values of a type otherwise.
pub fn differs(data_type: &Arrow) -> bool {
    matches!(data_type, Arrow::Float32 | Arrow::Float64 | Arrow::Timestamp(..))
}

/// A value of such a type as text.
pub fn text_of(value: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> =
        LazyLock::new(|| ScalarUDF::from(Text { signature: Signature::any(1, Volatility::Immutable) }));
    FUNCTION.call(vec![value])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Text {
    signature: Signature,
}

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        "text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(Arrow::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays: &[ArrayRef]| written(&arrays[0]), Vec::new())(&args.args)
    }
}

fn written(values: &ArrayRef) -> Result<ArrayRef> {
    let text = |value: Option<ValueRef<'_>>, data_type| value.map(|value| display(value, data_type).to_string());
    let texts: StringArray = match values.data_type() {
        Arrow::Float32 => {
            let floats = values.as_primitive::<Float32Type>().iter();
            floats.map(|float| text(float.map(ValueRef::Float4), DataType::Float4)).collect()
        }
        Arrow::Float64 => {
            let floats = values.as_primitive::<Float64Type>().iter();
            floats.map(|float| text(float.map(ValueRef::Float8), DataType::Float8)).collect()
        }
        Arrow::Timestamp(_, zone) => {
            let micros = cast(values, &Arrow::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            let micros = micros.as_primitive::<TimestampMicrosecondType>().iter();
            match zone {
                None => micros.map(|time| text(time.map(ValueRef::Timestamp), DataType::Timestamp)).collect(),
                Some(_) => micros.map(|time| text(time.map(ValueRef::Timestamptz), DataType::Timestamptz)).collect(),
            }
        }
        _ => return Ok(cast(values, &Arrow::Utf8)?),
    };
    Ok(Arc::new(texts))
}
