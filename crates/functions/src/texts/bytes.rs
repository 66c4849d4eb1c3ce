//! `text::uuid`, a type that the planner does not know, and `text::bytea`, of which it takes the letters for bytes.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, FixedSizeBinaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as Arrow;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use saki_base::{DataType, Value};

use saki_catalog::SqlError;

/// What the functions are called.
pub const UUID: &str = "as_uuid";
pub const BYTEA: &str = "as_bytea";

/// Bytes of a uuid.
const UUID_BYTES: i32 = 16;

pub fn functions() -> [ScalarUDF; 2] {
    [(UUID, DataType::Uuid), (BYTEA, DataType::Bytea)].map(|(name, data_type)| {
        ScalarUDF::from(Read { name, data_type, signature: Signature::any(1, Volatility::Immutable) })
    })
}

/// Reads text as values of a type.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Read {
    name: &'static str,
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Read {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(saki_exec::arrow_type(self.data_type))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays: &[ArrayRef]| self.read(&arrays[0]), Vec::new())(&args.args)
    }
}

impl Read {
    fn read(&self, values: &ArrayRef) -> Result<ArrayRef> {
        if *values.data_type() == saki_exec::arrow_type(self.data_type) {
            return Ok(Arc::clone(values));
        }
        let texts = cast(values, &Arrow::Utf8)?;
        let read = |text: Option<&str>| {
            text.map(|text| Value::parse(self.data_type, text)).transpose().map_err(SqlError::from)
        };
        let mut uuids = FixedSizeBinaryBuilder::new(UUID_BYTES);
        let mut bytes = BinaryBuilder::new();
        for text in texts.as_string::<i32>() {
            match read(text)? {
                Some(Value::Uuid(uuid)) => uuids.append_value(uuid)?,
                Some(Value::Bytea(value)) => bytes.append_value(value),
                _ if self.data_type == DataType::Uuid => uuids.append_null(),
                _ => bytes.append_null(),
            }
        }
        Ok(if self.data_type == DataType::Uuid { Arc::new(uuids.finish()) } else { Arc::new(bytes.finish()) })
    }
}
