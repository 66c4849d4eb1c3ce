//! `array_fill`: an array of one value, as long in each of its dimensions as is said.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use datafusion::arrow::compute::take;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use saki_catalog::SqlError;

use crate::arithmetic::undefined_function;

/// What `array_fill` becomes: behind the value stand the lengths of the dimensions, of which the type depends.
pub const FILL: &str = "pg_array_fill";
/// Elements of an array at most, as in PostgreSQL.
pub const ELEMENTS_MAX: i64 = 134_217_727;

/// The function.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(Fill { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Fill {
    signature: Signature,
}

impl ScalarUDFImpl for Fill {
    fn name(&self) -> &'static str {
        FILL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let is_length = |of: &DataType| of.is_signed_integer() || of.is_null();
        match arguments.split_first() {
            Some((value, lengths)) if lengths.iter().all(is_length) => {
                Ok([value.clone()].into_iter().chain(lengths.iter().map(|_| DataType::Int64)).collect())
            }
            _ => Err(undefined_function("array_fill", "it takes a value and an array of integers").into()),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let Some((value, lengths)) = arguments.split_first() else {
            return Err(SqlError::internal("array_fill without a value").into());
        };
        let list = |of: DataType| DataType::List(Arc::new(Field::new_list_field(of, true)));
        // Without a dimension it has no elements.
        Ok((0..lengths.len().max(1)).fold(value.clone(), |of, _| list(of)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(filled, Vec::new())(&args.args)
    }
}

fn filled(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((values, lengths)) = arrays.split_first() else {
        return Err(SqlError::internal("array_fill without a value").into());
    };
    let rows = (0..values.len()).map(|row| lengths_of(lengths, row)).collect::<Result<Vec<_>>>()?;
    let total = |dimensions: &Vec<usize>| if dimensions.is_empty() { 0 } else { dimensions.iter().product::<usize>() };
    let counts: Vec<usize> = rows.iter().map(total).collect();
    let places = (0_u64..).zip(&counts).flat_map(|(row, count)| std::iter::repeat_n(row, *count));
    let mut level = take(values, &arrow_array::UInt64Array::from_iter_values(places), None)?;
    // From the innermost dimension out: each list holds as many of those below as its dimension is long.
    for depth in (0..lengths.len().max(1)).rev() {
        let lists = rows.iter().zip(&counts).flat_map(|(dimensions, count)| {
            let length = dimensions.get(depth).copied().unwrap_or(0);
            let of_level = match depth {
                0 => 1,
                _ if *count == 0 => 0,
                _ => dimensions[..depth].iter().product(),
            };
            std::iter::repeat_n(if *count == 0 { 0 } else { length }, of_level)
        });
        let offsets = OffsetBuffer::from_lengths(lists);
        let field = Arc::new(Field::new_list_field(level.data_type().clone(), true));
        level = Arc::new(ListArray::try_new(field, offsets, level, None::<NullBuffer>)?);
    }
    Ok(level)
}

/// How long a row's array is in each dimension.
///
/// # Errors
/// 22004 for a length that is NULL, 54000 for more elements than an array has.
fn lengths_of(lengths: &[ArrayRef], row: usize) -> Result<Vec<usize>> {
    let mut elements = 1_i64;
    let mut of_row = Vec::with_capacity(lengths.len());
    for lengths in lengths {
        if lengths.is_null(row) {
            return Err(SqlError::data("dimension values cannot be null").code("22004").into());
        }
        let length = lengths.as_primitive::<Int64Type>().value(row);
        let too_large =
            || SqlError::data(format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})")).code("54000");
        if length < 0 {
            return Err(too_large().into());
        }
        elements = elements.checked_mul(length).filter(|all| *all <= ELEMENTS_MAX).ok_or_else(too_large)?;
        of_row.push(usize::try_from(length).map_err(|_| too_large())?);
    }
    Ok(of_row)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, Int64Array};

    use super::*;

    #[test]
    fn each_row_has_its_own_lengths() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(8)]));
        let lengths: [ArrayRef; 2] =
            [Arc::new(Int64Array::from(vec![2, 1, 0])), Arc::new(Int64Array::from(vec![1, 2, 5]))];
        let [first, second] = lengths;
        let lists = filled(&[values, first, second]).unwrap();
        let texts = (0..3).map(|row| {
            let list = lists.as_list::<i32>().value(row);
            let inner = list.as_list::<i32>();
            inner
                .iter()
                .flatten()
                .map(|list| format!("{:?}", list.as_primitive::<arrow_array::types::Int32Type>()))
                .map(|text| text.split_whitespace().collect::<String>())
                .collect::<Vec<_>>()
                .join(";")
        });
        assert_eq!(
            texts.collect::<Vec<_>>(),
            ["PrimitiveArray<Int32>[7,];PrimitiveArray<Int32>[7,]", "PrimitiveArray<Int32>[null,null,]", "",]
        );
    }
}
