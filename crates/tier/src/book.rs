//! What is known of each published chunk.

use std::time::Duration;

use hashbrown::HashMap;
use saki_base::{ChunkId, DeviceId, GenerationNumber, Part, TreeId};
use saki_volume::{PublishedChunk, Volume};

use crate::forecast::{Assessment, Forecast, Use};
use crate::inherit::{Earned, Estate};
use crate::speed::{Reads, Speeds};

/// After so long heat counts half.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// What its owner wants of a tree's pages, whatever the policy would have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// All of them are to have copies.
    Fast,
    /// None is to have one.
    Slow,
}

/// A published chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub home: DeviceId,
    /// Of those whose pages it has: one wish for copies is enough.
    pub wish: Option<Wish>,
    /// The device that its copy is on.
    pub copy: Option<DeviceId>,
    pub live_pages: u32,
    pub parts: Vec<Part>,
    pub earned: Earned,
    /// What statements that run are expected to read of it yet.
    pub expected: Reads,
    /// Seconds that a copy saves them.
    pub coming: f64,
    /// Seconds that a copy of it takes to make.
    pub copying: f64,
    /// When it was last seen to have been read.
    pub read_at: Option<Duration>,
    /// Whether that was at the last look.
    pub is_read: bool,
    /// Requests and pages, as counted at the last look.
    counted: (u32, u32),
}

/// All published chunks, as of the last look.
#[derive(Default)]
pub struct Book {
    chunks: HashMap<ChunkId, Chunk>,
    generation: Option<GenerationNumber>,
    wishes: HashMap<TreeId, Wish>,
    speeds: Speeds,
    page_bytes: usize,
    looked_at: Duration,
    /// Of statements that run, by number.
    forecasts: HashMap<u64, Forecast>,
    next_forecast: u64,
}

