//! The one element of a list.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ListArray, UInt32Array};
use arrow_schema::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_catalog::SqlError;

/// The element of a list of one; NULL of a list of none, or none.
///
/// # Errors
/// When it is evaluated: 21000 if there are more.
pub fn only_element(list: Expr) -> Expr {
    static ELEMENT: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(OnlyElement(Signature::any(1, Volatility::Immutable)))));
    ELEMENT.call(vec![list])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct OnlyElement(Signature);

impl ScalarUDFImpl for OnlyElement {
    fn name(&self) -> &str {
        "only_element"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::List(item)] => Ok(item.data_type().clone()),
            _ => internal_err!("the one element of {arguments:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let list = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(elements(list.as_list())?))
    }
}

fn elements(lists: &ListArray) -> Result<arrow_array::ArrayRef> {
    let mut places = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let is_null = lists.is_null(row);
        match lists.value_length(row) {
            length if is_null || length == 0 => places.push(None),
            1 => places.push(Some(lists.value_offsets()[row] as u32)),
            _ => {
                let message = "more than one row returned by a subquery used as an expression";
                return Err(SqlError::invalid(message).code("21000").into());
            }
        }
    }
    Ok(arrow::compute::take(lists.values(), &UInt32Array::from(places), None)?)
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_array::types::Int64Type;

    use super::*;

    #[test]
    fn one_element_is_taken_and_more_are_refused() {
        let lists = |lists: Vec<Option<Vec<Option<i64>>>>| ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        let taken = elements(&lists(vec![Some(vec![Some(7)]), None, Some(vec![]), Some(vec![None])])).unwrap();
        assert_eq!(taken.as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(7), None, None, None]));
        let error = elements(&lists(vec![None, Some(vec![Some(1), Some(1)])])).unwrap_err();
        assert!(error.to_string().contains("more than one row"), "{error}");
    }
}
