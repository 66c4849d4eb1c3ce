//! The types that values of `json` and `jsonb` have in plans.

use arrow_schema::DataType;

/// Values of `json`: their text, as it was written.
pub const JSON: DataType = DataType::LargeBinary;
/// Values of `jsonb`: their text in the one form.
pub const JSONB: DataType = DataType::LargeUtf8;

/// Whether a type is one of both.
pub fn is_json(of: &DataType) -> bool {
    matches!(of, DataType::LargeBinary | DataType::LargeUtf8)
}
