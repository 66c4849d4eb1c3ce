//! `||` of texts or of bytes as a function, which can be bounded.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_catalog::SqlError;

/// What the function is called.
pub const CONCAT: &str = "||";

/// Whether it is such values that are joined.
pub fn joins(left: &Result<DataType>, right: &Result<DataType>) -> bool {
    let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (left, right) {
        (Ok(DataType::Binary), Ok(DataType::Binary)) => true,
        (Ok(left), Ok(right)) => is_text(left) && is_text(right),
        _ => false,
    }
}

pub fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::from(Concat { signature: Signature::user_defined(Volatility::Immutable) }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Concat {
    signature: Signature,
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        CONCAT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else { return Err(SqlError::internal("|| has two sides").into()) };
        let (left, right) = BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.coerce_types(types)?.swap_remove(0))
    }

    /// NULL beside anything is NULL.
    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else { return Err(SqlError::internal("|| has two sides").into()) };
        let are_scalars = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if are_scalars { 1 } else { args.number_rows };
        let joined = concat_elements_dyn(&left.to_array(rows)?, &right.to_array(rows)?)?;
        Ok(match are_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
}
