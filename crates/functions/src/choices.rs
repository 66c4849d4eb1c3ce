//! `coalesce`, `greatest`, `least` and `nullif`, which take texts beside values of any type while a statement is
//! planned: whether these are constants that have no type yet, or do not match, is found out once the plan is there.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::IntervalMonthDayNanoType;
use arrow_array::{Array, IntervalMonthDayNanoArray};
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::{can_cast_types, cast};
use datafusion::common::Result;
use datafusion::functions::core;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use saki_base::{Element, Interval};
use saki_catalog::SqlError;
use saki_exec::lists;

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
        match (self.name(), args.return_field.data_type()) {
            ("greatest", DataType::Interval(_)) => longest(&args, Ordering::Greater),
            ("least", DataType::Interval(_)) => longest(&args, Ordering::Less),
            (name @ ("greatest" | "least"), list) if let Some(element) = lists::element_of(list) => {
                furthest(&args, element, if name == "greatest" { Ordering::Greater } else { Ordering::Less })
            }
            _ => self.function.invoke_with_args(args),
        }
    }
}

/// Of intervals the longest or the shortest, in each row; NULLs are passed over, and of equal ones the first is taken.
fn longest(args: &ScalarFunctionArgs, wanted: Ordering) -> Result<ColumnarValue> {
    let arrays = args.args.iter().map(|arg| Ok(cast(&arg.to_array(args.number_rows)?, &saki_times::INTERVAL)?));
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let values: Vec<_> = arrays.iter().map(|array| array.as_primitive::<IntervalMonthDayNanoType>()).collect();
    let length = |at: usize, row: usize| {
        let value = values[at].value(row);
        Interval::of_nanos(value.months, value.days, value.nanoseconds).length()
    };
    let chosen = |row: usize| {
        let mut best: Option<usize> = None;
        for at in (0..values.len()).filter(|at| values[*at].is_valid(row)) {
            if best.is_none_or(|best| length(at, row).cmp(&length(best, row)) == wanted) {
                best = Some(at);
            }
        }
        best.map(|at| values[at].value(row))
    };
    Ok(ColumnarValue::Array(Arc::new((0..args.number_rows).map(chosen).collect::<IntervalMonthDayNanoArray>())))
}

/// Of arrays the greatest or the least, in each row, as [`longest`].
fn furthest(args: &ScalarFunctionArgs, element: Element, wanted: Ordering) -> Result<ColumnarValue> {
    let list = args.return_field.data_type();
    let arrays = args.args.iter().map(|arg| {
        let lists = cast(&arg.to_array(args.number_rows)?, list)?;
        Ok(lists::encode(element, &lists).map_err(SqlError::internal)?)
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let chosen = |row: usize| {
        let valid = arrays.iter().filter(|array| array.is_valid(row)).map(|array| array.value(row));
        valid.reduce(|best, array| if array.cmp(best) == wanted { array } else { best })
    };
    let lists = lists::decode(element, (0..args.number_rows).map(chosen)).map_err(SqlError::internal)?;
    Ok(ColumnarValue::Array(Arc::new(lists)))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Null)
}
