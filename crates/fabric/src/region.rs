//! What a node lends: arenas by keys, and bytes of them on their way to a peer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use saki_base::Arena;

use crate::secret::Entropy;

/// The right to read one region, made by its owner. Whoever has the key and is a node of the cluster may read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegionKey {
    /// Counts the owner's regions.
    pub number: u64,
    /// Random, so that a key of an earlier life of the owner opens nothing.
    pub secret: u64,
}

/// Bytes of a key between nodes.
pub const REGION_KEY_BYTES: usize = 16;

impl RegionKey {
    pub fn to_bytes(self) -> [u8; REGION_KEY_BYTES] {
        let mut bytes = [0; REGION_KEY_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.secret.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = saki_base::bytes::u64_at(bytes, 0)?;
        let secret = saki_base::bytes::u64_at(bytes, 8)?;
        (bytes.len() == REGION_KEY_BYTES).then_some(Self { number, secret })
    }
}

/// The regions that a node lends, shared by its ports.
pub struct Regions {
    lent: Mutex<HashMap<RegionKey, Arc<Arena>>>,
    next: AtomicU64,
    /// Goes up when a region is taken back: then links look which of theirs it was.
    taken_back: AtomicU64,
    entropy: Arc<dyn Entropy>,
}

impl Regions {
    pub fn new(entropy: Arc<dyn Entropy>) -> Arc<Self> {
        Arc::new(Self { lent: Mutex::default(), next: AtomicU64::new(1), taken_back: AtomicU64::new(0), entropy })
    }

    /// Lends a whole arena to whoever shows the key. The owner may go on writing into its frames; what a peer reads
    /// meanwhile is torn, which it has to find out by a checksum.
    ///
    /// Over shared memory, only an arena made by [`Arena::shared`] can be read.
    pub fn lend(&self, arena: &Arc<Arena>) -> RegionKey {
        let mut secret = [0; 8];
        self.entropy.fill(&mut secret);
        // Relaxed: only a number that no other region has.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = RegionKey { number, secret: u64::from_le_bytes(secret) };
        self.lent.lock().insert(key, Arc::clone(arena));
        key
    }

    /// Ends the lending. Peers learn of it as soon as their links are polled; reads that they began before may still
    /// succeed, so the arena's memory stays mapped until every link has let go of it.
    pub fn take_back(&self, key: &RegionKey) {
        if self.lent.lock().remove(key).is_some() {
            // Release: a link that sees the number finds the region gone.
            self.taken_back.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn find(&self, key: &RegionKey) -> Option<Arc<Arena>> {
        self.lent.lock().get(key).cloned()
    }

    /// How many were taken back so far.
    pub(crate) fn taken_back(&self) -> u64 {
        self.taken_back.load(Ordering::Acquire)
    }
}
