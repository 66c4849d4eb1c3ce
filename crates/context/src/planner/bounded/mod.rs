//! Functions whose results may be larger than their arguments: what they are going to make is reserved first, so that
//! `repeat('y', 1000000000)` is refused and not tried. An allocation that fails would end the server.
//!
//! ```text
//!   arguments ─► weigh ─► reserve ─► call ─► values: small, and no longer counted
//!                                      └───► values of 16 MB and more: their memory owns what is reserved for them
//! ```
//! Who holds such values, as a sort does, counts them once more: there, rows are few and memory is not.
//!
//! Calls become bounded ones while a plan is analysed: before anything is worked out, and wherever the planner has
//! taken the function from.

mod concat;
mod kept;
mod weight;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use saki_base::memory::{Pool, Reservation};
use saki_catalog::SqlError;
use saki_plan::execution::memory::exhausted;

use self::kept::{KEPT_BYTES, kept};
use self::weight::{Bound, SMALL_BYTES, Weight};

/// Bytes of a value at most, as in PostgreSQL.
const VALUE_BYTES_MAX: usize = (1 << 30) - 1;
/// Bytes of a batch's values at most: they are found by offsets of 32 bits.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;
/// How often a constant's value is there when the planner works it out: in an array, as a literal of the plan and of
/// its operators, and in the array of the call that it is an argument of.
const CONSTANT_COPIES: usize = 4;
/// What rows may come to by a bound that is not exact; of more rows it is found out in parts what they do come to.
const PART_BYTES: usize = 64 << 20;

/// Puts bounds on such functions of a planner.
pub fn register(state: &mut SessionState, memory: &Arc<Pool>) {
    // A state takes any rewrite.
    let _ = state.register_function_rewrite(Arc::new(Bounds { memory: Arc::clone(memory) }));
}

#[derive(Debug)]
struct Bounds {
    memory: Arc<Pool>,
}

impl FunctionRewrite for Bounds {
    fn name(&self) -> &str {
        "bounds"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::ScalarFunction(call) => bounded(call, &self.memory),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
                if concat::joins(&left.get_type(schema), &right.get_type(schema)) =>
            {
                bounded(ScalarFunction { func: concat::function(), args: vec![*left, *right] }, &self.memory)
            }
            other => Transformed::no(other),
        })
    }
}

/// The call, of a bounded function if it needs one.
fn bounded(call: ScalarFunction, memory: &Arc<Pool>) -> Transformed<Expr> {
    let ScalarFunction { func: function, args } = call;
    let call = |func, args| Expr::ScalarFunction(ScalarFunction { func, args });
    // A list of literals is as long as it is written.
    let is_written = || function.name() == "make_array" && args.iter().all(|arg| matches!(arg, Expr::Literal(..)));
    match weight::bound(function.name()) {
        Some(bound) if function.inner().downcast_ref::<Bounded>().is_none() && !is_written() => {
            let bounded = Bounded { function, bound, memory: Arc::clone(memory) };
            Transformed::yes(call(Arc::new(ScalarUDF::from(bounded)), args))
        }
        _ => Transformed::no(call(function, args)),
    }
}

#[derive(Clone, Debug)]
struct Bounded {
    function: Arc<ScalarUDF>,
    bound: &'static Bound,
    memory: Arc<Pool>,
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl Eq for Bounded {}

impl std::hash::Hash for Bounded {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // What is simpler may be a call of the function itself.
        Ok(match self.function.simplify(args, info)? {
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) => {
                ExprSimplifyResult::Simplified(bounded(call, &self.memory).data)
            }
            other => other,
        })
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let _arguments = self.hold_arguments(&args)?;
        let weight = self.weigh(&args)?;
        if weight.all <= SMALL_BYTES {
            return self.function.invoke_with_args(args);
        }
        if are_scalars(&args) {
            let _held = self.reserve(weight, CONSTANT_COPIES)?;
            return self.function.invoke_with_args(args);
        }
        if !self.bound.is_exact() && weight.all > PART_BYTES && args.number_rows > 1 {
            return self.in_parts(&args);
        }
        let held = self.reserve(weight, 1)?;
        match self.function.invoke_with_args(args)? {
            ColumnarValue::Array(values) => kept(values, held).map(ColumnarValue::Array),
            scalar => Ok(scalar),
        }
    }
}

