//! What a statement is about to read, chunk by chunk.

use hashbrown::HashMap;
use saki_base::{ChunkId, Part};

use crate::speed::Reads;

/// Something that a statement will read.
#[derive(Clone, PartialEq, Debug)]
pub enum Use {
    /// Of one chunk.
    Chunk(ChunkId, Reads),
    /// Pages of a part, each by itself and wherever they lie: so many look-ups. A page that is read once is in memory
    /// from then on.
    Part(Part, f64),
    /// All pages of a part, one behind another.
    Whole(Part),
}

/// What a statement has yet to read.
#[derive(Default)]
pub struct Forecast {
    chunks: HashMap<ChunkId, Reads>,
}

/// What copies do for a statement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Assessment {
    /// Chunks that it will read.
    pub chunks: u64,
    /// Pages of them.
    pub pages: f64,
    /// Chunks that have copies.
    pub copied: u64,
    /// Chunks whose copies would save more than they take to make.
    pub to_move: u64,
    /// Seconds of the homes' time that those would save, less what making them takes.
    pub seconds_saved: f64,
}

impl Forecast {
    /// `pages_of`: where the pages of a part lie.
    pub fn of(uses: &[Use], pages_of: impl Fn(Part) -> Vec<(ChunkId, f64)>) -> Self {
        let mut forecast = Self::default();
        for what in uses {
            match what {
                Use::Chunk(number, reads) => forecast.chunks.entry(*number).or_default().add(*reads),
                Use::Part(part, lookups) => forecast.add_lookups(pages_of(*part), *lookups),
                Use::Whole(part) => pages_of(*part).into_iter().for_each(|(number, pages)| {
                    forecast.chunks.entry(number).or_default().add(Reads::of_run(pages));
                }),
            }
        }
        forecast
    }

    fn add_lookups(&mut self, pages: Vec<(ChunkId, f64)>, lookups: f64) {
        let all: f64 = pages.iter().map(|(_, pages)| pages).sum();
        let share = 1.0 - (-lookups / all.max(1.0)).exp();
        for (number, pages) in pages {
            self.chunks.entry(number).or_default().add(Reads::of_pages(pages * share));
        }
    }

    pub fn reads(&self) -> impl Iterator<Item = (ChunkId, Reads)> {
        self.chunks.iter().map(|(number, reads)| (*number, *reads))
    }

    /// Some of a chunk has been read; returns how much of that was waited for.
    pub fn come(&mut self, number: ChunkId, reads: Reads) -> Reads {
        self.chunks.get_mut(&number).map(|left| left.take_pages(reads.pages)).unwrap_or_default()
    }
}