impl Book {
    /// Looks at the volume: which chunks there are, and what has been read since the last look. `now`: of any clock,
    /// and never less than before.
    pub fn look(&mut self, volume: &Volume, now: Duration) {
        let faded = 0.5_f64.powf(now.saturating_sub(self.looked_at).as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.looked_at = now;
        for chunk in self.chunks.values_mut() {
            chunk.earned.heat *= faded;
            chunk.is_read = false;
        }
        let generation = volume.generation();
        if self.generation != Some(generation) {
            self.generation = Some(generation);
            self.page_bytes = volume.page_size().bytes();
            self.renew(volume.published_chunks());
        }
        self.count(volume, now);
    }

    /// Whether the last look was at this generation.
    pub fn is_of(&self, generation: GenerationNumber) -> bool {
        self.generation == Some(generation)
    }

    /// How fast devices are, from the next look on.
    pub fn set_speeds(&mut self, speeds: Speeds) {
        self.speeds = speeds;
        self.forget_generation();
    }

    /// Has the next look be at everything: copies have gone.
    pub fn forget_generation(&mut self) {
        self.generation = None;
    }

    fn count(&mut self, volume: &Volume, now: Duration) {
        let Self { chunks, speeds, page_bytes, forecasts, .. } = self;
        volume.chunk_reads(|number, reads| {
            let Some(chunk) = chunks.get_mut(&number) else { return };
            let before = std::mem::replace(&mut chunk.counted, reads);
            let (requests, pages) = (reads.0.wrapping_sub(before.0), reads.1.wrapping_sub(before.1));
            if pages == 0 {
                return;
            }
            chunk.is_read = true;
            chunk.read_at = Some(now);
            let mut reads = Reads { requests: requests.into(), pages: pages.into() };
            let saved = speeds.saved(chunk.home, reads, *page_bytes);
            chunk.earned.heat += saved;
            chunk.earned.total += saved;
            // Whose reads these were is not known: they are the first's who waits for some.
            for forecast in forecasts.values_mut() {
                let come = forecast.come(number, reads);
                reads.take(come);
                chunk.expected.take(come);
            }
            chunk.coming = speeds.saved(chunk.home, chunk.expected, *page_bytes);
        });
    }

    /// Takes over which chunks there are. What those have earned that lost pages goes to those of the same parts that
    /// have new ones.
    fn renew(&mut self, published: Vec<PublishedChunk>) {
        let mut before = std::mem::take(&mut self.chunks);
        let mut estate = Estate::default();
        let mut gained = Vec::new();
        for now in published {
            let copying = self.speeds.copying(now.home.device);
            let known = before.remove(&now.chunk);
            let pages_before = known.as_ref().map_or(0, |chunk| chunk.live_pages);
            let mut chunk = known.unwrap_or_else(|| Chunk::new(&now));
            if now.live_pages < pages_before {
                estate.lose(&mut chunk.earned, &chunk.parts, pages_before, pages_before - now.live_pages);
            } else if now.live_pages > pages_before {
                estate.gain(&now.parts, now.live_pages - pages_before);
                gained.push((now.chunk, now.live_pages - pages_before));
            }
            chunk.home = now.home.device;
            chunk.copy = now.copy.map(|copy| copy.device);
            chunk.live_pages = now.live_pages;
            chunk.wish = self.wish_of(&now.parts);
            chunk.parts = now.parts;
            chunk.copying = copying;
            self.chunks.insert(now.chunk, chunk);
        }
        for mut gone in before.into_values() {
            let pages = gone.live_pages;
            estate.lose(&mut gone.earned, &gone.parts, pages, pages);
        }
        for (number, gained) in gained {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            let taken = estate.share(&chunk.parts, gained);
            chunk.earned.heat += taken.heat;
            chunk.earned.total += taken.total;
            chunk.earned.traced += taken.traced;
        }
    }

    /// `Fast` if that is any part's wish; `Slow` if it is that of all.
    fn wish_of(&self, parts: &[Part]) -> Option<Wish> {
        let wishes = parts.iter().map(|part| self.wishes.get(&part.tree).copied());
        let least = |one: Option<Wish>, other| match (one, other) {
            (Some(Wish::Fast), _) | (_, Some(Wish::Fast)) => Some(Wish::Fast),
            (Some(Wish::Slow), Some(Wish::Slow)) => Some(Wish::Slow),
            _ => None,
        };
        wishes.reduce(least).flatten()
    }

    /// What is wanted of trees, from the next look on; `false` if that is what was wanted before.
    pub fn set_wishes(&mut self, wishes: HashMap<TreeId, Wish>) -> bool {
        let is_new = self.wishes != wishes;
        if is_new {
            self.wishes = wishes;
            self.forget_generation();
        }
        is_new
    }

    pub fn has_wishes(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// A statement begins that will read this; the number by which it ends.
    pub fn begin(&mut self, uses: &[Use]) -> u64 {
        let forecast = self.forecast(uses);
        for (number, reads) in forecast.reads() {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            chunk.expected.add(reads);
            chunk.coming = self.speeds.saved(chunk.home, chunk.expected, self.page_bytes);
        }
        self.next_forecast += 1;
        self.forecasts.insert(self.next_forecast, forecast);
        self.next_forecast
    }

    /// A statement has ended, whatever it has read.
    pub fn end(&mut self, forecast: u64) {
        let Some(forecast) = self.forecasts.remove(&forecast) else { return };
        for (number, reads) in forecast.reads() {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            chunk.expected.take(reads);
            chunk.coming = self.speeds.saved(chunk.home, chunk.expected, self.page_bytes);
        }
    }

    /// What a statement that says this is expected to read of each chunk.
    pub fn forecast(&self, uses: &[Use]) -> Forecast {
        Forecast::of(uses, |part| self.pages_of(part))
    }

    /// Where the pages of a part lie. One that shares a chunk is taken to have as many there as each of the others.
    fn pages_of(&self, part: Part) -> Vec<(ChunkId, f64)> {
        let of_part = self.chunks().filter(|(_, chunk)| chunk.parts.contains(&part));
        of_part.map(|(number, chunk)| (number, f64::from(chunk.live_pages) / chunk.parts.len() as f64)).collect()
    }

    /// What copies would do for a statement that reads this.
    pub fn assess(&self, uses: &[Use]) -> Assessment {
        let mut assessment = Assessment::default();
        for (number, reads) in self.forecast(uses).reads() {
            let Some(chunk) = self.chunks.get(&number) else { continue };
            assessment.chunks += 1;
            assessment.pages += reads.pages;
            assessment.copied += u64::from(chunk.copy.is_some());
            let saved = self.speeds.saved(chunk.home, reads, self.page_bytes) - chunk.copying;
            if chunk.copy.is_none() && saved > 0.0 {
                assessment.to_move += 1;
                assessment.seconds_saved += saved;
            }
        }
        assessment
    }

    /// Has a static placement go by what has been read up to now.
    pub fn end_trace(&mut self) {
        self.chunks.values_mut().for_each(|chunk| chunk.earned.traced = chunk.earned.total);
    }

    /// Notes copies that have been made or dropped.
    pub fn set_copy(&mut self, number: ChunkId, copy: Option<DeviceId>) {
        if let Some(chunk) = self.chunks.get_mut(&number) {
            chunk.copy = copy;
        }
    }

    pub fn chunks(&self) -> impl Iterator<Item = (ChunkId, &Chunk)> {
        self.chunks.iter().map(|(number, chunk)| (*number, chunk))
    }

    #[cfg(test)]
    pub fn put(&mut self, number: ChunkId, chunk: Chunk) {
        self.chunks.insert(number, chunk);
    }
}

impl Chunk {
    fn new(published: &PublishedChunk) -> Self {
        Self {
            home: published.home.device,
            wish: None,
            copy: None,
            live_pages: 0,
            parts: published.parts.clone(),
            earned: Earned::default(),
            expected: Reads::default(),
            coming: 0.0,
            copying: f64::INFINITY,
            read_at: None,
            is_read: false,
            counted: (0, 0),
        }
    }

    #[cfg(test)]
    pub fn at(home: DeviceId, copy: Option<DeviceId>) -> Self {
        let (parts, earned) = (Vec::new(), Earned::default());
        let (expected, coming) = (Reads::default(), 0.0);
        let (read_at, is_read, counted) = (None, false, (0, 0));
        Self {
            home,
            wish: None,
            copy,
            live_pages: 128,
            parts,
            earned,
            expected,
            coming,
            copying: 1.0,
            read_at,
            is_read,
            counted,
        }
    }
}
