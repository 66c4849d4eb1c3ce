//! Simulated rings and one-sided reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use saki_base::{Arena, Buffer};

use super::network::{End, Network};
use crate::error::FabricError;
use crate::system::Lent;
use crate::transport::{Asked, Attachment, Direct, Grant};

pub struct SimDirect {
    network: Arc<Mutex<Network>>,
    end: End,
    peer: String,
    /// Reads by when they end.
    reads: BTreeMap<(Duration, u32), ()>,
    /// Reads that never will.
    lost: u32,
}

/// Reads under way at once.
const READS_MOST: usize = 64;

impl SimDirect {
    pub fn new(network: &Arc<Mutex<Network>>, end: End, peer: &str) -> Self {
        Self { network: Arc::clone(network), end, peer: peer.into(), reads: BTreeMap::new(), lost: 0 }
    }
}

/// The called side, which knows all it needs.
pub struct SimAttachment {
    pub network: Arc<Mutex<Network>>,
    pub end: End,
}

impl Attachment for SimAttachment {
    fn offer(&self) -> (Vec<u8>, Option<std::os::fd::BorrowedFd<'_>>) {
        (self.end.connection.to_le_bytes().to_vec(), None)
    }

    fn complete(self: Box<Self>, peer: &str, _: &[u8]) -> Result<Box<dyn Direct>, FabricError> {
        Ok(Box::new(SimDirect::new(&self.network, self.end, peer)))
    }
}

impl Direct for SimDirect {
    fn send(&mut self, message: &[u8]) -> Result<bool, FabricError> {
        Ok(self.network.lock().send(self.end, message))
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, FabricError> {
        Ok(self.network.lock().receive(self.end))
    }

    fn open(&mut self, _: Grant<'_>) -> Result<(), FabricError> {
        Ok(())
    }

    fn forget(&mut self, _: u32) {}

    /// The bytes are those of now, although the read ends later.
    fn read(&mut self, handle: u32, offset: u64, slot: u32, buffer: &mut Buffer) -> Result<Asked, FabricError> {
        if self.reads.len() >= READS_MOST {
            return Ok(Asked::Full);
        }
        let mut network = self.network.lock();
        let arena = network.lent.get(&(self.end.other(), handle)).cloned();
        let lent = arena.and_then(|arena| Lent::new(&arena, offset, buffer.len()));
        let lent = lent.ok_or_else(|| FabricError::disconnected(&self.peer, "the memory is not there any more"))?;
        lent.copy_to(0, buffer);
        network.damage(self.end, buffer);
        match network.read_ends(self.end) {
            Some(at) => _ = self.reads.insert((at, slot), ()),
            None => self.lost += 1,
        }
        Ok(Asked::Pending)
    }

    fn reap(&mut self, done: &mut Vec<u32>) -> Result<(), FabricError> {
        let now = self.network.lock().now();
        while let Some(first) = self.reads.first_entry().filter(|first| first.key().0 <= now) {
            done.push(first.remove_entry().0.1);
        }
        Ok(())
    }

    fn before_sleep(&mut self) -> bool {
        true
    }

    fn peer_sleeps(&mut self) -> bool {
        false
    }

    fn grant(&mut self, handle: u32, arena: &Arc<Arena>) -> Option<(Vec<u8>, bool)> {
        self.network.lock().lent.insert((self.end, handle), Arc::clone(arena));
        Some((Vec::new(), false))
    }

    fn revoke(&mut self, handle: u32) {
        self.network.lock().lent.remove(&(self.end, handle));
    }
}