impl Bounded {
    fn weigh(&self, args: &ScalarFunctionArgs) -> Result<Weight> {
        let rows = if are_scalars(args) { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(weighable).collect::<Result<Vec<_>>>()?;
        Ok(self.bound.weigh(&arrays, rows))
    }

    /// Memory for large arguments: a constant is copied to be weighed, and by the function; a column of texts, whose
    /// values are views between operators, has been copied for the call.
    fn hold_arguments(&self, args: &ScalarFunctionArgs) -> Result<Option<Reservation>> {
        let is_again = |at: usize, values: &ArrayRef| {
            args.args[..at].iter().any(|before| matches!(before, ColumnarValue::Array(of) if Arc::ptr_eq(of, values)))
        };
        let sizes = args.args.iter().enumerate().map(|(at, value)| match value {
            ColumnarValue::Scalar(value) => Some(value.size()).filter(|bytes| *bytes > SMALL_BYTES),
            ColumnarValue::Array(values) if is_again(at, values) => None,
            ColumnarValue::Array(values) => {
                values.to_data().get_slice_memory_size().ok().filter(|bytes| *bytes >= KEPT_BYTES)
            }
        });
        let bytes = sizes.flatten().fold(0, usize::saturating_add);
        (bytes > 0).then(|| self.memory.reserve(bytes)).transpose().map_err(exhausted)
    }

    /// # Errors
    /// 54000 for a value that is too large, 53200 for values that there is no memory for, so many times over.
    fn reserve(&self, weight: Weight, copies: usize) -> Result<Reservation> {
        let Weight { largest, all } = weight;
        if largest > VALUE_BYTES_MAX {
            let message = format!("requested length too large: {largest} bytes of a value");
            return Err(SqlError::data(message).code("54000").hint("let values have at most 1 GB").into());
        }
        fits_a_batch(all)?;
        self.memory.reserve(all.saturating_mul(copies)).map_err(exhausted)
    }

    /// The function of some rows after the others: what each part has come to stays reserved, and not what it might
    /// have.
    fn in_parts(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut waiting = vec![(0, args.number_rows)];
        let (mut parts, mut bytes): (Vec<ArrayRef>, usize) = (Vec::new(), 0);
        // Twice what the parts take: at the end they are put together.
        let mut held = self.memory.reserve(0).map_err(exhausted)?;
        while let Some((start, rows)) = waiting.pop() {
            let part = part(args, start, rows);
            let weight = self.weigh(&part)?;
            if weight.all > PART_BYTES && rows > 1 {
                let half = rows / 2;
                waiting.extend([(start + half, rows - half), (start, half)]);
                continue;
            }
            let _held = self.reserve(weight, 1)?;
            let values = self.function.invoke_with_args(part)?.into_array(rows)?;
            let taken = values.get_array_memory_size();
            held.grow(2 * taken).map_err(exhausted)?;
            bytes += taken;
            fits_a_batch(bytes)?;
            parts.push(values);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        kept(arrow::compute::concat(&parts)?, held).map(ColumnarValue::Array)
    }
}

fn are_scalars(args: &ScalarFunctionArgs) -> bool {
    args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)))
}

/// Some of the rows.
fn part(args: &ScalarFunctionArgs, start: usize, rows: usize) -> ScalarFunctionArgs {
    let values = args.args.iter().map(|value| match value {
        ColumnarValue::Array(values) => ColumnarValue::Array(values.slice(start, rows)),
        ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
    });
    ScalarFunctionArgs { args: values.collect(), number_rows: rows, ..args.clone() }
}

fn fits_a_batch(bytes: usize) -> Result<()> {
    if bytes <= BATCH_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the values of one batch of rows take {bytes} bytes, and may take {BATCH_BYTES_MAX}");
    Err(DataFusionError::ResourcesExhausted(message))
}

