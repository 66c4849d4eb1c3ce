//! Rows of a table, made by a thread while the caller stores them.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use arrow::array::cast::AsArray;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use saki_sql::SqlError;
use tpchgen::generators as rows;
use tpchgen_arrow as columns;

use super::schema::Table;

/// Smallest and largest scale factor: below, tables have next to no rows; above, keys are not tested.
pub const SCALE_MIN: f64 = 0.001;
pub const SCALE_MAX: f64 = 100_000.0;

const BATCH_ROWS: usize = 8192;
/// Batches that wait for the caller.
const QUEUE: usize = 4;

/// The rows of one table. Dropping it ends its thread.
pub struct Batches {
    receiver: Receiver<Result<RecordBatch, SqlError>>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A thread that is gone has sent all there is.
        self.receiver.recv().ok()
    }
}

/// The rows of `table` at scale factor `scale`, in primary-key order.
///
/// # Errors
/// When the scale factor is out of range or no thread can be started.
pub fn batches(table: &Table, scale: f64) -> Result<Batches, SqlError> {
    if !(SCALE_MIN..=SCALE_MAX).contains(&scale) {
        return Err(SqlError::invalid(format!("scale factor {scale}: it must be from {SCALE_MIN} to {SCALE_MAX}")));
    }
    let name = table.name;
    let (sender, receiver) = sync_channel(QUEUE);
    let generate = move || {
        for batch in generator(name, scale) {
            if sender.send(batch.map_err(SqlError::from)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name(format!("tpch-{name}")).spawn(generate).map_err(SqlError::storage)?;
    Ok(Batches { receiver })
}

type Generator = Box<dyn Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>>>;

fn generator(table: &str, scale: f64) -> Generator {
    macro_rules! of {
        ($rows:ident, $columns:ident) => {
            Box::new(columns::$columns::new(rows::$rows::new(scale, 1, 1)).with_batch_size(BATCH_ROWS))
        };
    }
    match table {
        "region" => of!(RegionGenerator, RegionArrow),
        "nation" => of!(NationGenerator, NationArrow),
        "supplier" => of!(SupplierGenerator, SupplierArrow),
        "part" => of!(PartGenerator, PartArrow),
        "partsupp" => of!(PartSuppGenerator, PartSuppArrow),
        "customer" => of!(CustomerGenerator, CustomerArrow),
        "orders" => of!(OrderGenerator, OrderArrow),
        _ => of!(LineItemGenerator, LineItemArrow),
    }
}

/// Bytes of the values themselves, which rates are given in.
pub fn data_bytes(batch: &RecordBatch) -> u64 {
    let column = |array: &dyn Array| match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        other => other.primitive_width().unwrap_or(8) as u64 * array.len() as u64,
    };
    batch.columns().iter().map(|array| column(array.as_ref())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpch::TABLES;

    #[test]
    fn every_table_has_its_rows_and_columns() {
        for table in &TABLES {
            let batches: Vec<RecordBatch> = batches(table, 0.001).unwrap().map(Result::unwrap).collect();
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(batches[0].num_columns(), table.columns.matches("NOT NULL").count(), "{}", table.name);
            if table.name == "lineitem" {
                assert!((rows as f64 / table.rows(0.001) as f64 - 1.0).abs() < 0.05);
            } else {
                assert_eq!(rows as u64, table.rows(0.001), "{}", table.name);
            }
            assert!(data_bytes(&batches[0]) > 8 * batches[0].num_rows() as u64);
        }
    }

    #[test]
    fn scales_out_of_range_are_refused() {
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(batches(&TABLES[0], scale).is_err());
        }
    }
}
