//! Values of other types on their way into columns of text.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use saki_base::{Column, DataType, ValueRef};
use saki_catalog::{ColumnReader, Result, Table};

/// Values that become text are spelled as SQL spells them.
pub fn texts(batch: &RecordBatch, table: &Table) -> Result<RecordBatch> {
    let schema = batch.schema();
    let mut fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let mut arrays: Vec<ArrayRef> = batch.columns().to_vec();
    for (position, column) in table.visible().iter().enumerate() {
        let text = matches!(column.data_type, DataType::Text | DataType::Varchar(_) | DataType::Char(_));
        let Some(found) = saki_postgres::types::stored_as(arrays[position].data_type()) else { continue };
        if !text || found == DataType::Text {
            continue;
        }
        let reader = ColumnReader::new(&arrays[position], &Column { data_type: found, ..column.clone() })?;
        let spelled = (0..batch.num_rows()).map(|row| match reader.value(row) {
            ValueRef::Null => None,
            ValueRef::Bool(value) => Some(value.to_string()),
            value => Some(saki_base::display(value, found).to_string()),
        });
        let spelled: ArrayRef = Arc::new(spelled.collect::<StringArray>());
        fields[position] = fields[position].clone().with_data_type(arrow_schema::DataType::Utf8);
        arrays[position] = spelled;
    }
    Ok(RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), arrays)?)
}
