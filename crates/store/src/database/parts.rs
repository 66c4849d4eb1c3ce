//! How much of each part of a table there is, and how much of it lies on fast devices.

use std::collections::BTreeMap;

use super::Database;
use super::owners::{ChunkOwners, Owner};

/// A part of a table, or of the catalog. What shares a chunk has an equal part of that.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PartStatus {
    /// Bytes of pages that the newest generation has.
    pub bytes: f64,
    /// Of these, the ones that a fast device has as well.
    pub copied_bytes: f64,
    /// Seconds that copies would have saved, or have, of late.
    pub heat: f64,
}

impl Database {
    /// All parts that have pages, by the names of their tables and their own.
    pub fn parts(&self) -> BTreeMap<Owner, PartStatus> {
        let owners = ChunkOwners::new(&self.generation().catalog);
        let heats = self.tier.heats();
        let mut all: BTreeMap<Owner, PartStatus> = BTreeMap::new();
        for chunk in self.volume.published_chunks() {
            let of_chunk: Vec<Owner> = chunk.parts.iter().filter_map(|part| owners.owner(*part)).collect();
            let each = 1.0 / of_chunk.len() as f64;
            let bytes = f64::from(chunk.live_pages) * self.page_size().bytes() as f64 * each;
            let heat = heats.get(&chunk.chunk).copied().unwrap_or(0.0) * each;
            for owner in of_chunk {
                let status = all.entry(owner).or_default();
                status.bytes += bytes;
                status.heat += heat;
                if chunk.copy.is_some() {
                    status.copied_bytes += bytes;
                }
            }
        }
        all
    }
}
