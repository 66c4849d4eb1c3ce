//! Functions whose results may be larger than their arguments by far: what they are going to make is reserved first, so
//! that `repeat('y', 1000000000)` is refused and not tried.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use saki_base::memory::Pool;
use saki_catalog::SqlError;

/// Bytes of a value at most, as in PostgreSQL.
const VALUE_BYTES_MAX: usize = (1 << 30) - 1;
/// Results that are not worth a reservation.
const SMALL_BYTES: usize = 1 << 20;

/// Bytes of the values that a call makes: of the largest, and of all.
type Weigh = fn(&[ArrayRef], usize) -> (usize, usize);

const WEIGHED: [(&str, Weigh); 4] =
    [("repeat", of_repeat), ("lpad", of_pad), ("rpad", of_pad), ("replace", of_replace)];

/// Puts bounds on such functions of a planner.
pub fn register(state: &mut SessionState, memory: &Arc<Pool>) {
    for (name, weigh) in WEIGHED {
        if let Some(function) = state.scalar_functions().get(name).cloned() {
            let bounded = Bounded { function, weigh, memory: Arc::clone(memory) };
            // It takes the place of the function itself.
            let _ = state.register_udf(Arc::new(ScalarUDF::from(bounded)));
        }
    }
}

#[derive(Clone, Debug)]
struct Bounded {
    function: Arc<ScalarUDF>,
    weigh: Weigh,
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
        self.function.simplify(args, info)
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_scalars = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if are_scalars { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let (largest, all) = (self.weigh)(&arrays, rows);
        drop(arrays);
        if largest > VALUE_BYTES_MAX {
            let message = format!("requested length too large: {largest} bytes of a value");
            return Err(SqlError::data(message).code("54000").into());
        }
        if all <= SMALL_BYTES {
            return self.function.invoke_with_args(args);
        }
        let exhausted = |error: saki_base::memory::Exhausted| DataFusionError::ResourcesExhausted(error.to_string());
        let _held = self.memory.reserve(all).map_err(exhausted)?;
        self.function.invoke_with_args(args)
    }
}

/// Length of a row's text in bytes.
fn length(texts: &ArrayRef, row: usize) -> usize {
    match texts.data_type() {
        _ if texts.is_null(row) => 0,
        DataType::Utf8 => texts.as_string::<i32>().value_length(row) as usize,
        DataType::LargeUtf8 => texts.as_string::<i64>().value_length(row) as usize,
        DataType::Utf8View => texts.as_string_view().value(row).len(),
        _ => 0,
    }
}

fn count(counts: &ArrayRef, row: usize) -> usize {
    match counts.as_primitive_opt::<Int64Type>() {
        Some(counts) if !counts.is_null(row) => usize::try_from(counts.value(row)).unwrap_or(0),
        _ => 0,
    }
}

fn sums(rows: usize, of_row: impl Fn(usize) -> usize) -> (usize, usize) {
    (0..rows).map(of_row).fold((0, 0), |(largest, all), bytes| (largest.max(bytes), all.saturating_add(bytes)))
}

fn of_repeat(args: &[ArrayRef], rows: usize) -> (usize, usize) {
    let [texts, counts, ..] = args else { return (0, 0) };
    sums(rows, |row| length(texts, row).saturating_mul(count(counts, row)))
}

fn of_pad(args: &[ArrayRef], rows: usize) -> (usize, usize) {
    let [_, counts, ..] = args else { return (0, 0) };
    sums(rows, |row| count(counts, row))
}

/// As if the text were nothing but what is replaced.
fn of_replace(args: &[ArrayRef], rows: usize) -> (usize, usize) {
    let [texts, from, to, ..] = args else { return (0, 0) };
    let bytes = |row| {
        let (text, from, to) = (length(texts, row), length(from, row), length(to, row));
        if from == 0 || to <= from { text } else { (text / from).saturating_mul(to).saturating_add(text) }
    };
    let (largest, all) = sums(rows, bytes);
    if all <= SMALL_BYTES { (largest, all) } else { sums(rows, |row| exact(args, row).unwrap_or_else(|| bytes(row))) }
}

fn exact(args: &[ArrayRef], row: usize) -> Option<usize> {
    let text = |index: usize| match ScalarValue::try_from_array(&args[index], row) {
        Ok(ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text)) => text,
        _ => None,
    };
    let (text, from, to) = (text(0)?, text(1)?, text(2)?);
    Some(text.len() + text.matches(&from).count().saturating_mul(to.len().saturating_sub(from.len())))
}
