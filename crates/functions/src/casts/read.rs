//! Texts as values.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use saki_base::{DataType, Value};
use saki_catalog::SqlError;
use saki_catalog::convert::array_of;

/// Texts as values of a type that does not depend on the session.
///
/// # Errors
/// What is said of a text that is none.
pub fn parsed(texts: &ArrayRef, data_type: DataType) -> Result<ArrayRef> {
    let texts = cast(texts, &arrow_schema::DataType::Utf8)?;
    let value = |text: Option<&str>| text.map_or(Ok(Value::Null), |text| Value::parse(data_type, text));
    let values: std::result::Result<Vec<_>, _> = texts.as_string::<i32>().iter().map(value).collect();
    Ok(array_of(data_type, &values.map_err(SqlError::from)?))
}
