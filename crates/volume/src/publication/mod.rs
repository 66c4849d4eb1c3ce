//! The next generation in the making: who writes into it, what it frees, and how
//! it becomes the published one, or nothing at all.

mod ledger;
mod writer;

use std::sync::Arc;

use hashbrown::HashSet;
use parking_lot::Mutex;
use saki_base::{ChunkId, Critical, GenerationNumber, PageAddress, Part};

use crate::durable::Change;
use crate::error::VolumeError;
use crate::format::journal::Records;
use crate::format::superblock::{ROOT_BYTES_MAX, TAILS_MAX, Tail};
use crate::space::{ChunkState, Content, Parts};
use crate::volume::Volume;

use ledger::{Ledger, OpenChunk, Shared, volume_pages};
pub use writer::{PageRun, PageWriter};

/// The one publication of a volume under way. Dropping it abandons everything its writers wrote.
pub struct Publication {
    shared: Arc<Shared>,
}

impl Volume {
    /// Begins a publication; waits while another one is running.
    pub fn begin(self: &Arc<Self>) -> Publication {
        self.start_publishing();
        let full = volume_pages(self);
        let mut space = self.space.lock();
        let tails = std::mem::take(&mut space.tails);
        let open = |tail: &Tail| {
            let state = space.chunks.get(&tail.chunk)?;
            let (location, parts) = (state.location, state.parts.clone());
            // What an earlier version wrote is not known to be of any part, so nothing is added to it.
            if parts.is_empty() {
                return None;
            }
            // What a device is to be rid of moves away, which it can only when nothing more is written to it.
            space.takes_homes(location.device).then_some(OpenChunk {
                chunk: tail.chunk,
                location,
                next_page: tail.next_page,
                parts,
            })
        };
        let ledger = Ledger {
            open_before: tails.iter().map(|tail| tail.chunk).collect(),
            open: tails.iter().filter(|tail| tail.next_page < full).filter_map(open).collect(),
            failed_flushes: self.members.failed_flushes(),
            ..Ledger::default()
        };
        drop(space);
        Publication { shared: Arc::new(Shared { volume: Arc::clone(self), ledger: Mutex::new(ledger) }) }
    }
}

impl Publication {
    /// A writer of this publication; several may write at once, each on its own thread.
    pub fn writer(&self) -> PageWriter {
        PageWriter::new(&self.shared, Content::Data)
    }

    /// A writer of what is needed to find everything else: it lies on the first device that has the superblocks and
    /// the journal, as long as that takes pages, so that a database whose other devices are missing opens.
    pub fn metadata_writer(&self) -> PageWriter {
        PageWriter::new(&self.shared, Content::Metadata)
    }

    pub fn volume(&self) -> &Arc<Volume> {
        &self.shared.volume
    }

    /// Counts pages as no longer referred to from the new root on. Each page once; pages
    /// written by this publication may be freed too.
    pub fn free(&self, pages: &[PageAddress]) {
        let page_size = self.shared.volume.page_size();
        let mut ledger = self.shared.ledger.lock();
        for page in pages {
            *ledger.freed.entry(page_size.chunk_of(*page)).or_default() += 1;
        }
    }

    /// Publishes `root` (at most [`ROOT_BYTES_MAX`] bytes) with everything the finished writers wrote: afterwards
    /// it survives any crash. On an error the old generation stays, and what was written is abandoned.
    pub fn commit(self, root: &[u8]) -> Result<GenerationNumber, VolumeError> {
        if root.len() > ROOT_BYTES_MAX {
            return Err(VolumeError::TooLarge { what: "the root", bytes: root.len(), bytes_max: ROOT_BYTES_MAX });
        }
        let volume = &self.shared.volume;
        let mut durable = volume.durable.lock();
        let mut ledger = self.shared.ledger.lock();
        if ledger.writers > 0 {
            return Err(VolumeError::misuse(format!("commit with {} unfinished page writers", ledger.writers)));
        }
        let outcome = Outcome::of(&ledger, volume)?;
        let change = Change {
            records: outcome.records(&ledger),
            tails: outcome.tails.clone(),
            next_chunk: volume.space.lock().next_chunk,
            root: root.to_vec(),
            failed_flushes: ledger.failed_flushes,
        };
        // What the devices have and memory does not would be written over.
        let _critical = Critical::enter("publishing a generation");
        let generation = match durable.publish(change, &volume.space) {
            Ok(generation) => generation,
            Err(error) => {
                // Nobody knows which generation the device holds: then it may be the new one, and its chunks stay.
                ledger.committed = matches!(error, VolumeError::PublishOutcomeUnknown { .. });
                return Err(error);
            }
        };
        outcome.apply(&mut ledger, volume, generation);
        volume.set_current(generation, root.to_vec());
        drop((durable, ledger));
        Ok(generation)
    }
}

