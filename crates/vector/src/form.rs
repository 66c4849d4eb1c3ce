//! Native forms: how columns of a logical type are held between operators.
//!
//! | logical type | native forms |
//! |---|---|
//! | `Boolean`, `Int16/32/64`, `Float32/64`, `Date32`, `Time64`, `Timestamp(µs, …)`, `FixedSizeBinary(16)` | the same |
//! | `Decimal128(p, s)` | `Int64Array` of unscaled values if they fit, else `Decimal128Array` with scale `s` |
//! | `Utf8` (and `Utf8View`) | `StringViewArray`, or `DictionaryArray<UInt16>` over a `StringViewArray` |
//! | `LargeUtf8` (`jsonb`), `LargeBinary` (`json`) | as `Utf8` |
//! | `Binary` (and `BinaryView`) | `BinaryViewArray` |
//! | `Timestamp(s, …)` (labels of enumerations) | `Int64Array` of their numbers |
//! | `List` of elements that columns have | `BinaryViewArray` of their bytes ([`crate::surface::lists`]) |
//! | anything else | the same array |
//!
//! The logical type is not in the column: plans know it. A dictionary may hold values that no row has, holds no
//! NULL, and may hold a value twice only if it came from elsewhere than a segment: do not rely on distinctness.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, TimestampSecondType, UInt16Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, DictionaryArray, Int64Array};
use arrow_schema::{DataType, TimeUnit};

use crate::column::Column;
use crate::surface::lists;
use crate::{Result, VectorError};

/// The dictionary form of text.
pub type TextDictionary = DictionaryArray<UInt16Type>;

/// A surface array in a native form: nothing is copied but text and binary of the offset kind, whose views are made.
pub fn from_surface(array: &ArrayRef) -> Result<Column> {
    Ok(Column::new(match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => arrow_cast::cast(array, &DataType::Utf8View)?,
        DataType::LargeBinary => json_views(array)?,
        DataType::Binary => arrow_cast::cast(array, &DataType::BinaryView)?,
        DataType::Dictionary(..) => arrow_cast::cast(array, &DataType::Utf8View)?,
        DataType::Timestamp(TimeUnit::Second, _) => {
            Arc::new(array.as_primitive::<TimestampSecondType>().reinterpret_cast::<Int64Type>())
        }
        DataType::List(_) => match lists::held(array) {
            Some(held) => Arc::new(held.map_err(VectorError::internal)?),
            None => Arc::clone(array),
        },
        _ => Arc::clone(array),
    }))
}

/// A native column as an array of exactly `logical` type.
pub fn to_surface(column: &Column, logical: &DataType) -> Result<ArrayRef> {
    let array = column.array();
    if array.data_type() == logical {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), logical) {
        (DataType::Int64, DataType::Decimal128(precision, scale)) => {
            let narrow = array.as_primitive::<Int64Type>();
            let wide = narrow.unary::<_, Decimal128Type>(i128::from);
            Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale)?))
        }
        (DataType::Decimal128(..), DataType::Decimal128(precision, scale)) => {
            let wide = array.as_primitive::<Decimal128Type>().clone();
            Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale)?))
        }
        (DataType::Int64, DataType::Timestamp(TimeUnit::Second, _)) => {
            let numbers = array.as_primitive::<Int64Type>().reinterpret_cast::<TimestampSecondType>();
            Ok(Arc::new(numbers.with_data_type(logical.clone())))
        }
        (DataType::BinaryView, list) if let Some(element) = lists::element_of(list) => {
            Ok(Arc::new(lists::decode(element, array.as_binary_view().iter()).map_err(VectorError::internal)?))
        }
        (_, DataType::LargeBinary) => {
            Ok(arrow_cast::cast(&arrow_cast::cast(array, &DataType::LargeUtf8)?, &DataType::LargeBinary)?)
        }
        _ => Ok(arrow_cast::cast(array, logical)?),
    }
}

fn json_views(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(arrow_cast::cast(&arrow_cast::cast(array, &DataType::LargeUtf8)?, &DataType::Utf8View)?)
}

/// The unscaled values of a decimal column in 16 bytes, whichever form it has.
pub fn wide_decimals(column: &Column) -> Result<Decimal128Array> {
    let array = column.array();
    match array.data_type() {
        DataType::Int64 => Ok(array.as_primitive::<Int64Type>().unary(i128::from)),
        DataType::Decimal128(..) => Ok(array.as_primitive::<Decimal128Type>().clone()),
        other => Err(VectorError::internal(format!("{other} is no form of a decimal"))),
    }
}

/// The unscaled values of a decimal column in 8 bytes, if all of them fit.
pub fn narrow_decimals(array: &Decimal128Array) -> Option<Int64Array> {
    let fits = array.values().iter().all(|value| i64::try_from(*value).is_ok());
    fits.then(|| array.unary::<_, Int64Type>(|value| value as i64))
}

/// The text of a column as views, whichever form it has.
pub fn text_views(column: &Column) -> Result<ArrayRef> {
    text_views_of(column.array())
}

pub(crate) fn text_views_of(array: &ArrayRef) -> Result<ArrayRef> {
    match array.as_any().downcast_ref::<TextDictionary>() {
        Some(dictionary) => Ok(arrow_select::take::take(dictionary.values(), dictionary.keys(), None)?),
        None => Ok(Arc::clone(array)),
    }
}
