//! Columns of published segments, read and decoded on a thread that may wait.

use std::sync::Arc;
use std::time::Duration;

use arrow_buffer::Buffer;
use saki_base::checksum;
use saki_columns::{ColumnType, Segment};
use saki_page::{IoShare, Refusal, StoreError};
use saki_vector::Column;
use saki_volume::{RunLane, RunRead};

use super::columns_error;
use crate::database::Database;
use crate::error::{Result, SqlError};

const PATIENCE: Duration = Duration::from_millis(100);

/// One thread's way to columns of a table's segments.
pub struct RunReader<'d> {
    db: &'d Database,
    /// Of the table, for messages.
    name: &'d str,
    columns: Vec<ColumnType>,
    share: Arc<IoShare>,
    /// Opened by the first read: it belongs to the thread that uses it.
    lane: Option<RunLane>,
    pub pages_read: u64,
}

impl<'d> RunReader<'d> {
    pub fn new(db: &'d Database, name: &'d str, columns: Vec<ColumnType>, share: &Arc<IoShare>) -> Self {
        Self { db, name, columns, share: Arc::clone(share), lane: None, pages_read: 0 }
    }

    /// The columns `wanted` of a segment, in that order; all runs are on their way at once.
    pub fn read(&mut self, segment: &Segment, wanted: &[usize]) -> Result<Vec<Column>> {
        let mut lane = match self.lane.take() {
            Some(lane) => lane,
            None => self.db.volume.open_run_lane().map_err(SqlError::storage)?,
        };
        let mut columns: Vec<Option<Column>> = vec![None; wanted.len()];
        let mut finished: Vec<RunRead> = Vec::new();
        let (mut next, mut pending) = (0, 0);
        while next < wanted.len() || pending > 0 {
            while let Some(column) = wanted.get(next) {
                let run = &segment.columns[*column];
                match lane.try_read(&self.share, run.first_page, run.bytes as usize, next as u64) {
                    Ok(()) => pending += 1,
                    Err(Refusal::Busy) => break,
                    Err(Refusal::Unmapped) => return Err(self.corrupt(*column, "lies on no device")),
                }
                next += 1;
            }
            lane.poll(Some(PATIENCE), &mut finished);
            for RunRead { token, result } in finished.drain(..) {
                pending -= 1;
                let position = token as usize;
                let bytes = result.map_err(|error: StoreError| SqlError::storage(error))?;
                columns[position] = Some(self.decode(segment, wanted[position], &bytes)?);
            }
        }
        self.lane = Some(lane);
        columns.into_iter().map(|column| column.ok_or_else(|| SqlError::internal("a run was not read"))).collect()
    }

    fn decode(&mut self, segment: &Segment, column: usize, pages: &[u8]) -> Result<Column> {
        let run = &segment.columns[column];
        let blob = pages.get(..run.bytes as usize).filter(|blob| checksum(blob) == run.checksum);
        let Some(blob) = blob else { return Err(self.corrupt(column, "does not have its entry's checksum")) };
        let data_type = self.columns[column].data_type;
        let decoded = self.db.codec.decode(&Buffer::from(blob), data_type, segment.rows as usize);
        let decoded = decoded.map_err(columns_error)?;
        if decoded.len() != segment.rows as usize {
            return Err(self.corrupt(column, "has another number of rows than its segment"));
        }
        self.pages_read += run.page_count(self.db.page_size().bytes());
        Ok(decoded)
    }

    fn corrupt(&self, column: usize, what: &str) -> SqlError {
        SqlError::corrupt(format!("column {:?} of table {}: a run {what}", self.columns[column].name, self.name))
    }
}
