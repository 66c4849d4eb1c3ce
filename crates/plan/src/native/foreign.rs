//! Expressions that DataFusion evaluates, called from ours.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use saki_vector::expr::Foreign;
use saki_vector::{Expr, ForeignError, VectorError};

use super::columns::ColumnSet;

/// A call of DataFusion's evaluation of `expr`, with the columns that it names as arguments.
pub fn foreign(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Expr> {
    let data_type = expr.data_type(schema)?;
    let used = ColumnSet::of([expr]);
    let call = PhysicalCall { expr: used.renumber(expr), schema: used.schema(schema)? };
    let column = |index: &usize| Expr::Column { index: *index, data_type: schema.field(*index).data_type().clone() };
    Ok(Expr::Foreign { call: Arc::new(call), arguments: used.columns().iter().map(column).collect(), data_type })
}

/// An expression over exactly the columns of `schema`.
#[derive(Debug)]
struct PhysicalCall {
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
}

impl Foreign for PhysicalCall {
    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef, VectorError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arguments.to_vec(), &options)?;
        let evaluated = self.expr.evaluate(&batch).and_then(|value| value.into_array(rows));
        evaluated.map_err(|error| VectorError::Foreign(ForeignError(Arc::new(saki_catalog::SqlError::from(error)))))
    }
}
