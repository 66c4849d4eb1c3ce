//! Columns of published segments, read and decoded on a thread that may wait.
//!
//! The runs of one segment are on their way while those of the segment before are decoded, for whoever knows which
//! comes next.

use std::sync::Arc;
use std::time::Duration;

use arrow_buffer::Buffer;
use saki_base::{AlignedBuffer, PageAddress, checksum};
use saki_columns::{ColumnRun, ColumnType, Segment, missing_column, parallel};
use saki_page::{IoShare, Refusal, RunLane, RunRead, RunStore, StoreError};
use saki_vector::Column;

use crate::database::Database;
use saki_catalog::{Result, SqlError};

/// How long a completion is waited for at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// A merge's way to columns of a table's segments.
pub struct RunReader<'d> {
    decoder: RunDecoder<'d>,
    share: Arc<IoShare>,
    /// Opened by the first read: it belongs to the thread that uses it.
    lane: Option<Box<dyn RunLane>>,
    /// Of the segment that is likely to be read next.
    ahead: Option<Fetch>,
    next_token: u64,
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
        let share = Arc::clone(share);
        Self { decoder, share, lane: None, ahead: None, next_token: 0, threads, pages_read: 0 }
    }

    /// The columns `wanted` of a segment, in that order. All columns of `next`, if given, begin to be read.
    ///
    /// # Errors
    /// Of the device, and `corrupt` for runs that are not what their entries say.
    pub fn read(&mut self, segment: &Segment, wanted: &[usize], next: Option<&Segment>) -> Result<Vec<Column>> {
        let stored: Vec<usize> = stored(segment, wanted.iter().copied()).collect();
        let runs = self.fetch(segment, &stored, next)?;
        let decoder = &self.decoder;
        let page_bytes = decoder.db.page_size().bytes();
        self.pages_read += wanted.iter().map(|column| segment.columns[*column].page_count(page_bytes)).sum::<u64>();
        let columns = parallel::map(&runs, self.threads, |(column, pages)| decoder.decode(segment, *column, pages));
        let mut columns = columns.into_iter();
        let column = |column: &usize| match segment.columns[*column].is_missing() {
            true => Ok(missing_column(&decoder.columns[*column], segment.rows as usize)?),
            false => columns.next().unwrap_or_else(|| Err(SqlError::internal("a run was not decoded"))),
        };
        wanted.iter().map(column).collect()
    }

    /// The pages of the columns `wanted`, in that order; all runs are on their way at once.
    fn fetch(
        &mut self,
        segment: &Segment,
        wanted: &[usize],
        next: Option<&Segment>,
    ) -> Result<Vec<(usize, AlignedBuffer)>> {
        let mut lane = match self.lane.take() {
            Some(lane) => lane,
            None => self.decoder.db.volume.open_run_lane().map_err(SqlError::storage)?,
        };
        let mut fetch = match self.ahead.take() {
            Some(ahead) if ahead.is_of(segment) => ahead,
            _ => self.begin(segment, wanted),
        };
        let mut finished: Vec<RunRead> = Vec::new();
        loop {
            fetch.ask(&mut *lane, &self.share, &self.decoder);
            if fetch.has_come() {
                break;
            }
            lane.poll(Some(PATIENCE), &mut finished);
            // What nobody waits for was of a segment that was not read after all.
            finished.drain(..).for_each(|read| fetch.take(read));
        }
        if let Some(next) = next {
            let all: Vec<usize> = stored(next, 0..next.columns.len()).collect();
            let mut ahead = self.begin(next, &all);
            ahead.ask(&mut *lane, &self.share, &self.decoder);
            // Hands over what was asked for.
            lane.poll(None, &mut finished);
            finished.drain(..).for_each(|read| ahead.take(read));
            self.ahead = Some(ahead);
        }
        self.lane = Some(lane);
        fetch.give(wanted)
    }

    fn begin(&mut self, segment: &Segment, columns: &[usize]) -> Fetch {
        let run = |column: &usize| {
            let run = &segment.columns[*column];
            let ColumnRun { first_page, bytes, checksum, .. } = *run;
            Run { column: *column, first: first_page, bytes: bytes as usize, checksum, come: None }
        };
        let runs: Vec<Run> = columns.iter().map(run).collect();
        let token = self.next_token;
        self.next_token += runs.len() as u64;
        Fetch { runs, asked: 0, token }
    }
}

/// Those of some columns that a segment has.
fn stored(segment: &Segment, columns: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
    columns.filter(|column| segment.columns.get(*column).is_some_and(|run| !run.is_missing()))
}

/// Runs of a segment on their way.
struct Fetch {
    runs: Vec<Run>,
    /// How many of them have been asked for.
    asked: usize,
    /// Of the first run; the others count on.
    token: u64,
}

struct Run {
    column: usize,
    first: PageAddress,
    bytes: usize,
    checksum: u64,
    come: Option<Result<AlignedBuffer>>,
}

impl Fetch {
    /// Whether its runs, of all columns, are a segment's: where the first begins, no other segment's does.
    fn is_of(&self, segment: &Segment) -> bool {
        let first = segment.columns.iter().find(|run| !run.is_missing());
        self.runs.first().map(|run| run.first) == first.map(|run| run.first_page)
    }

    fn has_come(&self) -> bool {
        self.runs.iter().all(|run| run.come.is_some())
    }

    /// Asks for all that the device lets in.
    fn ask(&mut self, lane: &mut dyn RunLane, share: &Arc<IoShare>, decoder: &RunDecoder<'_>) {
        while let Some(run) = self.runs.get_mut(self.asked) {
            match lane.try_read(share, run.first, run.bytes, run.checksum, self.token + self.asked as u64) {
                Ok(()) => {}
                Err(Refusal::Busy(_)) => return,
                Err(Refusal::Unmapped) => run.come = Some(Err(decoder.corrupt(run.column, "lies on no device"))),
            }
            self.asked += 1;
        }
    }

    /// Takes what has come, if it is one of its runs.
    fn take(&mut self, RunRead { token, result }: RunRead) {
        let position = token.checked_sub(self.token).and_then(|position| usize::try_from(position).ok());
        if let Some(run) = position.and_then(|position| self.runs.get_mut(position)) {
            run.come = Some(result.map_err(|error: StoreError| SqlError::storage(error)));
        }
    }

    /// The pages of the columns `wanted`, in that order, once all have come.
    fn give(mut self, wanted: &[usize]) -> Result<Vec<(usize, AlignedBuffer)>> {
        let pages = |column: &usize| {
            let run = self.runs.iter_mut().find(|run| run.column == *column);
            let pages = run.and_then(|run| run.come.take()).ok_or_else(|| SqlError::internal("a run was not read"))?;
            Ok((*column, pages?))
        };
        wanted.iter().map(pages).collect()
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
        let decoded = decoded?;
        if decoded.len() != segment.rows as usize {
            return Err(self.corrupt(column, "has another number of rows than its segment"));
        }
        Ok(decoded)
    }

    fn corrupt(&self, column: usize, what: &str) -> SqlError {
        SqlError::corrupt(format!("column {:?} of table {}: a run {what}", self.columns[column].name, self.name))
    }
}
