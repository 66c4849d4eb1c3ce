//! Rows in primary-key order become segments: gathered column by column, cut, encoded and appended to pages.
//!
//! ```text
//!   batches ─► pending ─ 128 Ki rows, or 64 MiB ─► encode: a column per thread ─► runs of pages ─► directory
//! ```
//!
//! Memory: one segment's columns, their encoded form, and the copy of the column each thread is at.

mod encoder;

use std::thread;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType as ArrowType;
use saki_base::{PageSize, Part, TreeId};
use saki_vector::{Batch, Column};
use saki_volume::PageWriter;

use crate::directory::{self, SegmentsRoot};
use crate::segment::{ColumnRun, SEGMENT_ROWS, Segment, SegmentColumns};
use crate::{Codec, ColumnsError};

use encoder::{ColumnEncoder, Encoded, Parts};

/// Bytes of a segment's values at most, before encoding; a single row may have more.
pub const SEGMENT_BYTES: usize = 64 << 20;

/// How segments are cut and encoded.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Rows of a segment at most.
    pub rows: u32,
    /// Bytes of its values at most.
    pub bytes: usize,
    /// Threads that encode, the caller's included.
    pub threads: usize,
    /// Columns with Bloom filters.
    pub bloom: Vec<usize>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self { rows: SEGMENT_ROWS, bytes: SEGMENT_BYTES, threads, bloom: Vec::new() }
    }
}

/// Builds the segments of a table. Nothing of it counts before [`finish`](Self::finish)'s root is published; dropped,
/// it has written nothing.
pub struct SegmentBuilder<'c> {
    encoder: ColumnEncoder<'c>,
    columns: SegmentColumns,
    /// Rows and bytes of a segment at most.
    rows_max: usize,
    bytes_max: usize,
    writer: PageWriter,
    directory: TreeId,
    pending: Pending,
    segments: Vec<Segment>,
}

/// Rows that wait until a segment is full.
#[derive(Default)]
struct Pending {
    first_key: Vec<u8>,
    batches: Vec<Batch>,
    rows: usize,
    bytes: usize,
}

impl<'c> SegmentBuilder<'c> {
    /// `directory`: the tree that their directory will be; runs of columns are written as parts of it.
    pub fn new(
        codec: &'c dyn Codec,
        columns: impl Into<SegmentColumns>,
        directory: TreeId,
        writer: PageWriter,
        options: BuildOptions,
    ) -> Self {
        let BuildOptions { rows, bytes, threads, bloom } = options;
        let columns = columns.into();
        let encoder = ColumnEncoder::new(codec, columns.columns().to_vec(), threads, bloom);
        let pending = Pending::default();
        Self {
            encoder,
            columns,
            rows_max: rows.clamp(1, SEGMENT_ROWS) as usize,
            bytes_max: bytes,
            writer,
            directory,
            pending,
            segments: Vec::new(),
        }
    }

    /// Adds rows, in native form. `key` gives the encoded primary key of a row of the batch; it is asked for the first
    /// row of each segment. Whether keys ascend is up to the caller: the directory refuses only first keys that do not.
    ///
    /// # Errors
    /// Of `key`, of encoding, and of writing. The build cannot go on.
    pub fn push(
        &mut self,
        batch: &Batch,
        key: &mut dyn FnMut(usize) -> Result<Vec<u8>, ColumnsError>,
    ) -> Result<(), ColumnsError> {
        assert_eq!(batch.columns.len(), self.encoder.columns().len(), "a batch of other columns than its table");
        assert!(batch.columns.iter().all(|column| column.len() == batch.rows), "columns of unequal length");
        let mut start = 0;
        while start < batch.rows {
            assert!(self.pending.rows <= self.rows_max, "{} rows gathered for one segment", self.pending.rows);
            let room = self.rows_max - self.pending.rows;
            let candidate = batch.slice(start, room.min(batch.rows - start));
            let (rows, bytes) = self.rows_that_fit(&candidate);
            if rows == 0 {
                self.flush()?;
                continue;
            }
            if self.pending.rows == 0 {
                self.pending.first_key = key(start)?;
            }
            self.pending.batches.push(candidate.slice(0, rows));
            self.pending.rows += rows;
            self.pending.bytes += bytes;
            start += rows;
        }
        Ok(())
    }

