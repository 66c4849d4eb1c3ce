//! A sequence as a relation of one row: how far it has come.

use std::sync::Arc;

use arrow_array::{BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Result;
use saki_catalog::{Demand, Demanded, ObjectKind, Privilege, Sequence, SequencePosition};
use saki_plan::Asking;

/// The relation of a sequence that has come to `position`. `log_cnt` is 0: what is reserved is no matter of the row.
///
/// # Errors
/// 42501 for a role that may not read it.
pub fn relation_of(
    sequence: &Sequence,
    position: SequencePosition,
    asking: Option<&Asking>,
) -> Result<Arc<dyn TableProvider>> {
    if let Some(asking) = asking {
        let (name, of) = (sequence.name.clone(), Demanded::Any(Privilege::Select.into()));
        let demand = Demand { object: sequence.id.into(), kind: ObjectKind::Sequence, name, of };
        asking.rights.catalog.demand(asking.role, &demand)?;
    }
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let schema = Arc::new(Schema::new(vec![
        field("last_value", DataType::Int64),
        field("log_cnt", DataType::Int64),
        field("is_called", DataType::Boolean),
    ]));
    let row = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from(vec![position.last_value])),
            Arc::new(Int64Array::from(vec![0])),
            Arc::new(BooleanArray::from(vec![position.is_called])),
        ],
    )?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![row]])?))
}
