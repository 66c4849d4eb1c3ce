//! `width_bucket(operand, thresholds)`: how many of some sorted bounds a value has reached.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::make_comparator;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array};
use arrow_schema::{DataType, Field, SortOptions};
use datafusion::common::Result;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use saki_catalog::SqlError;

use crate::arithmetic::cast;
use crate::order::ordered;

/// The types that the arguments become; `None`: they cannot be compared.
pub fn types(operand: &DataType, thresholds: &DataType) -> Option<Vec<DataType>> {
    let DataType::List(field) = thresholds else { return None };
    let of = comparison_coercion(operand, field.data_type())?;
    Some(vec![of.clone(), DataType::List(Arc::new(Field::new_list_field(of, true)))])
}

/// # Errors
/// 22004 for NULL among the bounds, 2202E for an array of arrays.
pub fn buckets(operands: &ArrayRef, thresholds: &ArrayRef) -> Result<ArrayRef> {
    let of = operands.data_type();
    let (operands, lists) = (ordered(&cast(operands, of)?), thresholds.as_list::<i32>());
    let bounds = ordered(&cast(lists.values(), of)?);
    if matches!(lists.values().data_type(), DataType::List(_)) {
        return Err(SqlError::data("thresholds must be one-dimensional array").code("2202E").into());
    }
    let compare = make_comparator(&operands, &bounds, SortOptions::default())?;
    let row = |row: usize| -> Result<Option<i32>> {
        if operands.is_null(row) || lists.is_null(row) {
            return Ok(None);
        }
        let (start, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
        if (start..end).any(|at| bounds.is_null(at)) {
            return Err(SqlError::data("thresholds array must not contain NULLs").code("22004").into());
        }
        // The first bound that is above.
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(row, middle) {
                Ordering::Less => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(Some((low - start) as i32))
    };
    Ok(Arc::new((0..operands.len()).map(row).collect::<Result<Int32Array>>()?))
}
