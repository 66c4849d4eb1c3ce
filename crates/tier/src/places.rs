//! On which devices the pages of each part are read.

use hashbrown::HashMap;
use saki_base::{DeviceId, GenerationNumber, Part};
use saki_volume::Volume;

/// When so small a share of the chunks has moved since, that makes no difference.
const STALE_SHARE: u64 = 32;

/// Pages of each part by the device that they are read from, as they lay not long ago.
#[derive(Default)]
pub struct Places {
    seen: Option<Seen>,
    pages: HashMap<Part, HashMap<DeviceId, f64>>,
}

/// What the volume was like.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    generation: GenerationNumber,
    moves: u64,
    chunks: u64,
}

impl Places {
    /// Looks again, if chunks have come or gone since the last look, or many have moved.
    pub fn look(&mut self, volume: &Volume) {
        let (generation, moves) = (volume.generation(), volume.moves());
        let is_fresh = |seen: Seen| seen.generation == generation && (moves - seen.moves) * STALE_SHARE <= seen.chunks;
        if self.seen.is_some_and(is_fresh) {
            return;
        }
        let published = volume.published_chunks();
        self.seen = Some(Seen { generation, moves, chunks: published.len() as u64 });
        self.pages.clear();
        for chunk in published {
            let device = chunk.copy.unwrap_or(chunk.home).device;
            // One that shares a chunk is taken to have as many pages there as each of the others.
            let pages = f64::from(chunk.live_pages) / chunk.parts.len().max(1) as f64;
            for part in chunk.parts {
                *self.pages.entry(part).or_default().entry(device).or_default() += pages;
            }
        }
    }

    /// Pages of some parts on each device.
    pub fn of(&self, parts: &[Part]) -> impl Iterator<Item = (DeviceId, f64)> {
        let mut devices: HashMap<DeviceId, f64> = HashMap::new();
        for (device, pages) in parts.iter().filter_map(|part| self.pages.get(part)).flatten() {
            *devices.entry(*device).or_default() += pages;
        }
        devices.into_iter()
    }
}
