//! Texts as values of `json` and `jsonb`.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use saki_base::{DataType as Stored, Value};
use saki_catalog::SqlError;

use super::kinds::JSON;

/// The values that texts spell, of one of the two types; those of either type as one of the other.
///
/// # Errors
/// 22P02 and its like for a text that is none, 42846 for a value of another type.
pub fn parsed(values: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if values.data_type() == target {
        return Ok(Arc::clone(values));
    }
    let is_known = matches!(
        values.data_type(),
        DataType::Utf8 | DataType::Utf8View | DataType::Null | DataType::LargeUtf8 | DataType::LargeBinary
    );
    if !is_known {
        let stored = if *target == JSON { Stored::Json } else { Stored::Jsonb };
        let message = format!("cannot cast type {} to {stored}", type_name(values.data_type()));
        return Err(SqlError::invalid(message).code("42846").into());
    }
    let texts = cast(values, &DataType::Utf8)?;
    let read = |text: Option<&str>, of| match text.map(|text| Value::parse(of, text)).transpose() {
        Ok(Some(Value::Text(text))) => Ok(Some(text)),
        Ok(_) => Ok(None),
        Err(error) => Err(SqlError::from(error)),
    };
    if *target == JSON {
        let mut out = LargeBinaryBuilder::new();
        for text in texts.as_string::<i32>() {
            out.append_option(read(text, Stored::Json)?);
        }
        return Ok(Arc::new(out.finish()));
    }
    let mut out = LargeStringBuilder::new();
    for text in texts.as_string::<i32>() {
        out.append_option(read(text, Stored::Jsonb)?);
    }
    Ok(Arc::new(out.finish()))
}

/// What PostgreSQL calls a type.
pub fn type_name(of: &DataType) -> String {
    let name = match of {
        DataType::Boolean => "boolean",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(..) => "numeric",
        DataType::Binary => "bytea",
        DataType::Date32 => "date",
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}