/// What a commit does to each chunk it touches.
struct Outcome {
    /// Fresh chunks that are published, with their live pages, in chunk order.
    assigned: Vec<(ChunkId, u32)>,
    /// Published chunks whose count changes, in chunk order.
    changed: Vec<(ChunkId, u32)>,
    /// Published chunks without a live page.
    retired: Vec<ChunkId>,
    /// Parts that chunks which stay have for the first time, each part's chunks in order.
    parts: Vec<(Part, ChunkId)>,
    /// Fresh chunks that nothing refers to.
    unused: Vec<ChunkId>,
    tails: Vec<Tail>,
}

impl Outcome {
    fn of(ledger: &Ledger, volume: &Volume) -> Result<Self, VolumeError> {
        let space = volume.space.lock();
        // Keep the emptiest; only chunks that are or become published, since an untouched fresh one is just free.
        let mut open: Vec<_> = ledger.open.iter().filter(|open| open.next_page > 0).collect();
        open.sort_unstable_by_key(|open| open.next_page);
        open.truncate(TAILS_MAX);
        let tails: Vec<_> = open.iter().map(|open| Tail { chunk: open.chunk, next_page: open.next_page }).collect();
        let mut outcome = Self {
            assigned: Vec::new(),
            changed: Vec::new(),
            retired: Vec::new(),
            parts: Vec::new(),
            unused: Vec::new(),
            tails,
        };
        let touched: HashSet<ChunkId> = ledger
            .written
            .keys()
            .chain(ledger.freed.keys())
            .chain(ledger.fresh.keys())
            .chain(&ledger.open_before)
            .copied()
            .collect();
        let mut touched: Vec<_> = touched.into_iter().collect();
        touched.sort_unstable();
        for chunk in touched {
            let fresh = ledger.fresh.contains_key(&chunk);
            let state = space.chunks.get(&chunk);
            let before = match state {
                Some(state) => state.live_pages,
                None if fresh => 0,
                None => return Err(VolumeError::misuse(format!("pages of {chunk} freed, which is not published"))),
            };
            let written = ledger.written.get(&chunk);
            let freed = ledger.freed.get(&chunk).copied().unwrap_or(0);
            let there = before + written.map_or(0, |written| written.pages);
            let live = there
                .checked_sub(freed)
                .ok_or_else(|| VolumeError::misuse(format!("{freed} pages of {chunk} freed, it has {before} live")))?;
            assert!(live <= volume_pages(volume), "{chunk} would have {live} live pages");
            let kept = live > 0 || outcome.tails.iter().any(|tail| tail.chunk == chunk);
            if kept && let Some(written) = written {
                let is_new = |part: &Part| !state.is_some_and(|state| state.parts.has(*part));
                outcome.parts.extend(written.parts.iter().filter(is_new).map(|part| (part, chunk)));
            }
            match (fresh, kept) {
                (true, true) => outcome.assigned.push((chunk, live)),
                (true, false) => outcome.unused.push(chunk),
                (false, true) if live != before => outcome.changed.push((chunk, live)),
                (false, true) => {}
                (false, false) => outcome.retired.push(chunk),
            }
        }
        outcome.parts.sort_unstable();
        Ok(outcome)
    }

    fn records(&self, ledger: &Ledger) -> Records {
        let mut records = Records::default();
        self.assigned.iter().for_each(|(chunk, _)| records.assign(*chunk, ledger.fresh[chunk]));
        self.parts.iter().for_each(|(part, chunk)| records.part(*chunk, *part));
        self.assigned.iter().for_each(|(chunk, live)| records.live(*chunk, *live));
        self.changed.iter().for_each(|(chunk, live)| records.live(*chunk, *live));
        self.retired.iter().for_each(|chunk| records.free(*chunk));
        records
    }

    /// The generation is on the device: the books follow.
    fn apply(self, ledger: &mut Ledger, volume: &Volume, generation: GenerationNumber) {
        let mut space = volume.space.lock();
        for (chunk, live_pages) in self.assigned {
            let location = ledger.fresh[&chunk];
            let parts = Parts::default();
            let before = space.chunks.insert(chunk, ChunkState { location, copy: None, live_pages, parts });
            assert!(before.is_none(), "{chunk} was published twice");
        }
        for (chunk, live_pages) in self.changed {
            space.chunks.get_mut(&chunk).expect("changed chunks are published").live_pages = live_pages;
        }
        for (part, chunk) in self.parts {
            space.chunks.get_mut(&chunk).expect("chunks that stay are published").parts.add(part);
        }
        self.retired.into_iter().for_each(|chunk| space.retire(chunk, generation));
        for chunk in self.unused {
            space.discard(chunk, ledger.fresh[&chunk]);
        }
        space.tails = self.tails;
        ledger.committed = true;
    }
}
