//! `pg_sleep(seconds)`: it waits without holding a thread, and ends with its statement.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, StringArray};
use arrow_schema::DataType;
use async_trait::async_trait;
use datafusion::common::{Result, exec_err};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// Gives a session's queries the function.
pub fn register(context: &SessionContext) {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    context.register_udf(AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf());
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("pg_sleep waits where a query's rows are made")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seconds = args.args[0].to_array(args.number_rows)?;
        let mut slept = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let is_null = seconds.is_null(row);
            if !is_null {
                // As in PostgreSQL, what is not positive is no wait. What no clock can tell is for ever.
                let seconds = seconds.as_primitive::<Float64Type>().value(row).max(0.0);
                match Duration::try_from_secs_f64(seconds) {
                    Ok(duration) => tokio::time::sleep(duration).await,
                    Err(_) => std::future::pending().await,
                }
            }
            slept.push((!is_null).then_some(""));
        }
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(slept))))
    }
}
