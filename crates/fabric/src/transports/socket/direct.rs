//! Rings in memory that two processes map, and regions that one of them maps to read.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use saki_base::{Arena, Buffer};

use crate::error::FabricError;
use crate::system::{Mapping, Ring, ring_bytes};
use crate::transport::{Asked, Direct, Grant};
use crate::wire::MESSAGE_BYTES_MAX;

/// Bytes of each ring: several of the longest messages.
const RING_BYTES: usize = 1 << 20;
/// A ring for each way.
pub const MEMORY_BYTES: usize = 2 * ring_bytes(RING_BYTES);
/// Salts of the rings' indicators: the memory is new, so any will do.
const SALTS: [u64; 2] = [0x7361_6b69_0000_0001, 0x7361_6b69_0000_0002];

pub struct ShmDirect {
    memory: Mapping,
    outgoing: Ring,
    incoming: Ring,
    regions: HashMap<u32, Mapping>,
    peer: String,
}

impl ShmDirect {
    /// The side that has called sends in the first ring.
    pub fn new(memory: Mapping, peer: &str, calls: bool) -> Self {
        let ring =
            |index: usize| Ring::new(index * ring_bytes(RING_BYTES), RING_BYTES, SALTS[index], MESSAGE_BYTES_MAX);
        let (outgoing, incoming) = if calls { (ring(0), ring(1)) } else { (ring(1), ring(0)) };
        Self { memory, outgoing, incoming, regions: HashMap::new(), peer: peer.into() }
    }
}

impl Direct for ShmDirect {
    fn send(&mut self, message: &[u8]) -> Result<bool, FabricError> {
        let pushed = self.outgoing.push(&self.memory, message);
        Ok(pushed.map_err(|what| FabricError::corrupt(&self.peer, what))?.is_some())
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, FabricError> {
        self.incoming.pop(&self.memory).map_err(|what| FabricError::corrupt(&self.peer, what))
    }

    fn open(&mut self, grant: Grant<'_>) -> Result<(), FabricError> {
        let wrong = |what: String| FabricError::corrupt(&self.peer, what);
        let file = grant.descriptor.ok_or_else(|| wrong("a region without its file".into()))?;
        let bytes = usize::try_from(grant.region_bytes).map_err(|_| wrong("a region longer than can be".into()))?;
        let mapping = Mapping::new(file.as_fd(), bytes, false);
        self.regions.insert(grant.handle, mapping.map_err(|error| wrong(format!("a region: {error}")))?);
        Ok(())
    }

    fn forget(&mut self, handle: u32) {
        self.regions.remove(&handle);
    }

    fn read(&mut self, handle: u32, offset: u64, _: u32, buffer: &mut Buffer) -> Result<Asked, FabricError> {
        let region = self.regions.get(&handle).expect("the link reads from open regions");
        region.read(offset as usize, buffer);
        Ok(Asked::Done)
    }

    fn reap(&mut self, _: &mut Vec<u32>) -> Result<(), FabricError> {
        Ok(())
    }

    fn before_sleep(&mut self) -> bool {
        self.incoming.before_sleep(&self.memory)
    }

    fn peer_sleeps(&mut self) -> bool {
        self.outgoing.receiver_sleeps(&self.memory)
    }

    fn grant(&mut self, _: u32, arena: &Arc<Arena>) -> Option<(Vec<u8>, bool)> {
        arena.file().map(|_| (Vec::new(), true))
    }

    fn revoke(&mut self, _: u32) {}
}
