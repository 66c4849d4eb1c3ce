//! Functions whose results may be larger than their arguments by far: what they are going to make is reserved first, so
//! that `repeat('y', 1000000000)` is refused and not tried.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use saki_base::memory::Pool;
use saki_catalog::SqlError;
use saki_plan::execution::memory::exhausted;

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
        let arrays = args.args.iter().map(weighable).collect::<Result<Vec<_>>>()?;
        let (largest, all) = (self.weigh)(&arrays, rows);
        if largest > VALUE_BYTES_MAX {
            let message = format!("requested length too large: {largest} bytes of a value");
            return Err(SqlError::data(message).code("54000").into());
        }
        if all <= SMALL_BYTES {
            return self.function.invoke_with_args(args);
        }
        let _held = self.memory.reserve(all).map_err(exhausted)?;
        self.function.invoke_with_args(args)
    }
}

/// An argument's values; of a constant only one, which stands for every row: spread over them it may be larger than
/// there is memory.
fn weighable(argument: &ColumnarValue) -> Result<ArrayRef> {
    match argument {
        ColumnarValue::Array(values) => Ok(Arc::clone(values)),
        ColumnarValue::Scalar(value) => value.to_array(),
    }
}

/// Where a row's value lies, if it has one.
fn place(values: &ArrayRef, row: usize) -> Option<usize> {
    let place = row.min(values.len().checked_sub(1)?);
    (!values.is_null(place)).then_some(place)
}

fn text(texts: &ArrayRef, row: usize) -> Option<&str> {
    let place = place(texts, row)?;
    match texts.data_type() {
        DataType::Utf8 => Some(texts.as_string::<i32>().value(place)),
        DataType::LargeUtf8 => Some(texts.as_string::<i64>().value(place)),
        DataType::Utf8View => Some(texts.as_string_view().value(place)),
        _ => None,
    }
}

/// Length of a row's text in bytes.
fn length(texts: &ArrayRef, row: usize) -> usize {
    text(texts, row).map_or(0, str::len)
}

fn count(counts: &ArrayRef, row: usize) -> usize {
    let count = counts.as_primitive_opt::<Int64Type>().zip(place(counts, row));
    count.map_or(0, |(counts, place)| usize::try_from(counts.value(place)).unwrap_or(0))
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

/// Weighed as if the text were nothing but what is replaced; only if that is much, what is replaced is counted.
fn of_replace(args: &[ArrayRef], rows: usize) -> (usize, usize) {
    let [texts, from, to, ..] = args else { return (0, 0) };
    let at_most = |row| {
        let (text, from, to) = (length(texts, row), length(from, row), length(to, row));
        if from == 0 || to <= from { text } else { (text / from).saturating_mul(to).saturating_add(text) }
    };
    let exactly = |row| match (text(texts, row), text(from, row), text(to, row)) {
        (Some(text), Some(from), Some(to)) => {
            text.len() + text.matches(from).count().saturating_mul(to.len().saturating_sub(from.len()))
        }
        _ => 0,
    };
    let (largest, all) = sums(rows, at_most);
    if all <= SMALL_BYTES { (largest, all) } else { sums(rows, exactly) }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray, StringViewArray};
    use datafusion::common::ScalarValue;

    use super::*;

    fn constant(value: ScalarValue) -> ArrayRef {
        weighable(&ColumnarValue::Scalar(value)).unwrap()
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn a_constant_weighs_as_much_as_its_value_in_every_row_and_is_held_once() {
        let once = constant(ScalarValue::Utf8(Some("abc".into())));
        let spread = texts(&[Some("abc"); 4]);
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), None, Some(-1), Some(5)]));
        assert_eq!(once.len(), 1);
        assert_eq!(of_repeat(&[once, Arc::clone(&counts)], 4), (15, 21));
        assert_eq!(of_repeat(&[spread, counts], 4), (15, 21));
    }

    #[test]
    fn what_is_replaced_is_counted_where_it_may_be_much() {
        let long = "ab".repeat(SMALL_BYTES);
        let rows = texts(&[Some(&long), Some("b"), None]);
        let [from, to] = ["b", "xyz"].map(|text| constant(ScalarValue::Utf8(Some(text.into()))));
        assert_eq!(of_replace(&[rows, from, to], 3), (4 * SMALL_BYTES, 4 * SMALL_BYTES + 3));
    }

    #[test]
    fn texts_are_read_in_each_of_their_forms_and_no_rows_are_nothing() {
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("four"), None]));
        assert_eq!((length(&views, 0), length(&views, 1)), (4, 0));
        assert_eq!(length(&constant(ScalarValue::LargeUtf8(Some("xy".into()))), 7), 2);
        assert_eq!(length(&texts(&[]), 0), 0);
    }
}
