//! What a publication and its writers keep account of.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::{ChunkId, Part};

use crate::error::VolumeError;
use crate::format::superblock::Tail;
use crate::map::Location;
use crate::space::{Content, Parts};
use crate::volume::Volume;

/// A chunk being filled.
#[derive(Clone, Debug)]
pub(crate) struct OpenChunk {
    pub chunk: ChunkId,
    pub location: Location,
    /// The first page never written.
    pub next_page: u32,
    /// What is in it, whether or not that is published.
    pub parts: Parts,
}

/// What is written, and where it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub content: Content,
    pub part: Part,
    /// Whether it has chunks for itself; if not, it shares one with others.
    pub alone: bool,
    /// Pages that are to lie side by side.
    pub pages: u32,
}

/// What a writer has written into a chunk.
#[derive(Clone, Default, Debug)]
pub(crate) struct Written {
    pub pages: u32,
    pub parts: Parts,
}

impl OpenChunk {
    /// How well it suits: the less, the better; `None`: not at all. Inner pages share with inner pages only, since they
    /// are wanted by whoever looks for anything.
    fn rank(&self, wanted: Wanted) -> Option<u8> {
        if self.parts.is_only(wanted.part) {
            return Some(0);
        }
        let is_class = self.parts.iter().all(|part| part.is_inner() == wanted.part.is_inner());
        (!wanted.alone && is_class).then_some(if self.parts.are_several() { 1 } else { 2 })
    }
}

#[derive(Default)]
pub(super) struct Ledger {
    /// Chunks with room that no writer holds.
    pub open: Vec<OpenChunk>,
    /// Chunks that were open when the publication began.
    pub open_before: Vec<ChunkId>,
    /// Chunks taken for this publication.
    pub fresh: HashMap<ChunkId, Location>,
    pub written: HashMap<ChunkId, Written>,
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
    /// A chunk with room for what is wanted: a left-over tail if there is one.
    pub fn open_chunk(&self, wanted: Wanted) -> Result<OpenChunk, VolumeError> {
        if let Some(open) = self.take_tail(wanted) {
            assert!(open.next_page < volume_pages(&self.volume), "{} is open and full", open.chunk);
            return Ok(open);
        }
        let mut fresh = self.fresh_chunks(1, wanted.content)?;
        Ok(fresh.pop().expect("one was asked for"))
    }

    /// The tail that suits best: the part's own, then one that is shared already, then another.
    pub fn take_tail(&self, wanted: Wanted) -> Option<OpenChunk> {
        let mut ledger = self.ledger.lock();
        let mut space = self.volume.space.lock();
        let full = volume_pages(&self.volume);
        let suits = |open: &OpenChunk| {
            let has_room = open.next_page + wanted.pages <= full;
            let rank = open.rank(wanted)?;
            (has_room && space.suits(open.location.device, wanted.content)).then_some(rank)
        };
        let ranked = ledger.open.iter().enumerate().rev().filter_map(|(at, open)| Some((suits(open)?, at)));
        let (_, at) = ranked.min_by_key(|(rank, _)| *rank)?;
        let open = ledger.open.remove(at);
        // What comes to be written is at its home alone.
        space.drop_copy(open.chunk);
        Some(open)
    }

    /// `count` empty chunks with consecutive ids.
    pub fn fresh_chunks(&self, count: usize, content: Content) -> Result<Vec<OpenChunk>, VolumeError> {
        let taken = self.volume.allocate(|space| space.take_chunks(count, content))?;
        let mut ledger = self.ledger.lock();
        let open = |(chunk, location)| {
            let before = ledger.fresh.insert(chunk, location);
            assert!(before.is_none(), "{chunk} was taken twice");
            OpenChunk { chunk, location, next_page: 0, parts: Parts::default() }
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

    /// `written`: what went into each chunk, all of it on the device; of a writer that was dropped, nothing.
    pub fn writer_closed(&self, written: HashMap<ChunkId, Written>) {
        let mut ledger = self.ledger.lock();
        assert!(ledger.writers > 0, "a page writer was closed twice");
        ledger.writers -= 1;
        let full = volume_pages(&self.volume);
        for (chunk, Written { pages, parts }) in written {
            let all = ledger.written.entry(chunk).or_default();
            all.pages += pages;
            assert!(all.pages <= full, "{} pages were written into {chunk}", all.pages);
            for part in parts.iter() {
                all.parts.add(part);
            }
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
