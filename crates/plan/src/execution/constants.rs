//! Long constants. The planner clones expressions and spells them out as names at each of its steps, which of a text of
//! 200 MB took it 20 copies and 17 seconds. A long constant is a call here of a function without arguments, whose value
//! is held once, and counted for as long as it is.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use saki_base::memory::{Pool, Reservation};

use super::memory::exhausted;

/// Bytes from which on a constant is long.
pub const LONG_BYTES: usize = 1 << 20;

/// Whether a constant is long enough to be held.
pub fn is_long(value: &ScalarValue) -> bool {
    let bytes = match value {
        ScalarValue::Utf8(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes)) => bytes.len(),
        _ => 0,
    };
    bytes >= LONG_BYTES
}

/// A constant that is held once.
///
/// # Errors
/// 53200 if the pool has no room for it.
pub fn held(value: ScalarValue, memory: &Arc<Pool>) -> Result<Expr> {
    let reservation = memory.reserve(value.size()).map_err(exhausted)?;
    // Volatile, though it is none: or the planner would put a literal in its place.
    let signature = Signature::new(TypeSignature::Nullary, Volatility::Volatile);
    let function = HeldConstant { held: Arc::new(Held { value, _reservation: reservation }), signature };
    Ok(ScalarUDF::from(function).call(Vec::new()))
}

/// Bytes of the constant that an expression is, if it is one that is held.
pub fn held_bytes(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    call.fun().inner().downcast_ref::<HeldConstant>().map(|constant| constant.held.value.size())
}

struct Held {
    value: ScalarValue,
    _reservation: Reservation,
}

struct HeldConstant {
    held: Arc<Held>,
    signature: Signature,
}

impl fmt::Debug for HeldConstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldConstant({} bytes)", self.held.value.size())
    }
}

impl PartialEq for HeldConstant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }
}

impl Eq for HeldConstant {}

impl Hash for HeldConstant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.held).hash(state);
    }
}

impl ScalarUDFImpl for HeldConstant {
    fn name(&self) -> &str {
        "long_constant"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.held.value.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.held.value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::{DFSchema, DataFusionError};
    use datafusion::execution::context::ExecutionProps;
    use datafusion::physical_expr::create_physical_expr;

    use super::*;
    use crate::fixture::small_batch;

    fn text(bytes: usize) -> ScalarValue {
        ScalarValue::Utf8(Some("x".repeat(bytes)))
    }

    #[test]
    fn a_held_constant_is_its_value_and_is_counted_while_it_is_there() {
        assert!(is_long(&text(LONG_BYTES)) && !is_long(&text(LONG_BYTES - 1)) && !is_long(&ScalarValue::Utf8(None)));
        let pool = Arc::new(Pool::new(3 * LONG_BYTES));
        let [first, second] = [1, 2].map(|_| held(text(LONG_BYTES), &pool).unwrap());
        assert!(first == first.clone() && first != second, "each is itself");
        assert!(first.to_string().len() < 40, "{first}");
        let refused = held(text(LONG_BYTES), &pool).unwrap_err();
        assert!(matches!(refused, DataFusionError::ResourcesExhausted(_)), "{refused}");

        let (schema, properties, context) = (DFSchema::empty(), ExecutionProps::new(), Default::default());
        let physical = create_physical_expr(&first, &schema, &properties, &context).unwrap();
        assert!(held_bytes(&physical).is_some_and(|bytes| bytes >= LONG_BYTES));
        let value = physical.evaluate(&small_batch(&[(Some(1), None, None); 3])).unwrap();
        assert!(matches!(value, ColumnarValue::Scalar(value) if value == text(LONG_BYTES)));
        drop((first, second, physical));
        assert_eq!(pool.used(), 0);
    }
}