/// An argument's values; of a constant only one, which stands for every row: spread over them it may be larger than
/// there is memory.
fn weighable(argument: &ColumnarValue) -> Result<ArrayRef> {
    match argument {
        ColumnarValue::Array(values) => Ok(Arc::clone(values)),
        ColumnarValue::Scalar(value) => value.to_array(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;
    use arrow_schema::Field;
    use datafusion::common::ScalarValue;
    use datafusion::functions::{regex, string};
    use datafusion::prelude::{col, lit};

    use super::*;

    fn of(function: Arc<ScalarUDF>, memory: usize) -> Bounded {
        let bound = weight::bound(function.name()).unwrap();
        Bounded { function, bound, memory: Arc::new(Pool::new(memory)) }
    }

    fn call(function: &Bounded, args: Vec<ColumnarValue>, rows: usize) -> Result<ColumnarValue> {
        let field = |value: &ColumnarValue| Arc::new(Field::new("a", value.data_type(), true));
        function.invoke_with_args(ScalarFunctionArgs {
            arg_fields: args.iter().map(field).collect(),
            args,
            number_rows: rows,
            return_field: Arc::new(Field::new("r", DataType::Utf8, true)),
            config_options: Arc::default(),
        })
    }

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(text.to_owned())))
    }

    fn code(refused: Result<ColumnarValue>) -> String {
        SqlError::from(refused.unwrap_err()).sqlstate().to_owned()
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_is_made() {
        let repeat = of(string::repeat(), 100 << 20);
        let times =
            |count: i64| call(&repeat, vec![text("abcd"), ColumnarValue::Scalar(ScalarValue::Int64(Some(count)))], 1);
        assert_eq!(code(times(1 << 28)), "54000");
        assert_eq!(code(times(1 << 26)), "53200");
        assert!(times(1 << 20).is_ok());
        // Four of them are made of a constant, and fit no more.
        assert_eq!(code(times(7 << 20)), "53200");
        assert_eq!(repeat.memory.used(), 0);
    }

    /// The next call finds what is left, and not what there was before.
    #[test]
    fn large_values_are_reserved_for_as_long_as_they_live() {
        let repeat = of(string::repeat(), 100 << 20);
        let rows = ColumnarValue::Array(Arc::new(StringArray::from(vec!["abcd"; 8])));
        let times = |count: i64| {
            let args = vec![rows.clone(), ColumnarValue::Scalar(ScalarValue::Int64(Some(count)))];
            call(&repeat, args, 8).map(|values| values.into_array(8).unwrap())
        };
        let first = times(2 << 20).unwrap();
        assert_eq!(first.as_string::<i32>().value(7).len(), 8 << 20);
        assert!((64 << 20..66 << 20).contains(&repeat.memory.used()), "{}", repeat.memory.used());
        let last = first.slice(7, 1);
        drop(first);
        assert!(repeat.memory.used() >= 64 << 20, "a part of it lies in the same memory");
        assert_eq!(
            code(call(&repeat, vec![rows.clone(), ColumnarValue::Scalar(ScalarValue::Int64(Some(2 << 20)))], 8)),
            "53200"
        );
        drop(last);
        assert_eq!(repeat.memory.used(), 0);
        let small = times(1 << 17).unwrap();
        assert_eq!((small.len(), repeat.memory.used()), (8, 0), "4 MB are not worth it");
    }

    #[test]
    fn rows_that_might_be_much_are_made_in_parts() {
        let replace = of(regex::regexp_replace(), 200 << 20);
        // By the bound each row might have a million letters.
        let rows: Vec<String> = (0..1000).map(|row| format!("{}{row}", "x".repeat(1000))).collect();
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(rows.clone())));
        let long = "y".repeat(1000);
        let args = vec![texts, text("x{1000}"), text(&long), text("g")];
        let replaced = call(&replace, args, 1000).unwrap().into_array(1000).unwrap();
        let expected: Vec<String> = (0..1000).map(|row| format!("{long}{row}")).collect();
        assert_eq!(replaced.as_string::<i32>(), &StringArray::from(expected));
        assert!(replace.memory.peak() > 1 << 20);
        let args = |texts| vec![texts, text("x"), text(&long), text("g")];
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(rows)));
        assert_eq!(code(call(&replace, args(texts), 1000)), "53200");
    }
    #[test]
    fn what_a_call_is_simplified_to_is_bounded_too() {
        let concat = of(string::concat(), 1 << 20);
        let [first, second, column] = [lit("a"), lit("b"), col("c")];
        let simplified = concat.simplify(vec![first, second, column], &SimplifyContext::default()).unwrap();
        let ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) = simplified else { panic!("it is simpler") };
        assert_eq!((call.name(), call.args.len()), ("concat", 2));
        assert!(call.func.inner().downcast_ref::<Bounded>().is_some());
        let again = bounded(call.clone(), &concat.memory);
        assert!(!again.transformed && again.data == Expr::ScalarFunction(call));
    }
}
