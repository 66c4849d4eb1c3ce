//! What every format has in common.

use std::io::{self, Write};

use arrow::array::RecordBatch;

/// Writes the rows of one result as they come.
pub trait RowWriter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()>;

    /// After the last batch.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()>;
}
