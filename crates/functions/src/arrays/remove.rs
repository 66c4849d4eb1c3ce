//! `array_remove`, which takes NULL for an element like any other.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{filter, is_not_null, is_null};
use datafusion::common::Result;
use datafusion::functions_nested::remove::array_remove_all_udf;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// What `array_remove` becomes, as the planner calls the one that takes all of the elements out.
pub const REMOVE: &str = "array_remove_all";

/// The function.
pub fn function() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::from(Remove { of_values: array_remove_all_udf(), signature })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Remove {
    /// The planner's, to which a NULL says nothing.
    of_values: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Remove {
    fn name(&self) -> &'static str {
        REMOVE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let field = |of: &DataType| Arc::new(arrow_schema::Field::new("argument", of.clone(), true));
        let fields: Vec<FieldRef> = arguments.iter().map(field).collect();
        Ok(fields_with_udf(&fields, self.of_values.as_ref())?.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.of_values.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let (Some(lists), Some(elements)) = (args.args.first(), args.args.get(1)) else {
            return self.of_values.invoke_with_args(args);
        };
        let (lists, elements) = (lists.to_array(rows)?, elements.to_array(rows)?);
        let Some(lists) = lists.as_list_opt::<i32>().filter(|_| elements.logical_null_count() > 0) else {
            return self.of_values.invoke_with_args(args);
        };
        let without = without_nulls(lists)?;
        if elements.logical_null_count() == rows {
            return Ok(ColumnarValue::Array(without));
        }
        let others = self.of_values.invoke_with_args(args)?.into_array(rows)?;
        Ok(ColumnarValue::Array(zip(&is_null(&elements)?, &without, &others)?))
    }
}

/// Arrays without their NULLs.
fn without_nulls(lists: &ListArray) -> Result<ArrayRef> {
    let kept: BooleanArray = is_not_null(lists.values())?;
    let (offsets, start) = (lists.value_offsets(), lists.value_offsets()[0] as usize);
    let lengths = offsets.windows(2).map(|ends| {
        let (from, to) = (ends[0] as usize, ends[1] as usize);
        kept.slice(from, to - from).true_count()
    });
    let lengths = OffsetBuffer::from_lengths(lengths);
    let length = offsets[offsets.len() - 1] as usize - start;
    let values = filter(&lists.values().slice(start, length), &kept.slice(start, length))?;
    let DataType::List(field) = lists.data_type() else { return Ok(Arc::new(lists.clone())) };
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), lengths, values, lists.nulls().cloned())?))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;

    use super::*;

    #[test]
    fn nulls_go_and_what_is_null_stays() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(9)]),
            Some(vec![Some(1), None, Some(2), None]),
            None,
            Some(vec![None]),
        ]);
        let found = without_nulls(&lists.slice(1, 3)).unwrap();
        let expected =
            ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(2)]), None, Some(Vec::new())]);
        assert_eq!(found.as_list::<i32>(), &expected);
    }
}
