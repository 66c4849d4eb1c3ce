//! Key columns of the build rows, chunk by chunk.

use arrow_array::ArrayRef;

use super::packing::Packing;
use crate::{Column, Result};

/// Rows that are looked up or put in together: what is computed of them stays in the first-level cache.
pub(crate) const CHUNK_ROWS: usize = 1024;

/// A word for each build row, [`NO_KEY`](super::packing::NO_KEY) where a row has no key. Threads read it as often as
/// they need.
pub(crate) trait BuildWords: Sync {
    fn rows(&self) -> usize;

    /// Calls `each` with the first row and the words of every chunk, ascending, until it says stop (`false`).
    fn forward(&self, each: impl FnMut(u32, &[u64]) -> bool) -> Result<()>;

    /// As `forward`, the last chunk first.
    fn backward(&self, each: impl FnMut(u32, &[u64]) -> bool) -> Result<()>;
}

/// Words that are packed from the key columns each time: that is cheaper than to write them down.
pub(crate) struct PackedWords<'a> {
    packing: &'a Packing,
    batches: Vec<Vec<ArrayRef>>,
    chunks: Vec<Chunk>,
    rows: usize,
}

struct Chunk {
    first: u32,
    batch: usize,
    start: usize,
    rows: usize,
}

impl<'a> PackedWords<'a> {
    /// Of batches of key columns with their numbers of rows.
    pub fn new(packing: &'a Packing, keys: &[(Vec<Column>, usize)]) -> Self {
        let batches = keys.iter().map(|(columns, _)| packing.prepare(columns)).collect();
        let (mut chunks, mut first) = (Vec::new(), 0);
        for (batch, (_, rows)) in keys.iter().enumerate() {
            for start in (0..*rows).step_by(CHUNK_ROWS) {
                let rows = CHUNK_ROWS.min(rows - start);
                chunks.push(Chunk { first: (first + start) as u32, batch, start, rows });
            }
            first += rows;
        }
        Self { packing, batches, chunks, rows: first }
    }

    fn each<'c>(
        &self,
        chunks: impl Iterator<Item = &'c Chunk>,
        mut each: impl FnMut(u32, &[u64]) -> bool,
    ) -> Result<()> {
        let mut words = [0; CHUNK_ROWS];
        for chunk in chunks {
            let words = &mut words[..chunk.rows];
            self.packing.words(&self.batches[chunk.batch], chunk.start, words)?;
            if !each(chunk.first, words) {
                break;
            }
        }
        Ok(())
    }
}

impl BuildWords for PackedWords<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn forward(&self, each: impl FnMut(u32, &[u64]) -> bool) -> Result<()> {
        self.each(self.chunks.iter(), each)
    }

    fn backward(&self, each: impl FnMut(u32, &[u64]) -> bool) -> Result<()> {
        self.each(self.chunks.iter().rev(), each)
    }
}

/// Words that have been written down.
impl BuildWords for Vec<u64> {
    fn rows(&self) -> usize {
        self.len()
    }

    fn forward(&self, mut each: impl FnMut(u32, &[u64]) -> bool) -> Result<()> {
        let mut chunks = self.chunks(CHUNK_ROWS).enumerate();
        chunks.all(|(chunk, words)| each((chunk * CHUNK_ROWS) as u32, words));
        Ok(())
    }

    fn backward(&self, mut each: impl FnMut(u32, &[u64]) -> bool) -> Result<()> {
        let mut chunks = self.chunks(CHUNK_ROWS).enumerate().rev();
        chunks.all(|(chunk, words)| each((chunk * CHUNK_ROWS) as u32, words));
        Ok(())
    }
}
