//! What a publication and its writers keep account of.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::ChunkId;

use crate::error::VolumeError;
use crate::format::superblock::Tail;
use crate::map::Location;
use crate::space::Content;
use crate::volume::Volume;

/// A chunk being filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenChunk {
    pub chunk: ChunkId,
    pub location: Location,
    /// The first page never written.
    pub next_page: u32,
}

#[derive(Default)]
pub(super) struct Ledger {
    /// Chunks with room that no writer holds.
    pub open: Vec<OpenChunk>,
    /// Chunks that were open when the publication began.
    pub open_before: Vec<ChunkId>,
    /// Chunks taken for this publication.
    pub fresh: HashMap<ChunkId, Location>,
    pub written: HashMap<ChunkId, u32>,
    pub freed: HashMap<ChunkId, u32>,
    /// `Members::failed_flushes` when the publication began.
    pub failed_flushes: u64,
    pub writers: usize,
    pub committed: bool,
}

/// Shared by a publication and its writers. Whoever lets go last ends the publication, so
/// that no chunk is given back while a writer may still write into it.
pub(crate) struct Shared {
    pub volume: Arc<Volume>,
    pub(super) ledger: Mutex<Ledger>,
}

impl Shared {
    /// A chunk with room for one page: a left-over tail if there is one.
    pub fn open_chunk(&self, content: Content) -> Result<OpenChunk, VolumeError> {
        if let Some(open) = self.take_tail(content) {
            assert!(open.next_page < volume_pages(&self.volume), "{} is open and full", open.chunk);
            return Ok(open);
        }
        Ok(self.fresh_chunks(1, content)?[0])
    }

    /// The last tail that lies where the content is to lie.
    fn take_tail(&self, content: Content) -> Option<OpenChunk> {
        let mut ledger = self.ledger.lock();
        let space = self.volume.space.lock();
        let at = ledger.open.iter().rposition(|open| space.suits(open.location.device, content))?;
        Some(ledger.open.remove(at))
    }

    /// `count` empty chunks with consecutive ids.
    pub fn fresh_chunks(&self, count: usize, content: Content) -> Result<Vec<OpenChunk>, VolumeError> {
        let taken = self.volume.allocate(|space| space.take_chunks(count, content))?;
        let mut ledger = self.ledger.lock();
        let open = |(chunk, location)| {
            let before = ledger.fresh.insert(chunk, location);
            assert!(before.is_none(), "{chunk} was taken twice");
            OpenChunk { chunk, location, next_page: 0 }
        };
        Ok(taken.into_iter().map(open).collect())
    }

    pub fn give_back(&self, chunk: OpenChunk) {
        let full = volume_pages(&self.volume);
        assert!(chunk.next_page <= full, "{} pages were written into {}", chunk.next_page, chunk.chunk);
        if chunk.next_page < full {
            let mut ledger = self.ledger.lock();
            let is_open = ledger.open.iter().any(|open| open.chunk == chunk.chunk);
            assert!(!is_open, "{} was given back twice", chunk.chunk);
            ledger.open.push(chunk);
        }
    }

    pub fn writer_opened(&self) {
        self.ledger.lock().writers += 1;
    }

    /// `written`: pages per chunk, all of them on the device; of a writer that was dropped, none.
    pub fn writer_closed(&self, written: &[(ChunkId, u32)]) {
        let mut ledger = self.ledger.lock();
        assert!(ledger.writers > 0, "a page writer was closed twice");
        ledger.writers -= 1;
        let full = volume_pages(&self.volume);
        for (chunk, pages) in written {
            let all = ledger.written.entry(*chunk).or_default();
            *all += pages;
            assert!(*all <= full, "{all} pages were written into {chunk}");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ledger = std::mem::take(self.ledger.get_mut());
        if !ledger.committed {
            let mut space = self.volume.space.lock();
            // Tails of published chunks stay open behind what was written in vain: those addresses
            // may have been read, and an address never gets other bytes.
            for open in ledger.open.iter().filter(|open| !ledger.fresh.contains_key(&open.chunk)) {
                space.tails.push(Tail { chunk: open.chunk, next_page: open.next_page });
            }
            let closed: Vec<_> = ledger
                .open_before
                .iter()
                .filter(|chunk| !space.tails.iter().any(|tail| tail.chunk == **chunk))
                .copied()
                .collect();
            let full = volume_pages(&self.volume);
            // Filled to the end in vain: kept as a tail without room, so that the next commit settles it.
            space.tails.extend(closed.into_iter().map(|chunk| Tail { chunk, next_page: full }));
            for (chunk, location) in ledger.fresh {
                space.discard(chunk, location);
            }
        }
        self.volume.end_publishing();
    }
}

pub(super) fn volume_pages(volume: &Volume) -> u32 {
    volume.page_size().pages_per_chunk() as u32
}
