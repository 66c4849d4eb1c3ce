//! `coalesce`, `greatest`, `least` and `nullif`, which take texts beside values of any type while a statement is
//! planned: whether these are constants that have no type yet, or do not match, is found out once the plan is there.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::can_cast_types;
use datafusion::common::Result;
use datafusion::functions::core;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use saki_catalog::SqlError;

/// The functions, under the names that they replace.
pub fn all() -> impl Iterator<Item = ScalarUDF> {
    [core::coalesce(), core::greatest(), core::least(), core::nullif()]
        .into_iter()
        .map(|function| ScalarUDF::from(Choice { function, signature: Signature::user_defined(Volatility::Immutable) }))
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Choice {
    function: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Choice {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.function.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(other) = args.arg_fields.iter().find(|field| !is_text(field.data_type())) else {
            return self.function.return_field_from_args(args);
        };
        let of_other = |field: &FieldRef| match is_text(field.data_type()) {
            true => Arc::new(field.as_ref().clone().with_data_type(other.data_type().clone())),
            false => Arc::clone(field),
        };
        let fields: Vec<FieldRef> = args.arg_fields.iter().map(of_other).collect();
        self.function.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, ..args })
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let others: Vec<DataType> = arguments.iter().filter(|of| !is_text(of)).cloned().collect();
        let together = |types: &[DataType]| -> Result<Vec<DataType>> {
            match types {
                [] => self.function.coerce_types(types),
                [of] => Ok(vec![of.clone()]),
                [left, right] if self.name() == "nullif" => {
                    let both = comparison_coercion(left, right).ok_or_else(|| {
                        SqlError::invalid(format!("{left} and {right} cannot be compared")).code("42883")
                    })?;
                    Ok(vec![both.clone(), both])
                }
                types => self.function.coerce_types(types).map_err(|_| {
                    let message = format!("{} types cannot be matched", self.name().to_uppercase());
                    SqlError::invalid(message).code("42804").hint("cast them to one type").into()
                }),
            }
        };
        if others.is_empty() || others.len() == arguments.len() {
            return together(arguments);
        }
        let one = together(&others)?.pop().unwrap_or(DataType::Null);
        // What has no cast stays a text until its type is known.
        let become_one = |of: &DataType| if can_cast_types(of, &one) { one.clone() } else { of.clone() };
        Ok(arguments.iter().map(become_one).collect())
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.simplify(args, context)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.function.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.function.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.function.invoke_with_args(args)
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Null)
}
