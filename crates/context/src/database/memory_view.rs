//! `saki.memory`: what statements take of the server's memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use saki_base::memory::Pool;
use saki_catalog::Result;
use saki_system::SystemView;

/// The view over a pool.
#[derive(Debug)]
pub struct MemoryView {
    schema: SchemaRef,
    pool: Arc<Pool>,
}

impl MemoryView {
    pub fn new(pool: Arc<Pool>) -> Self {
        let field = |name| Field::new(name, DataType::Int64, true);
        let names = ["limit_bytes", "used_bytes", "peak_bytes", "refused"];
        Self { schema: Arc::new(Schema::new(names.map(field).to_vec())), pool }
    }
}

impl SystemView for MemoryView {
    fn name(&self) -> &str {
        "memory"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Result<RecordBatch> {
        let pool = &self.pool;
        let bytes = |bytes: usize| i64::try_from(bytes).ok();
        // No limit is NULL.
        let limit = Some(pool.limit()).filter(|limit| *limit != usize::MAX).and_then(bytes);
        let values = [limit, bytes(pool.used()), bytes(pool.peak()), i64::try_from(pool.refused()).ok()];
        let column = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        Ok(RecordBatch::try_new(self.schema(), values.map(column).to_vec())?)
    }
}