    /// How many of the candidate's first rows the pending segment takes, and their bytes. An empty segment takes one at
    /// least.
    fn rows_that_fit(&self, candidate: &Batch) -> (usize, usize) {
        let room = self.bytes_max.saturating_sub(self.pending.bytes);
        let bytes = candidate.columns.iter().map(value_bytes).sum();
        if bytes <= room {
            return (candidate.rows, bytes);
        }
        let (mut rows, mut bytes) = (0, 0);
        while rows < candidate.rows {
            let row: usize = candidate.columns.iter().map(|column| value_bytes(&column.slice(rows, 1))).sum();
            let first = self.pending.rows == 0 && rows == 0;
            if bytes + row > room && !first {
                break;
            }
            rows += 1;
            bytes += row;
        }
        (rows, bytes)
    }

    /// Cuts segments at so many rows from now on; what is pending becomes one.
    pub fn cut_at(&mut self, rows: u32) -> Result<(), ColumnsError> {
        self.flush()?;
        self.rows_max = rows.clamp(1, SEGMENT_ROWS) as usize;
        Ok(())
    }

    /// Takes a segment that is written already; what is pending goes before it. It has no runs of columns that the
    /// table has lost: those have been given back.
    pub fn keep(&mut self, segment: Segment) -> Result<(), ColumnsError> {
        self.flush()?;
        self.segments.push(segment);
        Ok(())
    }

    /// Takes a segment that is written already, but with other values in some of its columns: as many as it has rows,
    /// and in their order. What is pending goes before it. The runs that are replaced are the caller's to free.
    pub fn keep_with(&mut self, mut segment: Segment, changed: &[(usize, Column)]) -> Result<(), ColumnsError> {
        self.flush()?;
        let fits = |column: &Column| column.len() == segment.rows as usize;
        assert!(changed.iter().all(|(_, column)| fits(column)), "a new column for a segment of {} rows", segment.rows);
        let parts: Vec<Parts<'_>> = changed.iter().map(|(index, column)| (*index, vec![column])).collect();
        for ((index, _), encoded) in parts.iter().zip(self.encoder.encode(&parts)?) {
            segment.columns[*index] = self.append(*index, encoded)?;
        }
        self.segments.push(segment);
        Ok(())
    }

    /// Makes a segment of what is pending.
    pub fn flush(&mut self) -> Result<(), ColumnsError> {
        let Pending { first_key, batches, rows, .. } = std::mem::take(&mut self.pending);
        if rows == 0 {
            return Ok(());
        }
        assert!(rows <= SEGMENT_ROWS as usize, "a segment of {rows} rows");
        let parts = |index| (index, batches.iter().map(|batch| &batch.columns[index]).collect());
        let parts: Vec<Parts<'_>> = (0..self.encoder.columns().len()).map(parts).collect();
        let encoded = self.encoder.encode(&parts)?;
        let numbered = encoded.into_iter().enumerate();
        let columns = numbered.map(|(index, encoded)| self.append(index, encoded)).collect::<Result<_, _>>()?;
        self.segments.push(Segment { first_key, rows: rows as u32, columns, dropped: Vec::new() });
        Ok(())
    }

    /// Writes a run of a column.
    fn append(&mut self, column: usize, (blob, zone): Encoded) -> Result<ColumnRun, ColumnsError> {
        let bytes = u32::try_from(blob.len())
            .map_err(|_| ColumnsError::Unsupported(format!("a column of {} bytes in one segment", blob.len())))?;
        let run = self.writer.append_run(Part::column(self.directory, self.columns.place_of(column)), &blob)?;
        Ok(ColumnRun { first_page: run.first, bytes, checksum: run.checksum, zone })
    }

    /// Pages written so far.
    pub fn pages(&self) -> u64 {
        self.writer.pages()
    }

    /// Makes segments of all that is pending and waits until they can be read. Then another thread may go on.
    pub fn settle(&mut self) -> Result<(), ColumnsError> {
        self.flush()?;
        Ok(self.writer.settle()?)
    }

    /// Writes the directory; gives the writer back, to be finished.
    pub fn finish(mut self, page_size: PageSize) -> Result<(SegmentsRoot, PageWriter), ColumnsError> {
        self.flush()?;
        directory::write(self.writer, page_size, self.directory, &self.columns, &self.segments)
    }
}

/// Bytes that a column's values take, without encoding: what segments are cut by.
fn value_bytes(column: &Column) -> usize {
    let array = column.array();
    let content = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).sum::<usize>();
    let variable = match array.data_type() {
        ArrowType::Utf8View => content(array.as_string_view().views()),
        ArrowType::BinaryView => content(array.as_binary_view().views()),
        _ => 0,
    };
    let width = array.data_type().primitive_width().unwrap_or(size_of::<u128>());
    array.len() * width + variable
}
