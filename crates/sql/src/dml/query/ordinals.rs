//! Rows that are numbered, so that what a query makes of them can be told apart.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, SelectItem};

use super::find::named;
use saki_catalog::{Result, SqlError};

/// A name that no column has.
const ORDINAL: &str = "row ordinal";

/// Rows with their numbers from 0, as their last column.
pub fn with_ordinals(batch: &RecordBatch) -> Result<RecordBatch> {
    let mut fields: Vec<Field> = batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new(ORDINAL, DataType::Int64, false));
    let mut arrays = batch.columns().to_vec();
    arrays.push(Arc::new(Int64Array::from_iter_values(0..batch.num_rows() as i64)));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// The number of a relation's row, as an item of a query.
pub fn ordinal_item(relation: &Ident) -> SelectItem {
    named(ordinal(relation), ORDINAL.into())
}

/// Whether rows of two relations have the same number.
pub fn same_ordinal(left: &Ident, right: &Ident) -> Expr {
    let (left, right) = (Box::new(ordinal(left)), Box::new(ordinal(right)));
    Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
}

fn ordinal(relation: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![relation.clone(), Ident::with_quote('"', ORDINAL)])
}

/// The numbers in the first column of what a query gave.
///
/// # Errors
/// If it has none.
pub fn ordinals_of(found: &RecordBatch) -> Result<Vec<u32>> {
    let numbers = found.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
    let numbers = numbers.ok_or_else(|| SqlError::internal("rows without numbers"))?;
    Ok(numbers.values().iter().map(|number| *number as u32).collect())
}
