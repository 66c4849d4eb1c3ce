//! Texts as labels of an enumeration, and arrays of labels as texts.
//!
//! Arrays and rows with labels must be no constants of a plan: the planner shows such constants as Arrow does, which
//! takes the type of labels for moments in a zone that there is not. So what makes them is given nothing that it could
//! work out.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_schema::{DataType as Arrow, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{DataType, Enumeration};
use saki_catalog::convert::shown;

use super::read::parsed;

/// A text as a label; one that is none is an error where it is met.
pub fn read(text: Expr, of: Enumeration) -> Expr {
    function(Conversion::Read { of, state: of.number() }).call(vec![text])
}

/// An array of labels as one of texts.
pub fn texts(labels: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| function(Conversion::Texts));
    FUNCTION.call(vec![labels])
}

/// A label that is to be part of an array or a row.
pub fn kept(label: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| function(Conversion::Kept));
    match &label {
        Expr::ScalarFunction(call) if call.name() == KEPT => label,
        _ => FUNCTION.call(vec![label]),
    }
}

/// An array without labels, or NULL of its type.
pub fn no_labels(of: Enumeration, is_null: bool) -> Expr {
    function(Conversion::None { of, state: of.number(), is_null }).call(Vec::new())
}

fn function(conversion: Conversion) -> ScalarUDF {
    let signature = match conversion {
        Conversion::Read { .. } | Conversion::Texts => Signature::any(1, Volatility::Immutable),
        Conversion::Kept => Signature::any(1, Volatility::Volatile),
        Conversion::None { .. } => Signature::nullary(Volatility::Volatile),
    };
    ScalarUDF::from(Labels { conversion, signature })
}

const KEPT: &str = "kept_label";

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Conversion {
    /// With the number of the enumeration's state: another has other labels.
    Read {
        of: Enumeration,
        state: u32,
    },
    Texts,
    Kept,
    None {
        of: Enumeration,
        state: u32,
        is_null: bool,
    },
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Labels {
    conversion: Conversion,
    signature: Signature,
}

impl ScalarUDFImpl for Labels {
    fn name(&self) -> &str {
        match self.conversion {
            Conversion::Read { .. } => "read_label",
            Conversion::Texts => "label_texts",
            Conversion::Kept => KEPT,
            Conversion::None { .. } => "no_labels",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        Ok(match self.conversion {
            Conversion::Read { of, .. } => saki_exec::arrow_type(DataType::Enum(of)),
            Conversion::Texts => Arrow::List(Arc::new(Field::new_list_field(Arrow::Utf8, true))),
            Conversion::Kept => arguments.first().cloned().unwrap_or(Arrow::Null),
            Conversion::None { of, .. } => list_of(of),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.conversion {
            Conversion::Read { of, .. } => {
                let label = DataType::Enum(of);
                make_scalar_function(move |arrays: &[ArrayRef]| parsed(&arrays[0], label), Vec::new())(&args.args)
            }
            Conversion::Texts => make_scalar_function(|arrays: &[ArrayRef]| lists(&arrays[0]), Vec::new())(&args.args),
            Conversion::Kept => Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null))),
            Conversion::None { of, is_null: true, .. } => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from(&list_of(of))?))
            }
            Conversion::None { of, .. } => {
                let label = saki_exec::arrow_type(DataType::Enum(of));
                Ok(ColumnarValue::Scalar(ScalarValue::List(ScalarValue::new_list_nullable(&[], &label))))
            }
        }
    }
}

fn list_of(of: Enumeration) -> Arrow {
    Arrow::List(Arc::new(Field::new_list_field(saki_exec::arrow_type(DataType::Enum(of)), true)))
}

fn lists(labels: &ArrayRef) -> Result<ArrayRef> {
    let labels = labels.as_list::<i32>();
    let field = Arc::new(Field::new_list_field(Arrow::Utf8, true));
    let texts = shown(labels.values());
    Ok(Arc::new(ListArray::try_new(field, labels.offsets().clone(), texts, labels.nulls().cloned())?))
}
