//! Texts as labels of an enumeration, and arrays of labels as texts.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_schema::{DataType as Arrow, Field};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{DataType, Enumeration, Value};
use saki_catalog::SqlError;
use saki_catalog::convert::{array_of, shown};

/// A text as a label; one that is none is an error where it is met.
pub fn read(text: Expr, of: Enumeration) -> Expr {
    function(Conversion::Read(of, of.number())).call(vec![text])
}

/// An array of labels as one of texts.
pub fn texts(labels: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| function(Conversion::Texts));
    FUNCTION.call(vec![labels])
}

fn function(conversion: Conversion) -> ScalarUDF {
    ScalarUDF::from(Labels { conversion, signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Conversion {
    /// With the number of the enumeration's state: another has other labels.
    Read(Enumeration, u32),
    Texts,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Labels {
    conversion: Conversion,
    signature: Signature,
}

impl ScalarUDFImpl for Labels {
    fn name(&self) -> &str {
        match self.conversion {
            Conversion::Read(..) => "enum_in",
            Conversion::Texts => "enum_out",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(match self.conversion {
            Conversion::Read(of, _) => saki_exec::arrow_type(DataType::Enum(of)),
            Conversion::Texts => Arrow::List(Arc::new(Field::new_list_field(Arrow::Utf8, true))),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let convert = |arrays: &[ArrayRef]| match self.conversion {
            Conversion::Read(of, _) => values(&arrays[0], of),
            Conversion::Texts => lists(&arrays[0]),
        };
        make_scalar_function(convert, Vec::new())(&args.args)
    }
}

/// # Errors
/// 22P02.
fn values(texts: &ArrayRef, of: Enumeration) -> Result<ArrayRef> {
    let texts = cast(texts, &Arrow::Utf8)?;
    let of = DataType::Enum(of);
    let value = |text: Option<&str>| text.map_or(Ok(Value::Null), |text| Value::parse(of, text));
    let values: std::result::Result<Vec<_>, _> = texts.as_string::<i32>().iter().map(value).collect();
    Ok(array_of(of, &values.map_err(SqlError::from)?))
}

fn lists(labels: &ArrayRef) -> Result<ArrayRef> {
    let labels = labels.as_list::<i32>();
    let field = Arc::new(Field::new_list_field(Arrow::Utf8, true));
    let texts = shown(labels.values());
    Ok(Arc::new(ListArray::try_new(field, labels.offsets().clone(), texts, labels.nulls().cloned())?))
}
