//! Columns of published segments, read and decoded on a thread that may wait.

use std::sync::Arc;
use std::time::Duration;

use arrow_buffer::Buffer;
use saki_base::{AlignedBuffer, checksum};
use saki_columns::{ColumnType, Segment, parallel};
use saki_page::{IoShare, Refusal, StoreError};
use saki_vector::Column;
use saki_volume::{RunLane, RunRead};

use super::columns_error;
use crate::database::Database;
use crate::error::{Result, SqlError};

const PATIENCE: Duration = Duration::from_millis(100);

/// A merge's way to columns of a table's segments.
pub struct RunReader<'d> {
    decoder: RunDecoder<'d>,
    share: Arc<IoShare>,
    /// Opened by the first read: it belongs to the thread that uses it.
    lane: Option<RunLane>,
    /// That decode.
    threads: usize,
    pub pages_read: u64,
}

impl<'d> RunReader<'d> {
    pub fn new(
        db: &'d Database,
        name: &'d str,
        columns: Vec<ColumnType>,
        share: &Arc<IoShare>,
        threads: usize,
    ) -> Self {
        let decoder = RunDecoder { db, name, columns };
        Self { decoder, share: Arc::clone(share), lane: None, threads, pages_read: 0 }
    }

    /// The columns `wanted` of a segment, in that order.
    pub fn read(&mut self, segment: &Segment, wanted: &[usize]) -> Result<Vec<Column>> {
        let runs = self.fetch(segment, wanted)?;
        let decoder = &self.decoder;
        let page_bytes = decoder.db.page_size().bytes();
        self.pages_read += wanted.iter().map(|column| segment.columns[*column].page_count(page_bytes)).sum::<u64>();
        let columns = parallel::map(&runs, self.threads, |(column, pages)| decoder.decode(segment, *column, pages));
        columns.into_iter().collect()
    }

    /// The pages of the columns `wanted`, in that order; all runs are on their way at once.
    fn fetch(&mut self, segment: &Segment, wanted: &[usize]) -> Result<Vec<(usize, AlignedBuffer)>> {
        let mut lane = match self.lane.take() {
            Some(lane) => lane,
            None => self.decoder.db.volume.open_run_lane().map_err(SqlError::storage)?,
        };
        let mut runs: Vec<Option<(usize, AlignedBuffer)>> = wanted.iter().map(|_| None).collect();
        let mut finished: Vec<RunRead> = Vec::new();
        let (mut next, mut pending) = (0, 0);
        while next < wanted.len() || pending > 0 {
            while let Some(column) = wanted.get(next) {
                let run = &segment.columns[*column];
                match lane.try_read(&self.share, run.first_page, run.bytes as usize, next as u64) {
                    Ok(()) => pending += 1,
                    Err(Refusal::Busy) => break,
                    Err(Refusal::Unmapped) => return Err(self.decoder.corrupt(*column, "lies on no device")),
                }
                next += 1;
            }
            lane.poll(Some(PATIENCE), &mut finished);
            for RunRead { token, result } in finished.drain(..) {
                pending -= 1;
                let position = token as usize;
                let bytes = result.map_err(|error: StoreError| SqlError::storage(error))?;
                runs[position] = Some((wanted[position], bytes));
            }
        }
        self.lane = Some(lane);
        runs.into_iter().map(|run| run.ok_or_else(|| SqlError::internal("a run was not read"))).collect()
    }
}

/// Turns the pages of runs into columns, on any thread.
struct RunDecoder<'d> {
    db: &'d Database,
    /// Of the table, for messages.
    name: &'d str,
    columns: Vec<ColumnType>,
}

impl RunDecoder<'_> {
    fn decode(&self, segment: &Segment, column: usize, pages: &[u8]) -> Result<Column> {
        let run = &segment.columns[column];
        let blob = pages.get(..run.bytes as usize).filter(|blob| checksum(blob) == run.checksum);
        let Some(blob) = blob else { return Err(self.corrupt(column, "does not have its entry's checksum")) };
        let decoded = self.db.codec.decode(&Buffer::from(blob), self.columns[column].data_type, segment.rows as usize);
        let decoded = decoded.map_err(columns_error)?;
        if decoded.len() != segment.rows as usize {
            return Err(self.corrupt(column, "has another number of rows than its segment"));
        }
        Ok(decoded)
    }

    fn corrupt(&self, column: usize, what: &str) -> SqlError {
        SqlError::corrupt(format!("column {:?} of table {}: a run {what}", self.columns[column].name, self.name))
    }
}
